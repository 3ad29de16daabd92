"""A file system for fsspec: pandas, DuckDB and whoever else speaks it open ``agentm://notes/a.csv``.

Paths are the keys of the store. It holds text, so bytes that are not UTF-8 are refused. What is written is seen, whole
and durable, when the file is closed; in a transaction, when that ends well. What an error cut short is not kept.
"""

from __future__ import annotations

import io
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple

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
    WriteMany,
    protocol_of,
    require,
    update,
)
from agentm.seam.trees import empty, entries, remove_tree
from agentm.selection import select_backend

try:
    from fsspec.spec import AbstractFileSystem
    from fsspec.transaction import Transaction
    from fsspec.utils import stringify_path
except ImportError as cause:
    raise missing("fsspec", cause) from cause

PROTOCOL = "agentm"


class _Together(Transaction):  # type: ignore[misc]  # the library says nothing of its types
    """The files of a transaction: each is looked at before the first is put in place."""

    def complete(self, commit: bool = True) -> None:
        try:
            if commit:
                backend: StorageBackend = self.fs._backend
                _land(backend, [change for file in self.files for change in file.taken()])
        finally:
            super().complete(commit=False)  # nothing is left to commit, and the transaction is to end in any case


class AgentmFileSystem(AbstractFileSystem):  # type: ignore[misc]  # the library says nothing of its types
    """The store as a file system: a backend, or for None the one that is configured."""

    protocol = PROTOCOL
    root_marker = ""
    transaction_type = _Together
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

    def open(self, path: str, mode: str = "rb", *args: Any, **options: Any) -> Any:
        if "b" in mode:
            return super().open(path, mode, *args, **options)
        text: dict[str, Any] = {"encoding": "utf-8"}  # as the store has it, whatever the locale says
        for name in {"encoding", "errors", "newline"} & options.keys():
            text[name] = options.pop(name)
        file = super().open(path, f"{mode.replace('t', '')}b", *args, **options)
        return _AsText(file, **text)

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
            return _Read(self, place, self._backend.read(place).encode())
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


class _Read(io.BytesIO):
    """What a file held when it was opened, with what fsspec asks an open file for."""

    mode = "rb"

    def __init__(self, fs: AgentmFileSystem, place: Locator, data: bytes) -> None:
        super().__init__(data)
        self.path = place.key
        self.size = len(data)
        self._fs = fs

    @property
    def details(self) -> dict[str, Any]:
        return self._fs.info(self.path)


class _Change(NamedTuple):
    """A text for a file, and how it gets there."""

    place: Locator
    mode: str
    text: str


class _Written(io.BytesIO):
    """What is written to a file, until it is closed and, in a transaction, committed."""

    def __init__(self, backend: StorageBackend, place: Locator, mode: str, *, autocommit: bool) -> None:
        super().__init__()
        self._backend = backend
        self._place = place
        self._mode = mode
        self._autocommit = autocommit
        self._is_wanted = True
        self._data: bytes | None = None

    def close(self) -> None:
        if self.closed:
            return
        self._data = self.getvalue() if self._is_wanted else None
        super().close()
        if self._autocommit:
            self.commit()

    def taken(self) -> list[_Change]:
        """What is to be put into the store: nothing if it was already taken, or given up."""
        self._autocommit = False
        self.close()
        data, self._data = self._data, None
        return [] if data is None else [_Change(self._place, self._mode, _text(self._backend, self._place, data))]

    def commit(self) -> None:
        """Put it into the store, once."""
        _land(self._backend, self.taken())

    def discard(self) -> None:
        """Forget it."""
        self.give_up()
        self.close()
        self._data = None

    def give_up(self) -> None:
        """Keep nothing of it when it is closed."""
        self._is_wanted = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.give_up()
        super().__exit__(kind, error, trace)

    def __del__(self) -> None:
        if not self.closed:
            self._dealloc_warn(self)
            self.close()

    def _dealloc_warn(self, source: object) -> None:
        """Python's own text files call this before they close a file that nobody closed."""
        self.give_up()
        warnings.warn(
            f"{self._place.key!r} was not closed, so nothing of it is kept; open it in a with statement.",
            ResourceWarning,
            stacklevel=2,
            source=source,
        )


class _AsText(io.TextIOWrapper):
    """A file of text that tells the file of bytes below when an error cuts it short."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and isinstance(self.buffer, _Written):
            self.buffer.give_up()
        super().__exit__(kind, error, trace)


def _land(backend: StorageBackend, changes: list[_Change]) -> None:
    """Put texts in place: all at once where the store can and nothing else is meant, else one after the other."""
    if len(changes) > 1 and backend.capabilities.write_many and {change.mode for change in changes} == {"wb"}:
        require(backend, WriteMany).write_many([(change.place, change.text) for change in changes])
        return
    for place, mode, text in changes:
        _WAYS[mode](backend, place, text)


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
