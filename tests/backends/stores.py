"""The four built-in stores, and what every test of their common behaviour says about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentm import AgentmError, DeviceLocalBackend, Locator, MemoryBackend, SqliteBackend, StorageBackend, VaultBackend
from agentm.seam import ROOT, protocol_of

PROTOCOLS = ("memory", "device-local", "vault", "sqlite")
PLAIN_FILES = ("device-local", "vault")


def make_store(protocol: str, directory: str) -> Any:
    """A new, empty store; everything it keeps is below the directory."""
    if protocol == "memory":
        return MemoryBackend()
    if protocol == "device-local":
        return DeviceLocalBackend(os.path.join(directory, "memory"))
    if protocol == "vault":
        return VaultBackend(os.path.join(directory, "vault"), lock_root=os.path.join(directory, "locks"))
    return SqliteBackend(os.path.join(directory, "memory.db"))


def at(key: str) -> Locator:
    return Locator(key)


def tree(backend: StorageBackend, below: Locator = ROOT) -> dict[str, str | None]:
    """Every key of a store with its text, None for a directory, as the seven verbs show it."""
    found: dict[str, str | None] = {}
    for child in backend.list(below):
        if backend.info(child).is_dir:
            found[child.key] = None
            found |= tree(backend, child)
        else:
            found[child.key] = backend.read(child)
    return found


@contextmanager
def refused(backend: StorageBackend, builtin: type[BaseException], code: str, verb: str, key: str) -> Iterator[Any]:
    """The block fails with this error, the error says everything it must, and the store is as it was."""
    before = tree(backend)
    with pytest.raises(AgentmError) as raised:
        yield raised
    error = raised.value
    assert isinstance(error, builtin), f"{type(error).__name__} is no {builtin.__name__}"
    assert (error.code, error.backend, error.verb, error.locator) == (code, protocol_of(backend), verb, key)
    text = str(error)
    assert text.endswith("."), text
    assert len(text.splitlines()) == 1, text
    assert protocol_of(backend) in text, text
    assert repr(key) in text, text
    assert tree(backend) == before, "a refusal changed something"
