"""Files on a disk."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from agentm.backends import _durable_at
from agentm.backends._durable import Unsettled, sync_file, write_all
from agentm.backends._text import decode, encode
from agentm.errors import AlreadyExistsError, OutcomeUnknownError, StoreError, could_not, store_error
from agentm.files._way import NO_LINK, Anywhere, Beneath, CrossedError, IsDenied, Place, Way, entry, is_link, is_missing
from agentm.files.base import DirEntry, Entries, ThreadedStorage, check_mode, check_path

_NAME = "disk"
_OPEN = os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe must not hang us


class FsStorage(ThreadedStorage):
    """Files on this machine's disks, as the system shows them.

    A write is flushed before it is acknowledged, and replaces the file in one step where that is possible.
    """

    blocking: Disk

    def __init__(self) -> None:
        super().__init__(Disk(Anywhere()))

    def beneath(self, roots: Sequence[str], is_denied: IsDenied) -> ThreadedStorage:
        """The same files, but only what lies below some folders, and never through a link."""
        return ThreadedStorage(Disk(Beneath(roots, is_denied)))


class Disk:
    """The verbs of a storage as system calls, each relative to where a way leads."""

    def __init__(self, way: Way) -> None:
        self._way = way

    def read(self, path: str) -> str | None:
        with _said("read", path):
            try:
                with self._way.to(path) as place:
                    data = self._bytes(place)
            except OSError as error:
                if not is_missing(error):
                    raise
                return None
        return decode(data, backend=_NAME, locator=path)

    def exists(self, path: str) -> bool:
        return self._looked_at("exists", path) is not None

    def mtime(self, path: str) -> int | None:
        found = self._looked_at("mtime", path)
        return None if found is None else found.st_mtime_ns // 1_000_000

    def list(self, path: str) -> list[str]:
        return [entry.name for entry in self.list_entries(path)]

    def list_entries(self, path: str) -> Entries:
        with _said("list", path):
            try:
                with self._way.to(path) as place:
                    return self._entries(place)
            except OSError as error:
                if not is_missing(error) or (isinstance(error, NotADirectoryError) and self.exists(path)):
                    raise
                return []

    def write(self, path: str, content: str, *, mode: int | None = None) -> None:
        data = encode(content, backend=_NAME, verb="write", locator=path)
        check_mode(mode, path)
        with _said("write", path), self._way.to_entry(path) as place:
            found = self._standing(place)
            if found is None:
                self._replace(place, data, mode, found)
                return
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                # A folder that takes no new file may hold one that can be written.
                with suppress(PermissionError):
                    self._replace(place, data, mode, found)
                    return
            self._write_through(place, data, mode)

    def append(self, path: str, content: str) -> None:
        data = encode(content, backend=_NAME, verb="append", locator=path)
        with _said("append", path), self._way.to_entry(path) as place:
            is_new = self._standing(place) is None
            with self._open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
                _durable_at.append(fd, data)
            if is_new:
                _durable_at.flush_entry(place.folder, place.name)

    def write_atomic(self, path: str, content: str, *, mode: int | None = None) -> None:
        data = encode(content, backend=_NAME, verb="write", locator=path)
        check_mode(mode, path)
        with _said("write", path), self._way.to_entry(path) as place:
            self._replace(place, data, mode, self._standing(place))

    def mkdir(self, path: str) -> None:
        with _said("mkdir", path):
            self._way.make_folders(path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        with _said("remove", path), self._there(path) as (place, _):
            _durable_at.remove(place.folder, place.name, recursive=recursive)

    def rename(self, source: str, target: str) -> None:
        with (
            _said("rename", source, target),
            self._there(source) as (old, found),
            self._way.to_entry(target, whole=True) as new,
        ):
            if self._way.confined:
                self._refuse_link(found)
            self._refuse_other_spelling(new)
            _refuse_over(found, entry(new.folder, new.name), target)
            try:
                _durable_at.rename(old.folder, old.name, new.folder, new.name)
            except OSError as error:
                if error.errno == errno.EINVAL and stat.S_ISDIR(found.st_mode):
                    raise _into_itself(source) from error
                raise

    @contextmanager
    def _there(self, path: str) -> Iterator[tuple[Place, os.stat_result]]:
        """What is to be moved or removed, and what it is; FileNotFoundError if it is not there."""
        with ExitStack() as open_until_then:
            try:
                place = open_until_then.enter_context(self._way.to_entry(path, whole=True))
                found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            except OSError as error:
                if not is_missing(error):
                    raise
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
            if not self._way.is_spelt(place):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            yield place, found

    def _bytes(self, place: Place) -> bytes:
        with self._open(place, os.O_RDONLY) as fd:
            size = os.fstat(fd).st_size
            data = os.read(fd, size + 1)
            if len(data) == size:
                return data
            pieces = [data]
            while piece := os.read(fd, 1 << 20):  # it grows meanwhile, or does not know its size
                pieces.append(piece)
        return b"".join(pieces)

    @contextmanager
    def _open(self, place: Place, flags: int, mode: int = 0o666) -> Iterator[int]:
        """A regular file, open, that is really the one that was asked for."""
        if not self._way.is_spelt(place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place.name)
        try:
            fd = os.open(place.name, flags | _OPEN | (0 if place.follow else NO_LINK), mode, dir_fd=place.folder)
        except OSError as error:
            raise (CrossedError(errno.ELOOP, "a link") if self._is_link(error, place) else error) from None
        try:
            self._check(os.fstat(fd), place)
            yield fd
        finally:
            os.close(fd)

    def _is_link(self, error: OSError, place: Place) -> bool:
        return not place.follow and error.errno in (errno.ELOOP, errno.EMLINK)

    def _check(self, found: os.stat_result, place: Place) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.name)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is neither a file nor a folder", place.name)
        if self._way.confined and found.st_nlink > 1:
            raise CrossedError(errno.EXDEV, "another name")

    def _looked_at(self, verb: str, path: str) -> os.stat_result | None:
        with _said(verb, path):
            try:
                with self._way.to(path) as place:
                    found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=place.follow)
                    if self._way.confined:
                        self._refuse_link(found)
                    return found if self._way.is_spelt(place) else None
            except OSError as error:
                if not is_missing(error):
                    raise
                return None

    def _refuse_link(self, found: os.stat_result) -> None:
        if is_link(found):
            raise CrossedError(errno.ELOOP, "a link")

    def _entries(self, place: Place) -> Entries:
        if not self._way.is_spelt(place):
            return []
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
        try:
            fd = os.open(place.name, flags | (0 if place.follow else NO_LINK), dir_fd=place.folder)
        except NotADirectoryError:  # what Linux says of a link that is not to be followed, too
            if self._way.confined:
                self._refuse_link(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False))
            raise
        except OSError as error:
            raise (CrossedError(errno.ELOOP, "a link") if self._is_link(error, place) else error) from None
        try:
            with os.scandir(fd) as entries:
                found = [DirEntry(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        finally:
            os.close(fd)
        return sorted(found, key=lambda entry: entry.name)

    def _standing(self, place: Place) -> os.stat_result | None:
        """What is there now, if it may be written over; None if nothing is."""
        try:
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.name)
        if self._way.confined:
            self._refuse_link(found)
        self._refuse_other_spelling(place)
        return found

    def _refuse_other_spelling(self, place: Place) -> None:
        if not self._way.is_spelt(place):
            raise AlreadyExistsError(
                f"{could_not(_NAME, 'write', place.name)}: the disk takes the name for another one that is there; "
                "use that spelling, or choose another name.",
                code="name_taken",
                errno=errno.EEXIST,
                backend=_NAME,
                locator=place.name,
            )

    def _replace(self, place: Place, data: bytes, mode: int | None, found: os.stat_result | None) -> None:
        standing = found if found is not None and stat.S_ISREG(found.st_mode) else None
        if standing is not None and not _may_write(place):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place.name)
        _durable_at.replace(place.folder, place.name, data, mode, standing)

    def _write_through(self, place: Place, data: bytes, mode: int | None) -> None:
        """Into what is there: a link, a file with several names, or something that is no file."""
        with self._open(place, os.O_WRONLY | os.O_CREAT, _durable_at.new_file_mode(mode)) as fd:
            if mode is not None:
                os.fchmod(fd, mode)
            os.ftruncate(fd, 0)
            write_all(fd, data)
            sync_file(fd)


def _refuse_over(moved: os.stat_result, standing: os.stat_result | None, target: str) -> None:
    """A file goes over a file, a folder over nothing; onto itself is no move."""
    if standing is None or os.path.samestat(moved, standing):
        return
    for folder, number in ((moved, errno.EEXIST), (standing, errno.EISDIR)):
        if stat.S_ISDIR(folder.st_mode):
            raise OSError(number, os.strerror(number), target)


def _into_itself(path: str) -> StoreError:
    return StoreError(
        f"{could_not(_NAME, 'rename', path)}: a folder cannot move into itself; choose a target outside it.",
        code="into_itself",
        errno=errno.EINVAL,
        backend=_NAME,
        verb="rename",
        locator=path,
    )


def _may_write(place: Place) -> bool:
    """Whether the file itself lets us, which putting another in its place would not ask."""
    other = os.geteuid() != os.getuid()
    return os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=other)


@contextmanager
def _said(verb: str, path: str, *more: str) -> Iterator[None]:
    """Check the paths, and say what the system refused in one sentence."""
    for one in (path, *more):
        check_path(one)
    try:
        yield
    except (StoreError, CrossedError):
        raise
    except Unsettled as cause:
        raise OutcomeUnknownError(
            f"{could_not(_NAME, verb, path)} for certain: it is done, but the disk did not confirm it "
            f"({cause.strerror}); check the disk, then look again.",
            errno=cause.errno,
            backend=_NAME,
            verb=verb,
            locator=path,
        ) from cause
    except OSError as cause:
        raise store_error(cause, backend=_NAME, verb=verb, locator=path) from cause
