"""Changing files so that a crash at any instant leaves the old state or the new one, never a third.

This module, with `_durable_at` beside it, is the only one of agentm that flushes, renames or unlinks. The order is
always the same: write a temporary file, flush it, close it (checking), put it in place in one step, flush the
directory.
What a caller is told before the last flush returns is a lie after a power cut, so nothing returns before it.

An error before the file is in place means nothing happened. An error after it is `Unsettled`: the change is
visible, but whether it survives a power cut is not known.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from types import TracebackType

from agentm.backends._flock import try_flock

WINDOWS = sys.platform == "win32"
MACOS = sys.platform == "darwin"

TEMP_PREFIX = ".agentm-tmp-"
"""Names that begin so belong to agentm, are never listed, and are swept once their writer is dead."""
FOLDER = ".parts"
"""What the name of a folder of temporary files ends with."""

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_F_FULLFSYNC = 51
_F_SETLEASE, _F_GETLEASE, _F_SETSIG = 1024, 1025, 10

# Windows reports a file that a scanner or a sync client has open for a moment as one of these.
_SHARING_VIOLATIONS = (5, 32, 33)


class Unsettled(OSError):
    """The change is in place, but flushing it failed: it may not survive a power cut."""


class Ready:
    """A temporary file that is filled and waits to be put in place; ``placed`` says that it is no longer ours."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.placed = False

    def settle(self) -> None:
        """What has to happen just before the move."""


class Temp(Ready):
    """A temporary file that is locked while its writer lives, so that a sweep takes only dead ones.

    Leaving the block removes what is at ``path``, unless ``placed`` says that it is no longer ours to remove.
    """

    def __init__(self, directory: str) -> None:
        path, self._fd, self._lock = _create_locked(directory)
        super().__init__(path)
        _being_filled.add(self._fd)

    def fill(self, data: bytes, mode: int | None = None, *, flush: bool = True) -> None:
        """Write, flush and close, once. After an error the file is worthless and never retried.

        Without ``flush`` somebody else flushes it, together with others, before it is put in place.
        """
        _fill(self._fd, data, mode)
        if flush:
            sync_file(self._fd)
        fd, self._fd = self._fd, -1
        _being_filled.discard(fd)
        os.close(fd)

    def settle(self) -> None:
        """Windows cannot move an open file: there the lock ends just before the move."""
        if WINDOWS:
            self._lock = _close(self._lock)

    def __enter__(self) -> Temp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _being_filled.discard(self._fd)
        self._fd = _close(self._fd)
        self.settle()
        if not self.placed:
            with suppress(OSError):
                os.unlink(self.path)
        self._lock = _close(self._lock)


_being_filled: set[int] = set()


def _let_go() -> None:
    """A forked child that kept these open would pass for a program that writes to the file, for as long as it lives."""
    for fd in _being_filled:
        _close(fd)
    _being_filled.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _close(fd: int) -> int:
    """Close a descriptor through which nothing was written that matters: there is nothing it could report."""
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)
    return -1


def _create_locked(directory: str) -> tuple[str, int, int]:
    """A new file: its path, a descriptor to write through, and one that holds its lock.

    Two descriptors, because the first is closed (and the result checked) before the file is put in place, while the
    lock has to outlast that.
    """
    while True:
        path = f"{directory}{os.sep}{TEMP_PREFIX}{os.urandom(8).hex()}.part"
        fd = os.open(path, _CREATE | _FLAGS, 0o666)
        lock = -1
        try:
            lock = open_locked(path)
            # A sweep holds the lock only while it unlinks: getting it on a file that is still there is final.
            if lock >= 0 and os.fstat(lock).st_nlink:
                return path, fd, lock
        except FileNotFoundError:
            pass  # a sweep was faster than our lock: again
        except BaseException:
            _close(lock)
            _close(fd)
            with suppress(OSError):
                os.unlink(path)
            raise
        _close(lock)
        _close(fd)


