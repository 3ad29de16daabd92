"""An index whose files are damaged, or stand where others should: an answer all the same, and a sound index."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from agentm import DeviceLocalBackend, IndexBusyError, Memory
from agentm.index import account
from tests.index import damaged_index
from tests.index.conftest import opened, tmp_path as tmp_path
from tests.index.test_account import index_directory, uris

pytestmark = pytest.mark.spec("IDX-01")
CASES = 150


@pytest.fixture
def store(tmp_path: Path) -> DeviceLocalBackend:
    made = DeviceLocalBackend(tmp_path / "store")
    with opened(made, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms", wait=True)
        assert uris(memory, "looms") == ["looms"]
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_damage_anywhere_costs_no_answer_and_is_mended(tmp_path: Path, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", damaged_index.__name__, str(tmp_path), str(seed), str(CASES)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    lines = done.stdout.splitlines()
    wrong = [f"{case} → {said}" for case, said in pairwise(lines) if said.startswith("WRONG")]
    assert wrong == []
    assert (done.returncode, len(lines)) == (0, CASES), f"{lines[-1:]} {done.stderr[-2_000:]}"
    assert "panicked" not in done.stderr  # which tantivy prints before anybody can prevent it


def harmed(path: Path, kind: str, at: int, filling: bytes) -> None:
    for chosen in (index_directory(path) / "current/fulltext").glob(f"*.{kind}"):
        data = bytearray(chosen.read_bytes())
        data[at : at + len(filling)] = filling
        chosen.write_bytes(data)


USES: dict[str, Callable[[Memory], object]] = {
    "recall": lambda memory: memory.recall("looms", patience=30.0),
    "catch_up": lambda memory: memory.catch_up(),
    "reindex": lambda memory: memory.reindex(),
    "purge": lambda memory: memory.forget("events/other", purge=True),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("kind", "at", "filling"), [("fast", 110, b"\xff" * 4), ("store", 0, bytes(64))], ids=["fast", "store"]
)
def test_damage_that_tantivy_does_not_notice_is_noticed_by_whatever_is_done(
    store: DeviceLocalBackend, tmp_path: Path, use: str, kind: str, at: int, filling: bytes
) -> None:
    with opened(store, tmp_path) as memory:
        memory.remember("Bea sings.", slug="other", wait=True)
        memory.catch_up()
    harmed(tmp_path, kind, at, filling)
    with opened(store, tmp_path) as memory:
        USES[use](memory)
        found = memory.recall("looms", patience=30.0)
        assert (found.entries[0].uri, found.complete) == (memory.address("events/looms"), True)


def test_damage_while_another_writes_is_left_to_it(store: DeviceLocalBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as rival:
        rival.catch_up()
        harmed(tmp_path, "store", 0, bytes(64))
        with rival._index._alone_on_this_machine(), opened(store, tmp_path) as memory:
            assert uris(memory, "looms") == ["looms"]
    with opened(store, tmp_path) as memory:
        assert uris(memory, "looms") == ["looms"]


@pytest.mark.parametrize(
    "part", ["current", "lock", "current/fulltext", "current/catalogue.db", "set-aside", "rebuilt"]
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_in_the_way_inside_of_an_index_is_set_aside(
    store: DeviceLocalBackend, tmp_path: Path, part: str, kind: str
) -> None:
    place = index_directory(tmp_path) / part
    if place.exists():
        os.rename(place, tmp_path / "before")
    if kind == "file":
        place.write_text("in the way")
    else:
        (place / "in the way").mkdir(parents=True)
    with opened(store, tmp_path) as memory:
        assert uris(memory, "looms") == ["looms"]
        memory.reindex()
        assert uris(memory, "looms") == ["looms"]
        assert memory.status()["index"]["lasting"]


def test_who_builds_an_index_anew_waits_for_who_writes_to_it(store: DeviceLocalBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as rival:
        told: list[tuple[int, int]] = []
        waits, turn = threading.Event(), rival._index._alone_on_this_machine()

        def progress(done: int, total: int) -> None:
            told.append((done, total))
            waits.set()

        turn.__enter__()
        building = threading.Thread(target=lambda: memory.reindex(progress=progress))
        building.start()
        assert waits.wait(30)
        turn.__exit__(None, None, None)
        building.join(30)
        assert (told[0], told[-1]) == ((0, 0), (1, 1))
        assert uris(memory, "looms") == ["looms"]


def test_who_waits_too_long_is_told_for_whom(
    store: DeviceLocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "_BUILDING", 0.0)
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as rival, rival._index._writing():
        with pytest.raises(IndexBusyError) as refused:
            memory.reindex()
        assert (refused.value.code, str(os.getpid()) in str(refused.value)) == ("index_busy", True)


def test_two_that_build_an_index_anew_at_once_both_do(store: DeviceLocalBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as one, opened(store, tmp_path) as other:
        changed: list[int] = []
        both = [threading.Thread(target=lambda m=m: changed.append(m.reindex().changed)) for m in (one, other)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
        assert changed == [1, 1]
        assert uris(one, "looms") == uris(other, "looms") == ["looms"]


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE sources SET uri = replace(uri, 'looms', 'lxxms')",
        "UPDATE records SET uri = replace(uri, 'looms', 'lxxms')",
        "UPDATE sources SET space = 'users/alixe'",
        "UPDATE sources SET tags = '['",
        "UPDATE sources SET tags = NULL",
        "UPDATE sources SET moment = CAST(x'ff' AS TEXT)",
        "DELETE FROM records",
        "DROP TABLE sources",
    ],
)
def test_a_catalogue_that_does_not_fit_the_rest_is_built_anew(
    store: DeviceLocalBackend, tmp_path: Path, harm: str
) -> None:
    with closing(sqlite3.connect(index_directory(tmp_path) / "current/catalogue.db")) as catalogue:
        catalogue.execute(harm)
        catalogue.commit()
    for _ in range(2):
        with opened(store, tmp_path) as memory:
            found = memory.recall("looms", patience=30.0)
            assert ([one.uri for one in found], found.complete) == ([memory.address("events/looms")], True)
