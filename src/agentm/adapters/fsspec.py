"""A file system for fsspec: pandas, DuckDB and whoever else speaks it open ``agentm://notes/a.csv``.

Paths are the keys of the store. It holds text, so bytes that are not UTF-8 are refused. What is written is seen, whole
and durable, when the file is closed; in a transaction, when that ends well.
"""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from agentm.adapters._extras import missing
from agentm.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    IsDirectoryError,
    NotDirectoryError,
    NotFoundError,
    NotTextError,
)
from agentm.seam import (
    ABSENT,
    ROOT,
    Append,
    CompareAndSwap,
    Info,
    Locator,
    Remove,
    Rename,
    StorageBackend,
    protocol_of,
    require,
    update,
)
from agentm.seam.trees import empty, entries, remove_tree
from agentm.selection import select_backend

try:
    from fsspec.spec import AbstractFileSystem
    from fsspec.utils import stringify_path
except ImportError as cause:
    raise missing("fsspec", cause) from cause

PROTOCOL = "agentm"


class AgentmFileSystem(AbstractFileSystem):  # type: ignore[misc]  # the library says nothing of its types
    """The store as a file system: a backend, or for None the one that is configured."""

    protocol = PROTOCOL
    root_marker = ""
    cachable = False  # which store is configured may change, and making one costs nothing

    def __init__(self, backend: StorageBackend | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._backend = select_backend() if backend is None else backend

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text: str = stringify_path(path)
        return text.removeprefix(f"{PROTOCOL}://").strip("/")

    # Looking.

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return _entry(self._backend.info(self._place(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        place = self._place(path)
        there = self._backend.info(place)
        found = list(map(_entry, entries(self._backend, place) if there.is_dir else [there]))
        return found if detail else [one["name"] for one in found]

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self._backend.info(self._place(path)).mtime, UTC)

    # Reading and writing.

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **_: Any,
    ) -> io.BytesIO:
        place = self._place(path)
        if mode == "rb":
            return io.BytesIO(self._backend.read(place).encode())
        if mode not in _WAYS:
            raise ValueError(f"a file cannot be opened with {mode!r}; use one of rb, {', '.join(_WAYS)}.")
        self._check_writable(place, mode)
        return _Written(self._backend, place, mode, autocommit=autocommit)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._place(path1), self._place(path2)
        if self._backend.info(source).is_dir:
            self._backend.mkdir(target)
        else:
            self._backend.write(target, self._backend.read(source))

    # Folders, and what moves or goes.

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        place = self._place(path)
        if self._backend.exists(place):
            raise AlreadyExistsError(f"there is something at {place.key!r} already; choose another path.")
        if not create_parents and not self._backend.exists(place.parent):
            raise NotFoundError(f"there is no folder {place.parent.key!r}; make it first, or set create_parents.")
        self._backend.mkdir(place)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if exist_ok:
            self._backend.mkdir(self._place(path))
        else:
            self.mkdir(path)

    def rmdir(self, path: str) -> None:
        place = self._place(path)
        if not self._backend.info(place).is_dir:
            raise NotDirectoryError(f"{place.key!r} is a file; remove it with rm.")
        require(self._backend, Remove).remove(place)

    def rm_file(self, path: str) -> None:
        place = self._place(path)
        if self._backend.info(place).is_dir:
            raise IsDirectoryError(f"{place.key!r} is a folder; remove it with recursive=True.")
        require(self._backend, Remove).remove(place)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """The root stays: it is the store."""
        whole = recursive and maxdepth is None
        found = self.expand_path(path, recursive=recursive and not whole, maxdepth=maxdepth)
        for one in sorted(found, reverse=True):  # what lies in a folder goes before it
            if whole and one:
                remove_tree(self._backend, self._place(one))
            elif whole:
                empty(self._backend, ROOT)
            elif recursive and self.isdir(one):
                self.rmdir(one)
            else:
                self.rm_file(one)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """In one step where the store can and one thing is meant; else it is copied and then removed."""
        if self._is_one_step(path1, path2, recursive and maxdepth is None):
            require(self._backend, Rename).rename(self._place(path1), self._place(path2), overwrite=True)
        else:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)

    def _is_one_step(self, path1: Any, path2: Any, whole_folder: bool) -> bool:
        if not self._backend.capabilities.rename or not isinstance(path1, str) or not isinstance(path2, str):
            return False
        if path2.endswith("/") or self._place(path1) == self._place(path2) or self.isdir(path2):
            return False
        return self.isfile(path1) or (whole_folder and self.isdir(path1) and not self.exists(path2))

    # Places.

    def _place(self, path: str) -> Locator:
        return self._backend.resolve(self._strip_protocol(path))

    def _check_writable(self, place: Locator, mode: str) -> None:
        """Said when it is opened: who closes a file seldom listens."""
        with suppress(FileNotFoundError, NotADirectoryError):
            if self._backend.info(place).is_dir:
                raise IsDirectoryError(f"{place.key!r} is a folder; name a file inside it.")
            if mode == "xb":
                raise _taken(place)


class _Written(io.BytesIO):
    """What is written to a file, until it is closed and, in a transaction, committed."""

    def __init__(self, backend: StorageBackend, place: Locator, mode: str, *, autocommit: bool) -> None:
        super().__init__()
        self._backend = backend
        self._place = place
        self._mode = mode
        self._autocommit = autocommit
        self._data: bytes | None = None

    def close(self) -> None:
        if self.closed:
            return
        self._data = self.getvalue()
        super().close()
        if self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Put it into the store, once."""
        if not self.closed:
            self._autocommit = False
            self.close()
        data, self._data = self._data, None
        if data is not None:
            _WAYS[self._mode](self._backend, self._place, _text(self._backend, self._place, data))

    def discard(self) -> None:
        """Forget it."""
        self._autocommit = False
        self.close()
        self._data = None


def _overwrite(backend: StorageBackend, place: Locator, text: str) -> None:
    backend.write(place, text)


def _create(backend: StorageBackend, place: Locator, text: str) -> None:
    try:
        require(backend, CompareAndSwap).write_versioned(place, text, if_version=ABSENT)
    except ConcurrentModificationError:
        raise _taken(place) from None


def _append(backend: StorageBackend, place: Locator, text: str) -> None:
    if backend.capabilities.append:
        require(backend, Append).append(place, text)
    else:
        update(backend, place, lambda old: (old or "") + text)


_WAYS = {"wb": _overwrite, "ab": _append, "xb": _create}


def _text(backend: StorageBackend, place: Locator, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as cause:
        raise NotTextError(
            f"what was written to {place.key!r} is not UTF-8 (byte {cause.start}), and the store holds text; "
            "write text, such as CSV or JSON.",
            backend=protocol_of(backend),
            verb="write",
            locator=place.key,
        ) from cause


def _taken(place: Locator) -> AlreadyExistsError:
    return AlreadyExistsError(f"there is something at {place.key!r} already; open it with another mode.")


def _entry(info: Info) -> dict[str, Any]:
    kind = "directory" if info.is_dir else "file"
    return {"name": info.locator.key, "size": info.size, "type": kind, "mtime": info.mtime}
