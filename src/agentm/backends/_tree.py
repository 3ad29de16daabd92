"""A backend whose tree is a directory of plain files: everything but how a file is put in place.

Keys map to paths by joining them to the root. Links that the owner put into the tree are followed when reading;
a write never goes through one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import repeat
from typing import NoReturn

from agentm.backends import _durable
from agentm.backends._text import decode, encode
from agentm.errors import (
    AgentmError,
    ConcurrentModificationError,
    InvalidLocatorError,
    OutcomeUnknownError,
    store_error,
)
from agentm.seam.backend import StorageBackend
from agentm.seam.locator import ROOT, Locator
from agentm.seam.types import ABSENT, Change, Info, Versioned

_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

# On the way to a place that nothing is at, the system may stumble over these as well.
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)

# A file changed less than this before it was stamped may change again without its times showing it.
_RACY_SECONDS = 2.0

_new_locator = Locator.__new__
_set_key = Locator.key.__set__  # type: ignore[attr-defined, misc]  # a slot is a descriptor


def version_of(data: bytes | None) -> str:
    """The version token of a file's bytes."""
    return ABSENT if data is None else f"sha256-{hashlib.sha256(data).hexdigest()}"


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
    def _exclusive(self) -> AbstractContextManager[Callable[[], None]]:
        """Keep every other agentm writer out; gives a call that raises if that ceased to be so."""

    @abstractmethod
    def _publish(self, path: str, data: bytes, if_version: str | None) -> None:
        """Put bytes in place, durably, if the place has that version (None: whatever it has)."""

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        try:
            data = read_bytes(self._prefix + locator.key)
        except (OSError, ValueError) as cause:
            self._fail(cause, "read", locator, absent=True)
        return decode(data, backend=self.protocol, locator=locator.key)

    def write(self, locator: Locator, content: str) -> Locator:
        self._write("write", locator, content, None)
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        try:
            names = os.listdir(self._prefix + locator.key)
        except OSError as cause:
            if cause.errno in _NOTHING_THERE:
                return []
            self._fail(cause, "list", locator)
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
            self._fail(cause, "look at", locator)
        except ValueError:
            return False
        return True

    def info(self, locator: Locator) -> Info:
        try:
            found = os.stat(self._prefix + locator.key)
        except (OSError, ValueError) as cause:
            self._fail(cause, "look at", locator, absent=True)
        is_dir = stat.S_ISDIR(found.st_mode)
        return Info(locator, is_dir, 0 if is_dir else found.st_size, found.st_mtime)

    def mkdir(self, locator: Locator) -> Locator:
        path = self._writable("make", locator)
        try:
            if os.path.lexists(path) and not os.path.isdir(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            self._directories.ensure(path)
        except (OSError, ValueError) as cause:
            self._fail(cause, "make", locator)
        return locator

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        path = self._writable("remove", locator)
        try:
            if not locator.key:
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            with self._exclusive() as check:
                is_dir = stat.S_ISDIR(os.lstat(path).st_mode)
                check()
                if is_dir and if_version is not None:
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if is_dir:
                    _durable.rmdir(path)
                else:
                    self._remove_file(path, if_version)
                with _durable.settling():
                    _durable.sync_dir(os.path.dirname(path))
        except (OSError, ValueError, AgentmError) as cause:
            self._fail(cause, "remove", locator, absent=True)

    def _remove_file(self, path: str, if_version: str | None) -> None:
        if if_version is not None:
            self._expect(if_version, version_of(read_bytes(path, NOFOLLOW)))
        _durable.unlink(path)

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        from_path = self._writable("rename", source)
        to_path = self._writable("rename", target)
        try:
            if not source.key or not target.key:
                raise OSError(errno.EINVAL, "the root cannot be renamed")
            if f"{target.key}/".startswith(f"{source.key}/") and os.path.isdir(from_path):
                raise OSError(errno.EINVAL, "a directory cannot move into itself")
        except OSError as cause:
            self._fail(cause, "rename", source)
        try:
            with self._exclusive() as check:
                self._directories.ensure(os.path.dirname(to_path))
                check()
                self._move(from_path, to_path, overwrite)
                with _durable.settling():
                    _durable.sync_dir(os.path.dirname(to_path))
                    _durable.sync_dir(os.path.dirname(from_path))
        except FileExistsError as cause:
            self._fail(cause, "rename", target)
        except (OSError, ValueError, AgentmError) as cause:
            self._fail(cause, "rename", source)
        return target

    def _move(self, source: str, target: str, overwrite: bool) -> None:
        is_file = not stat.S_ISDIR(os.lstat(source).st_mode)
        if overwrite and is_file and os.path.isfile(target) and not os.path.islink(target):
            _durable.replace(source, target)
        else:
            _durable.rename_new(source, target)

    def append(self, locator: Locator, content: str) -> Locator:
        deadline = time.monotonic() + 30.0
        while True:
            try:
                now = self.read_versioned(locator)
            except FileNotFoundError:
                now = Versioned("", ABSENT)
            try:
                self._write("append to", locator, now.content + content, now.version)
            except ConcurrentModificationError:
                if time.monotonic() > deadline:
                    raise
            else:
                return locator

    def read_versioned(self, locator: Locator) -> Versioned:
        try:
            data = read_bytes(self._prefix + locator.key)
        except (OSError, ValueError) as cause:
            self._fail(cause, "read", locator, absent=True)
        return Versioned(decode(data, backend=self.protocol, locator=locator.key), version_of(data))

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        return version_of(self._write("write", locator, content, if_version))

    def changes(self, seen: Mapping[str, str], below: Locator = ROOT) -> Iterator[Change]:
        base = f"{below.key}/" if below.key else ""
        gone = {key for key in seen if key.startswith(base)}
        try:
            for key, stamp in self._stamps(self._prefix + below.key, base, required=not below.key):
                gone.discard(key)
                if seen.get(key) != stamp:
                    yield Change(Locator(key), stamp)
        except OSError as cause:
            # Naming files as gone that merely could not be looked at would empty an index.
            self._fail(cause, "scan", below)
        for key in sorted(gone):
            yield Change(Locator(key), None)

    def _stamps(self, directory: str, prefix: str, *, required: bool) -> Iterator[tuple[str, str]]:
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, NotADirectoryError):
            if required:
                raise
            return
        entries.sort(key=lambda entry: entry.name)
        for entry in entries:
            name = entry.name
            if name.startswith(_durable.TEMP_PREFIX) or "\\" in name:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._stamps(entry.path, f"{prefix}{name}/", required=False)
                continue
            try:
                found = os.stat(entry.path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield prefix + name, _stamp(entry.path, found)

    def _write(self, verb: str, locator: Locator, content: str, if_version: str | None) -> bytes:
        data = encode(content, backend=self.protocol, verb=verb, locator=locator.key)
        path = self._writable(verb, locator)
        try:
            if not locator.key:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._publish(path, data, if_version)
        except (OSError, ValueError, AgentmError) as cause:
            self._fail(cause, verb, locator)
        return data

    def _expect(self, wanted: str, current: str) -> None:
        if wanted != current:
            raise ConcurrentModificationError("it changed since you read it", current=current, expected=wanted)

    def _writable(self, verb: str, locator: Locator) -> str:
        if _durable.TEMP_PREFIX in locator.key and f"/{_durable.TEMP_PREFIX}" in f"/{locator.key}":
            raise InvalidLocatorError(
                f"{self.protocol} could not {verb} {locator.key!r}: names that begin with {_durable.TEMP_PREFIX!r} "
                "are agentm's own; choose another name.",
                backend=self.protocol,
                verb=verb,
                locator=locator.key,
            )
        return self._prefix + locator.key

    def _fail(self, cause: Exception, verb: str, locator: Locator, *, absent: bool = False) -> NoReturn:
        """Raise the agentm error for a failure, with backend, verb and locator in its sentence."""
        context = {"backend": self.protocol, "verb": verb, "locator": locator.key}
        what = f"{self.protocol} could not {verb} {locator.key!r}"
        if isinstance(cause, ConcurrentModificationError):
            raise type(cause)(
                f"{what}: {cause.message}; read it again and retry.",
                current=cause.current,
                expected=cause.expected,
                **context,
            ) from cause.__cause__
        if isinstance(cause, AgentmError):
            cause.backend, cause.verb, cause.locator = self.protocol, verb, locator.key
            if what not in cause.message:
                cause.message = f"{what}: {cause.message}"
            raise cause
        if isinstance(cause, _durable.Unsettled):
            raise OutcomeUnknownError(
                f"{what} for certain: it is in place, but the disk did not confirm it ({cause.strerror}); read it back "
                "after checking the disk.",
                errno=cause.errno,
                **context,
            ) from cause
        if isinstance(cause, OSError):
            number = errno.ENOENT if absent and cause.errno in _NOTHING_THERE else cause.errno
            raise store_error(cause, errno=number, **context) from cause
        raise InvalidLocatorError(
            f"{what}: the key has no form as a file name; choose plain characters.", **context
        ) from cause


def read_bytes(path: str, flags: int = 0) -> bytes:
    """The whole of a regular file."""
    fd = os.open(path, _READ | flags)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
            raise OSError(number, os.strerror(number))
        data = os.read(fd, found.st_size + 1)
        if len(data) == found.st_size:
            return data
        chunks = [data]
        while data:
            data = os.read(fd, 1 << 20)
            chunks.append(data)
        return b"".join(chunks)
    finally:
        os.close(fd)


def _stamp(path: str, found: os.stat_result) -> str:
    """Text that differs whenever the file was written to, whatever anybody did to its mtime.

    The kernel sets the change time and nobody can set it back, but it ticks: two writes within a tick look
    alike. So a file that is still fresh is stamped with its content as well.
    """
    plain = f"{found.st_ctime_ns:x}.{found.st_mtime_ns:x}.{found.st_size:x}.{found.st_ino:x}"
    if abs(time.time() - found.st_ctime) < _RACY_SECONDS:
        try:
            return f"{plain}.{hashlib.sha256(read_bytes(path)).hexdigest()[:32]}"
        except FileNotFoundError:
            return plain
    return plain
