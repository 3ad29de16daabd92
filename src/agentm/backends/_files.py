"""Reading plain files: their bytes, the version those bytes are, and what tells that they changed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from agentm.backends import _durable
from agentm.seam.types import ABSENT

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

# A file changed less than this before it was stamped may change again without its times showing it.
_RACY_SECONDS = 2.0


def read_bytes(path: str, flags: int = 0) -> bytes:
    """The whole of a regular file."""
    try:
        fd = os.open(path, _READ | flags)
    except PermissionError:
        if os.path.isdir(path):  # how Windows says it
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        raise
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


def content(path: str) -> bytes | None:
    """The bytes at a path, not through a link; None where nothing is."""
    try:
        return read_bytes(path, NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None


def version_of(data: bytes | None) -> str:
    """The version token of a file's bytes."""
    return ABSENT if data is None else f"sha256-{hashlib.sha256(data).hexdigest()}"


def mode_of(path: str) -> int | None:
    """The permission bits to carry over to a new file; None where nothing is. Refuses what is no file."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(mode):
        number = errno.ELOOP if stat.S_ISLNK(mode) else errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))
    return stat.S_IMODE(mode)


def stamps(directory: str, prefix: str, skip: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Key and stamp of every file below a directory. Folders that are links are not entered: they may be loops."""
    pending = [(prefix, _sorted(os.scandir(directory)))]
    while pending:
        prefix, entries = pending[-1]
        if not entries:
            pending.pop()
            continue
        entry = entries.pop()
        if entry.name.startswith(_durable.TEMP_PREFIX) or "\\" in entry.name:
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name in skip:
                continue
            # What is gone since its parent was listed is no error; what may not be looked at is.
            with suppress(FileNotFoundError, NotADirectoryError):
                pending.append((f"{prefix}{entry.name}/", _sorted(os.scandir(entry.path))))
            continue
        stamp = _stamp(entry.path)
        if stamp:
            yield prefix + entry.name, stamp


def _sorted(entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    return sorted(entries, key=lambda entry: entry.name, reverse=True)


def _stamp(path: str) -> str:
    """Text that differs whenever the file was written to, whatever anybody did to its mtime; "" if there is no file.

    The kernel sets the change time and nobody can set it back, but it ticks: two writes within a tick look
    alike. So a file that is still fresh is stamped with its content as well.
    """
    try:
        found = os.stat(path)
    except OSError:
        return ""  # gone since the listing, or a link that leads to nothing
    if not stat.S_ISREG(found.st_mode):
        return ""
    plain = f"{found.st_ctime_ns:x}.{found.st_mtime_ns:x}.{found.st_size:x}.{found.st_ino:x}"
    if abs(time.time() - found.st_ctime) < _RACY_SECONDS:
        try:
            return f"{plain}.{hashlib.sha256(read_bytes(path)).hexdigest()[:32]}"
        except FileNotFoundError:
            return ""
        except OSError:
            return plain  # it may be looked at but not read
    return plain
