"""One writer at a time, across threads and processes of this machine.

The kernel frees the lock when its holder dies. A holder that is merely stopped keeps it, so after a while
somebody who waits takes it away by putting a new lock file in place of the old one; the sleeper finds out by
looking whether the file at the path is still the one it locked (`Held.ours`), and must look right before and right
after it publishes anything. The same look catches a lock file that somebody deleted or replaced, and tells those
who wait that the holder is awake.

A forked child inherits descriptors, not locks: it lets go of them at once, so that the death of the real holder still
frees its lock.
"""

from __future__ import annotations

import errno
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentm.backends import _durable
from agentm.backends._flock import try_flock, unlock
from agentm.errors import LockLostError, LockTimeoutError, LockUnavailableError

_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.004


def default_lock_root() -> str:
    """Where locks live: on this machine, never in a tree that may be synced."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # a relative one would mean other locks in every working directory
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "agentm", "locks")


class Held:
    """A lock that was taken; `ours` says whether it still is."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._grip = _Grip(fd)

    def ours(self) -> bool:
        if not self._grip.holds or not _same_file(self._path, self._grip.fd):
            return False
        with suppress(OSError):
            _sign(self._grip.fd)  # those who wait see that this holder is awake
        return True

    def release(self) -> None:
        self._grip.release()


class _Grip:
    """A descriptor that holds a lock until it is released, or until nobody refers to it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._owner = os.getpid()
        _gripped.add(fd)

    @property
    def holds(self) -> bool:
        return self.fd >= 0 and self._owner == os.getpid()

    def release(self) -> None:
        if self.holds:
            fd, self.fd = self.fd, -1
            _gripped.discard(fd)
            with suppress(OSError):
                unlock(fd)
            with suppress(OSError):
                os.close(fd)

    __del__ = release  # Ctrl-C may come between taking a lock and entering the block that gives it back


_gripped: set[int] = set()


def _let_go() -> None:
    for fd in _gripped:
        with suppress(OSError):
            os.close(fd)
    _gripped.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def lost() -> LockLostError:
    """The refusal of a writer that no longer holds the lock."""
    return LockLostError("this process slept through its turn and another one took over")


class Mutex:
    """A lock file outside the store.

    ``patience`` is how long a holder that does not look (`Held.ours`) may keep others waiting before it loses it.
    """

    def __init__(self, path: str, *, patience: float = 10.0) -> None:
        self.path = path
        self.patience = patience

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Wait for the lock; LockTimeoutError when it can be neither had nor taken over."""
        held = self._acquire()
        try:
            yield held
        finally:
            held.release()

    def try_hold(self) -> Held | None:
        """The lock if it is free right now."""
        held = self._attempt()
        return held if isinstance(held, Held) else None

    def _acquire(self) -> Held:
        pause, holder, since = _FIRST_PAUSE, b"", time.monotonic()
        while True:
            got = self._attempt()
            if isinstance(got, Held):
                return got
            if got != holder:
                # Somebody else has it than a moment ago: the lock moves, so nobody is stuck.
                holder, since = got, time.monotonic()
            waited = time.monotonic() - since
            if waited > self.patience:
                taken = self._take_over(holder)
                if taken is not None:
                    return taken
            if waited > 3 * self.patience + 1:
                raise LockTimeoutError(
                    f"process {_name(holder)} has held the lock for {waited:.0f} s and may be stopped ({self.path})"
                )
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt(self) -> Held | bytes:
        """The lock, or what its holder wrote into it."""
        while True:
            fd = self._open()
            try:
                if not try_flock(fd):
                    holder = os.pread(fd, 64, 0) if sys.platform != "win32" else b""
                    os.close(fd)
                    return holder
                if _same_file(self.path, fd):
                    _sign(fd)
                    return Held(self.path, fd)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # locked a file that is no longer the one at the path: again

    def _open(self) -> int:
        try:
            try:
                return os.open(self.path, _OPEN, 0o600)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
                return os.open(self.path, _OPEN, 0o600)
        except OSError as cause:
            raise LockUnavailableError(
                f"its lock file {self.path!r} cannot be opened ({cause.strerror})", errno=cause.errno
            ) from cause

    def _take_over(self, holder: bytes) -> Held | None:
        """Replace the lock file of a holder that sleeps. None if somebody else was about to, or it moved on."""
        if sys.platform == "win32":
            return None  # a locked file cannot be replaced there
        guard = os.open(f"{self.path}.takeover", _OPEN, 0o600)
        try:
            if not try_flock(guard):
                return None
            got = self._attempt()
            if isinstance(got, Held) or got != holder:
                return got if isinstance(got, Held) else None
            fresh = f"{self.path}.{os.urandom(6).hex()}"
            fd = os.open(fresh, _OPEN | os.O_EXCL, 0o600)
            try:
                try_flock(fd)
                _sign(fd)
                _durable.replace(fresh, self.path)
            except BaseException:
                os.close(fd)
                with suppress(OSError):
                    os.unlink(fresh)
                raise
            return Held(self.path, fd)
        finally:
            os.close(guard)


def _sign(fd: int) -> None:
    """Leave a mark that differs for each holding, so that those who wait can see the lock move."""
    if sys.platform != "win32":
        os.pwrite(fd, f"{os.getpid()} {time.monotonic_ns()}".ljust(64).encode(), 0)


def _name(holder: bytes) -> str:
    return holder.split(b" ")[0].decode("ascii", "replace") or "unknown"


def _same_file(path: str, fd: int) -> bool:
    if sys.platform == "win32":
        return True  # nobody can delete or replace an open file there
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev)


@contextmanager
def lock_directory(directory: str, *, patience: float = 30.0) -> Iterator[None]:
    """Exclude other writers of one directory for a few system calls, without leaving a file in it."""
    grip = _directory_lock(directory, patience)
    if grip is None:
        with Mutex(os.path.join(directory, f"{_durable.TEMP_PREFIX}lock"), patience=patience).hold():
            yield
        return
    try:
        yield
    finally:
        grip.release()


def _directory_lock(directory: str, patience: float) -> _Grip | None:
    """A lock on the directory itself; None on systems (Windows, NFS) that lock only files."""
    if sys.platform == "win32":
        return None
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not try_flock(fd):
            _wait(fd, directory, patience)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError) and error.errno == errno.EBADF:
            return None
        raise
    return _Grip(fd)


def _wait(fd: int, directory: str, patience: float) -> None:
    pause, deadline = _FIRST_PAUSE, time.monotonic() + patience
    while not try_flock(fd):
        if time.monotonic() > deadline:
            raise LockTimeoutError(
                f"another process has held the lock for {patience:.0f} s and may be stopped ({directory})"
            )
        time.sleep(pause * (0.5 + random.random()))
        pause = min(pause * 2, _LONGEST_PAUSE)
