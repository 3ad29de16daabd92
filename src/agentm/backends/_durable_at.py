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


def replace(folder: Folder, name: str, data: bytes, mode: int | None) -> None:
    """Put a text in place of what is there, in one step; ``mode`` None: what the umask leaves."""
    fd, temp = _temporary(folder, name, new_file_mode(mode))
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)
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