def open_locked(path: str) -> int:
    """A descriptor that holds the file's lock, or -1 if somebody else has it."""
    for access in (os.O_RDONLY, os.O_RDWR):
        fd = os.open(path, access | _FLAGS)
        try:
            if try_flock(fd):
                return fd
        except OSError as error:
            os.close(fd)
            # NFS grants an exclusive lock only on a descriptor that can write.
            if error.errno != errno.EBADF or access == os.O_RDWR:
                raise
            continue
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return -1
    return -1


def write_new(path: str, data: bytes, mode: int | None = None) -> int:
    """A new file that somebody else flushes, together with others: the descriptor, for `close_new`."""
    fd = os.open(path, _CREATE | _FLAGS, 0o666 if mode is None else 0o600)
    _being_filled.add(fd)
    try:
        _fill(fd, data, mode)
    except BaseException:
        close_new(fd)
        raise
    return fd


def close_new(fd: int) -> None:
    _being_filled.discard(fd)
    os.close(fd)


def _fill(fd: int, data: bytes, mode: int | None) -> None:
    """The permissions first: what is not for others must not be there for them to read on its way."""
    if mode is not None and not WINDOWS and mode != stat.S_IMODE(os.fstat(fd).st_mode):
        os.fchmod(fd, mode)
    write_all(fd, data)


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however short the system's writes are."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def begin_sync(fd: int) -> None:
    """Have the system begin to write a file out: a hint, so that flushing several waits for all of them at once."""
    if sys.platform.startswith("linux"):
        with suppress(OSError):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_file(fd: int) -> None:
    """Flush a file to the medium."""
    _flush(fd)


def _flush(fd: int) -> None:
    """Flush, on macOS past the drive's own cache where it can."""
    if MACOS:
        import fcntl

        try:
            fcntl.fcntl(fd, _F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise  # a failed flush, which must not be tried again
    os.fsync(fd)


def sync_dir(path: str) -> None:
    """Flush a directory's entries. Windows has no such call; its journal orders renames by itself."""
    if WINDOWS:
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush_dir(fd)
    finally:
        os.close(fd)


def flush_dir(fd: int) -> None:
    """Flush the entries of a directory that is open for reading."""
    try:
        _flush(fd)
    except OSError as error:
        # Some network file systems have no flush for a directory: there is nothing more that could be done.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise


def sync_file_system(fd: int) -> None:
    """Flush everything on a file system at once: the files and directories of a whole batch in one go.

    What it reports are the errors since ``fd`` was opened; where it can be relied upon is for `_batch` to say.
    """
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def settling() -> Iterator[None]:
    """Mark an OSError inside as Unsettled: what came before is in place already."""
    try:
        yield
    except FileNotFoundError:
        pass  # the directory was removed since, and with it, on somebody's word, what was put there
    except OSError as cause:
        raise Unsettled(cause.errno, cause.strerror or str(cause)) from cause


def make_dirs(path: str, mode: int = 0o777) -> None:
    """Make a directory and its missing parents, each one flushed into its own parent before returning."""
    missing = []
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        missing.append(path)
        path = os.path.dirname(path)
    _make(reversed(missing), lambda parent, _: sync_dir(parent), mode)


class Directories:
    """The directories of one tree, made and flushed when they are first needed.

    That a directory is there does not mean that it survives a crash: whoever made it may have died before flushing
    it. So the way down to it is flushed once by us, and again if another directory stands there by then, as its inode
    number tells (unless the file system gave the new one the old one's number).
    """

    def __init__(self, top: str) -> None:
        self._top = top
        self._flushed: dict[str, int] = {}

    @contextmanager
    def ensured(self, path: str) -> Iterator[None]:
        """Make sure that a directory is there and survives; after an error in the block, what was made goes."""
        made = self.ensure(path)
        try:
            yield
        except BaseException:
            _unmake(made)
            for directory in made:
                self._flushed.pop(directory, None)  # its inode number may come again
            raise

    def ensure(self, path: str) -> list[str]:
        """Make sure that a directory below the top is there and survives; says which ones had to be made."""
        if self._known(path):
            return []
        if not self._flushed:
            self._flush_top()
        missing = list(self._unknown(path))
        return _make(reversed(missing), self._flush_entry)

    def make(self, path: str, unflushed: set[str]) -> None:
        """Make sure that a directory is there. Somebody else flushes it, together with others (`flush`, `survived`).

        ``unflushed`` are those on the way down to such directories: they are there, and this one is put among them.
        """
        missing = list(takewhile(lambda directory: directory not in unflushed, self._unknown(path)))
        _make(reversed(missing), lambda parent, path: None)
        unflushed.update(missing)

    def flush(self, unflushed: set[str]) -> None:
        """Flush directories that `make` has made sure of, each parent once."""
        if unflushed and not self._flushed:
            self._flush_top()
        for parent in sorted(set(map(os.path.dirname, unflushed))):
            sync_dir(parent)
        for directory in unflushed:
            self._flushed[directory] = os.lstat(directory).st_ino

    def survived(self, unflushed: set[str]) -> None:
        """Somebody has flushed directories that `make` has made sure of."""
        top = os.lstat(self._top).st_dev
        for directory in unflushed:
            with suppress(OSError):
                found = os.lstat(directory)
                if found.st_dev == top:  # another file system mounted below was not flushed along
                    self._flushed[directory] = found.st_ino

    def refuse_links(self, path: str) -> None:
        """OSError (ELOOP) if the way down to a directory leads through a link, and so perhaps out of the store."""
        if not self._known(path):
            for directory in self._chain(path):
                if os.path.islink(directory):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), directory)

    def _chain(self, path: str) -> Iterator[str]:
        while len(path) > len(self._top):
            yield path
            path = os.path.dirname(path)

    def _unknown(self, path: str) -> Iterator[str]:
        """From the bottom up to the first one that is known: the way down to that one was flushed with it."""
        return takewhile(lambda directory: not self._known(directory), self._chain(path))

    def _flush_top(self) -> None:
        with suppress(PermissionError):  # it need not be ours to read
            sync_dir(os.path.dirname(self._top))

    def _known(self, path: str) -> bool:
        if path not in self._flushed:
            return path == self._top
        try:
            return self._flushed[path] == os.lstat(path).st_ino
        except OSError:
            return False

    def _flush_entry(self, parent: str, path: str) -> None:
        sync_dir(parent)
        self._flushed[path] = os.lstat(path).st_ino


