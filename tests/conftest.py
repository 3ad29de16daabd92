"""What every test may rely on: a home of its own, and one way to say that something is missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest
from hypothesis import settings

# What tests share holds assertions too; said here, before anybody imports it.
pytest.register_assert_rewrite("tests.backends.stores", "tests.context.nodes")

# Timing limits per example say more about the machine than about the code.
settings.register_profile("house", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=1_000)
settings.load_profile("house")

_ELSEWHERE = ("AGENTM_INSTALL_PREFIX", "MEMORY_VAULT_PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


def missing(reason: str) -> NoReturn:
    """A tool or server is not here: skip on a laptop, fail on CI, where a skipped proof is no proof."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing on CI: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty home directory, so that no test reads or writes the user's memory or settings."""
    directory = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("HOME", directory)
    monkeypatch.setenv("USERPROFILE", directory)
    for name in _ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    return directory
