"""Each test that asks for a ``backend`` runs once on every built-in store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.stores import PROTOCOLS, make_store


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backend(protocol: str, tmp_path: Path) -> Iterator[Any]:
    store = make_store(protocol, str(tmp_path))
    yield store
    if hasattr(store, "close"):
        store.close()
