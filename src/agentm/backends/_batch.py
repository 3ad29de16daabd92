"""Many files made durable together: laid out and flushed first, then put in place.

A flush of the whole file system does for all what an fsync does for one, but only where the system keeps that promise:

- before Linux 5.17 it may fail and not say so
- FUSE and network file systems do not pass it on to their servers
- an overlay passes it on, but not the errors that come back

Elsewhere a batch that needs it cannot be opened, and its files are written one by one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from agentm.backends import _durable

SMALLEST_BATCH = 24
"""For fewer files, or folders, their own flushes are as fast, and wait for nothing that other programs have written."""

LARGEST_BATCH = 2048
"""While they are put in place, other writers of the store wait."""

_FIRST_LINUX = (5, 17)
_FILE_SYSTEMS = {0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0xF2F52010: "f2fs", 0x01021994: "tmpfs"}

Put = Callable[[_durable.Ready, str, bytes, str | None], None]


class TempFolder:
    """Many temporary files in a folder of their own, which is locked as a whole while its writer lives.

    Closing it removes the files that were not placed.
    """

    def __init__(self, directory: str, *, keep_open: bool = False) -> None:
        self.path, self._lock = _make_locked(directory)
        self._files: list[_durable.Ready] = []
        self._keep_open = keep_open
        self._open: list[int] = []

    def fill(self, data: bytes, mode: int | None = None) -> _durable.Ready:
        """A new file with these bytes, to be flushed together with the others, by `flush` if they are kept open."""
        file = _durable.Ready(f"{self.path}{os.sep}{len(self._files)}")
        self._files.append(file)
        fd = _durable.write_new(file.path, data, mode)
        self._open.append(fd)
        if not self._keep_open:
            self._close_one()
        return file

    def flush(self) -> None:
        """Flush and close the files, once. After an error they are worthless."""
        for fd in self._open:
            _durable.begin_sync(fd)
        for fd in self._open:
            _durable.sync_file(fd)
        while self._open:
            self._close_one()

    def _close_one(self) -> None:
        _durable.close_new(self._open.pop())

    def close(self) -> None:
        while self._open:
            with suppress(OSError):
                self._close_one()
        for file in self._files:
            if not file.placed:
                with suppress(OSError):
                    _durable.unlink(file.path)
        with suppress(OSError):
            _durable.rmdir(self.path)
        with suppress(OSError):
            os.close(self._lock)


def _make_locked(directory: str) -> tuple[str, int]:
    """A new folder and a descriptor that holds its lock."""
    while True:
        path = f"{directory}{os.sep}{_durable.TEMP_PREFIX}{os.urandom(8).hex()}{_durable.FOLDER}"
        os.mkdir(path, 0o700)
        try:
            lock = _durable.open_locked(path)
        except FileNotFoundError:
            continue  # a sweep was faster than our lock
        except BaseException:
            with suppress(OSError):
                _durable.rmdir(path)
            raise
        # A sweep holds the lock only while it removes: getting it on a folder that is still there is final.
        if lock >= 0 and os.path.isdir(path):
            return path, lock
        if lock >= 0:
            os.close(lock)


class Batch:
    """Temporary files that are filled, flushed together, and put in place part by part, each part flushed together.

    Many are flushed with the whole file system. A few are flushed one after the other, which waits for nothing that
    other programs have written, and costs little more than one flush: the first of them takes the others along.
    """

    def __init__(self, directory: str, directories: _durable.Directories, size: int) -> None:
        self.placed = 0
        """How many are in place, from the first one on."""
        self._directory = directory
        self._directories = directories
        self._size = size
        self._file_system = -1
        self._folder: TempFolder | None = None
        self._ready: list[tuple[_durable.Ready, str, bytes, str | None]] = []
        self._parents: list[str] = []
        """Of each file that is ready."""
        self._made: set[str] = set()
        self._unflushed: set[str] = set()
        self._unsettled: set[str] = set()

    def fill(self, path: str, parent: str, data: bytes, mode: int | None, if_version: str | None) -> None:
        assert self._folder is not None, "a batch is filled inside its block"
        if parent not in self._made:
            self._directories.make(parent, self._unflushed)
            self._made.add(parent)
        self._ready.append((self._folder.fill(data, mode), path, data, if_version))
        self._parents.append(parent)

    def flush(self) -> None:
        """Make everything durable that was filled; nothing may be put in place before."""
        assert self._folder is not None, "a batch is flushed inside its block"
        if self._whole:
            _durable.sync_file_system(self._file_system)
            self._directories.survived(self._unflushed)
        else:
            self._folder.flush()
            self._directories.flush(self._unflushed)

    def place(self, count: int, put: Put) -> None:
        """Put the next files in place, in order. `settle` must follow, also after an error."""
        for number in range(self.placed, min(self.placed + count, len(self._ready))):
            put(*self._ready[number])
            self.placed = number + 1
            self._unsettled.add(self._parents[number])

    def settle(self) -> None:
        """Make durable that they are in place, as far as they are."""
        parents, self._unsettled = self._unsettled, set()
        if self._whole and len(parents) >= SMALLEST_BATCH:
            with _durable.settling():
                _durable.sync_file_system(self._file_system)
            return
        for parent in sorted(parents):
            with _durable.settling():
                _durable.sync_dir(parent)

    @property
    def _whole(self) -> bool:
        return self._size >= SMALLEST_BATCH

    def __enter__(self) -> Batch:
        """OSError where its flushes would not be worth anything."""
        try:
            if self._whole:
                # Before any of the files: a flush reports the errors since this descriptor was opened.
                self._file_system = os.open(self._directory, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
                if not _flushes_as_a_whole(self._file_system):
                    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
            self._folder = TempFolder(self._directory, keep_open=not self._whole)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.close()
        if self._file_system >= 0:
            with suppress(OSError):
                os.close(self._file_system)


def _flushes_as_a_whole(fd: int) -> bool:
    if not sys.platform.startswith("linux") or _version(os.uname().release) < _FIRST_LINUX:
        return False
    try:
        import ctypes

        statfs = ctypes.create_string_buffer(256)  # more than any system's; the kind comes first
        if ctypes.CDLL(None, use_errno=True).fstatfs(fd, statfs) != 0:
            return False
    except (ImportError, AttributeError):
        return False
    return ctypes.c_long.from_buffer(statfs).value & 0xFFFFFFFF in _FILE_SYSTEMS


def _version(release: str) -> tuple[int, ...]:
    """The first two numbers of something like '6.1.0-13-amd64'."""
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
