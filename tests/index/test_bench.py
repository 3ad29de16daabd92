"""The benchmark of finding runs on what it is given; how good the figures are, no test decides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "locomo.py"
SAMPLE = {
    "sample_id": "one",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bea",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "What did you do?"},
            {"speaker": "Bea", "dia_id": "D1:2", "text": "I adopted a puppy.", "blip_caption": "a small dog"},
        ],
        "session_2_date_time": "9:00 am on 11 May, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "The bakery closes at six."}],
    },
    "qa": [
        {"question": "Which pet does Bea have?", "category": 4, "evidence": ["D1:2"]},
        {"question": "Who is never mentioned?", "category": 5, "evidence": []},
    ],
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_the_benchmark_of_finding_has_its_rows(tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    data.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    done = run(str(data), "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout) if isinstance(row, dict)}
    assert {"grep", "full text, any word", "full text, stems", "agentm, nothing learned", "agentm"} <= rows.keys()
    assert rows["agentm"]["recall_at_10"] == 100
    assert rows["agentm"]["kinds"] == {"single-hop": 100}
    assert rows["agentm"]["index_bytes"] > 0


@pytest.mark.slow
def test_without_data_it_says_where_to_get_it(tmp_path: Path) -> None:
    done = run(str(tmp_path / "nothing.json"))
    assert done.returncode == 1
    assert "snap-research/locomo" in done.stderr
