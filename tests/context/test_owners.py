"""What owners do to the files of their memories, and callers to the interface: nothing is lost by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import cast

import pytest

from agentm import Capabilities, Locator, MemoryBackend
from agentm.context.contextfs import ContextFS
from agentm.context.decision import Action
from agentm.context.node import CONTENT, PARTS
from agentm.context.outbox import events_of
from agentm.context.repair import repair
from agentm.context.tenancy import RequestContext
from agentm.context.uri import parse_uri
from agentm.errors import ConfigError, InvalidNodeError, NodeBusyError, UnsupportedAbilityError
from agentm.seam import Versioned
from tests.context.nodes import ALICE, OTHER, VISIT, contents, memory, mended, place
from tests.context.recording import Recording


@pytest.mark.spec("CTX-09")
def test_odd_arguments_are_refused_before_anything_is_written(fs, store):
    wrong: list[Callable[[], object]] = [
        lambda: fs.write_node(memory("x", tags="abc"), ALICE),
        lambda: fs.write_node(memory("x"), ALICE, if_version="1"),
        lambda: fs.write_node(memory("x"), ALICE, if_version=True),
        lambda: fs.write_nodes([memory("x")], ALICE, if_versions={OTHER: 1}),
        lambda: fs.relations(VISIT, ALICE, direction="sideways"),
        lambda: RequestContext("acme", user_id="alice", sources="chat"),  # type: ignore[arg-type]
        lambda: ContextFS(store, keep_versions=0),
        lambda: ContextFS(store, keep_versions="x"),  # type: ignore[arg-type]
        lambda: ContextFS(store, keep_days=-1),
    ]
    for call in wrong:
        with pytest.raises((InvalidNodeError, ConfigError)):
            call()
    assert not fs.exists(VISIT, ALICE)


@pytest.mark.spec("CTX-02", "CTX-09")
def test_what_is_being_saved_by_hand_is_waited_for(store):
    fs = ContextFS(store, quiet=0.3)
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, CONTENT), "half a sen")
    begun = time.monotonic()
    fs.write_node(memory("three"), ALICE)
    assert time.monotonic() - begun > 0.1
    assert contents(fs) == ["one", "half a sen", "three"]


@pytest.mark.spec("CTX-02")
def test_what_is_saved_without_end_is_not_written_over(store):
    fs = ContextFS(store, quiet=0.2)
    fs.write_node(memory("one"), ALICE)
    number = count()

    class Typing(Recording):
        def read_versioned(self, locator: Locator) -> Versioned:
            if locator.name == ".meta.json":
                self.inner.write(place(VISIT, CONTENT), f"half a sen {next(number)}")
            return cast("Versioned", self.inner.read_versioned(locator))

    with pytest.raises(NodeBusyError) as refused:
        ContextFS(Typing(store.inner), quiet=0.2).write_node(memory("three"), ALICE)
    assert refused.value.code == "node_busy"
    assert contents(fs) == ["one"]


@pytest.mark.spec("CTX-09")
def test_a_version_that_is_missing_from_the_history_is_put_back_before_it_is_replaced(fs, store):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    newest = store.list(place(VISIT, ".history"))[-1]
    store.write(newest, "{")
    fs.write_node(memory("three"), ALICE)
    assert contents(fs) == ["one", "two", "three"]
    for kept in store.list(place(VISIT, ".history")):
        store.remove(kept)
    assert mended(store) == {VISIT: [Action.KEEP]}
    assert contents(fs) == ["three"]


@pytest.mark.spec("CTX-06", "CTX-09")
def test_a_meta_that_was_taken_away_costs_no_version(fs, store):
    for text in ("one", "two", "three"):
        fs.write_node(memory(text), ALICE)
    store.remove(place(VISIT, ".meta.json"))
    store.write(place(VISIT, CONTENT), "edited")
    assert mended(store) == {VISIT: [Action.COMPLETE]}
    assert contents(fs) == ["one", "two", "three", "edited"]
    store.remove(place(VISIT, ".meta.json"))
    store.remove(place(VISIT, CONTENT))
    assert mended(store) == {VISIT: [Action.BREAK]}
    fs.undo(VISIT, ALICE)
    assert fs.read_node(VISIT, ALICE).content == "edited"


@pytest.mark.spec("CTX-02", "CTX-08")
@pytest.mark.parametrize("end", ["delete_node", "archive_node"])
def test_what_an_editor_saves_after_the_end_is_not_thrown_away(fs, store, end):
    fs.write_node(memory("one"), ALICE)
    getattr(fs, end)(VISIT, ALICE)
    store.write(place(VISIT, CONTENT), "one, and more")
    assert mended(store) == {VISIT: [Action.ADOPT]}
    assert fs.read_node(VISIT, ALICE).content == "one, and more"


@pytest.mark.spec("CTX-07", "CTX-09")
def test_numbers_that_come_again_do_not_make_the_same_event(fs, store):
    fs.write_node(memory("one"), ALICE)
    first = {found.event.event_id for found in events_of(store, parse_uri(VISIT))}
    for at in (".history", ".outbox"):
        for file in store.list(place(VISIT, at)):
            store.remove(file)
    for name in (*PARTS, ".meta.json"):
        store.remove(place(VISIT, name))
    fs.write_node(memory("another"), ALICE)
    assert first.isdisjoint(found.event.event_id for found in events_of(store, parse_uri(VISIT)))


@pytest.mark.spec("CTX-08")
def test_a_store_that_cannot_remove_or_keep_writers_apart_is_refused():
    class Forever(MemoryBackend):
        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, remove=False)

    class Crowded(MemoryBackend):
        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, lock=False, concurrent_writers=True)

    for use in (
        lambda: ContextFS(Forever()),
        lambda: repair(Forever()),
        lambda: ContextFS(Crowded()).write_node(memory("x"), ALICE),
    ):
        with pytest.raises(UnsupportedAbilityError):
            use()
