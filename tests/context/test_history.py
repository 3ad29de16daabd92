"""Versions: who wrote what, what changed, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.decision import Action
from agentm.errors import NodeNotFoundError
from tests.context.nodes import (
    ALICE,
    OTHER,
    PROFILE,
    SHOP,
    VISIT,
    contents,
    edge,
    memory,
    mended,
    place,
    set_meta,
    told,
)
from tests.context.recording import Died, dies_at

pytestmark = pytest.mark.spec("CTX-09")


def test_every_version_is_kept_whole_with_who_and_from_what(fs):
    fs.write_node(memory("one", tags=("a",)), ALICE)
    fs.write_node(memory("two"), replace(ALICE, actor="model/1.0", sources=("file:x", "chat:7")))
    first, second = fs.history(VISIT, ALICE)
    assert (first.version, first.content, first.actor, first.sources) == (1, "one", "human:alice", ("chat:42",))
    assert first.tags == ("a",)
    assert (second.version, second.content, second.actor) == (2, "two", "model/1.0")
    assert second.sources == ("file:x", "chat:7")
    assert fs.read_node(VISIT, ALICE, version=1) == first


def test_a_version_that_is_not_kept_is_not_found(fs):
    fs.write_node(memory("one"), ALICE)
    for number in (0, 2, -1):
        with pytest.raises(NodeNotFoundError, match=f"no version {number}"):
            fs.read_node(VISIT, ALICE, version=number)
        with pytest.raises(NodeNotFoundError):
            fs.diff(VISIT, ALICE, 1, number)


def test_a_diff_shows_what_changed_between_two_versions(fs):
    fs.write_node(memory("same\nold\n"), ALICE)
    fs.write_node(memory("same\nnew\n"), ALICE)
    assert fs.diff(VISIT, ALICE, 1, 2).splitlines() == [
        f"--- {VISIT} v1",
        f"+++ {VISIT} v2",
        "@@ -1,2 +1,2 @@",
        " same",
        "-old",
        "+new",
    ]
    assert fs.diff(VISIT, ALICE, 1, 1) == ""


def test_undo_is_a_new_version(fs, store):
    fs.write_node(memory("one", tags=("t",), abstract="first"), ALICE)
    fs.write_node(memory("two"), ALICE)
    receipt = fs.undo(VISIT, replace(ALICE, actor="human:undoer"))
    assert receipt.version == 3
    node = fs.read_node(VISIT, ALICE)
    assert (node.content, node.tags, node.abstract, node.actor) == ("one", ("t",), "first", "human:undoer")
    assert contents(fs) == ["one", "two", "one"]
    assert told(store)[-1] == ("UPSERT_CONTEXT", 3)


def test_undo_goes_back_to_any_version(fs):
    for text in ("one", "two", "three"):
        fs.write_node(memory(text), ALICE)
    fs.undo(VISIT, ALICE, to=1)
    assert fs.read_node(VISIT, ALICE).content == "one"
    for number in (4, 9, 0):
        with pytest.raises(NodeNotFoundError, match=f"version {number}"):
            fs.undo(VISIT, ALICE, to=number)


def test_the_first_version_cannot_be_undone(fs):
    fs.write_node(memory("one"), ALICE)
    with pytest.raises(NodeNotFoundError, match="older version"):
        fs.undo(VISIT, ALICE)
    assert fs.read_node(VISIT, ALICE).content == "one"


@pytest.mark.parametrize("end", ["delete_node", "archive_node"])
def test_an_end_can_be_undone(fs, store, end):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    assert getattr(fs, end)(VISIT, ALICE).version == 3
    assert fs.undo(VISIT, ALICE).version == 4
    assert fs.read_node(VISIT, ALICE).content == "two"
    assert told(store)[-2:] == [("DELETE_CONTEXT", 3), ("UPSERT_CONTEXT", 4)]
    assert mended(store) == {}


def test_what_was_purged_cannot_be_brought_back(fs, store):
    fs.write_node(memory("secret"), ALICE)
    fs.delete_node(VISIT, ALICE, purge=True)
    with pytest.raises(NodeNotFoundError):
        fs.undo(VISIT, ALICE)
    assert fs.history(VISIT, ALICE) == []


def test_numbers_are_never_given_out_twice(fs):
    fs.write_node(memory("one"), ALICE)
    fs.delete_node(VISIT, ALICE, purge=True)
    assert fs.write_node(memory("new"), ALICE).version == 3
    fs.archive_node(VISIT, ALICE)
    assert fs.write_node(memory("newer"), ALICE).version == 5


def test_undo_across_a_move_and_without_edges_to_what_is_gone(fs):
    for uri in (SHOP, PROFILE):
        fs.write_node(memory("x", uri), ALICE)
    fs.write_node(memory("one", relations=(edge(to_uri=SHOP), edge(to_uri=PROFILE))), ALICE)
    fs.write_node(memory("two"), ALICE)
    fs.delete_node(PROFILE, ALICE)
    fs.move_node(VISIT, OTHER, ALICE)
    fs.undo(OTHER, ALICE, to=1)
    node = fs.read_node(OTHER, ALICE)
    assert node.content == "one"
    assert [(one.from_uri, one.to_uri) for one in node.relations] == [(OTHER, SHOP)]
    assert [one.from_uri for one in fs.relations(SHOP, ALICE, direction="in")] == [OTHER]


def test_only_so_many_versions_are_kept(store):
    fs = ContextFS(store, keep_versions=3)
    for n in range(6):
        fs.write_node(memory(f"text {n}"), ALICE)
    assert contents(fs) == ["text 3", "text 4", "text 5"]
    assert fs.undo(VISIT, ALICE).version == 7


def test_one_kept_version_is_the_current_one(store):
    fs = ContextFS(store, keep_versions=1)
    for n in range(3):
        fs.write_node(memory(f"text {n}"), ALICE)
    assert contents(fs) == ["text 2"]


def test_versions_are_kept_for_so_many_days(store):
    ticks = iter(["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z", "2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z"])
    fs = ContextFS(store, keep_days=30, clock=lambda: next(ticks))
    for n in range(2):
        fs.write_node(memory(f"text {n}"), ALICE)
    assert contents(fs) == ["text 1"], "the current one always stays"
    for n in range(2, 4):
        fs.write_node(memory(f"text {n}"), ALICE)
    assert contents(fs) == ["text 2", "text 3"]


def test_a_write_that_died_is_no_version_whatever_the_clock_says(store):
    ticks = iter(["2025-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z"])
    fs = ContextFS(store, clock=lambda: next(ticks))
    fs.write_node(memory("one"), ALICE)
    store.before = dies_at(2)
    with pytest.raises(Died):
        fs.write_node(memory("never said"), ALICE)
    store.before = lambda verb, key: None
    assert contents(fs) == ["one"]
    fs.write_node(memory("two"), ALICE)
    fs.write_node(memory("three"), ALICE)
    assert contents(fs) == ["one", "two", "three"]


def test_a_damaged_version_is_left_out(fs, store):
    for text in ("one", "two", "three"):
        fs.write_node(memory(text), ALICE)
    second = store.list(place(VISIT, ".history"))[1]
    kept = json.loads(store.read(second))
    kept["parts"]["content.md"] = "tampered"
    store.write(second, json.dumps(kept))
    store.write(place(VISIT, ".history", "notes.json"), "somebody else's")
    store.write(place(VISIT, ".history", "00000009-zz.json"), "somebody else's")
    assert contents(fs) == ["one", "three"]
    assert mended(store) == {}


def test_a_damaged_meta_leaves_every_version_to_go_back_to(fs, store):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    store.write(place(VISIT, ".meta.json"), "{")
    assert mended(store) == {VISIT: [Action.BREAK]}
    assert store.read(place(VISIT, ".meta.json.damaged")) == "{"
    assert fs.undo(VISIT, ALICE).version == 4
    assert fs.read_node(VISIT, ALICE).content == "two"
    assert contents(fs) == ["one", "two", "two"]


def test_a_status_set_by_hand_hides_and_shows(fs, store):
    fs.write_node(memory("one"), ALICE)
    set_meta(store, status="ARCHIVED")
    assert not fs.exists(VISIT, ALICE)
    set_meta(store, status="ACTIVE")
    assert fs.read_node(VISIT, ALICE).content == "one"
