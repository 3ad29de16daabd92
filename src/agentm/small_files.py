"""Reading a settings file whole, whatever somebody may have put in its place."""

from __future__ import annotations

import errno
import os
import stat

_LARGEST = 1 << 20
# Non-blocking, because opening a FIFO would wait for a writer for ever.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read_small(path: str) -> bytes:
    """The bytes of a regular file of at most a mebibyte; OSError for anything else."""
    fd = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        data = b""
        while len(data) <= _LARGEST and (more := os.read(fd, _LARGEST + 1)):
            data += more
    finally:
        os.close(fd)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, "it is larger than a mebibyte", path)
    return data
