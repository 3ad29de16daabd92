"""Memories to import into, and folders to import from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentm import ContextFS, MemoryBackend
from agentm.conformance.crashsim import scratch
from tests.backends.stores import PROTOCOLS, make_store
from tests.importing.sources import Importer


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In main memory where there is some: these tests are not about the disk, and flushing it is most of their time."""
    with scratch() as directory:
        yield Path(directory).resolve()


@pytest.fixture
def into(tmp_path: Path) -> Importer:
    """Alice's memory, and a way to import into it."""
    return Importer(ContextFS(MemoryBackend(), quiet=0.0), tmp_path / "source")


@pytest.fixture(params=PROTOCOLS)
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Importer]:
    """The same on every built-in store."""
    store: Any = make_store(request.param, str(tmp_path))
    yield Importer(ContextFS(store, quiet=0.0), tmp_path / "source")
    if hasattr(store, "close"):
        store.close()
