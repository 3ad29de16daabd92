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
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Protocol

from agentm.backends import _durable_at
from agentm.backends._durable import make_dirs
from agentm.files._spelling import Identity, Spellings, identity
from agentm.files.base import segments

_FOLDER = os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_OPENAT2 = 437  # the same on every architecture
_LINKLESS = 0x04 | 0x02  # through no link, through none of /proc's either
_BENEATH = 0x08 | _LINKLESS  # and stay below the root
_TOP = -1  # what a path from / on is relative to
_MOST_WAYS = 10_000
_NO_SUCH_CALL = (errno.ENOSYS, errno.EPERM)


class CrossedError(OSError):
    """The way leads through a link, or to what lies elsewhere as well. Who hears of it says no, and not why."""


class Place:
    """A name in a folder that is open until the place is left; without a folder, a path.

    :param follow: whether the name itself may be a link
    :param which: which folder it is, where that is known
    """

    __slots__ = ("folder", "follow", "name", "which")

    def __init__(self, folder: int | None, name: str, follow: bool, which: Identity | None = None) -> None:
        self.folder = folder
        self.name = name
        self.follow = follow
        self.which = which

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            os.close(self.folder)


class IsDenied(Protocol):
    """Whether a path is denied; with ``whole`` also whether something below it is."""

    def __call__(self, path: str, *, whole: bool = False) -> bool: ...


