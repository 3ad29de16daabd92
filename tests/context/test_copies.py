"""Folders that somebody copied, renamed or began by hand."""

from __future__ import annotations

import pytest

from agentm.context.decision import Action
from agentm.context.node import CONTENT
from agentm.context.repair import repair
from agentm.errors import InvalidUriError
from tests.context.nodes import ALICE, SHOP, VISIT, edge, memory, mended, place, settled, told

pytestmark = pytest.mark.spec("CTX-06")


def copy_node(store, source: str, target: str) -> None:
    """What ``cp -r`` does to a node directory."""

    def copy(place_, below) -> None:
        for child in store.list(place_):
            if store.info(child).is_dir:
                copy(child, below.child(child.name))
            else:
                store.write(below.child(child.name), store.read(child))

    copy(place(source), place(target))


def remove_node(store, uri: str) -> None:
    def remove(place_) -> None:
        for child in store.list(place_):
            remove(child)
        store.remove(place_)

    remove(place(uri))


COPY = "ctx://acme/users/alice/memories/events/visit copy"


@pytest.mark.spec("CTX-02")
def test_a_copied_folder_becomes_a_node_of_its_own(fs, store):
    fs.write_node(memory("shop", SHOP), ALICE)
    fs.write_node(memory("one", tags=("t",), abstract="said by a model", relations=(edge(),)), ALICE)
    copy_node(store, VISIT, COPY)
    assert not fs.exists(COPY, ALICE)
    assert list(fs.damaged_children("ctx://acme/users/alice/memories/events", ALICE)) == [COPY]
    with pytest.raises(InvalidUriError):
        fs.write_node(memory("over it", COPY), ALICE)
    assert mended(store) == {COPY: [Action.REHOME]}
    copy = fs.read_node(COPY, ALICE)
    assert (copy.uri, copy.content, copy.abstract, copy.tags) == (COPY, "one", "said by a model", ("t",))
    assert (copy.actor, copy.sources[-1]) == ("human:alice", f"copy-of:{VISIT}")
    assert [one.to_uri for one in fs.relations(COPY, ALICE, direction="out")] == [SHOP]
    assert {one.from_uri for one in fs.relations(SHOP, ALICE, direction="in")} == {VISIT, COPY}
    assert sorted(told(store, COPY)) == [("UPSERT_CONTEXT", 2), ("UPSERT_RELATION", 2)]
    assert sorted(told(store)) == [("UPSERT_CONTEXT", 1), ("UPSERT_RELATION", 1)]
    assert fs.read_node(VISIT, ALICE).version == 1
    settled(store)


@pytest.mark.spec("CTX-02", "CTX-11")
def test_a_folder_renamed_by_hand_is_a_move(fs, store):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("shop", SHOP, relations=(edge(SHOP, VISIT),)), ALICE)
    copy_node(store, VISIT, COPY)
    remove_node(store, VISIT)
    assert mended(store)[COPY][0] is Action.REHOME
    assert not fs.exists(VISIT, ALICE)
    assert fs.read_node(COPY, ALICE).content == "one"
    assert told(store, VISIT) == [("MOVE_CONTEXT", 2)]
    assert [one.to_uri for one in fs.relations(SHOP, ALICE, direction="out")] == [COPY]
    settled(store)


def test_a_copy_that_is_still_being_made_is_left_alone(fs, store):
    fs.write_node(memory("one"), ALICE)
    copy_node(store, VISIT, COPY)
    store.write(place(COPY, CONTENT), "on")
    assert mended(store, quiet=60.0) == {}
    assert not fs.exists(COPY, ALICE)


def test_a_text_that_is_just_being_typed_is_not_a_node_yet(fs, store):
    store.write(place(VISIT, CONTENT), "half a sen")
    assert mended(store, quiet=60.0) == {}
    assert not fs.exists(VISIT, ALICE)
    assert mended(store) == {VISIT: [Action.COMPLETE]}
    assert fs.read_node(VISIT, ALICE).content == "half a sen"


@pytest.mark.parametrize("name", ["vis:it", "con", "visit ", "v" * 201])
def test_a_folder_whose_name_can_be_no_address_is_reported(fs, store, name):
    fs.write_node(memory("one"), ALICE)
    for file in (CONTENT, ".meta.json"):
        store.write(place(VISIT).parent.child(name, file), store.read(place(VISIT, file)))
    report = repair(store, quiet=0.0)
    assert [(alert.uri, bool(alert.why)) for alert in report.alerts] == [(place(VISIT).parent.child(name).key, True)]
    assert store.read(place(VISIT).parent.child(name, CONTENT)) == "one"
