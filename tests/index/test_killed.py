"""Whoever writes to the index is killed at random, again and again: it comes back to what the store says."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentm import DeviceLocalBackend, Memory
from tests.index.conftest import opened

pytestmark = pytest.mark.spec("IDX-01", "IDX-05")


def start(what: str, directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.index.killed_worker", what, str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def told(memory: Memory) -> list[int]:
    """The records that can be found, as their numbers."""
    import tantivy

    searcher = memory._index.fulltext.searcher()
    found = searcher.search(tantivy.Query.all_query(), max(searcher.num_docs, 1)).hits
    return sorted(int(record or 0) for record in searcher.fast_field_values("record", [at for _, at in found]))


def kill_for(seconds: float, directory: Path) -> int:
    """How often the index's writer was killed while another process changed memories."""
    writer = start("write", directory)
    chance, kills, until = random.Random(7), 0, time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            worker = start("index", directory)
            try:
                worker.wait(chance.random() * 0.3)
            except subprocess.TimeoutExpired:
                kills += 1
            end(worker)
    finally:
        end(writer)
    return kills


def check(seconds: float, directory: Path) -> int:
    kills = kill_for(seconds, directory)
    store = DeviceLocalBackend(directory / "store")
    with opened(store, directory) as memory, opened(store, directory / "fresh") as fresh:
        assert memory.catch_up().complete
        fresh.catch_up()
        followed = list(memory._index.catalogue.rows())
        assert followed == list(fresh._index.catalogue.rows())
        assert len(followed) > 20
        assert told(memory) == sorted(memory._index.catalogue.record_ids())
        assert memory.status()["index"]["untold"] == 0
    return kills


@pytest.mark.slow
def test_an_index_whose_writer_was_killed_equals_a_fresh_one(tmp_path: Path) -> None:
    assert check(4.0, tmp_path) >= 3


@pytest.mark.lab
def test_a_minute_of_kills(tmp_path: Path) -> None:
    kills = check(60.0, tmp_path)
    print(f"{kills} kills of the index's writer in a minute under writes: it equals a fresh one")
    assert kills > 30
