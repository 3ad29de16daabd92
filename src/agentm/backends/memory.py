"""The reference semantics, in a dict: gone when the process ends, exact in everything else."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from agentm.backends import _refusals
from agentm.backends._text import decode, encode
from agentm.errors import StoreError
from agentm.records import field, record_class
from agentm.seam.backend import StorageBackend
from agentm.seam.locator import ROOT, Locator, lies_in
from agentm.seam.types import ABSENT, Capabilities, Change, Info, Versioned

PROTOCOL = "memory"
CAPABILITIES = Capabilities(
    remove=True,
    rename=True,
    append=True,
    compare_and_swap=True,
    change_feed=True,
    watch=True,
    lock=True,
    write_many=True,
)

T = TypeVar("T")


@record_class()
class _File:
    data: bytes
    version: str
    mtime: float


@record_class()
class _Dir:
    mtime: float
    names: set[str] = field(default_factory=set)
    """What lies right below it: a listing must not cost as much as the whole store."""


class MemoryBackend(StorageBackend):
    """A tree that lives in this process. Threads may share it; other processes cannot see it."""

    protocol = PROTOCOL

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._dirs: dict[str, _Dir] = {"": _Dir(time.time())}
        self._count = 0
        self._changed = threading.Condition(threading.RLock())
        self._watchers: list[_MemoryWatcher] = []
        self._locked: dict[str, _MemoryHeld] = {}

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        return decode(self._file("read", locator).data, backend=PROTOCOL, locator=locator.key)

    def write(self, locator: Locator, content: str) -> Locator:
        self._put("write", locator, content, None)
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        with self._changed:
            there = self._dirs.get(locator.key)
            names = sorted(there.names) if there else []
        return [locator.child(name) for name in names]

    def exists(self, locator: Locator) -> bool:
        return locator.key in self._files or locator.key in self._dirs

    def info(self, locator: Locator) -> Info:
        with self._changed:
            if locator.key in self._dirs:
                return Info(locator, True, 0, self._dirs[locator.key].mtime)
            file = self._file("info", locator)
            return Info(locator, False, len(file.data), file.mtime)

    def mkdir(self, locator: Locator) -> Locator:
        _refusals.check_names(locator, backend=PROTOCOL, verb="mkdir")
        with self._changed:
            if locator.key in self._files:
                raise self._refusal(errno.EEXIST, "mkdir", locator)
            self._make_dirs("mkdir", locator, locator.parts)
            self._tell(locator)
        return locator

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        if not locator.key:
            raise _refusals.is_root(backend=PROTOCOL, verb="remove")
        with self._changed:
            if locator.key in self._dirs:
                if if_version is not None:
                    raise self._refusal(errno.EISDIR, "remove", locator)
                if self._dirs[locator.key].names:
                    raise self._refusal(errno.ENOTEMPTY, "remove", locator)
                del self._dirs[locator.key]
            else:
                self._check("remove", locator, if_version)
                self._file("remove", locator)
                del self._files[locator.key]
            self._dirs[locator.parent.key].names.discard(locator.name)
            self._tell(locator)

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        if not source.key:
            raise _refusals.is_root(backend=PROTOCOL, verb="rename")
        _refusals.check_names(target, backend=PROTOCOL, verb="rename")
        with self._changed:
            is_dir = source.key in self._dirs
            if is_dir and target.key.startswith(f"{source.key}/"):
                raise _refusals.into_itself(backend=PROTOCOL, source=source)
            if not is_dir:
                self._file("rename", source)
            if self.exists(target) and not (overwrite and not is_dir and target.key in self._files):
                raise self._refusal(errno.EEXIST, "rename", target)
            self._make_dirs("rename", target, target.parts[:-1])
            if is_dir:
                self._move_keys(source.key, target.key)
            else:
                self._files[target.key] = self._files.pop(source.key)
            self._dirs[source.parent.key].names.discard(source.name)
            self._dirs[target.parent.key].names.add(target.name)
            self._tell(source)
            self._tell(target)
        return target

    def append(self, locator: Locator, content: str) -> Locator:
        self._put("append", locator, content, None)
        return locator

    def read_versioned(self, locator: Locator) -> Versioned:
        file = self._file("read", locator)
        return Versioned(decode(file.data, backend=PROTOCOL, locator=locator.key), file.version)

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        _refusals.check_token(if_version, backend=PROTOCOL, locator=locator)
        return self._put("write", locator, content, if_version)

    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        prefix = f"{below.key}/" if below.key else ""
        with self._changed:
            now = {
                key: file.version
                for key, file in self._files.items()
                if key.startswith(prefix) and not (skip and lies_in(key, skip))
            }
        for key in sorted(now):
            if seen.get(key) != now[key]:
                yield Change(Locator(key), now[key])
        for key in sorted(seen):
            if key.startswith(prefix) and key not in now:
                yield Change(Locator(key), None)

    def watch(self, below: Locator = ROOT) -> _MemoryWatcher:
        watcher = _MemoryWatcher(self, below)
        with self._changed:
            self._watchers.append(watcher)
        return watcher

    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[_MemoryHeld]:
        held = _MemoryHeld(self._locked, {locator.key for locator in locators})
        try:
            with self._changed:
                self._changed.wait_for(held.take)
            yield held
        finally:
            with self._changed:
                held.release()
                self._changed.notify_all()

    def write_many(
        self,
        *steps: Sequence[tuple[Locator, str]],
        if_versions: Mapping[Locator, str] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        expected = dict(if_versions or {})
        with self._changed:
            for locator, version in expected.items():
                self._check("write", locator, version)
        for number, step in enumerate(steps):
            if before is not None:
                before(number)
            with self._changed:
                for locator, content in step:
                    if locator in expected:
                        self.write_versioned(locator, content, if_version=expected.pop(locator))
                    else:
                        self.write(locator, content)

    def _put(self, verb: str, locator: Locator, content: str, if_version: str | None) -> str:
        data = encode(content, backend=PROTOCOL, verb=verb, locator=locator.key)
        _refusals.check_names(locator, backend=PROTOCOL, verb=verb)
        with self._changed:
            if locator.key in self._dirs:
                raise self._refusal(errno.EISDIR, verb, locator)
            self._check(verb, locator, if_version)
            self._make_dirs(verb, locator, locator.parts[:-1])
            if verb == "append" and locator.key in self._files:
                data = self._files[locator.key].data + data
            self._count += 1
            file = _File(data, f"v{self._count}", time.time())
            self._files[locator.key] = file
            self._dirs[locator.parent.key].names.add(locator.name)
            self._tell(locator)
            return file.version

    def _check(self, verb: str, locator: Locator, if_version: str | None) -> None:
        file = self._files.get(locator.key)
        current = file.version if file else ABSENT
        if if_version is not None and if_version != current:
            raise _refusals.changed(backend=PROTOCOL, verb=verb, locator=locator, current=current, expected=if_version)

    def _file(self, verb: str, locator: Locator) -> _File:
        file = self._files.get(locator.key)
        if file is None:
            raise self._refusal(errno.EISDIR if locator.key in self._dirs else errno.ENOENT, verb, locator)
        return file

    def _make_dirs(self, verb: str, locator: Locator, parts: tuple[str, ...]) -> None:
        keys = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        if any(key in self._files for key in keys):
            raise self._refusal(errno.ENOTDIR, verb, locator)
        for above, key in zip(["", *keys], keys, strict=False):
            if key not in self._dirs:
                self._dirs[key] = _Dir(time.time())
                self._dirs[above].names.add(key.rpartition("/")[2])

    def _move_keys(self, source: str, target: str) -> None:
        def moved(tree: dict[str, T]) -> dict[str, T]:
            return {
                target + key[len(source) :] if f"{key}/".startswith(f"{source}/") else key: value
                for key, value in tree.items()
            }

        self._files, self._dirs = moved(self._files), moved(self._dirs)

    def _tell(self, locator: Locator) -> None:
        for watcher in self._watchers:
            watcher.notice(locator)
        self._changed.notify_all()

    def _refusal(self, number: int, verb: str, locator: Locator) -> StoreError:
        return _refusals.refusal(number, backend=PROTOCOL, verb=verb, locator=locator)


class _MemoryHeld:
    """Nobody takes it away: threads of one process stop together."""

    def __init__(self, locked: dict[str, _MemoryHeld], keys: set[str]) -> None:
        self._locked = locked
        self._keys = keys

    def take(self) -> bool:
        if not self._keys.isdisjoint(self._locked):
            return False
        self._locked.update(dict.fromkeys(self._keys, self))
        return True

    def ours(self) -> bool:
        return all(self._locked.get(key) is self for key in self._keys)

    def release(self) -> None:
        for key in self._keys:
            if self._locked.get(key) is self:
                del self._locked[key]


class _MemoryWatcher:
    def __init__(self, backend: MemoryBackend, below: Locator) -> None:
        self._backend = backend
        self._below = below
        self._pending: dict[Locator, None] = {}

    def notice(self, locator: Locator) -> None:
        below, changed = f"{self._below.key}/", f"{locator.key}/"
        if not self._below.key or changed.startswith(below) or below.startswith(changed):
            self._pending[locator] = None

    def wait(self, timeout: float) -> tuple[Locator, ...]:
        with self._backend._changed:
            self._backend._changed.wait_for(lambda: bool(self._pending), timeout)
            pending, self._pending = tuple(self._pending), {}
            return pending

    def close(self) -> None:
        with self._backend._changed:
            if self in self._backend._watchers:
                self._backend._watchers.remove(self)

    def __enter__(self) -> _MemoryWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
