"""Telling the index: events are claimed, handed over, and let go of once it has understood.

A claim is a compare-and-swap on the event's file and expires, so a worker that dies holds nobody up. An event may be
told twice, when a worker dies between telling and letting go; the same event always has the same identity, and a
handler that has seen it does nothing. What cannot be told after several attempts is put aside, and others flow on.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

from agentm.context.events import (
    APPLIED,
    MAX_RETRY,
    UPSERT_RELATION,
    OutboxEvent,
    dead_place,
    dump_event,
    event_place,
    load_event,
)
from agentm.context.node import DLQ, OUTBOX
from agentm.context.reader import read_text
from agentm.context.uri import ContextUri
from agentm.context.walk import nodes
from agentm.errors import AgentmError, ConcurrentModificationError, InvalidNodeError, NodeNotFoundError, NotTextError
from agentm.records import record_class, replace
from agentm.seam import CompareAndSwap, Locator, Remove, Rename, StorageBackend, WriteMany, require, update

log = logging.getLogger(__name__)

CLAIM_SECONDS = 60.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0


class OutboxHandler(Protocol):
    def apply(self, event: OutboxEvent) -> None:
        """Make the index know.

        - the same ``event_id`` may come twice, and MUST have the effect of once
        - of a URI, what is not newer than what the index holds (``version``) MUST have no effect: a worker that slept
          may come late
        - an UPSERT_CONTEXT holds all there is to know of its version, the edges too
        """


@record_class()
class Tally:
    """What one round came to."""

    applied: int = 0
    failed: int = 0
    dead: int = 0
    waiting: int = 0


@record_class(frozen=True)
class Found:
    """An event where it lies."""

    node: Locator
    event: OutboxEvent
    dead: bool = False
    damaged: bool = False
    """Its file cannot be understood: all that is known is its name."""


class OutboxWorker:
    """Works off events, alone or beside others."""

    def __init__(
        self,
        backend: StorageBackend,
        handler: OutboxHandler,
        *,
        account: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._backend = backend
        self._handler = handler
        self._account = account
        self._clock = clock
        self._name = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"

    def run_once(self) -> Tally:
        """Take every event that is due, once."""
        tally = Tally()
        for address in nodes(self._backend, self._account):
            try:
                self._work_off(address, tally)
            except (AgentmError, OSError) as error:  # what is wrong with one node holds up no other
                log.warning("the events of %s could not be worked off: %s", address, error)
                tally.failed += 1
        return tally

    def _work_off(self, address: ContextUri, tally: Tally) -> None:
        for found in events_of(self._backend, address):
            # While somebody tells one of them, those behind it wait: told out of order, the older would win.
            if not found.dead and not self._take(found, tally):
                return

    def _take(self, found: Found, tally: Tally) -> bool:
        """False if somebody else is telling this one."""
        if found.damaged:
            _bury(self._backend, found.node, found.event.event_id)
            tally.dead += 1
            return True
        if found.event.status == "FAILED":
            _bury(self._backend, found.node, found.event.event_id)
            return True
        if found.event.version < applied_version(self._backend, found.node):
            _remove(self._backend, event_place(found.node, found.event.event_id))  # a newer one has overtaken it
            return True
        claimed = self._claim(found)
        if claimed is None:
            tally.waiting += 1
            return not self._is_being_told(found)
        event, token = claimed
        try:
            self._handler.apply(event)
        except Exception as error:  # whatever a handler does, others flow on
            self._fail(found.node, event, token, error, tally)
        else:
            if event.event_type != UPSERT_RELATION:  # that a version's edges are known does not make it known
                mark_applied(self._backend, found.node, event.version)
            _remove(self._backend, event_place(found.node, event.event_id))
            tally.applied += 1
        return True

    def _claim(self, found: Found) -> tuple[OutboxEvent, str] | None:
        store = require(self._backend, CompareAndSwap)
        place = event_place(found.node, found.event.event_id)
        now = self._clock()
        try:
            current = store.read_versioned(place)
            event = load_event(current.content)
            taken = event.claimed_until is not None and event.claimed_until > now and event.claimed_by != self._name
            if taken or event.not_before > now:
                return None
            event = replace(event, status="PROCESSING", claimed_by=self._name, claimed_until=now + CLAIM_SECONDS)
            return event, store.write_versioned(place, dump_event(event), if_version=current.version)
        except (FileNotFoundError, ConcurrentModificationError):
            return None

    def _is_being_told(self, found: Found) -> bool:
        text = read_text(self._backend, event_place(found.node, found.event.event_id))
        until = load_event(text).claimed_until if text is not None else None
        return until is not None and until > self._clock()

    def _fail(self, node: Locator, event: OutboxEvent, token: str, error: Exception, tally: Tally) -> None:
        tally.failed += 1
        tries = event.retry_count + 1
        event = replace(
            event,
            status="PENDING",
            retry_count=tries,
            claimed_by=None,
            claimed_until=None,
            not_before=self._clock() + min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE),
            last_error=f"{type(error).__name__}: {error}"[:500],
        )
        if tries >= MAX_RETRY:
            event = replace(event, status="FAILED")
        # Somebody else may have it by now, and may have been luckier: then it is no longer ours to judge.
        with suppress(ConcurrentModificationError):
            store = require(self._backend, CompareAndSwap)
            store.write_versioned(event_place(node, event.event_id), dump_event(event), if_version=token)
            if event.status == "FAILED":
                _bury(self._backend, node, event.event_id)
                tally.dead += 1


def run(worker: OutboxWorker, *, pause: float = 1.0, stop: Callable[[float], bool]) -> Tally:
    """Work until ``stop(seconds)``, which waits that long, says that it is enough."""
    total = Tally()
    while True:
        tally = worker.run_once()
        total.applied += tally.applied
        total.failed += tally.failed
        total.dead += tally.dead
        total.waiting = tally.waiting
        if stop(0.0 if tally.applied else pause):
            return total


def events(backend: StorageBackend, account: str | None = None) -> Iterator[Found]:
    """Every event of a store, oldest first within a node; those that are dead or damaged are marked."""
    for address in nodes(backend, account):
        yield from events_of(backend, address)


def events_of(backend: StorageBackend, address: ContextUri) -> Iterator[Found]:
    node = address.locator
    found = []
    for folder, dead in ((node.child(OUTBOX), False), (node.child(OUTBOX, DLQ), True)):
        for place in backend.list(folder):
            if place.name.endswith(".json") and place.name != APPLIED:
                found += _event_at(backend, address, place, dead)
    yield from sorted(found, key=lambda one: (one.event.version, one.event.created_at, one.event.event_id))


def _event_at(backend: StorageBackend, address: ContextUri, place: Locator, dead: bool) -> list[Found]:
    try:
        text = read_text(backend, place)
        return [] if text is None else [Found(address.locator, load_event(text), dead)]
    except (InvalidNodeError, NotTextError) as cause:
        name = place.name.removesuffix(".json")
        unknown = OutboxEvent(name, "UNKNOWN", str(address), {}, 0, "", status="DAMAGED", last_error=str(cause))
        return [Found(address.locator, unknown, dead, damaged=True)]


def applied_version(backend: StorageBackend, node: Locator) -> int:
    """The highest version of a node that the index has been told of."""
    try:
        text = read_text(backend, node.child(OUTBOX, APPLIED))
        return int(json.loads(text)["version"]) if text else 0
    except (ValueError, TypeError, KeyError):
        return 0


def mark_applied(backend: StorageBackend, node: Locator, version: int) -> None:
    def raise_to(text: str | None) -> str:
        try:
            known = int(json.loads(text)["version"]) if text else 0
        except (ValueError, TypeError, KeyError):
            known = 0
        return json.dumps({"version": max(known, version)}) + "\n"

    update(backend, node.child(OUTBOX, APPLIED), raise_to)


def acknowledge(backend: StorageBackend, told: Mapping[ContextUri, int]) -> None:
    """Let go of the events of nodes that an index knows up to these versions, many at once.

    For an index that looks at the nodes themselves and is fed by their events only in so far as they tell it where to
    look. That it knows is written down first: an event that is not let go of is told once more, and does nothing.
    """
    waiting = {address: [one for one in events_of(backend, address) if not one.dead] for address in told}
    waiting = {
        address: known
        for address, found in waiting.items()
        if (known := [one for one in found if not one.damaged and one.event.version <= told[address]])
    }
    marks = [
        (address.locator.child(OUTBOX, APPLIED), json.dumps({"version": told[address]}) + "\n") for address in waiting
    ]
    if backend.capabilities.write_many:
        require(backend, WriteMany).write_many(marks)
    else:
        for place, text in marks:
            backend.write(place, text)
    for one in (one for found in waiting.values() for one in found):
        _remove(backend, event_place(one.node, one.event.event_id))


def retry(backend: StorageBackend, address: ContextUri, identity: str) -> None:
    """Bring a dead event back to life."""
    text = read_text(backend, dead_place(address.locator, identity))
    if text is None:
        raise _unknown(identity)
    event = replace(load_event(text), status="PENDING", retry_count=0, not_before=0.0, claimed_until=None)
    # Alive first: a crash in between leaves one too many rather than none.
    backend.write(event_place(address.locator, identity), dump_event(event))
    _remove(backend, dead_place(address.locator, identity))


def drop(backend: StorageBackend, address: ContextUri, identity: str) -> None:
    """Take an event out for good: the version it speaks of counts as told."""
    places = [event_place(address.locator, identity), dead_place(address.locator, identity)]
    present = [place for place in places if backend.exists(place)]
    if not present:
        raise _unknown(identity)
    for found in events_of(backend, address):
        if found.event.event_id == identity and found.event.event_type != UPSERT_RELATION and not found.damaged:
            mark_applied(backend, address.locator, found.event.version)
    for place in present:
        _remove(backend, place)


def _unknown(identity: str) -> NodeNotFoundError:
    return NodeNotFoundError(f"there is no event {identity}; agentm outbox list shows those there are.")


def _bury(backend: StorageBackend, node: Locator, identity: str) -> None:
    """Put an event aside, as it is: one that a purge took away meanwhile does not come back."""
    living, dead = event_place(node, identity), dead_place(node, identity)
    with suppress(FileNotFoundError):
        if backend.capabilities.rename:
            require(backend, Rename).rename(living, dead, overwrite=True)
        else:
            backend.write(dead, backend.read(living))
            _remove(backend, living)


def _remove(backend: StorageBackend, place: Locator) -> None:
    with suppress(FileNotFoundError):
        require(backend, Remove).remove(place)
