"""A backend whose tree is a directory of plain files: everything but how a file is put in place.

Keys map to paths by joining them to the root. Links that the owner put into the tree are followed when reading;
a write never goes through one.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import repeat
from typing import NoReturn

from agentm.backends import _durable, _refusals
from agentm.backends._batch import LARGEST_BATCH, Batch
from agentm.backends._files import content as content_at, mode_of, read_bytes, stamps, version_of
from agentm.backends._mutex import lost
from agentm.backends._text import decode, encode
from agentm.errors import (
    AgentmError,
    ConcurrentModificationError,
    InvalidLocatorError,
    LockTimeoutError,
    LockUnavailableError,
    OutcomeUnknownError,
    StoreError,
    could_not,
    store_error,
)
from agentm.seam.backend import StorageBackend
from agentm.seam.locator import ROOT, Locator
from agentm.seam.types import Change, Info, Versioned

# On the way to a place that nothing is at, the system may stumble over these as well.
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)

_APPEND_PATIENCE = 30.0

_FIXES: dict[type[Exception], str] = {
    LockTimeoutError: "end or resume it",
    LockUnavailableError: "mend that, or set XDG_CACHE_HOME to a folder you can write to",
}

_new_locator = Locator.__new__
_set_key = Locator.key.__set__  # type: ignore[attr-defined]  # a slot is a descriptor


class _Item:
    """One of many texts to write, and what was seen at its place."""

    __slots__ = ("data", "if_version", "locator", "mode", "parent", "path")

    def __init__(self, locator: Locator, path: str, data: bytes) -> None:
        self.locator = locator
        self.path = path
        self.parent = os.path.dirname(path)
        self.data = data
        self.mode: int | None = None
        """The permission bits of what is there; None where nothing is."""
        self.if_version: str | None = None


class FileTree(StorageBackend):
    """The verbs and abilities that two directories of files have in common."""

    protocol: str

    def __init__(self, root: str | os.PathLike[str], *, mode: int) -> None:
        self.root = os.path.abspath(os.path.expanduser(os.fspath(root)))
        self._prefix = self.root.rstrip(os.sep) + os.sep
        self._directories = _durable.Directories(self.root)
        try:
            _durable.make_dirs(self.root, mode)
        except OSError as cause:
            raise store_error(cause, backend=self.protocol, verb="open", locator=self.root) from cause

    @abstractmethod
    def _exclusive(self) -> AbstractContextManager[Callable[[], bool]]:
        """Keep every other agentm writer out; gives a call that says whether that is still so."""

    @abstractmethod
    def _publish(self, path: str, data: bytes, if_version: str | None) -> None:
        """Put bytes in place, durably, if the place has that version (None: whatever it has)."""

    @abstractmethod
    def _place_some(self, batch: Batch, count: int) -> None:
        """Put the next files of a batch in place and settle them."""

    @property
    def folder(self) -> str:
        return self.root

    def is_link(self, locator: Locator) -> bool:
        try:
            return stat.S_ISLNK(os.lstat(self._prefix + locator.key).st_mode)
        except OSError as cause:
            if cause.errno in _NOTHING_THERE:
                return False
            self._fail(cause, "info", locator)
        except ValueError:
            return False

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        return decode(self._bytes("read", locator), backend=self.protocol, locator=locator.key)

    def write(self, locator: Locator, content: str) -> Locator:
        self._write("write", locator, content, None)
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        try:
            names = os.listdir(self._prefix + locator.key)
        except OSError as cause:
            if cause.errno in _NOTHING_THERE and locator.key:
                return []
            self._fail(cause, "list", locator)  # an absent root is a volume that is not mounted, not an empty store
        except ValueError:
            return []
        if "\\" in "".join(names):
            names = [name for name in names if "\\" not in name]  # no key can name these
        names.sort()
        prefix = f"{locator.key}/" if locator.key else ""
        keys = [prefix + name for name in names if not name.startswith(_durable.TEMP_PREFIX)]
        # The names come from the system and need no normalising: building the locators without it
        # keeps a listing within twice the cost of the bare call.
        children = list(map(_new_locator, repeat(Locator, len(keys))))
        for _ in map(_set_key, children, keys):
            pass
        return children

    def exists(self, locator: Locator) -> bool:
        try:
            os.stat(self._prefix + locator.key)
        except OSError as cause:
            if cause.errno in _NOTHING_THERE:
                return False
            self._fail(cause, "exists", locator)
        except ValueError:
            return False
        return True

    def info(self, locator: Locator) -> Info:
        try:
            found = os.stat(self._prefix + locator.key)
        except (OSError, ValueError) as cause:
            self._fail(cause, "info", locator, absent=True)
        is_dir = stat.S_ISDIR(found.st_mode)
        return Info(locator, is_dir, 0 if is_dir else found.st_size, found.st_mtime)

    def mkdir(self, locator: Locator) -> Locator:
        path = self._writable("mkdir", locator)
        # Under the lock: a write that fails takes away the empty folders it made, and must not take this one.
        with self._reporting("mkdir", locator), self._exclusive():
            if os.path.lexists(path) and not os.path.isdir(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            self._directories.ensure(path)
        return locator

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        path = self._writable("remove", locator)
        if not locator.key:
            raise _refusals.is_root(backend=self.protocol, verb="remove")
        with self._reporting("remove", locator, absent=True), self._exclusive() as ours:
            self._directories.refuse_links(os.path.dirname(path))
            is_dir = os.path.isdir(path) and not os.path.islink(path)
            if not ours():
                raise lost()
            if not is_dir:
                self._remove_file(path, if_version, ours)
                return
            if if_version is not None:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            _durable.rmdir(path)
            with _durable.settling():
                _durable.sync_dir(os.path.dirname(path))

    def _remove_file(self, path: str, if_version: str | None, ours: Callable[[], bool]) -> None:
        """Take a file away, durably, if the place has that version (None: whatever it has)."""
        if if_version is not None:
            self._expect(if_version, content_at(path))
        self._unlink(path)

    def _unlink(self, path: str) -> None:
        _durable.unlink(path)
        with _durable.settling():
            _durable.sync_dir(os.path.dirname(path))

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        from_path = self._writable("rename", source)
        to_path = self._writable("rename", target)
        if not source.key:
            raise _refusals.is_root(backend=self.protocol, verb="rename")
        with self._reporting("rename", source, absent=True), self._exclusive() as ours:
            self._directories.refuse_links(os.path.dirname(from_path))
            is_dir = stat.S_ISDIR(os.lstat(from_path).st_mode)
            if is_dir and target.key.startswith(f"{source.key}/"):
                raise _refusals.into_itself(backend=self.protocol, source=source)
            parent = os.path.dirname(to_path) if target.key else self.root
            with self._reporting("rename", target), self._directories.ensured(parent):
                if not ours():
                    raise lost()
                self._move(from_path, to_path, overwrite and not is_dir)
            with _durable.settling():
                _durable.sync_dir(os.path.dirname(to_path))
                _durable.sync_dir(os.path.dirname(from_path))
        return target

    def _move(self, source: str, target: str, overwrite: bool) -> None:
        if overwrite and os.path.isfile(target) and not os.path.islink(target):
            _durable.replace(source, target)
        else:
            _durable.move_new(source, target)

    def append(self, locator: Locator, content: str) -> Locator:
        """Costs as much as writing the whole file anew: an append in place can be torn by a crash."""
        encode(content, backend=self.protocol, verb="append", locator=locator.key)
        deadline = time.monotonic() + _APPEND_PATIENCE
        while True:
            try:
                data: bytes | None = self._bytes("append", locator)
            except FileNotFoundError:
                data = None
            old = decode(data or b"", backend=self.protocol, locator=locator.key)
            try:
                self._write("append", locator, old + content, version_of(data))
            except ConcurrentModificationError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.001 * random.random())
            else:
                return locator

    def read_versioned(self, locator: Locator) -> Versioned:
        data = self._bytes("read", locator)
        return Versioned(decode(data, backend=self.protocol, locator=locator.key), version_of(data))

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        _refusals.check_token(if_version, backend=self.protocol, locator=locator)
        return version_of(self._write("write", locator, content, if_version))

    def write_many(
        self,
        *steps: Sequence[tuple[Locator, str]],
        if_versions: Mapping[Locator, str] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        items = self._looked_at(steps, dict(if_versions or {}))
        every = [item for step in items for item in step]
        with ExitStack() as stack:
            batch = None if len(every) < 2 or _nested(every) else self._laid_out(every, stack)
            for number, step in enumerate(items):
                if before is not None:
                    before(number)
                for item in step[self._put_together(step, batch) if batch else 0 :]:
                    batch = None  # it has failed
                    with self._reporting("write", item.locator):
                        self._publish(item.path, item.data, item.if_version)

    def _looked_at(
        self, steps: Sequence[Sequence[tuple[Locator, str]]], expected: dict[Locator, str]
    ) -> Sequence[Sequence[_Item]]:
        """The texts with what is at their places now; refused before anything is written if one of them cannot be."""
        items = [
            [_Item(at, self._file_path("write", at), self._encoded("write", at, text)) for at, text in step]
            for step in steps
        ]
        folders = {self.root: True}
        for item in (item for step in items for item in step):
            try:
                item.mode = mode_of(item.path) if _is_there(item.parent, folders) else None
                # Of two texts for one place, the first finds the version; the second comes after it.
                item.if_version = expected.pop(item.locator, None)
                if item.if_version is not None:
                    _refusals.check_token(item.if_version, backend=self.protocol, locator=item.locator)
                    self._expect(item.if_version, None if item.mode is None else content_at(item.path))
            except (OSError, ValueError, AgentmError) as cause:
                self._fail(cause, "write", item.locator)
        return items

    def _laid_out(self, items: Sequence[_Item], stack: ExitStack) -> Batch | None:
        """The texts in temporary files that survive a crash, which nobody sees yet.

        None after an error of the system: whoever then writes them one by one succeeds, because there were too few
        descriptors, or learns what is wrong with which of them.
        """
        try:
            batch = stack.enter_context(Batch(self.root, self._directories, len(items)))
            for item in items:
                batch.fill(item.path, item.parent, item.data, item.mode, item.if_version)
            batch.flush()
        except OSError:
            stack.close()
            return None
        return batch

    def _put_together(self, items: Sequence[_Item], batch: Batch) -> int:
        """Put the texts of a step in place with shared flushes; how many, from the first one on, is what it returns.

        Others are let in now and then. An error of the system ends it as above, or because another file system is
        mounted below the root.
        """
        done = 0
        while done < len(items):
            several = items[done : done + LARGEST_BATCH]
            before = batch.placed
            try:
                self._place_some(batch, len(several))
            except (AgentmError, _durable.Unsettled) as cause:
                self._fail(cause, "write", several[min(batch.placed - before, len(several) - 1)].locator)
            except OSError:
                return done + batch.placed - before
            done += len(several)
        return done

    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        base = f"{below.key}/" if below.key else ""
        gone = {key for key in seen if key.startswith(base)}
        try:
            for key, stamp in stamps(self._prefix + below.key, base, skip):
                gone.discard(key)
                if seen.get(key) != stamp:
                    yield Change(Locator(key), stamp)
        except OSError as cause:
            # What merely could not be looked at must not be named as gone: that would empty an index. An absent
            # folder is an answer, but an absent root is a volume that is not mounted.
            if not below.key or cause.errno not in _NOTHING_THERE:
                self._fail(cause, "changes", below)
        for key in sorted(gone):
            yield Change(Locator(key), None)

    def _bytes(self, verb: str, locator: Locator) -> bytes:
        try:
            return read_bytes(self._prefix + locator.key)
        except (OSError, ValueError) as cause:
            self._fail(cause, verb, locator, absent=True)

    def _write(self, verb: str, locator: Locator, content: str, if_version: str | None) -> bytes:
        data = self._encoded(verb, locator, content)
        path = self._file_path(verb, locator)
        try:
            self._publish(path, data, if_version)
        except (OSError, ValueError, AgentmError) as cause:
            self._fail(cause, verb, locator)
        return data

    def _encoded(self, verb: str, locator: Locator, content: str) -> bytes:
        return encode(content, backend=self.protocol, verb=verb, locator=locator.key)

    def _file_path(self, verb: str, locator: Locator) -> str:
        if not locator.key:
            raise _refusals.refusal(errno.EISDIR, backend=self.protocol, verb=verb, locator=locator)
        return self._writable(verb, locator)

    def _expect(self, wanted: str, found: bytes | None) -> None:
        current = version_of(found)
        if wanted != current:
            raise ConcurrentModificationError("it changed since you read it", current=current, expected=wanted)

    def _writable(self, verb: str, locator: Locator) -> str:
        if _durable.TEMP_PREFIX in locator.key and f"/{_durable.TEMP_PREFIX}" in f"/{locator.key}":
            raise InvalidLocatorError(
                f"{could_not(self.protocol, verb, locator.key)}: names that begin with {_durable.TEMP_PREFIX!r} "
                "are agentm's own; choose another name.",
                backend=self.protocol,
                verb=verb,
                locator=locator.key,
            )
        return self._prefix + locator.key

    @contextmanager
    def _reporting(self, verb: str, locator: Locator, *, absent: bool = False) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, AgentmError) as cause:
            self._fail(cause, verb, locator, absent=absent)

    def _fail(self, cause: Exception, verb: str, locator: Locator, *, absent: bool = False) -> NoReturn:
        """Raise the agentm error for a failure, with backend, verb and locator in its sentence."""
        context = {"backend": self.protocol, "verb": verb, "locator": locator.key}
        what = could_not(self.protocol, verb, locator.key)
        if isinstance(cause, AgentmError) and cause.verb is not None:
            raise cause
        if isinstance(cause, AgentmError):
            fix = _FIXES.get(type(cause), "read it again before you retry")
            cause.message = f"{what}: {cause.message}; {fix}."
            cause.__dict__.update(context)
            raise cause
        if isinstance(cause, _durable.Unsettled):
            raise OutcomeUnknownError(
                f"{what} for certain: it is in place, but the disk did not confirm it ({cause.strerror}); check the "
                "disk, then read it back.",
                errno=cause.errno,
                **context,
            ) from cause
        if isinstance(cause, OSError) and not os.path.isdir(self.root):
            raise StoreError(
                f"{what}: the store {self.root!r} is not there; mount it or put it back.",
                code="store_missing",
                errno=errno.ENOENT,
                **context,
            ) from cause
        if isinstance(cause, OSError):
            number = errno.ENOENT if absent and cause.errno in _NOTHING_THERE else cause.errno
            raise store_error(cause, errno=number, **context) from cause
        if absent:
            raise _refusals.refusal(errno.ENOENT, backend=self.protocol, verb=verb, locator=locator) from cause
        raise InvalidLocatorError(
            f"{what}: the key has no form as a file name; choose plain characters.", **context
        ) from cause


def _nested(items: Sequence[_Item]) -> bool:
    """Whether one of the places would have to be a directory of another."""
    above: set[str] = set()
    for item in items:
        key = item.locator.key.rpartition("/")[0]
        while key and key not in above:
            above.add(key)
            key = key.rpartition("/")[0]
    return any(item.locator.key in above for item in items)


def _is_there(folder: str, known: dict[str, bool]) -> bool:
    """Whether something is at the path of a folder; what lies below one that is not there need not be looked at."""
    if folder not in known:
        known[folder] = _is_there(os.path.dirname(folder), known) and _exists(folder)
    return known[folder]


def _exists(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # whoever looks at a file in it learns why
    return True
