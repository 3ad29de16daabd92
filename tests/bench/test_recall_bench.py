"""The benchmarks of recall run and say what they found; how fast anything is, no test decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentm.conformance.crashsim import scratch
from bench import recall
from bench.peers import PEERS

BENCH = Path(__file__).parents[2] / "bench"


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(BENCH / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout


@pytest.mark.slow
def test_the_recall_benchmark_measures_agentm_and_says_which_peers_are_missing() -> None:
    with scratch() as directory:
        found = json.loads(run("recall.py", "--quick", "--json", "--sizes", "60", "--dir", directory))
        assert os.listdir(directory) == []
    [row] = found["sizes"]
    assert row["entries"] == 60
    assert all(figure > 0 for figure in row["figures"].values())
    for name in ("warm p50, ms", "warm p99, ms", "cold ÷ python", "index build, s", "unchanged ÷ walk", "writes/s"):
        assert name in row["figures"]
    own, *peers = found["peers"]
    assert own["name"] == "agentm"
    assert own["figures"]["R@10"] > 0.9
    assert [peer["name"] for peer in peers] == list(PEERS)
    for peer in peers:
        assert "R@10" in peer["figures"] or "not importable" in peer["note"]
    assert "R@10" in peers[-1]["figures"], "grep is everywhere"
    assert found["goals"][0]["name"] == "warm recall, 60"


@pytest.mark.slow
def test_a_store_that_is_made_up_while_it_is_read_can_be_indexed_and_searched(tmp_path: Path) -> None:
    place = recall.Place(str(tmp_path), 40, made_up=True)
    corpus = recall.Corpus()
    recall.build(place, again=False)
    asked = recall.targets(40, 10)
    answer: dict[str, Any] = recall.search(place, [corpus.query(number) for number in asked], 1)
    assert recall.hits(asked, answer["found"]) == 1
    assert len(answer["times"]["recall"]) == len(answer["times"]["query"]) == len(asked)
    assert list(recall.unchanged(place, 1)["times"]) == ["kept up"]


def test_texts_and_queries_are_the_same_every_time() -> None:
    one, other = recall.Corpus(), recall.Corpus()
    for number in (0, 1, 70_000):
        text = one.text(number)
        assert text == other.text(number)
        assert recall.FEWEST <= len(text.split()) <= recall.MOST
        query = one.query(number).split()
        assert 3 <= len(query) <= 5
        assert set(query) <= set(text.split())


def test_the_peers_alone_say_how_they_are_used() -> None:
    assert "usage" in run("peers.py")


@pytest.mark.slow
def test_the_notes_benchmark_has_every_kind_for_every_contender_and_cleans_up() -> None:
    with scratch() as directory:
        found = json.loads(run("notes.py", "--json", "--dir", directory))
        assert os.listdir(directory) == []
    results = {result["name"]: result for result in found["results"]}
    assert list(results) == ["agentm", "grep", "FTS5"]
    for result in results.values():
        assert {"English", "Thai", "long", "alike", "dates", "all"} <= set(result["first"])
        assert all(result["first"][kind] <= result["among"][kind] <= 1 for kind in result["first"])
    for other in ("grep", "FTS5"):
        assert results["agentm"]["first"]["all"] > results[other]["first"]["all"]
