"""Ways to a place on a disk: anywhere the system leads, or only where it cannot lead astray.

A string that was checked says nothing about what it will open: in between somebody can put a link in its place. So
below a root nothing is opened by its path. The folder that holds a place is opened first, by one call of the kernel
that follows no link and does not leave the root (or, where there is no such call, name by name), and everything else
is done relative to that open folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import NamedTuple, Protocol

from agentm.files._spelling import Identity, Spellings, identity
from agentm.files.base import segments

_FOLDER = os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_OPENAT2 = 437  # the same on every architecture
_BENEATH = 0x08 | 0x04 | 0x02  # stay below the root, through no link, through none of /proc's either
_MOST_WAYS = 10_000
_NO_SUCH_CALL = (errno.ENOSYS, errno.EPERM)


class CrossedError(OSError):
    """The way leads through a link, or to what lies elsewhere as well. Who hears of it says no, and not why."""


class Place(NamedTuple):
    """A name in a folder that is open; without a folder, a path."""

    folder: int | None
    name: str
    follow: bool
    """Whether the name itself may be a link."""


class IsDenied(Protocol):
    """Whether a path is denied; with ``whole`` also whether something below it is."""

    def __call__(self, path: str, *, whole: bool = False) -> bool: ...


class Way(Protocol):
    confined: bool
    """Whether what leads out is refused: links, and files with a second name somewhere else."""

    def to(self, path: str) -> AbstractContextManager[Place]:
        """Where something is that is looked at."""

    def to_entry(self, path: str, *, whole: bool = False) -> AbstractContextManager[Place]:
        """The name itself, to be made, replaced, moved or removed; ``whole`` with all below it."""

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it."""

    def is_spelt(self, place: Place) -> bool:
        """Whether what is there has this very name, and not one that the disk takes for the same."""


class Beneath:
    """Only below some roots. The roots themselves may be links: whoever named them meant what they lead to.

    Of roots within one another the outermost counts: what lies below it can be moved and replaced by whom it is for.
    """

    confined = True

    def __init__(self, roots: Sequence[str], is_denied: IsDenied) -> None:
        self._roots = sorted({segments(root) for root in roots}, key=len)
        self._is_denied = is_denied
        self._spellings = Spellings()
        self._ways: dict[tuple[str, tuple[str, ...]], Identity] = {}

    @contextmanager
    def to(self, path: str) -> Iterator[Place]:
        root, below = self._split(path)
        if below:
            with self._folder(root, below[:-1], below[-1]) as folder:
                yield Place(folder, below[-1], False)
            return
        try:
            folder = self._open_root(root)
        except NotADirectoryError:  # a file was named as a root; a link in its place was not
            with self.to_entry(path) as place:
                yield place
            return
        try:
            self._check_denied(folder, ())
            yield Place(folder, ".", True)
        finally:
            os.close(folder)

    @contextmanager
    def to_entry(self, path: str, *, whole: bool = False) -> Iterator[Place]:
        root, below = self._split(path)
        above, name = (root, below) if below else (os.path.dirname(root), (os.path.basename(root),))
        if not name[-1]:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with self._folder(above, name[:-1], name[-1], whole=whole) as folder:
            yield Place(folder, name[-1], False)

    def make_folders(self, path: str) -> None:
        root, below = self._split(path)
        if self._is_denied(os.path.realpath(root)):
            raise CrossedError(errno.EXDEV, "denied")
        os.makedirs(root, exist_ok=True)
        os.close(self._open_root(root))
        for count, name in enumerate(below):
            with self._folder(root, below[:count], name) as folder:
                try:
                    os.mkdir(name, dir_fd=folder)
                except FileExistsError:
                    self._refuse_no_folder(Place(folder, name, False))

    def is_spelt(self, place: Place) -> bool:
        return place.folder is None or place.name == "." or self._spellings.has(place.folder, place.name)

    def strays(self, path: str) -> bool:
        """Whether the path, as far as something is there, goes through a link, to a file with a second name, or by
        names that the disk only takes for those of others.

        For stores that open by path: it says what is so now, not what will be when they do.
        """
        root, below = self._split(path)
        here = self._open_root(root)
        try:
            self._check_denied(here, below)
            for name in below:
                found = _entry(here, name)
                if found is None:
                    return False
                if is_link(found) or not self._spellings.has(here, name):
                    return True
                if not stat.S_ISDIR(found.st_mode):
                    return False
                above, here = here, open_beneath(here, (name,))
                os.close(above)
        except CrossedError:
            return True
        finally:
            os.close(here)
        return False

    def _split(self, path: str) -> tuple[str, tuple[str, ...]]:
        """The root that a path lies below, and the names from there on."""
        names = segments(path)
        for root in self._roots:
            if names[: len(root)] == root:
                return "/" + "/".join(root), names[len(root) :]
        raise CrossedError(errno.EXDEV, "outside", path)

    def _open_root(self, root: str) -> int:
        """A root, open, if it is really called so. One that was is believed as long as it is the same folder."""
        top = os.open(root, _FOLDER)
        try:
            found = identity(top)
            if self._ways.get((root, ())) != found:
                self._check_spelling(root)
                self._ways[root, ()] = found
        except BaseException:
            os.close(top)
            raise
        return top

    def _check_spelling(self, root: str) -> None:
        """FileNotFoundError if one of the names that lead to a root is only taken for another."""
        here = os.open("/", _FOLDER)
        try:
            for name in segments(root):
                with suppress(PermissionError):  # a folder on the way that shows no names cannot be asked
                    if not self._spellings.has(here, name):
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), root)
                above, here = here, os.open(name, _FOLDER, dir_fd=here)
                os.close(above)
        finally:
            os.close(here)

    @contextmanager
    def _folder(self, root: str, below: tuple[str, ...], name: str, *, whole: bool = False) -> Iterator[int]:
        """The open folder that holds, or will hold, a name."""
        top = folder = self._open_root(root)
        try:
            self._check_denied(top, (*below, name), whole=whole)
            if below:
                folder = open_beneath(top, below)
                if self._ways.get((root, below)) != identity(folder):
                    self._walk(top, root, below)
            yield folder
        finally:
            os.close(top)
            if folder != top:
                os.close(folder)

    def _walk(self, top: int, root: str, below: tuple[str, ...]) -> None:
        """Go the way name by name; FileNotFoundError where one of them is only taken for another.

        A way through folders that all tell names apart need not be gone again.
        """
        here, exact = os.dup(top), True
        try:
            for name in below:
                exact = exact and self._spellings.tells_apart(here)
                if not self._spellings.has(here, name):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
                above, here = here, open_beneath(here, (name,))
                os.close(above)
            if exact:
                if len(self._ways) >= _MOST_WAYS:
                    self._ways.clear()
                self._ways[root, below] = identity(here)
        finally:
            os.close(here)

    def _check_denied(self, top: int, below: tuple[str, ...], *, whole: bool = False) -> None:
        """A root that is a link may lead into what is denied under its real name. Below it there are no links."""
        real = _real_path(top)
        if real is not None and self._is_denied("/".join((real, *below)), whole=whole):
            raise CrossedError(errno.EXDEV, "denied")

    def _refuse_no_folder(self, place: Place) -> None:
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode) or not self.is_spelt(place):
            raise CrossedError(errno.EXDEV, "a link")
        if not stat.S_ISDIR(found.st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place.name)


