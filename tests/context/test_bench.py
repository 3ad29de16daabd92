"""The benchmark of nodes runs and says what it found; how fast anything is, no test decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "nodes.py"


@pytest.mark.slow
def test_the_nodes_benchmark_has_a_row_for_each_goal_and_cleans_up(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--nodes", "300", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    rows = json.loads(done.stdout)
    assert [row["name"].split(",")[0] for row in rows] == [
        "write_node",
        "write_node",
        "write_nodes",
        "read_node",
        "repair scan",
        "its memory",
    ]
    for row in rows:
        assert row["ratio"] > 0
        assert all(figure > 0 for figure in row["microseconds"].values())
    assert os.listdir(tmp_path) == []
