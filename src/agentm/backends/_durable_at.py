"""Changing files by a name in an open folder, in the order of `_durable`: flush, put in place, flush the folder.

For those who do not go by a path, because somebody could lead it elsewhere meanwhile. Without a folder a name is a
path.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from agentm.backends._durable import flush_dir, settling, sync_dir, sync_file, write_all

Folder = int | None

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_LISTING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)
_LONGEST_NAME = 255
_RUN_AS = stat.S_ISUID | stat.S_ISGID  # meant for the owner that a file had, and for no other


def replace(folder: Folder, name: str, data: bytes, mode: int | None, standing: os.stat_result | None = None) -> None:
    """Put a text in place of what is there, in one step.

    :param mode: its permissions; None: those of the file that stands there, or what the umask leaves
    :param standing: that file, whose owner and group the new one gets where the system lets us
    """
    if mode is None and standing is not None:
        mode = stat.S_IMODE(standing.st_mode)
    fd, temp = _temporary(folder, name, new_file_mode(mode))
    try:
        try:
            kept = standing is None or _give(fd, standing)
            if mode is not None:
                os.fchmod(fd, mode if kept else mode & ~_RUN_AS)
            write_all(fd, data)
            sync_file(fd)
        finally:
            os.close(fd)
        os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temp, dir_fd=folder)
        raise
    flush_entry(folder, name)


def new_file_mode(mode: int | None) -> int:
    """What a file is made with that gets its permissions before its text: whoever opens it meanwhile keeps it open."""
    return 0o666 if mode is None else 0o600


def _give(fd: int, standing: os.stat_result) -> bool:
    """Give a new file to the owner and the group of another one; False if not both could be kept."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (standing.st_uid, standing.st_gid):
        return True
    for owner in (standing.st_uid, -1):  # who may not give a file away may still be in the group
        with suppress(OSError):
            os.fchown(fd, owner, standing.st_gid)
            return owner != -1
    return False


def append(fd: int, data: bytes) -> None:
    """Add at the end of a file that is open for that, and flush it. After an error it has its old length again, unless
    somebody else added something meanwhile: that is not ours to cut off."""
    start, added = os.fstat(fd).st_size, 0
    try:
        while added < len(data):
            added += os.write(fd, memoryview(data)[added:])
        sync_file(fd)
    except BaseException:
        if os.fstat(fd).st_size == start + added == os.lseek(fd, 0, os.SEEK_CUR):
            with suppress(OSError):
                os.ftruncate(fd, start)
        raise


def make_dir(folder: Folder, name: str) -> None:
    """Make a directory that survives a power cut, or none; FileExistsError if something is there."""
    os.mkdir(name, dir_fd=folder)
    try:
        _flush_holder(folder, name)
    except BaseException:
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)
        raise


def rename(source: Folder, old: str, target: Folder, new: str) -> None:
    """Move a file, onto another one or to where nothing is, or a whole directory."""
    os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
    flush_entry(target, new)
    flush_entry(source, old)


def remove(folder: Folder, name: str, *, recursive: bool) -> None:
    """Take away a file, a link or an empty directory, or with ``recursive`` a full one."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
    elif recursive:
        from shutil import rmtree

        rmtree(name, dir_fd=folder)
    else:
        os.rmdir(name, dir_fd=folder)
    flush_entry(folder, name)


def flush_entry(folder: Folder, name: str) -> None:
    """A change of a name survives a power cut once its folder is flushed."""
    with settling():
        _flush_holder(folder, name)


def _flush_holder(folder: Folder, name: str) -> None:
    if folder is None:
        sync_dir(os.path.dirname(name.rstrip("/")) or "/")
        return
    fd = os.open(".", _LISTING, dir_fd=folder)
    try:
        flush_dir(fd)
    finally:
        os.close(fd)


def _temporary(folder: Folder, name: str, mode: int) -> tuple[int, str]:
    """A new file beside a name: its descriptor and its own name."""
    ending = f".tmp.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        return os.open(name + ending, _CREATE, mode, dir_fd=folder), name + ending
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG or len(os.fsencode(os.path.basename(name))) > _LONGEST_NAME:
            raise
        short = os.path.join(os.path.dirname(name), ending)  # a name of full length leaves no room for more
        return os.open(short, _CREATE, mode, dir_fd=folder), short
