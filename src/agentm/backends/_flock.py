"""One non-blocking exclusive lock on an open file, the same call on every system.

flock, not lockf: a POSIX record lock is dropped as soon as any descriptor of the file is closed anywhere in
the process.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt
    import os

    # Windows forbids others to touch a locked byte: one that no file reaches.
    _BYTE = 1 << 40

    def try_flock(fd: int) -> bool:
        """Take the lock, or say False at once. Closing the descriptor, or dying, gives it back."""
        os.lseek(fd, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Give the lock back, also if a copy of the descriptor lives on in a forked process."""
        os.lseek(fd, _BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_flock(fd: int) -> bool:
        """Take the lock, or say False at once. Closing the descriptor, or dying, gives it back."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Give the lock back, also if a copy of the descriptor lives on in a forked process."""
        fcntl.flock(fd, fcntl.LOCK_UN)
