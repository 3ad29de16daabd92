from __future__ import annotations

import pytest

from tests.cli.nodes import Shell


@pytest.fixture
def shell(capsys, monkeypatch) -> Shell:
    """A shell in which alice types."""
    return Shell(capsys, monkeypatch)
