"""A power cut at every instant: record what a piece of code does to a directory, look at all that may be left.

    trace = record(root, lambda recorder: (backend.write(place, "new"), recorder.mark("ack")))
    with scratch() as directory:
        for state in states(trace):
            marks = state.materialise(directory)
            ...  # reopen the store on `directory`: is everything there that the marks promise?

`survey` does that loop and collects what went wrong. The model of the disk, harsher than any one file system:

- What a file holds becomes durable by an fsync of that file. Until then each of its writes may be lost, as long
  as those that are kept are the first ones; the last one kept may be cut in half, or only its length may be there
  and zeros in place of its bytes. A new file may thus be empty. A mode is part of what a file holds.
- A change of names (create, mkdir, link, rename, exchange, unlink, rmdir) happens whole or not at all, and
  becomes durable by an fsync of a directory that it touches. Until then it may be lost alone: a later change may
  survive an earlier one, unless both concern the same name or the same inode.
- What happened in a new directory is lost with it if the directory's own entry is: an fsync of the directory does
  not save its name in its parent. An fsync of a file does not save the file's name.
- A flush of the whole file system makes everything durable that was there when it began.
- What lay there before the recording is durable, and so is the directory itself.

That is the model ``REORDER``. ``ORDERED`` is a cheaper one: whatever happened survives in the order in which it
happened, up to some instant after the last thing that was made durable.

A crash is considered at every instant; points whose states are all among those of a later one are skipped, and
equal states with equal marks are shown once. Above ``limit`` an even sample is taken, always the same one, and
``States.counts`` says how much was left out.

The recorder replaces the functions of `os` while the action runs, in one thread. What the action does to files in
any other way is noticed at the end and refused: a trace that misses something proves nothing.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agentm.backends import _durable
from agentm.conformance.crashsim_states import (
    ORDERED,
    REORDER,
    ROOT_INODE,
    Alter,
    Blob,
    Counts,
    CrashState,
    Mark,
    Relink,
    Slot,
    States,
    Sync,
    Trace,
)
from agentm.errors import AgentmError
from agentm.records import field, record_class

__all__ = [
    "ORDERED",
    "REORDER",
    "Counts",
    "CrashState",
    "Mark",
    "Recorder",
    "States",
    "Survey",
    "Trace",
    "record",
    "scratch",
    "states",
    "survey",
]

_EXCHANGE = 2


def record(root: str, action: Callable[[Recorder], object]) -> Trace:
    """Run the action and return what it did below ``root``, in order, with the marks it set."""
    recorder = Recorder(root)
    with recorder.listening():
        action(recorder)
    recorder.check_complete()
    return recorder.trace


def states(trace: Trace, *, model: str = REORDER, limit: int = 100_000) -> States:
    """Every legal state after a crash during the trace, each once."""
    return States(trace, model=model, limit=limit)


@record_class()
class Survey:
    """What `survey` found."""

    counts: Counts
    failures: list[str] = field(default_factory=list)
    failed: int = 0


def survey(
    trace: Trace,
    verify: Callable[[str, CrashState], object],
    *,
    model: str = REORDER,
    limit: int = 100_000,
    keep: int = 5,
) -> Survey:
    """Lay out every state and call ``verify(directory, state)``; an AssertionError or AgentmError is a failure.

    All failures are counted, the first ``keep`` are kept as text.
    """
    found = states(trace, model=model, limit=limit)
    result = Survey(found.counts)
    with scratch() as directory:
        for state in found:
            state.materialise(directory)
            try:
                verify(directory, state)
            except (AssertionError, AgentmError) as error:
                result.failed += 1
                if len(result.failures) < keep:
                    result.failures.append(f"{error or type(error).__name__}\n  {state}")
    result.counts = found.counts
    return result


@contextmanager
def scratch() -> Iterator[str]:
    """An empty directory to lay states out in: in memory where the system has that, for speed."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield directory