class Anywhere:
    """Whatever the system makes of a path."""

    confined = False

    @contextmanager
    def to(self, path: str) -> Iterator[Place]:
        yield Place(None, path, True)

    def to_entry(self, path: str, *, whole: bool = False) -> AbstractContextManager[Place]:
        return self.to(path)

    def make_folders(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def is_spelt(self, place: Place) -> bool:
        return True


def open_beneath(top: int, names: tuple[str, ...]) -> int:
    """A folder below an open one, reached through no link; CrossedError where there is one."""
    if _kernel_call() is not None:
        return _open_at_once(top, names)
    return _open_by_name(top, names)


def _open_at_once(top: int, names: tuple[str, ...]) -> int:
    call = _kernel_call()
    assert call is not None
    while True:
        fd, number = call(top, os.fsencode("/".join(names)))
        if fd >= 0:
            return fd
        if number in (errno.ELOOP, errno.EXDEV):
            raise CrossedError(number, "a link")
        if number not in (errno.EAGAIN, errno.EINTR):  # something above moved meanwhile: once more
            raise OSError(number, os.strerror(number), names[-1])


def _open_by_name(top: int, names: tuple[str, ...]) -> int:
    here = os.dup(top)
    for name in names:
        try:
            below = os.open(name, _FOLDER | NO_LINK, dir_fd=here)
        except OSError as error:
            crossed = error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and not _is_file(here, name)
            os.close(here)
            if crossed:
                raise CrossedError(errno.ELOOP, "a link") from None
            raise
        os.close(here)
        here = below
    return here


def _is_file(folder: int, name: str) -> bool:
    """Whether it is a file that keeps us from going on; a folder by now means that somebody swaps it for a link."""
    found = _entry(folder, name)
    return found is not None and not stat.S_ISLNK(found.st_mode) and not stat.S_ISDIR(found.st_mode)


def is_link(found: os.stat_result) -> bool:
    """Whether this is a link, or a file that has another name as well."""
    return stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1)


def _entry(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except ValueError:
        return None  # no name that a disk could have
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return None
        raise


def _real_path(folder: int) -> str | None:
    """What the kernel calls an open folder; None where it cannot be asked."""
    try:
        return os.readlink(f"/proc/self/fd/{folder}")
    except OSError:
        return None


@cache
def _kernel_call() -> Callable[[int, bytes], tuple[int, int]] | None:
    """Linux's own way to open something below a folder; None where it is not to be had."""
    if not hasattr(os, "O_PATH"):
        return None
    import ctypes

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    how = How(_FOLDER, 0, _BENEATH)
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    size, given = ctypes.sizeof(how), ctypes.byref(how)

    def call(folder: int, path: bytes) -> tuple[int, int]:
        fd: int = syscall(_OPENAT2, folder, path, given, size)
        return fd, 0 if fd >= 0 else ctypes.get_errno()

    root = os.open("/", _FOLDER)
    try:
        fd, number = call(root, b".")
    finally:
        os.close(root)
    if fd >= 0:
        os.close(fd)
    return None if number in _NO_SUCH_CALL else call
