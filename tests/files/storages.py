"""The storages that are held to one behaviour, each with a folder of its own to work in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from agentm import (
    BackendStorage,
    DeviceLocalBackend,
    FsStorage,
    InMemoryStorage,
    MemoryBackend,
    ScopedStorage,
    ScopedStorageScope,
    SqliteBackend,
    Storage,
    VaultBackend,
)

T = TypeVar("T")

NAMES = ("fs", "in memory", "over memory", "over device-local", "over vault", "over sqlite")
WITH_SCOPE = (*NAMES, "scoped")


def made(name: str, tmp_path: Path) -> tuple[Storage, str]:
    """A storage, and the path of a folder in it."""
    if name == "fs":
        (tmp_path / "work").mkdir()
        return FsStorage(), str(tmp_path / "work")
    if name == "scoped":
        work = tmp_path / "work"
        work.mkdir()
        return ScopedStorage(FsStorage(), ScopedStorageScope([str(work)], [str(work)])), str(work)
    if name == "in memory":
        return InMemoryStorage(), "/work"
    (tmp_path / "vault").mkdir()
    backends = {
        "over memory": MemoryBackend,
        "over device-local": lambda: DeviceLocalBackend(tmp_path / "store"),
        "over vault": lambda: VaultBackend(tmp_path / "vault", lock_root=tmp_path / "locks"),
        "over sqlite": lambda: SqliteBackend(tmp_path / "store.db"),
    }
    return BackendStorage(backends[name]()), "/work"


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)
