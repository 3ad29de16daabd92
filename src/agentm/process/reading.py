"""The configured store, opened to be looked at and nothing else.

Opening a store to write makes its root, takes locks and clears up what a crash left behind. A process that only asks
must do none of that, so the built-in stores have readers here that open files for reading, and refuse the rest. A third
party's store is opened as it is, and only asked.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from agentm import selection
from agentm.config import StrPath
from agentm.errors import StoreError, store_error
from agentm.seam import Capabilities, Info, Locator, StorageBackend, registry
from agentm.small_files import read_small

_Rows = list[tuple[Any, ...]]


class Reader(StorageBackend):
    """A store whose two verbs that change something refuse."""

    protocol = "reader"

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def write(self, locator: Locator, content: str) -> Locator:
        raise self._failed(errno.EROFS, "write", locator)

    def mkdir(self, locator: Locator) -> Locator:
        raise self._failed(errno.EROFS, "mkdir", locator)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def _failed(self, number: int, verb: str, locator: Locator) -> StoreError:
        cause = OSError(number, os.strerror(number))
        return store_error(cause, backend=self.protocol, verb=verb, locator=locator.key)


class Nowhere(Reader):
    """A store with nothing in it, for when there is none."""

    def read(self, locator: Locator) -> str:
        raise self._failed(errno.ENOENT, "read", locator)

    def list(self, locator: Locator) -> list[Locator]:
        return []

    def exists(self, locator: Locator) -> bool:
        return not locator.key

    def info(self, locator: Locator) -> Info:
        raise self._failed(errno.ENOENT, "info", locator)


class Folder(Reader):
    """A directory of plain files."""

    def __init__(self, root: str, protocol: str, *, sync: bool) -> None:
        self.root = root
        self.protocol = protocol
        self._sync = sync

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sync=self._sync)

    def path(self, locator: Locator) -> str:
        return os.path.join(self.root, *locator.parts)

    def read(self, locator: Locator) -> str:
        return read_small(self.path(locator)).decode()

    def list(self, locator: Locator) -> list[Locator]:
        try:
            names = os.listdir(self.path(locator))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [locator.child(name) for name in sorted(names) if "\\" not in name]

    def exists(self, locator: Locator) -> bool:
        return os.path.exists(self.path(locator))

    def info(self, locator: Locator) -> Info:
        found = os.stat(self.path(locator))
        is_dir = stat.S_ISDIR(found.st_mode)
        return Info(locator, is_dir, 0 if is_dir else found.st_size, found.st_mtime)


class Database(Reader):
    """An SQLite store, read without its locks.

    Even a read-only connection may make files beside a database. An immutable one never does, but trusts that nobody
    writes meanwhile; so each query has a connection of its own, and counts only if the file was at rest before it and
    is the same one after it.
    """

    protocol = "sqlite"

    patience, _PAUSE = 1.0, 0.02
    """Seconds: for all that is asked of one reader, and between two tries."""
    _TICK = 20_000_000
    """Nanoseconds: two writes closer than this may leave the same time on a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._deadline = time.monotonic() + self.patience

    def read(self, locator: Locator) -> str:
        [(content,)] = self._entry("read", "content", locator)
        if content is None:
            raise self._failed(errno.EISDIR, "read", locator)
        return bytes(content).decode()

    def list(self, locator: Locator) -> list[Locator]:
        rows = self._rows("SELECT key FROM entries WHERE parent = ? ORDER BY key", locator.key)
        return [Locator(key) for (key,) in rows]

    def exists(self, locator: Locator) -> bool:
        return bool(self._rows("SELECT 1 FROM entries WHERE key = ?", locator.key))

    def info(self, locator: Locator) -> Info:
        [(is_dir, size, mtime)] = self._entry("info", "is_dir, ifnull(length(content), 0), mtime", locator)
        return Info(locator, bool(is_dir), size, mtime)

    def _entry(self, verb: str, columns: str, locator: Locator) -> _Rows:
        rows = self._rows(f"SELECT {columns} FROM entries WHERE key = ?", locator.key)
        if not rows:
            raise self._failed(errno.ENOENT, verb, locator)
        return rows

    def _rows(self, sql: str, key: str) -> _Rows:
        import sqlite3

        while True:
            before = self._at_rest()
            if before is not None:
                try:
                    rows = self._select(sql, key)
                except sqlite3.Error:
                    if self._at_rest() == before:
                        raise
                else:
                    if self._at_rest() == before:
                        return rows
            if time.monotonic() > self._deadline:
                raise self._failed(errno.EBUSY, "read", Locator(key))
            time.sleep(self._PAUSE)

    def _select(self, sql: str, key: str) -> _Rows:
        import sqlite3
        from urllib.parse import quote

        from agentm.backends.sqlite import LAYOUT

        address = f"file:{quote(self.path)}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as connection:
            [(application_id, number)] = connection.execute(
                "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
            ).fetchall()
            if (application_id, number) != (LAYOUT.application_id, LAYOUT.number):
                raise sqlite3.DatabaseError("not a store of this version")
            return connection.execute(sql, (key,)).fetchall()

    def _at_rest(self) -> tuple[int, ...] | None:
        """What tells that the file is still the same; None while somebody writes, or died while writing."""
        if any(os.path.exists(f"{self.path}{tail}") for tail in ("-journal", "-wal")):
            return None
        found = os.stat(self.path)
        if abs(time.time_ns() - found.st_mtime_ns) < self._TICK:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


@contextmanager
def reading(install_prefix: StrPath | None = None) -> Iterator[StorageBackend | None]:
    """The configured store, to look at; None when there is none, or it cannot be had."""
    store = _open(install_prefix)
    try:
        yield store
    finally:
        close = getattr(store, "close", None)
        if callable(close):
            with suppress(Exception):
                close()


def _open(prefix: StrPath | None) -> StorageBackend | None:
    try:
        protocol = selection.choose_protocol(install_prefix=prefix)
        backend = registry.get(protocol)
        if backend is None:
            return None
        if not backend.__module__.startswith("agentm.backends."):
            return selection.select_backend(install_prefix=prefix)
        return _built_in(protocol, selection.store_place(install_prefix=prefix))
    except (Exception, SystemExit):  # a stranger's store may fail in any way
        return None


def _built_in(protocol: str, place: str | None) -> StorageBackend | None:
    """A reader for one of our own stores; the one in main memory is empty in every new process."""
    if place is not None and protocol == "sqlite" and os.path.isfile(place):
        return Database(place)
    if place is not None and protocol in ("device-local", "vault") and os.path.isdir(place):
        return Folder(place, protocol, sync=protocol == "vault")
    return None
