"""The benchmark of files runs, says what it found, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentm.conformance.crashsim import scratch

SCRIPT = str(Path(__file__).parents[2] / "bench" / "files.py")


@pytest.mark.slow
def test_it_measures_scopes_and_says_which_adapters_are_missing() -> None:
    with scratch() as directory:
        command = [sys.executable, SCRIPT, "--quick", "--json", "--dir", directory]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        assert os.listdir(directory) == []
    found = json.loads(done.stdout)
    for row in found["files"]:
        assert row["microseconds"]["FsStorage"] > 0
        assert row["ratios"]["scoped"] > 0
    measured = {row["name"].split()[0] for row in found["adapters"]}
    assert measured | set(found["missing"]) == {
        *("anthropic_memory", "openai_session", "deepagents", "langgraph", "fsspec"),
    }