def _make(paths: Iterable[str], flush: Callable[[str, str], None], mode: int = 0o777) -> list[str]:
    """Make directories from the top down; after an error those that were made are gone again."""
    made: list[str] = []
    try:
        for path in paths:
            try:
                os.mkdir(path, mode)
                made.append(path)
            except FileExistsError:
                _refuse_no_directory(path)
            flush(os.path.dirname(path), path)
    except BaseException:
        _unmake(made)
        raise
    return made


def _refuse_no_directory(path: str) -> None:
    mode = os.lstat(path).st_mode
    if not stat.S_ISDIR(mode):
        number = errno.ELOOP if stat.S_ISLNK(mode) else errno.ENOTDIR
        raise OSError(number, os.strerror(number), path)


def _unmake(made: list[str]) -> None:
    for path in reversed(made):
        with suppress(OSError):
            os.rmdir(path)


def write_file(path: str, data: bytes) -> None:
    """Replace one file, atomically and durably, with its temporary beside it."""
    directory = os.path.dirname(os.path.abspath(path))
    with Temp(directory) as temp:
        temp.fill(data, stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None)
        temp.settle()
        replace(temp.path, path)
        temp.placed = True
    with settling():
        sync_dir(directory)


def replace(source: str, target: str) -> None:
    """Put a file in place of another in one step."""
    _patiently(os.replace, source, target)


