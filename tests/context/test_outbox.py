"""Telling the index: claims, pauses, what cannot be told, and telling twice."""

from __future__ import annotations

import pytest

from agentm.context import outbox
from agentm.context.events import MAX_RETRY, OutboxEvent
from agentm.context.outbox import CLAIM_SECONDS, OutboxWorker, applied_version, events, run
from agentm.context.uri import parse_uri
from agentm.errors import NodeNotFoundError
from tests.context.nodes import ALICE, OTHER, SHOP, VISIT, edge, memory, mended, place
from tests.context.recording import Died

pytestmark = pytest.mark.spec("CTX-07")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Index:
    """Knows what it was told; effects happen once for each event, as a handler has to see to it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int]] = []
        self.effects: dict[str, int] = {}
        self.refuses: set[str] = set()

    def apply(self, event: OutboxEvent) -> None:
        if event.uri in self.refuses:
            raise RuntimeError("the index is down")
        self.heard.append((event.event_type, event.uri, event.version))
        self.effects.setdefault(event.event_id, event.version)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def index() -> Index:
    return Index()


@pytest.fixture
def worker(store, index, clock) -> OutboxWorker:
    return OutboxWorker(store, index, clock=clock)


def waiting(store) -> list[OutboxEvent]:
    return [found.event for found in events(store) if not found.dead]


def dead(store) -> list[OutboxEvent]:
    return [found.event for found in events(store) if found.dead]


def test_every_kind_of_event_is_told_in_order_and_let_go_of(fs, store, worker, index):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one"), ALICE)
    fs.relate(edge(), ALICE)
    fs.move_node(VISIT, OTHER, ALICE)
    fs.delete_node(OTHER, ALICE)
    kinds = {event.event_type for event in waiting(store)}
    assert kinds == {"UPSERT_CONTEXT", "DELETE_CONTEXT", "MOVE_CONTEXT", "UPSERT_RELATION"}
    tally = worker.run_once()
    assert (tally.failed, tally.dead, tally.waiting) == (0, 0, 0)
    assert waiting(store) == []
    for uri in (VISIT, OTHER, SHOP):
        versions = [version for kind, told_uri, version in index.heard if told_uri == uri]
        assert versions == sorted(versions)
    assert ("DELETE_CONTEXT", OTHER, 4) in index.heard
    assert worker.run_once() == outbox.Tally()


def test_payloads_say_all_that_an_index_needs(fs, store):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one", relations=(edge(weight=0.5, reason="why"),)), ALICE)
    fs.move_node(VISIT, OTHER, ALICE)
    payloads = {event.event_type: event.payload for event in waiting(store) if event.uri == VISIT}
    assert payloads["MOVE_CONTEXT"] == {"new_uri": OTHER}
    assert payloads["UPSERT_RELATION"] == {
        "edges": [{"from_uri": VISIT, "to_uri": SHOP, "relation_type": "related_to", "weight": 0.5, "reason": "why"}]
    }
    fs.delete_node(OTHER, ALICE)
    (deleted,) = [event for event in waiting(store) if event.event_type == "DELETE_CONTEXT"]
    assert (deleted.uri, deleted.payload) == (OTHER, {})


def test_the_delete_event_survives_a_purge(fs, store, worker, index):
    fs.write_node(memory(), ALICE)
    fs.delete_node(VISIT, ALICE, purge=True)
    worker.run_once()
    assert ("DELETE_CONTEXT", VISIT, 2) in index.heard


def test_the_same_change_always_has_the_same_identity(fs, store):
    fs.write_node(memory(), ALICE)
    (event,) = waiting(store)
    store.remove(place(VISIT, ".outbox", f"{event.event_id}.json"))
    mended(store)
    (again,) = waiting(store)
    assert again.event_id == event.event_id


def test_what_was_applied_is_not_registered_again(fs, store, worker):
    fs.write_node(memory(), ALICE)
    worker.run_once()
    assert applied_version(store, place()) == 1
    assert mended(store) == {}


def test_pauses_grow_until_it_is_put_aside_and_others_flow(fs, store, worker, index, clock):
    fs.write_node(memory("bad"), ALICE)
    fs.write_node(memory("good", OTHER), ALICE)
    index.refuses = {VISIT}
    pauses = []
    for attempt in range(MAX_RETRY):
        tally = worker.run_once()
        assert tally.failed == 1
        if attempt < MAX_RETRY - 1:
            (event,) = waiting(store)
            assert (event.retry_count, event.last_error) == (attempt + 1, "RuntimeError: the index is down")
            pauses.append(event.not_before - clock.now)
            clock.now = event.not_before - 0.01
            assert worker.run_once().waiting == 1
            clock.now = event.not_before
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert tally.dead == 1
    assert ("UPSERT_CONTEXT", OTHER, 1) in index.heard
    assert waiting(store) == []
    (event,) = dead(store)
    assert (event.uri, event.status, event.retry_count) == (VISIT, "FAILED", MAX_RETRY)
    assert store.exists(place(VISIT, ".outbox", "dlq", f"{event.event_id}.json"))
    assert worker.run_once() == outbox.Tally()
    assert mended(store) == {}, "a dead event is still an event"


def test_a_dead_event_can_be_tried_again_or_dropped(fs, store, worker, index, clock):
    fs.write_node(memory("bad"), ALICE)
    index.refuses = {VISIT}
    for _ in range(MAX_RETRY):
        worker.run_once()
        clock.now += 1000
    (event,) = dead(store)
    outbox.retry(store, parse_uri(VISIT), event.event_id)
    assert dead(store) == []
    index.refuses = set()
    assert worker.run_once().applied == 1
    for attempt in (outbox.retry, outbox.drop):
        with pytest.raises(NodeNotFoundError, match=event.event_id):
            attempt(store, parse_uri(VISIT), event.event_id)


def test_an_event_can_be_dropped(fs, store):
    fs.write_node(memory("x"), ALICE)
    (event,) = waiting(store)
    outbox.drop(store, parse_uri(VISIT), event.event_id)
    assert waiting(store) == []


def test_two_workers_do_not_tell_the_same_event_at_once(fs, store, index, clock):
    fs.write_node(memory("x"), ALICE)
    other = OutboxWorker(store, index, clock=clock)
    tallies = []

    class Slow(Index):
        def apply(self, event: OutboxEvent) -> None:
            tallies.append(other.run_once())
            super().apply(event)

    slow = Slow()
    assert OutboxWorker(store, slow, clock=clock).run_once().applied == 1
    assert (tallies[0].applied, tallies[0].waiting) == (0, 1)
    assert (len(slow.heard), index.heard) == (1, [])


def test_the_claim_of_a_worker_that_died_expires(fs, store, index, clock):
    fs.write_node(memory("x"), ALICE)

    class Dying:
        def apply(self, event: OutboxEvent) -> None:
            raise Died

    with pytest.raises(Died):
        OutboxWorker(store, Dying(), clock=clock).run_once()
    (event,) = waiting(store)
    assert event.status == "PROCESSING"
    second = OutboxWorker(store, index, clock=clock)
    clock.now += CLAIM_SECONDS - 1
    assert second.run_once().waiting == 1
    clock.now += 2
    assert second.run_once().applied == 1


def test_an_event_told_twice_has_one_effect(fs, store, index, clock, worker):
    fs.write_node(memory("x"), ALICE)

    def dies_before_letting_go(verb: str, key: str) -> None:
        if verb == "remove" or key.endswith("applied.json"):
            raise Died

    store.before = dies_before_letting_go
    with pytest.raises(Died):
        worker.run_once()
    store.before = lambda verb, key: None
    clock.now += CLAIM_SECONDS + 1
    assert OutboxWorker(store, index, clock=clock).run_once().applied == 1
    assert len(index.heard) == 2
    assert len(index.effects) == 1


def test_a_late_failure_does_not_bury_what_another_worker_has_told(fs, store, index, clock):
    fs.write_node(memory("x"), ALICE)
    other = OutboxWorker(store, index, clock=clock)

    class FailsLate:
        def apply(self, event: OutboxEvent) -> None:
            clock.now += 1000
            if event.retry_count == MAX_RETRY - 1:
                assert other.run_once().applied == 1
            raise RuntimeError

    failing = OutboxWorker(store, FailsLate(), clock=clock)
    for _ in range(MAX_RETRY):
        failing.run_once()
        clock.now += 1000
    assert (waiting(store), dead(store)) == ([], [])
    assert len(index.heard) == 1


def test_dying_before_an_event_is_put_aside_loses_and_doubles_nothing(fs, store, index, clock, worker):
    fs.write_node(memory("x"), ALICE)
    index.refuses = {VISIT}

    def dies_at_the_move(verb: str, key: str) -> None:
        if verb == "rename":
            raise Died

    store.before = dies_at_the_move
    for _ in range(MAX_RETRY - 1):
        worker.run_once()
        clock.now += 1000
    with pytest.raises(Died):
        worker.run_once()
    store.before = lambda verb, key: None
    index.refuses = set()
    clock.now += 1000
    assert OutboxWorker(store, index, clock=clock).run_once().applied == 0
    assert (waiting(store), len(dead(store)), index.heard) == ([], 1, [])


def test_dying_in_a_retry_leaves_the_event_in_one_place_at_least(fs, store, worker, index, clock):
    fs.write_node(memory("x"), ALICE)
    index.refuses = {VISIT}
    for _ in range(MAX_RETRY):
        worker.run_once()
        clock.now += 1000
    (event,) = dead(store)

    def dies_at_removal(verb: str, key: str) -> None:
        if verb == "remove":
            raise Died

    store.before = dies_at_removal
    with pytest.raises(Died):
        outbox.retry(store, parse_uri(VISIT), event.event_id)
    store.before = lambda verb, key: None
    index.refuses = set()
    assert worker.run_once().applied == 1
    assert len(index.effects) == 1


def test_an_event_that_a_newer_one_overtook_is_not_told_any_more(fs, store, worker, index, clock):
    fs.write_node(memory("one"), ALICE)
    index.refuses = {VISIT}
    worker.run_once()
    index.refuses = set()
    fs.write_node(memory("two"), ALICE)
    worker.run_once()
    clock.now += 1000
    worker.run_once()
    assert index.heard == [("UPSERT_CONTEXT", VISIT, 2)]
    assert waiting(store) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"event_id": "x"}', '{"event_id": "x", "version": "1"}'])
def test_an_event_that_is_none_holds_up_nobody(fs, store, worker, index, text):
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, ".outbox", "00000000.json"), text)
    store.write(place(VISIT, ".outbox", "README.txt"), "what is this?")
    assert worker.run_once().applied == 1
    (left,) = events(store)
    assert (left.damaged, left.dead, left.event.event_id) == (True, True, "00000000")


def test_a_worker_keeps_to_its_account(fs, store, index, clock):
    fs.write_node(memory("one"), ALICE)
    assert OutboxWorker(store, index, account="globex", clock=clock).run_once() == outbox.Tally()
    assert OutboxWorker(store, index, account="acme", clock=clock).run_once().applied == 1


def test_the_loop_goes_on_until_it_is_stopped(fs, store, worker, index):
    fs.write_node(memory("one"), ALICE)
    pauses: list[float] = []

    def stop(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 2:
            fs.write_node(memory("two"), ALICE)
        return len(pauses) == 4

    assert run(worker, pause=7.0, stop=stop).applied == 2
    assert pauses == [0.0, 7.0, 0.0, 7.0]


def test_while_one_tells_an_event_another_does_not_tell_a_newer_one(fs, store, index, clock):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    said: list[int] = []

    class Slow:
        def apply(self, event: OutboxEvent) -> None:
            if event.version == 1:
                said.append(OutboxWorker(store, index, clock=clock).run_once().applied)
            said.append(-event.version)

    OutboxWorker(store, Slow(), clock=clock).run_once()
    assert said == [0, -1, -2]
    assert index.heard == []


def test_events_up_to_what_an_index_knows_are_let_go_of_and_newer_ones_stay(fs, store):
    fs.write_node(memory("One."), ALICE)
    fs.write_node(memory("Two."), ALICE)
    outbox.acknowledge(store, {parse_uri(VISIT): 1})
    assert [event.version for event in waiting(store)] == [2]
    assert applied_version(store, place()) == 1
    outbox.acknowledge(store, {parse_uri(VISIT): 2})
    assert waiting(store) == []
    assert applied_version(store, place()) == 2
