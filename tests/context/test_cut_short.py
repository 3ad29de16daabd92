"""Ends and moves that were cut short by a death or an error, and what the repair says about itself."""

from __future__ import annotations

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.decision import Action
from agentm.context.node import CONTENT
from agentm.context.outbox import OutboxWorker, drop, events_of
from agentm.context.repair import repair
from agentm.context.uri import parse_uri
from agentm.errors import NodeConflictError, NodeNotFoundError
from tests.backends.stores import make_store
from tests.context.nodes import ALICE, OTHER, VISIT, memory, mended, place, settled, texts_below, told
from tests.context.recording import Died, Recording, dies_at

pytestmark = pytest.mark.spec("CTX-06")


@pytest.mark.spec("CTX-08", "CTX-09")
def test_a_purge_cut_short_at_any_change_is_finished(tmp_path):
    for number in range(1, 30):
        store = Recording(make_store("memory", str(tmp_path)))
        fs = ContextFS(store)
        fs.write_node(memory("a secret"), ALICE)
        fs.write_node(memory("a second secret"), ALICE)
        store.before = dies_at(number)
        try:
            fs.delete_node(VISIT, ALICE, purge=True)
        except Died:
            store.before = lambda verb, key: None
            mended(store)
            if fs.exists(VISIT, ALICE):
                continue  # it did not happen
        store.before = lambda verb, key: None
        assert [text for text in texts_below(store, place()) if "secret" in text] == [], f"after change {number}"
        assert fs.history(VISIT, ALICE) == []
        settled(store)


@pytest.mark.parametrize("end", ["delete_node", "archive_node"])
def test_what_was_put_away_can_still_be_purged(fs, store, end):
    fs.write_node(memory("a secret"), ALICE)
    ended = getattr(fs, end)(VISIT, ALICE)
    with pytest.raises(NodeConflictError):
        fs.delete_node(VISIT, ALICE, purge=True, if_version=1)
    assert fs.delete_node(VISIT, ALICE, purge=True, if_version=ended.version).version == ended.version + 1
    assert fs.history(VISIT, ALICE) == []
    with pytest.raises(NodeNotFoundError):
        fs.undo(VISIT, ALICE)
    settled(store)


def test_a_run_says_how_far_it_is(fs, store):
    fs.write_nodes([memory("one", f"ctx://acme/users/alice/memories/cases/{n}") for n in range(5)], ALICE)
    seen: list[int] = []
    repair(store, progress=lambda report: seen.append(report.scanned))
    assert seen == [1, 2, 3, 4, 5]


def test_an_event_that_cannot_be_understood_is_put_aside_and_told_anew(fs, store):
    fs.write_node(memory("one"), ALICE)
    (at,) = store.list(place(VISIT, ".outbox"))
    store.write(at, "{ spoilt")
    (found,) = events_of(store, parse_uri(VISIT))
    assert (found.damaged, f"{found.event.event_id}.json") == (True, at.name)
    heard: list[str] = []

    class Index:
        def apply(self, event) -> None:
            heard.append(event.event_type)

    assert OutboxWorker(store, Index()).run_once().dead == 1
    assert mended(store) == {VISIT: [Action.TELL]}
    OutboxWorker(store, Index()).run_once()
    assert heard == ["UPSERT_CONTEXT"]
    (found,) = events_of(store, parse_uri(VISIT))
    assert (found.damaged, found.dead) == (True, True)
    drop(store, parse_uri(VISIT), found.event.event_id)
    assert list(events_of(store, parse_uri(VISIT))) == []


def test_a_move_that_fails_before_it_happened_leaves_nothing_at_its_target(tmp_path):
    class Full(Exception):
        pass

    for number in range(1, 40):
        store = Recording(make_store("memory", str(tmp_path)))
        fs = ContextFS(store)
        fs.write_node(memory("one"), ALICE)
        left = [number]

        def fails_once(verb: str, key: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Full

        store.before = fails_once
        try:
            fs.move_node(VISIT, OTHER, ALICE)
        except Full:
            shown = [uri for uri in (VISIT, OTHER) if fs.exists(uri, ALICE)]
            assert len(shown) == 1, f"change {number}: {shown}"
            if shown == [VISIT]:
                assert not store.exists(place(OTHER, CONTENT)), f"change {number}"
                assert told(store) == [("UPSERT_CONTEXT", 1)]
        else:
            assert number > 10
            return