class Recorder:
    """Stands between the action and `os`, and writes down what succeeds below the root."""

    def __init__(self, root: str) -> None:
        self.trace = Trace()
        self._root = root
        self._ids: dict[tuple[int, int], int] = {}
        self._names: dict[Slot, int] = {}
        self._real = {name: getattr(os, name) for name in _PATCHES if hasattr(os, name)}
        self._rename_flags = _durable._rename_flags
        self._sync_file_system = _durable.sync_file_system
        self._adopt(os.stat(root))
        self._snapshot(root, ROOT_INODE)
        self.trace.names = dict(self._names)

    def mark(self, label: str, payload: Any = None) -> None:
        """Say something at this instant: a crash later than now has it among its marks."""
        self.trace.ops.append(Mark(label, payload))

    @contextmanager
    def listening(self) -> Iterator[None]:
        for name in self._real:
            setattr(os, name, getattr(self, f"_{_PATCHES[name]}")(self._real[name]))
        _durable._rename_flags = self._on_rename_flags
        _durable.sync_file_system = self._on_sync_file_system
        try:
            yield
        finally:
            _durable.sync_file_system = self._sync_file_system
            _durable._rename_flags = self._rename_flags
            for name, real in self._real.items():
                setattr(os, name, real)

    def check_complete(self) -> None:
        """Compare the tree with what the trace says is there now."""
        replayed = Recorder(self._root)
        if self._tree() != replayed._tree():
            raise AgentmError(
                f"the recorded run changed files below {self._root!r} in a way that was not recorded; "
                "make it use the functions of os, in this process.",
                code="trace_incomplete",
            )

    def _tree(self) -> dict[str, Blob | None]:
        """Path to content (None for a directory), as the trace has it at its end."""
        blobs = dict(self.trace.files)
        for op in self.trace.ops:
            if isinstance(op, Alter) and op.inode in blobs:
                blobs[op.inode] = op.apply(blobs[op.inode])
        tree: dict[str, Blob | None] = {}
        todo = [("", ROOT_INODE)]
        while todo:
            prefix, directory = todo.pop()
            for (parent, name), inode in self._names.items():
                if parent == directory:
                    tree[prefix + name] = blobs.get(inode)
                    todo.append((f"{prefix}{name}/", inode))
        return tree

    def _snapshot(self, path: str, directory: int) -> None:
        with os.scandir(path) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                inode = self._ids.get((info.st_dev, info.st_ino))
                known = inode is not None
                inode = self._adopt(info) if inode is None else inode
                self._names[directory, entry.name] = inode
                if stat.S_ISDIR(info.st_mode):
                    self._snapshot(entry.path, inode)
                elif not known:
                    with open(entry.path, "rb") as file:
                        self.trace.files[inode] = (file.read(), stat.S_IMODE(info.st_mode))

    def _adopt(self, info: os.stat_result) -> int:
        """A number of our own for an inode: the system's are used again after an unlink."""
        inode = len(self.trace.files) + len(self.trace.dirs)
        self._ids[info.st_dev, info.st_ino] = inode
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISDIR(info.st_mode):
            self.trace.dirs[inode] = mode
        else:
            self.trace.files[inode] = (b"", mode)
        return inode

    def _inode(self, fd: int) -> int | None:
        info = os.fstat(fd)
        return self._ids.get((info.st_dev, info.st_ino))

    def _slot(self, path: Any, dir_fd: int | None = None) -> Slot | None:
        """Where a path's last name lies; None outside the root."""
        parent, name = os.path.split(os.fsdecode(path).rstrip("/"))
        try:
            info = os.stat(parent or ".", dir_fd=dir_fd)
        except OSError:
            return None
        directory = self._ids.get((info.st_dev, info.st_ino))
        return None if directory is None else (directory, name)

    def _relink(self, kind: str, *changes: tuple[Slot, int | None]) -> None:
        displaced = {self._names[slot] for slot, _ in changes if slot in self._names}
        inodes = displaced | {inode for _, inode in changes if inode is not None}
        what = f"{kind} {' '.join(name for (_, name), _ in changes)}"
        if kind == "rename" and any(inode in self.trace.dirs for inode in inodes):
            kind = "move directory"
        self.trace.ops.append(Relink(kind, what, changes, frozenset(inodes)))
        for slot, inode in changes:
            if inode is None:
                self._names.pop(slot, None)
            else:
                self._names[slot] = inode
        if gone := inodes - set(self._names.values()):
            self._ids = {key: inode for key, inode in self._ids.items() if inode not in gone}

    def _alter(self, fd: int, **change: Any) -> None:
        inode = self._inode(fd)
        if inode is not None:
            self.trace.ops.append(Alter(inode, **change))

    # One wrapper per function of os: call it, and if it did not raise, write down what it did.

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            slot = self._slot(path, dir_fd)
            fd = real(path, flags, mode, dir_fd=dir_fd)
            if slot is not None and slot not in self._names and flags & os.O_CREAT:
                self._relink("create", (slot, self._adopt(os.fstat(fd))))
            elif flags & os.O_TRUNC:
                self._alter(fd, size=0)
            return fd

        return open_

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            slot = self._slot(path, dir_fd)
            real(path, mode, dir_fd=dir_fd)
            if slot is not None:
                self._relink("mkdir", (slot, self._adopt(os.stat(path, dir_fd=dir_fd))))

        return mkdir

    def _write(self, real: Callable[..., int]) -> Callable[..., int]:
        def write(fd: int, data: Any) -> int:
            count = real(fd, data)
            if self._inode(fd) is not None:
                self._alter(fd, offset=os.lseek(fd, 0, os.SEEK_CUR) - count, data=bytes(data)[:count])
            return count

        return write

    def _pwrite(self, real: Callable[..., int]) -> Callable[..., int]:
        def pwrite(fd: int, data: Any, offset: int) -> int:
            count = real(fd, data, offset)
            self._alter(fd, offset=offset, data=bytes(data)[:count])
            return count

        return pwrite

    def _ftruncate(self, real: Callable[..., None]) -> Callable[..., None]:
        def ftruncate(fd: int, length: int) -> None:
            real(fd, length)
            self._alter(fd, size=length)

        return ftruncate

    def _fchmod(self, real: Callable[..., None]) -> Callable[..., None]:
        def fchmod(fd: int, mode: int) -> None:
            real(fd, mode)
            self._alter(fd, mode=mode)

        return fchmod

    def _fsync(self, real: Callable[..., None]) -> Callable[..., None]:
        def fsync(fd: Any) -> None:
            real(fd)
            inode = self._inode(fd if isinstance(fd, int) else fd.fileno())
            if inode is not None:
                self.trace.ops.append(Sync(inode))

        return fsync

    def _on_sync_file_system(self, fd: int) -> None:
        self._sync_file_system(fd)
        if os.fstat(fd).st_dev == os.stat(self._root).st_dev:
            self.trace.ops.extend(map(Sync, sorted({ROOT_INODE, *self._names.values()})))

    def _rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            source, target = self._slot(src, src_dir_fd), self._slot(dst, dst_dir_fd)
            real(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self._on_moved(source, target)

        return rename

    def _on_moved(self, source: Slot | None, target: Slot | None) -> None:
        if source is None or target is None:
            return  # moved over the border: check_complete sees it
        if self._names[source] != self._names.get(target):  # else the system does nothing
            self._relink("rename", (source, None), (target, self._names[source]))

    def _on_rename_flags(self, source: str, target: str, linux: int, macos: int) -> bool:
        first, second = self._slot(source), self._slot(target)
        if not self._rename_flags(source, target, linux, macos):
            return False
        if linux != _EXCHANGE:
            self._on_moved(first, second)
        elif first is not None and second is not None:
            self._relink("exchange", (first, self._names[second]), (second, self._names[first]))
        return True

    def _link(self, real: Callable[..., None]) -> Callable[..., None]:
        def link(src: Any, dst: Any, **options: Any) -> None:
            source = self._slot(src, options.get("src_dir_fd"))
            target = self._slot(dst, options.get("dst_dir_fd"))
            real(src, dst, **options)
            if source is not None and target is not None:
                self._relink("link", (target, self._names[source]))

        return link

    def _unlink(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._removing("unlink", real)

    def _rmdir(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._removing("rmdir", real)

    def _removing(self, kind: str, real: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            slot = self._slot(path, dir_fd)
            real(path, dir_fd=dir_fd)
            if slot is not None:
                self._relink(kind, (slot, None))

        return remove


_PATCHES = {
    "open": "open",
    "mkdir": "mkdir",
    "write": "write",
    "pwrite": "pwrite",
    "ftruncate": "ftruncate",
    "fchmod": "fchmod",
    "fsync": "fsync",
    "fdatasync": "fsync",
    "rename": "rename",
    "replace": "rename",
    "link": "link",
    "unlink": "unlink",
    "remove": "unlink",
    "rmdir": "rmdir",
}
"""Function of os → the method that wraps it."""
