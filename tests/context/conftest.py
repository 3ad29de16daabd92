"""Each test that asks for a ``store`` (or an ``fs`` on it) runs once on every built-in store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentm.conformance.crashsim import scratch
from agentm.context.contextfs import ContextFS
from agentm.context.tenancy import RequestContext
from tests.backends.stores import PROTOCOLS, make_store
from tests.context.nodes import ALICE
from tests.context.recording import Recording


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In main memory where there is some: these tests are not about the disk, and flushing it is most of their time."""
    with scratch() as directory:
        yield Path(directory)


@pytest.fixture
def store(protocol: str, tmp_path: Path) -> Iterator[Recording]:
    inner: Any = make_store(protocol, str(tmp_path))
    yield Recording(inner)
    if hasattr(inner, "close"):
        inner.close()


@pytest.fixture
def fs(store: Recording) -> ContextFS:
    """Edits by hand count at once: no test waits for an editor."""
    return ContextFS(store, quiet=0.0)


@pytest.fixture
def alice() -> RequestContext:
    return ALICE
