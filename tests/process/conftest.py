from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agentm.conformance.crashsim import scratch
from tests.process.places import STORES, Place, build


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty home in main memory where there is some: these tests are not about the disk."""
    with scratch() as directory:
        monkeypatch.setenv("HOME", directory)
        monkeypatch.setenv("USERPROFILE", directory)
        for name in [name for name in os.environ if name.startswith("HARNESS_")]:
            monkeypatch.delenv(name)
        yield directory


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, home: str) -> Place:
    """A home with a memory in it, once for every store."""
    return build(home, request.param)


@pytest.fixture
def vault(home: str) -> Place:
    return build(home, "vault")
