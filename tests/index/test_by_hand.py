"""An edit that somebody makes with an editor, in the files of a memory: noticed, adopted, found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentm import (
    AccessError,
    ContextFS,
    ContextNode,
    DeviceLocalBackend,
    Locator,
    Memory,
    RequestContext,
    VaultBackend,
)
from tests.context.recording import Died, Recording
from tests.index.conftest import always_looking as always_looking, opened, tmp_path as tmp_path

pytestmark = pytest.mark.spec("CTX-02")

LOOMS = "accounts/acme/users/alice/memories/events/looms/content.md"


def uris(memory: Memory, query: str) -> list[str]:
    return [found.uri.rpartition("/")[2] for found in memory.recall(query, patience=30.0)]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as found:
        found.remember("Ada builds looms.", slug="looms", tags=["craft"])
        found.catch_up()
        yield found


def save(tmp_path: Path, text: str, *, seconds_ago: float = 60.0) -> None:
    """As an editor does."""
    (tmp_path / "store" / LOOMS).write_text(text)
    leave_alone(tmp_path, seconds_ago)


def leave_alone(tmp_path: Path, seconds: float = 60.0) -> None:
    """As if nobody had touched the files for so long."""
    then = time.time() - seconds
    for path in (tmp_path / "store" / LOOMS).parent.iterdir():
        os.utime(path, (then, then))


@pytest.mark.spec("IDX-05")
def test_an_edit_by_hand_becomes_a_version_of_its_owners_and_is_found(memory: Memory, tmp_path: Path) -> None:
    save(tmp_path, "Ada repairs clocks.")
    found = memory.recall("clocks", patience=30.0)
    assert ([one.version for one in found], found.complete, found.being_edited) == ([2], True, 0)
    assert uris(memory, "looms") == []
    before, after = memory.history("events/looms")
    assert (before.content, after.content) == ("Ada builds looms.", "Ada repairs clocks.")
    assert (after.actor, after.tags) == ("human:alice", ("craft",))
    assert not memory.catch_up().changed
    assert len(memory.history("events/looms")) == 2  # once


def test_what_may_be_half_saved_becomes_no_version_until_it_is_left_alone(memory: Memory, tmp_path: Path) -> None:
    save(tmp_path, "Ada repairs clo", seconds_ago=0.0)
    for _ in range(2):
        found = memory.recall("looms", patience=30.0)
        assert ([one.version for one in found], found.complete, found.being_edited) == ([1], False, 1)
    leave_alone(tmp_path)
    assert uris(memory, "clo") == ["looms"]
    assert len(memory.history("events/looms")) == 2


def test_what_a_writer_left_half_done_is_no_edit_by_hand(memory: Memory, tmp_path: Path) -> None:
    dying = Recording(DeviceLocalBackend(tmp_path / "store"))

    def die(verb: str, key: str) -> None:
        if any(key.endswith("/content.md") for _, key in dying.changes):
            raise Died

    dying.before = die
    node = ContextNode(memory.address("events/looms"), "Ada repairs clocks.")
    with pytest.raises(Died):
        ContextFS(dying).write_node(node, RequestContext("acme", user_id="alice"))
    assert "clocks" in (tmp_path / "store" / LOOMS).read_text()
    save(tmp_path, (tmp_path / "store" / LOOMS).read_text())  # a while ago
    assert uris(memory, "clocks") == []
    assert "clocks" in (tmp_path / "store" / LOOMS).read_text()  # for the repair
    assert [version.content for version in memory.history("events/looms")] == ["Ada builds looms."]


class Clock:
    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now


def test_what_a_sync_client_brings_has_to_stay_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("agentm.index.by_hand.time", clock)
    with opened(VaultBackend(tmp_path / "store", lock_root=tmp_path / "locks"), tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        memory.catch_up()
        for text in ("Ada repairs clo", "Ada repairs clocks."):  # with times of long ago, as elsewhere
            save(tmp_path, text)
            assert memory.recall("looms", patience=30.0).being_edited == 1
            clock.now += 1.0
            assert memory.recall("looms", patience=30.0).being_edited == 1
            assert len(memory.history("events/looms")) == 1
        clock.now += 1.0
        assert uris(memory, "clocks") == ["looms"]
        assert [version.content for version in memory.history("events/looms")] == [
            "Ada builds looms.",
            "Ada repairs clocks.",
        ]


def facts(memory: Memory) -> list[str]:
    """What is remembered of edits that were seen."""
    return [name for name in memory._index.catalogue.facts() if name.startswith("edited ")]


@pytest.mark.parametrize("step", [-3_600.0, 3_600.0])
def test_a_clock_that_is_set_is_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    with opened(VaultBackend(tmp_path / "store", lock_root=tmp_path / "locks"), tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        memory.catch_up()
        save(tmp_path, "Ada repairs clo")
        assert memory.recall("looms", patience=30.0).being_edited == 1
        now = time.time
        with monkeypatch.context() as set_clock:
            set_clock.setattr("time.time", lambda: now() + step)
            assert memory.recall("looms", patience=30.0).being_edited == 1
        assert len(memory.history("events/looms")) == 1


def test_after_a_restart_of_the_machine_the_rest_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("agentm.index.by_hand.time", clock)
    with opened(VaultBackend(tmp_path / "store", lock_root=tmp_path / "locks"), tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        memory.catch_up()
        save(tmp_path, "Ada repairs clocks.")
        for clock.now in (1_000_000.0, 10.0, 11.0):
            assert memory.recall("looms", patience=30.0).being_edited == 1
        clock.now = 12.0
        assert uris(memory, "clocks") == ["looms"]


def test_an_edit_that_was_none_is_not_remembered(tmp_path: Path) -> None:
    with opened(VaultBackend(tmp_path / "store", lock_root=tmp_path / "locks"), tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        memory.catch_up()
        save(tmp_path, "Ada repairs clocks.")  # the first file of a version that a sync client brings
        assert memory.recall("looms", patience=30.0).being_edited == 1
        assert len(facts(memory)) == 1
        save(tmp_path, "Ada builds looms.")
        assert memory.recall("looms", patience=30.0).complete
        assert facts(memory) == []


def test_an_edit_that_was_adopted_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("agentm.index.by_hand.time", clock)
    with opened(VaultBackend(tmp_path / "store", lock_root=tmp_path / "locks"), tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        memory.catch_up()
        save(tmp_path, "Ada repairs clocks.")
        memory.catch_up()
        clock.now += 2.0
        assert uris(memory, "clocks") == ["looms"]
        assert facts(memory) == []


class Unwritable(DeviceLocalBackend):
    """A folder that this user may only read."""

    def write(self, locator: Locator, content: str) -> Locator:
        raise AccessError("no")

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        raise AccessError("no")

    def write_many(self, *args: object, **options: object) -> None:
        raise AccessError("no")


def test_an_edit_that_may_not_be_adopted_costs_no_answer(memory: Memory, tmp_path: Path) -> None:
    save(tmp_path, "Ada repairs clocks.")
    with opened(Unwritable(tmp_path / "store"), tmp_path) as reader:
        assert uris(reader, "looms") == ["looms"]
        assert reader.catch_up().complete  # nothing that trying again would help
        assert [found.version for found in reader.recall("looms", patience=30.0)] == [1]


@pytest.mark.spec("IDX-01")
def test_an_index_that_is_built_anew_knows_what_was_edited_by_hand(memory: Memory, tmp_path: Path) -> None:
    save(tmp_path, "Ada repairs clocks.")
    memory.reindex()
    assert uris(memory, "clocks") == ["looms"]
    assert len(memory.history("events/looms")) == 2
