"""What is purged leaves nothing of its words: neither in the store nor in the index."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentm import CallableEmbedder, Memory, Note, StorageBackend
from agentm.index import account, keeping
from agentm.index.kept import number, written
from tests.index.conftest import (
    STORES,
    always_looking as always_looking,
    memory as memory,
    opened,
    tmp_path as tmp_path,
)

pytestmark = pytest.mark.spec("IDX-01")

SECRET = "xyloquartz"
"""Like nothing else in any file, so that no compression hides it."""


def holding(root: Path) -> list[str]:
    """The files that hold the word, or the number that it is in what is kept for the ranking."""
    signs = (SECRET.encode(), written(number(SECRET)))
    paths = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
    return [path.name for path in paths if any(sign in path.read_bytes() for sign in signs)]


def segments_with_deleted(memory: Memory) -> int:
    directory = memory.status()["index"]["directory"]
    segments = json.loads(Path(directory, "fulltext", "meta.json").read_text())["segments"]
    return sum(one["deletes"] is not None for one in segments)


@pytest.fixture(params=[name for name in STORES if name != "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    """One that lies on the disk, as its index does."""
    return STORES[request.param](tmp_path)


@pytest.fixture
def told(memory: Memory, tmp_path: Path) -> Memory:
    """Among others, on the same day, and so found through each other's words."""
    memory.remember_many([Note(f"Visit {n} to the weaver.", slug=f"visit-{n}") for n in range(30)])
    memory.remember(f"The password of the mill is {SECRET}.", slug="mill")
    memory.catch_up()
    index = holding(tmp_path / "index")
    assert any(name.endswith(".store") for name in index), "what the test looks for could be seen"
    assert "catalogue.db" in index
    return memory


def test_a_purge_leaves_nothing(told: Memory, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    assert told.forget("events/mill", purge=True, progress=lambda *step: steps.append(step)).indexed == "yes"
    assert steps[-1][0] == steps[-1][1]
    assert holding(tmp_path) == []
    assert segments_with_deleted(told) == 0
    assert len(told.recall("weaver", limit=100, patience=30.0)) == 30


def test_what_was_forgotten_or_changed_before_is_purged_too(told: Memory, tmp_path: Path) -> None:
    told.remember("The password of the mill is another.", slug="mill")
    told.catch_up()
    told.forget("events/mill")
    told.catch_up()
    told.forget("events/mill", purge=True)
    assert holding(tmp_path) == []


def test_a_purge_while_somebody_else_writes_to_the_index_is_made_up_for(
    told: Memory, store: StorageBackend, tmp_path: Path
) -> None:
    with told._index._alone_on_this_machine(), opened(store, tmp_path) as other:
        assert other.forget("events/mill", purge=True).indexed == "pending"
    told.recall("weaver", patience=30.0)
    assert holding(tmp_path / "index") == []


def test_who_asks_meanwhile_waits_for_no_more_than_a_batch(
    told: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_SMALL_BATCH", 4)
    told.fs.delete_node(told.address("events/mill"), told.ctx, purge=True)
    first = told.recall("weaver", patience=0.0, limit=100)
    assert (len(first), first.complete) == (30, False)
    for _ in range(40):
        assert len(told.recall("weaver", patience=0.0, limit=100)) == 30
        if not holding(tmp_path / "index"):
            return
    pytest.fail("it goes on with every question")


def test_a_purge_is_made_once_however_often_what_is_left_of_it_is_met(told: Memory) -> None:
    told.forget("events/mill", purge=True)
    told.forget("events/visit-3")
    told.catch_up()
    deleted = segments_with_deleted(told)
    assert deleted > 0  # what is only forgotten may lie there
    told.catch_up()
    assert segments_with_deleted(told) == deleted


def test_an_index_that_was_set_aside_is_purged_with_it(told: Memory, tmp_path: Path) -> None:
    told.close()
    [home] = (tmp_path / "index").glob("*/acme")
    aside = home / account._SET_ASIDE
    aside.mkdir()
    (aside / "old").write_text(f"{SECRET}")
    told.forget("events/mill", purge=True)
    assert holding(tmp_path / "index") == []


def test_an_index_whose_building_was_cut_short_is_purged_with_it(
    told: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told.reindex(progress=stopped)
    [home] = (tmp_path / "index").glob("*/acme")
    assert holding(home / account._REBUILT), "what the test looks for could be seen"
    assert told.forget("events/mill", purge=True).indexed == "yes"
    assert holding(tmp_path) == []


def test_an_index_that_is_built_anew_may_meet_what_was_purged(told: Memory, tmp_path: Path) -> None:
    told.fs.delete_node(told.address("events/mill"), told.ctx, purge=True)
    assert told.reindex().complete
    assert holding(tmp_path / "index") == []
    assert len(told.recall("weaver", limit=100, patience=30.0)) == 30


def embedding(store: StorageBackend, path: Path) -> Memory:
    """A memory whose embedder knows the secret from everything else."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[TELLING, 1.0] if SECRET in text else [1.0, float(len(text))] for text in texts]

    return Memory.open(
        store,
        account="acme",
        user="alice",
        index_root=path / "index",
        install_prefix=path / "home",
        embedder=CallableEmbedder("toy/1", embed),
    )


TELLING = 7.0
VECTOR = struct.pack("<2f", *(part / math.hypot(TELLING, 1.0) for part in (TELLING, 1.0)))


def vectors_of_it(path: Path) -> list[str]:
    files = [Path(folder, name) for folder, _, names in os.walk(path / "index") for name in names]
    return [file.name for file in files if VECTOR in file.read_bytes()]


@pytest.mark.parametrize("at_hand", [True, False], ids=["with its embedder", "without"])
def test_the_vector_of_what_was_purged_goes_too(store: StorageBackend, tmp_path: Path, at_hand: bool) -> None:
    with embedding(store, tmp_path) as memory:
        memory.remember_many([Note(f"Visit {n} to the weaver.", slug=f"visit-{n}") for n in range(30)])
        memory.remember(f"The password of the mill is {SECRET}.", slug="mill")
        memory.catch_up()
        assert vectors_of_it(tmp_path), "what the test looks for could be seen"
        if at_hand:
            assert memory.forget("events/mill", purge=True).indexed == "yes"
    if not at_hand:
        with opened(store, tmp_path) as memory:
            assert memory.forget("events/mill", purge=True).indexed == "yes"
    assert vectors_of_it(tmp_path) == []
    with embedding(store, tmp_path) as memory:
        found = memory.recall("Visit 3 to the weaver.", limit=100, patience=30.0)
        assert len(found) == 30
        assert any("meaning" in one.why for one in found), "the others have theirs"


def test_a_purge_that_a_reader_is_in_the_way_of_is_not_called_done(told: Memory, tmp_path: Path) -> None:
    """What was in the catalogue lies in its log until nobody reads it any more."""
    [path] = (tmp_path / "index").glob("*/acme/current/catalogue.db")
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM records").fetchone() == (31,)
    told._index.catalogue._db.execute("PRAGMA busy_timeout = 10")
    assert told.forget("events/mill", purge=True).indexed == "pending"
    reader.close()
    told.catch_up()
    assert holding(tmp_path) == []