class Way(Protocol):
    confined: bool
    """Whether what leads out is refused: links, and files with a second name somewhere else."""

    def to(self, path: str) -> Place:
        """Where something is that is looked at."""

    def to_entry(self, path: str, *, whole: bool = False) -> Place:
        """The name itself, to be made, replaced, moved or removed; ``whole`` with all below it."""

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it, so that they survive a power cut."""

    def is_spelt(self, place: Place) -> bool:
        """Whether what is there has this very name, and not one that the disk takes for the same."""


class Beneath:
    """Only below some roots. The roots themselves may be links: whoever named them meant what they lead to."""

    confined = True

    def __init__(self, roots: Sequence[str], is_denied: IsDenied) -> None:
        self._roots = sorted({segments(root) for root in roots}, key=len, reverse=True)
        self._is_denied = is_denied
        self._spellings = Spellings()
        self._ways: dict[tuple[str, tuple[str, ...]], Identity] = {}

    def to(self, path: str) -> Place:
        root, below = self._split(path)
        if below:
            return self._held(root, below[:-1], below[-1])
        self._check_denied(root, ())
        try:
            folder = self._open_root(root)
        except NotADirectoryError:  # a file was named as a root; a link in its place was not
            return self.to_entry(path)
        try:
            self._check_really_denied(folder, ())
        except BaseException:
            os.close(folder)
            raise
        return Place(folder, ".", True)

    def to_entry(self, path: str, *, whole: bool = False) -> Place:
        root, below = self._split(path)
        above, name = (root, below) if below else (os.path.dirname(root), (os.path.basename(root),))
        if not name[-1]:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._held(above, name[:-1], name[-1], whole=whole)

    def make_folders(self, path: str) -> None:
        root, below = self._split(path)
        for start in (root, os.path.realpath(root)):
            self._check_denied(start, below)
        make_dirs(root)
        here = self._open_root(root)
        try:
            self._check_really_denied(here, below)
            for count, name in enumerate(below, 1):
                try:
                    _durable_at.make_dir(here, name)
                except FileExistsError:
                    self._refuse_no_folder(here, name, errno.EEXIST if count == len(below) else errno.ENOTDIR)
                above, here = here, open_beneath(here, (name,))
                os.close(above)
        finally:
            os.close(here)

    def is_spelt(self, place: Place) -> bool:
        return place.folder is None or place.name == "." or self._spellings.has(place.folder, place.name, place.which)

    def strays(self, path: str, *, whole: bool = False, itself: bool = True) -> bool:
        """Whether the path, as far as something is there, goes through a link, to a file with a second name, by names
        that the disk only takes for those of others, or to what is denied.

        For stores that open by path: it says what is so now, not what will be when they do.

        :param whole: whether what is denied below it counts as well
        :param itself: whether it counts if what is at the very end is a link or has a second name
        """
        root, below = self._split(path)
        try:
            if not below:
                with self.to(path):
                    return False
            with self._held(root, below[:-1], below[-1], whole=whole) as place:
                found = entry(place.folder, place.name)
                return found is not None and ((itself and is_link(found)) or not self.is_spelt(place))
        except CrossedError:
            return True
        except ValueError:
            return False  # no name that a disk could have
        except OSError as error:
            if not is_missing(error):
                raise
            return self._strays_so_far(root, below)

    def _strays_so_far(self, root: str, below: tuple[str, ...]) -> bool:
        """The same of a way that ends before its last folder."""
        here = self._open_root(root)
        try:
            for name in below:
                found = entry(here, name)
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

    def _held(self, root: str, below: tuple[str, ...], name: str, *, whole: bool = False) -> Place:
        """A name in the folder that holds it, or will."""
        self._check_denied(root, (*below, name), whole=whole)
        folder = self._known(root, below)
        if folder is None:
            top = self._open_root(root)
            try:
                self._check_really_denied(top, (*below, name), whole=whole)
                folder = self._walk(top, root, below)
            finally:
                os.close(top)
        return Place(folder, name, False, identity(folder))

    def _known(self, root: str, below: tuple[str, ...]) -> int | None:
        """A folder that was gone to before, opened in one step where no link is on the whole way: it is what it is
        called, and all that is checked on the longer way is known of it. Else None."""
        call = _kernel_call()
        if call is None or (root, below) not in self._ways:
            return None
        folder, _ = call(_TOP, os.fsencode("/".join((root, *below))), _LINKLESS)
        if folder >= 0 and self._ways.get((root, below)) != identity(folder):
            os.close(folder)
            return None
        return folder if folder >= 0 else None

    def _walk(self, top: int, root: str, below: tuple[str, ...]) -> int:
        """The folder at the end of a way that is gone name by name, for its spelling: FileNotFoundError where one of
        the names is only taken for another. A way through folders that all tell names apart need not be gone again.
        """
        folder = open_beneath(top, below)
        if not below or self._ways.get((root, below)) == identity(folder):
            return folder
        os.close(folder)
        here, exact = os.dup(top), True
        try:
            for name in below:
                exact = exact and self._spellings.tells_apart(here)
                if not self._spellings.has(here, name):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
                above, here = here, open_beneath(here, (name,))
                os.close(above)
        except BaseException:
            os.close(here)
            raise
        if exact:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            self._ways[root, below] = identity(here)
        return here

    def _check_denied(self, root: str, below: tuple[str, ...], *, whole: bool = False) -> None:
        if self._is_denied("/".join((root, *below)), whole=whole):
            raise CrossedError(errno.EXDEV, "denied")

    def _check_really_denied(self, top: int, below: tuple[str, ...], *, whole: bool = False) -> None:
        """A root that is a link may lead into what is denied under its real name. Below it there are no links."""
        real = _real_path(top)
        if real is not None:
            self._check_denied(real, below, whole=whole)

    def _refuse_no_folder(self, folder: int, name: str, number: int) -> None:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode) or not self._spellings.has(folder, name):
            raise CrossedError(errno.EXDEV, "a link")
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(number, os.strerror(number), name)


class Anywhere:
    """Whatever the system makes of a path."""

    confined = False

    def to(self, path: str) -> Place:
        return Place(None, path, True)

    def to_entry(self, path: str, *, whole: bool = False) -> Place:
        return Place(None, path, True)

    def make_folders(self, path: str) -> None:
        try:
            make_dirs(path)
        except NotADirectoryError:
            if not os.path.lexists(path.rstrip("/")):
                raise
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None  # the file is at its end

    def is_spelt(self, place: Place) -> bool:
        return True


def open_beneath(top: int, names: tuple[str, ...]) -> int:
    """A folder below an open one, reached through no link; CrossedError where there is one."""
    call = _kernel_call()
    if call is None or not names:
        return _open_by_name(top, names)
    while True:
        fd, number = call(top, os.fsencode("/".join(names)), _BENEATH)
        if fd >= 0:
            return fd
        if number in (errno.ELOOP, errno.EXDEV):
            raise CrossedError(number, "a link")
        if number not in (errno.EAGAIN, errno.EINTR):  # something above moved meanwhile: once more
            raise OSError(number, os.strerror(number), names[-1])


def _open_by_name(top: int, names: tuple[str, ...]) -> int:
    here = os.dup(top)
    for name in names:
        above = here
        try:
            here = os.open(name, _FOLDER | NO_LINK, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and not _is_file(above, name):
                raise CrossedError(errno.ELOOP, "a link") from None
            raise
        finally:
            os.close(above)
    return here


def _is_file(folder: int, name: str) -> bool:
    """Whether it is a file that keeps us from going on; a folder by now means that somebody swaps it for a link."""
    found = entry(folder, name)
    return found is not None and not stat.S_ISLNK(found.st_mode) and not stat.S_ISDIR(found.st_mode)


def is_link(found: os.stat_result) -> bool:
    """Whether this is a link, or a file that has another name as well."""
    return stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1)


def is_missing(error: OSError) -> bool:
    """Whether it says that nothing is there: also of what would lie below a file, or has a name that no disk takes."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


def entry(folder: int | None, name: str) -> os.stat_result | None:
    """What is at a name itself; None if nothing is."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
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
def _kernel_call() -> Callable[[int, bytes, int], tuple[int, int]] | None:
    """Linux's own way to open a folder and say what must not be on the way; None where it is not to be had."""
    if not hasattr(os, "O_PATH"):
        return None
    import ctypes

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    hows = {resolve: How(_FOLDER, 0, resolve) for resolve in (_BENEATH, _LINKLESS)}
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    size, given = ctypes.sizeof(How), {resolve: ctypes.byref(how) for resolve, how in hows.items()}

    def call(folder: int, path: bytes, resolve: int) -> tuple[int, int]:
        if b"\0" in path:
            raise ValueError("embedded null byte")  # as os.open says; C would take what stands before it
        fd: int = syscall(_OPENAT2, folder, path, given[resolve], size)
        return fd, 0 if fd >= 0 else ctypes.get_errno()

    root = os.open("/", _FOLDER)
    try:
        fd, number = call(root, b".", _BENEATH)
    finally:
        os.close(root)
    if fd >= 0:
        os.close(fd)
    return None if number in _NO_SUCH_CALL else call
