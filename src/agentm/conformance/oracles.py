"""Reading a store behind its backend's back, with plain system calls.

A backend that remembers what it was told would pass every check made through itself alone. An oracle returns
the raw bytes that the store holds for a place, or None. One that also has ``entries(backend, locator)`` names
everything that lies in a directory, the backend's own files included.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

from agentm.seam import Locator, StorageBackend, protocol_of

Oracle = Callable[[StorageBackend, Locator], bytes | None]


class FileOracle:
    """For a store whose keys are paths below ``backend.root``."""

    def __call__(self, backend: StorageBackend, locator: Locator) -> bytes | None:
        try:
            with open(_path(backend, locator), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def entries(self, backend: StorageBackend, locator: Locator) -> list[str]:
        return sorted(os.listdir(_path(backend, locator)))


def sqlite_oracle(backend: StorageBackend, locator: Locator) -> bytes | None:
    """For the store that keeps its tree in one SQLite file at ``backend.path``."""
    import sqlite3

    database: Any = backend
    with closing(sqlite3.connect(database.path, timeout=30)) as connection:
        row = connection.execute("SELECT content FROM entries WHERE key = ? AND NOT is_dir", (locator.key,)).fetchone()
    return None if row is None else bytes(row[0])


_BY_PROTOCOL: dict[str, Oracle] = {"device-local": FileOracle(), "sqlite": sqlite_oracle, "vault": FileOracle()}


def oracle_for(backend: StorageBackend) -> Oracle | None:
    """The kit's own oracle for a built-in backend; None for any other."""
    return _BY_PROTOCOL.get(protocol_of(backend))


def _path(backend: StorageBackend, locator: Locator) -> str:
    tree: Any = backend
    return os.path.join(tree.root, *locator.parts)