def rename_new(source: str, target: str) -> None:
    """Move a file, but never onto something: raises FileExistsError.

    Where the kernel cannot do that in one step, the file is in both places for an instant.
    """
    if _rename_flags(source, target, 1, 4):
        return
    if WINDOWS:
        _patiently(os.rename, source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        move_new(source, target)  # no links here either
    else:
        os.unlink(source)


def move_new(source: str, target: str) -> None:
    """Move a file or a directory to where nothing is: raises FileExistsError.

    Where the kernel cannot do both in one step, the move stays one step, and what appears at the target in the instant
    after the look is lost: only for callers who keep other writers out.
    """
    if _rename_flags(source, target, 1, 4):
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    _patiently(os.rename, source, target)


def exchange(first: str, second: str) -> bool:
    """Swap two files in one step. False where the system cannot, and then nothing happened."""
    return _rename_flags(first, second, 2, 2)


def can_exchange() -> bool:
    """Whether the system has such a call at all; a file system may still lack it.

    Asked when a store is opened: loading the C library takes descriptors and memory, and a write that has begun
    is no time to find out that there are none.
    """
    global _renamer
    if _renamer is None:
        try:
            _renamer = _find_renamer()
        except (ImportError, AttributeError) as cause:
            raise OSError(errno.EMFILE, f"the C library cannot be loaded ({cause})") from cause
    return _renamer is not False


def unlink(path: str) -> None:
    _patiently(os.unlink, path)


def rmdir(path: str) -> None:
    _patiently(os.rmdir, path)


def _patiently(call: object, *paths: str) -> None:
    """Try again for about a second while Windows says that somebody has the file open."""
    pause = 0.002
    while True:
        try:
            call(*paths)  # type: ignore[operator]
        except OSError as error:
            if getattr(error, "winerror", None) not in _SHARING_VIOLATIONS or pause > 0.5:
                raise
            time.sleep(pause)
            pause *= 2
        else:
            return


_AT_FDCWD = -100
_renamer: object = None


def _rename_flags(source: str, target: str, linux: int, macos: int) -> bool:
    """Rename with the kernel's flags (Linux renameat2, macOS renamex_np); False where it has none."""
    if not can_exchange():
        return False
    import ctypes

    flags = macos if MACOS else linux
    result = _renamer(os.fsencode(source), os.fsencode(target), flags)  # type: ignore[operator]
    if result == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP) and not _nested(source, target):
        return False
    raise OSError(number, os.strerror(number), source, None, target)


def _nested(source: str, target: str) -> bool:
    # EINVAL also means "a directory into itself", which no fallback could do either.
    return f"{target}/".startswith(f"{source}/")


def _find_renamer() -> object:
    if WINDOWS:
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if MACOS:
        call = getattr(libc, "renamex_np", None)
        return call or False
    renameat2 = getattr(libc, "renameat2", None)
    if renameat2 is None:
        return False

    def rename(source: bytes, target: bytes, flags: int) -> int:
        return int(renameat2(_AT_FDCWD, source, _AT_FDCWD, target, flags))

    return rename


def being_written(path: str) -> bool:
    """Whether some program has this file open for writing right now, or is opening it, as far as the system tells.

    Linux grants a read lease only on a file that nobody can write to, and who wants to then has to wait for its end.
    """
    if not sys.platform.startswith("linux"):
        return False
    import fcntl

    fd = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        # We are signalled when somebody waits. The usual signal would end the process, this one is ignored.
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, _F_SETLEASE, fcntl.F_RDLCK)
        awaited = bool(fcntl.fcntl(fd, _F_GETLEASE) != fcntl.F_RDLCK)
        fcntl.fcntl(fd, _F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(fd)
    return awaited


def dead_temps(directory: str) -> Iterator[str]:
    """Paths of temporary files in a directory whose writers are gone, each one locked while it is looked at."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(TEMP_PREFIX):
                path = os.path.join(directory, name)
                with suppress(OSError):
                    lock = open_locked(path)
                    dead = lock >= 0
                    if WINDOWS:
                        lock = _close(lock)  # nobody can remove an open file there
                    try:
                        if dead:
                            yield path
                    finally:
                        _close(lock)


def sweep(directory: str) -> None:
    """Remove the temporary files that dead writers left behind; those of living ones stay."""
    for path in dead_temps(directory):
        with suppress(OSError):
            if path.endswith(".part"):
                os.unlink(path)
            elif path.endswith(FOLDER):
                for name in os.listdir(path):
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
