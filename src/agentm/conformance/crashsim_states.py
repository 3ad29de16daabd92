"""What may lie on the disk after a power cut: from a trace of operations to every legal state.

The model and how to use it are described in `agentm.conformance.crashsim`.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agentm.records import field, record_class

ROOT_INODE = 0
REORDER = "reorder"
ORDERED = "ordered"

Slot = tuple[int, str]
"""A name in a directory: the directory's inode and the name."""

Blob = tuple[bytes, int]
"""What a file holds, and its mode."""


@record_class(frozen=True)
class Relink:
    """An atomic change of names: each slot gets an inode, or with None loses the one it had."""

    kind: str
    what: str
    changes: tuple[tuple[Slot, int | None], ...]
    inodes: frozenset[int]
    """Every inode that gains or loses a name by it."""


@record_class(frozen=True)
class Alter:
    """A change of one inode: bytes at an offset, or a new size, or a new mode."""

    inode: int
    offset: int = 0
    data: bytes = b""
    size: int | None = None
    mode: int | None = None

    def apply(self, blob: Blob) -> Blob:
        old, mode = blob
        if self.mode is not None:
            return old, self.mode
        if self.size is not None:
            return old[: self.size].ljust(self.size, b"\0"), mode
        return _overlay(old, self.offset, self.data), mode

    def torn(self, blob: Blob) -> Iterator[Blob]:
        """Half of the bytes arrived; or the length did and the bytes did not."""
        if self.data:
            yield _overlay(blob[0], self.offset, self.data[: len(self.data) // 2]), blob[1]
            yield _overlay(blob[0], self.offset, bytes(len(self.data))), blob[1]


@record_class(frozen=True)
class Sync:
    """An fsync of a file or a directory that returned without an error."""

    inode: int


@record_class(frozen=True)
class Mark:
    """Something the action said, such as that a write was acknowledged."""

    label: str
    payload: Any = None


Op = Relink | Alter | Sync | Mark


def _overlay(old: bytes, offset: int, data: bytes) -> bytes:
    if not data:
        return old
    return old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]


@record_class()
class Trace:
    """What a run did below a directory, in order, and what lay there before (all of it durable)."""

    names: dict[Slot, int] = field(default_factory=dict)
    files: dict[int, Blob] = field(default_factory=dict)
    """Every file inode, those made later too, as it was when the trace first met it."""
    dirs: dict[int, int] = field(default_factory=dict)
    """Every directory inode and its mode."""
    ops: list[Op] = field(default_factory=list)


@record_class(frozen=True)
class CrashState:
    """One tree that may be found after a crash."""

    files: dict[str, Blob]
    dirs: dict[str, int]
    """Relative paths, parents first; the root is not among them."""
    marks: tuple[Mark, ...]
    """What had been said before the crash."""
    point: int
    """How many operations of the trace had been called."""
    lost: tuple[str, ...]
    """The changes of names that had been made and did not survive."""

    def materialise(self, directory: str) -> tuple[Mark, ...]:
        """Make ``directory`` hold this tree and nothing else; return the marks before the crash."""
        _clear(directory)
        for path, mode in self.dirs.items():
            os.mkdir(f"{directory}/{path}", mode)
        for path, (data, mode) in self.files.items():
            fd = os.open(f"{directory}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                os.write(fd, data)
                os.fchmod(fd, mode)
            finally:
                os.close(fd)
        return self.marks

    def __str__(self) -> str:
        kept = ", ".join(f"{path} ({len(data)} bytes)" for path, (data, _) in sorted(self.files.items()))
        lost = "; ".join(self.lost) or "nothing"
        said = ", ".join(mark.label for mark in self.marks) or "nothing"
        return f"crash after {self.point} operations, said: {said}; names lost: {lost}; files: {kept or 'none'}"


def _clear(directory: str) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _clear(entry.path)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)


@record_class()
class Counts:
    """How much of the space was seen."""

    points: int = 0
    """Crash points; those whose states are all among a later point's are left out."""
    possible: int = 0
    """States before equal ones are merged; a lower bound if ``thinned``."""
    sampled: int = 0
    """States built: all that are possible, or an even sample of them up to the limit."""
    distinct: int = 0
    """States handed out, no two of them equal."""
    thinned: bool = False
    """Some point had more combinations of lost names than are enumerated."""

    @property
    def complete(self) -> bool:
        return self.sampled == self.possible and not self.thinned


@record_class(frozen=True)
class _Frame:
    """The states that differ only in what un-synced files hold."""

    point: int
    marks: int
    lost: tuple[str, ...]
    dirs: dict[str, int]
    files: tuple[tuple[str, tuple[Blob, ...]], ...]

    @property
    def size(self) -> int:
        size = 1
        for _, blobs in self.files:
            size *= len(blobs)
        return size

    def pick(self, index: int) -> dict[str, Blob]:
        picked: dict[str, Blob] = {}
        for path, blobs in self.files:
            index, which = divmod(index, len(blobs))
            picked[path] = blobs[which]
        return picked


class States:
    """The legal crash states of a trace, each once. Iterate, then read ``counts``."""

    MOST_COMBINATIONS = 4096
    """Combinations of lost names kept at one crash point; more are thinned evenly."""

    def __init__(self, trace: Trace, *, model: str = REORDER, limit: int = 100_000) -> None:
        if model not in (REORDER, ORDERED):
            raise ValueError(f"there is no crash model {model!r}; use {REORDER!r} or {ORDERED!r}.")
        self.counts = Counts()
        self._limit = limit
        self._frames = self._reordered if model == REORDER else self._ordered
        self._trace = trace
        self._marks = tuple(op for op in trace.ops if isinstance(op, Mark))
        self._relinks = [(at, op) for at, op in enumerate(trace.ops) if isinstance(op, Relink)]
        self._syncs = _indexes(trace.ops, Sync)
        self._alters = _indexes(trace.ops, Alter)
        self._blobs = {inode: self._history(inode) for inode in trace.files}
        self._order, self._inside = self._dependencies()
        self._durable_at = self._durabilities()

    def __iter__(self) -> Iterator[CrashState]:
        self.counts = Counts(points=len(self._points()))
        possible = self.counts.possible = sum(frame.size for frame in self._frames())
        wanted = self.counts.sampled = min(possible, self._limit)
        seen: set[int] = set()
        start = taken = 0
        for frame in self._frames():
            end = start + frame.size
            while taken < wanted and (index := taken * possible // wanted) < end:
                taken += 1
                files = frame.pick(index - start)
                # A 64-bit hash instead of the tree itself: a hundred thousand trees would not fit.
                key = hash((frame.marks, frozenset(files.items()), frozenset(frame.dirs)))
                if key not in seen:
                    seen.add(key)
                    self.counts.distinct += 1
                    yield CrashState(files, frame.dirs, self._marks[: frame.marks], frame.point, frame.lost)
            start = end

    def _points(self) -> list[int]:
        """Where the set of states is largest: just before a sync takes some away, or a mark is set."""
        points, grown = [], True
        for at, op in enumerate(self._trace.ops):
            if isinstance(op, Relink | Alter):
                grown = True
                continue
            if grown:
                points.append(at)
            grown = isinstance(op, Mark)
        return [*points, len(self._trace.ops)]

    def _dependencies(self) -> tuple[list[int], list[int]]:
        """For each change of names, as bit masks: those it follows in order, and those that made its directories."""
        order: list[int] = []
        inside: list[int] = []
        for n, (_, op) in enumerate(self._relinks):
            order.append(0)
            inside.append(0)
            for m, (_, earlier) in enumerate(self._relinks[:n]):
                if _keeps_order(earlier, op):
                    order[n] |= 1 << m | order[m]
                if earlier.kind == "mkdir" and any(directory in earlier.inodes for (directory, _), _ in op.changes):
                    inside[n] |= 1 << m
        return order, inside

    def _durabilities(self) -> list[int]:
        """For each change of names, the operation that made it durable (or one past the end)."""
        never = len(self._trace.ops)
        durable = []
        for at, op in self._relinks:
            syncs = [sync for (directory, _), _ in op.changes for sync in self._syncs.get(directory, ()) if sync > at]
            durable.append(min(syncs, default=never))
        for n in range(len(durable) - 1, -1, -1):
            for m in range(n):
                if self._order[n] >> m & 1:
                    durable[m] = min(durable[m], durable[n])
        return durable

    def _reordered(self) -> Iterator[_Frame]:
        for point in self._points():
            for mask in self._survivors(point):
                yield self._frame(point, mask, self._variants)

    def _survivors(self, point: int) -> list[int]:
        """Every set of changes of names that may be found after a crash at this point, as bit masks."""
        masks = [0]
        for n, (at, _) in enumerate(self._relinks):
            if at >= point:
                break
            needs = self._order[n] | self._inside[n]
            taken = [mask | 1 << n for mask in masks if mask & needs == needs]
            left = [mask for mask in masks if mask & needs != needs or self._durable_at[n] >= point]
            masks = left + taken
            if len(masks) > self.MOST_COMBINATIONS:
                masks = _evenly(masks, self.MOST_COMBINATIONS)
                self.counts.thinned = True
        return masks

    def _variants(self, inode: int, point: int) -> tuple[Blob, ...]:
        """What a file may hold: what was synced, and each step after it, whole or torn."""
        alters = self._alters.get(inode, [])
        syncs = self._syncs.get(inode, [])
        past = bisect_left(syncs, point)
        first = bisect_left(alters, syncs[past - 1]) if past else 0
        return self._steps(inode, first, bisect_left(alters, point))

    def _steps(self, inode: int, first: int, last: int) -> tuple[Blob, ...]:
        history = self._blobs[inode]
        found = {history[first]: None}
        for n in range(first, last):
            op = self._trace.ops[self._alters[inode][n]]
            assert isinstance(op, Alter)
            found.update(dict.fromkeys(op.torn(history[n])))
            found[history[n + 1]] = None
        return tuple(found)

    def _ordered(self) -> Iterator[_Frame]:
        for point in self._points():
            for cut in range(self._floor(point), point + 1):
                mask = sum(1 << n for n, (at, _) in enumerate(self._relinks) if at < cut)
                yield self._frame(point, mask, partial(self._prefix, cut))

    def _floor(self, point: int) -> int:
        """The shortest prefix that holds everything that was made durable before the point."""
        durable = [at for (at, _), synced in zip(self._relinks, self._durable_at, strict=True) if synced < point]
        for inode, syncs in self._syncs.items():
            past = bisect_left(syncs, point)
            covered = bisect_left(self._alters.get(inode, []), syncs[past - 1]) if past else 0
            durable += self._alters.get(inode, [])[:covered]
        return max(durable, default=-1) + 1

    def _prefix(self, cut: int, inode: int, _: int) -> tuple[Blob, ...]:
        """What a file may hold if exactly the operations before the cut survived."""
        alters = self._alters.get(inode, [])
        done = bisect_left(alters, cut)
        last_is_mine = done > 0 and alters[done - 1] == cut - 1
        return self._steps(inode, done - 1 if last_is_mine else done, done)

    def _frame(self, point: int, mask: int, blobs_of: Callable[[int, int], tuple[Blob, ...]]) -> _Frame:
        names: dict[Slot, int | None] = dict(self._trace.names)
        lost = []
        for n, (at, op) in enumerate(self._relinks):
            if mask >> n & 1:
                names.update(op.changes)
            elif at < point:
                lost.append(op.what)
        inside: dict[int, list[tuple[str, int]]] = {}
        for (directory, name), inode in names.items():
            if inode is not None:
                inside.setdefault(directory, []).append((name, inode))
        dirs: dict[str, int] = {}
        files: list[tuple[str, tuple[Blob, ...]]] = []
        todo = [("", ROOT_INODE)]
        while todo:
            prefix, directory = todo.pop()
            for name, inode in inside.get(directory, ()):
                if inode in self._trace.dirs:
                    dirs[prefix + name] = self._trace.dirs[inode]
                    todo.append((f"{prefix}{name}/", inode))
                else:
                    files.append((prefix + name, blobs_of(inode, point)))
        marks = sum(isinstance(op, Mark) for op in self._trace.ops[:point])
        return _Frame(point, marks, tuple(lost), dirs, tuple(files))

    def _history(self, inode: int) -> list[Blob]:
        history = [self._trace.files[inode]]
        for at in self._alters.get(inode, []):
            op = self._trace.ops[at]
            assert isinstance(op, Alter)
            history.append(op.apply(history[-1]))
        return history


def _indexes(ops: Sequence[Op], kind: type[Sync] | type[Alter]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at, op in enumerate(ops):
        if isinstance(op, kind):
            found.setdefault(op.inode, []).append(at)
    return found


def _keeps_order(earlier: Relink, later: Relink) -> bool:
    if earlier.inodes & later.inodes:
        return True
    if earlier.kind == later.kind == "move directory":
        return True  # else two moves, each legal alone, could make a ring
    slots = {slot for slot, _ in earlier.changes}
    # A directory is only removed once what emptied it has happened.
    emptied = later.kind == "rmdir" and any(directory in later.inodes for directory, _ in slots)
    return emptied or any(slot in slots for slot, _ in later.changes)


def _evenly(items: list[int], count: int) -> list[int]:
    return [items[n * (len(items) - 1) // (count - 1)] for n in range(count)]
