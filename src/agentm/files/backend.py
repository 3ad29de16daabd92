"""The file interface over a store of the seam: ``/a/b.md`` is the place ``a/b.md`` in it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from copy import copy
from typing import Self

from agentm.backends._refusals import refusal
from agentm.errors import InvalidLocatorError, InvalidPathError
from agentm.files._stores import Ground
from agentm.files._way import CrossedError, IsDenied
from agentm.files.base import DirEntry, Entries, ThreadedStorage, check_mode, check_path
from agentm.seam import Append, CompareAndSwap, Locator, Remove, Rename, StorageBackend, protocol_of, require, update
from agentm.seam.trees import entries, remove_tree

_MISSING = (FileNotFoundError, NotADirectoryError)


class BackendStorage(ThreadedStorage):
    """Any store as files. Folders need not be made, and permissions are the store's own: ``mode`` is not used."""

    blocking: BackendFiles

    def __init__(self, backend: StorageBackend) -> None:
        super().__init__(BackendFiles(backend))

    def beneath(self, roots: Sequence[str], is_denied: IsDenied) -> Self:
        """The same files, but none that only a link leads to."""
        kept = copy(self)
        kept.blocking = self.blocking.kept_by(is_denied)
        return kept


class BackendFiles:
    """The verbs of a storage in those of the seam."""

    def __init__(self, backend: StorageBackend, ground: Ground | None = None) -> None:
        self._backend = backend
        self._ground = ground

    def kept_by(self, is_denied: IsDenied) -> BackendFiles:
        return BackendFiles(self._backend, Ground(self._backend, is_denied))

    def read(self, path: str) -> str | None:
        try:
            return self._backend.read(self._place(path))
        except _MISSING:
            return None

    def exists(self, path: str) -> bool:
        return self._backend.exists(self._place(path))

    def mtime(self, path: str) -> int | None:
        try:
            return int(self._backend.info(self._place(path)).mtime * 1000)
        except _MISSING:
            return None

    def list(self, path: str) -> list[str]:
        return [found.name for found in self._backend.list(self._folder(path))]

    def list_entries(self, path: str) -> Entries:
        return [DirEntry(found.locator.name, found.is_dir) for found in entries(self._backend, self._folder(path))]

    def write(self, path: str, content: str, *, mode: int | None = None) -> None:
        check_mode(mode, path)
        self._backend.write(self._place(path), content)

    def append(self, path: str, content: str) -> None:
        place = self._place(path)
        if self._backend.capabilities.append:
            require(self._backend, Append).append(place, content)
        else:
            update(self._backend, place, lambda text: (text or "") + content)

    def write_atomic(self, path: str, content: str, *, mode: int | None = None) -> None:
        self.write(path, content, mode=mode)

    def mkdir(self, path: str) -> None:
        self._backend.mkdir(self._place(path))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        place = self._place(path, whole=True, itself=False)
        if recursive:
            remove_tree(self._backend, place)
        else:
            require(self._backend, Remove).remove(place)

    def rename(self, source: str, target: str) -> None:
        old, new = self._place(source, whole=True), self._place(target, whole=True)
        if old == new:
            self._backend.info(old)  # what is not there is said; what is, is where it shall be
            return
        moved, standing = self._is_dir(old), self._is_dir(new)
        if moved is False and standing is True:
            raise refusal(errno.EISDIR, backend=protocol_of(self._backend), verb="rename", locator=new)
        if self._backend.capabilities.rename:
            require(self._backend, Rename).rename(old, new, overwrite=moved is standing is False)
            return
        # No store moves a file in one step without saying so: it is there twice for a moment, never not at all.
        remove = require(self._backend, Remove).remove
        if self._backend.capabilities.compare_and_swap:
            now = require(self._backend, CompareAndSwap).read_versioned(old)
            self._backend.write(new, now.content)
            remove(old, if_version=now.version)  # what somebody wrote to it meanwhile is not in the copy
        else:
            self._backend.write(new, self._backend.read(old))
            remove(old)

    def _folder(self, path: str) -> Locator:
        """A place that is no file."""
        place = self._place(path)
        if self._is_dir(place) is False:
            raise refusal(errno.ENOTDIR, backend=protocol_of(self._backend), verb="list", locator=place)
        return place

    def _is_dir(self, place: Locator) -> bool | None:
        """Whether it is a folder; None if nothing is there."""
        try:
            return self._backend.info(place).is_dir
        except _MISSING:
            return None

    def _place(self, path: str, *, whole: bool = False, itself: bool = True) -> Locator:
        try:
            place = Locator(check_path(path))
        except InvalidLocatorError as cause:
            raise InvalidPathError(f"the path {path!r} leads nowhere: {cause.message}", locator=path) from cause
        if self._ground is not None and self._ground.strays(place.key, whole=whole, itself=itself):
            raise CrossedError(errno.EXDEV, "a link")
        return place
