"""A memory on each kind of store, with an index of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentm import DeviceLocalBackend, Memory, MemoryBackend, SqliteBackend, StorageBackend, VaultBackend
from agentm.conformance.crashsim import scratch
from agentm.index import account


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with scratch() as directory:
        yield Path(directory)


STORES: dict[str, Callable[[Path], StorageBackend]] = {
    "memory": lambda path: MemoryBackend(),
    "device-local": lambda path: DeviceLocalBackend(path / "store"),
    "vault": lambda path: VaultBackend(path / "vault", lock_root=path / "locks"),
    "sqlite": lambda path: SqliteBackend(path / "memory.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    return STORES[request.param](tmp_path)


@pytest.fixture
def memory(store: StorageBackend, tmp_path: Path) -> Iterator[Memory]:
    with opened(store, tmp_path) as found:
        yield found


def opened(store: StorageBackend, path: Path, user: str = "alice", account: str = "acme") -> Memory:
    return Memory.open(
        store,
        account=account,
        user=user,
        index_root=path / "index",
        install_prefix=path / "home",
        notes=account == "acme",
    )


@pytest.fixture(autouse=True)
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question looks at the whole store: the tests write faster than anybody else."""
    monkeypatch.setattr(account, "_RECENT", 0.0)
    monkeypatch.setattr(account, "_SHARE", 1e9)
