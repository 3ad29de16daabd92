"""Libraries that an adapter is for: without one its tests are skipped, and say so; on CI they fail."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def library(name: str) -> Any:
    """The module, for the top of a test module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("CI") == "true":
            pytest.fail(f"missing on CI: {name} is not installed", pytrace=False)
        pytest.skip(f"{name} is not installed", allow_module_level=True)
