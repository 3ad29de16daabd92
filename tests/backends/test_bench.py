"""The benchmark of the seam runs and says what it found; how fast anything is, no test decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "seam.py"


@pytest.mark.slow
def test_the_seams_benchmark_covers_every_verb_and_store_and_cleans_up(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    rows = json.loads(done.stdout)["rows"]
    assert {row["name"].split(",")[0] for row in rows} == {"write", "read", "list", "exists"}
    for row in rows:
        assert set(row["microseconds"]) == {"os calls", "device-local", "vault", "sqlite", "memory"}
        assert all(figure > 0 for figure in (*row["microseconds"].values(), *row["speed"].values()))
        assert row["speed"]["os calls"] == 1
    assert os.listdir(tmp_path) == []
