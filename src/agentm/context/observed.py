"""What a node directory holds, as the repair sees it: at a glance where all is well, in full where it is not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agentm.context import history
from agentm.context.events import NO_EDGES, UPSERT_CONTEXT, UPSERT_RELATION, event_id
from agentm.context.node import (
    CONTENT,
    HISTORY,
    META,
    OUTBOX,
    PARTS,
    RELATIONS,
    Meta,
    NodeStatus,
    Version,
    digest,
    load_meta,
)
from agentm.context.outbox import applied_version, events_of
from agentm.context.reader import has_arrived, kept_version, read_meta, read_text
from agentm.context.relations import backlinks
from agentm.context.uri import ContextUri
from agentm.errors import InvalidNodeError, NodeBrokenError, NotTextError
from agentm.seam import Locator, StorageBackend

DAMAGED = ".damaged"
"""Behind the name of a file that was put aside."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a node directory holds."""

    address: ContextUri
    meta: Meta | None
    meta_damaged: bool
    parts: dict[str, str | None]
    """Text of each part, None where it is absent."""
    damaged: tuple[str, ...]
    """Parts that are no text."""
    unfinished: tuple[Version, ...]
    """Versions in the history that were never committed."""
    kept: Version | None
    """The committed version, from the history."""
    told: bool
    """Whether the index knows the committed version, or an event is there to tell it."""
    source_moved_here: bool = False
    pointed_at: bool = False
    """Whether other nodes may still have edges to it."""
    edges_before: str | None = None
    """The edges of the version before the committed one, as they were written, if that is known."""
    has_history: bool = False
    at_rest: bool = True
    """Whether the parts were last touched long enough ago for an editor to be done with them."""

    @property
    def complete(self) -> bool:
        return not self.damaged and all(text is not None for text in self.parts.values())

    @property
    def differs(self) -> bool:
        """Whether the parts are not those that the meta was written for."""
        if self.meta is None or not self.meta.parts:
            return False
        return any(text is None or digest(text) != self.meta.parts.get(name) for name, text in self.parts.items())

    @property
    def misplaced(self) -> bool:
        """Whether it is the copy of another node, or another one under a new name."""
        return self.meta is not None and self.meta.uri != str(self.address)

    @property
    def begun(self) -> Version | None:
        """The unfinished version whose content is there."""
        found = [one for one in self.unfinished if one.parts[CONTENT] == self.parts[CONTENT]]
        return found[-1] if found else None


def is_healthy(backend: StorageBackend, address: ContextUri) -> bool:
    """Whether there is plainly nothing to be done about a node: shown, whole, told, and nobody in the middle of it.

    Most nodes are, so this reads each file that matters once and nothing else.
    """
    node = address.locator
    try:
        text = read_text(backend, node.child(META))
        meta = None if text is None else load_meta(text)
        if meta is None or meta.status is not NodeStatus.ACTIVE or meta.other_uri or meta.uri != str(address):
            return False
        return _is_whole(backend, node, meta) and _is_settled(backend, node, meta) and _is_told(backend, node, meta)
    except (InvalidNodeError, NotTextError):
        return False


def _is_whole(backend: StorageBackend, node: Locator, meta: Meta) -> bool:
    for name in PARTS:
        text = read_text(backend, node.child(name))
        if text is None or digest(text) != meta.parts.get(name):
            return False
    return True


def _is_settled(backend: StorageBackend, node: Locator, meta: Meta) -> bool:
    """Whether the newest version in the history is the committed one, and the only one with its number."""
    names = [place.name for place in backend.list(node.child(HISTORY))]
    return names[-1:] == [meta.history_name] and (len(names) == 1 or names[-2] < f"{meta.version:08d}")


def _is_told(backend: StorageBackend, node: Locator, meta: Meta) -> bool:
    waiting = f"{event_id(meta.uri, meta.version, UPSERT_CONTEXT)}.json"
    if any(place.name == waiting for place in backend.list(node.child(OUTBOX))):
        return True
    return applied_version(backend, node) >= meta.version


def observe(backend: StorageBackend, address: ContextUri, quiet: float = 0.0) -> Observed:
    """Look at everything a node directory holds; its parts are at rest after ``quiet`` seconds without a change."""
    node = address.locator
    meta, meta_damaged = None, False
    try:
        meta = read_meta(backend, node)
        # Put aside, and then the repair died before it could say so.
        meta_damaged = meta is None and backend.exists(node.child(f"{META}{DAMAGED}"))
    except NodeBrokenError:
        meta_damaged = True
    parts, damaged = _parts(backend, node)
    places = history.places(backend, node)
    told = meta is not None and _knows(backend, address, meta)
    return Observed(
        address=address,
        meta=meta,
        meta_damaged=meta_damaged,
        parts=parts,
        damaged=damaged,
        unfinished=_unfinished(backend, places, meta),
        kept=None if meta is None else kept_version(backend, node, meta),
        told=told,
        edges_before=None if told else _edges_before(backend, places, meta),
        source_moved_here=meta is not None and has_arrived(backend, meta),
        pointed_at=bool(backlinks(backend, address)),
        has_history=bool(places),
        at_rest=quiet <= 0.0 or not any(_touched_within(backend, node.child(name), quiet) for name in PARTS),
    )


def _parts(backend: StorageBackend, node: Locator) -> tuple[dict[str, str | None], tuple[str, ...]]:
    parts: dict[str, str | None] = {}
    damaged = []
    for name in PARTS:
        try:
            parts[name] = read_text(backend, node.child(name))
        except NotTextError:
            parts[name] = None
            damaged.append(name)
    return parts, tuple(damaged)


def _touched_within(backend: StorageBackend, place: Locator, seconds: float) -> bool:
    try:
        return abs(time.time() - backend.info(place).mtime) < seconds
    except OSError:
        return False


def _knows(backend: StorageBackend, address: ContextUri, meta: Meta) -> bool:
    if applied_version(backend, address.locator) >= meta.version:
        return True
    return any(
        found.event.version == meta.version and found.event.event_type != UPSERT_RELATION
        for found in events_of(backend, address)
    )


def _edges_before(backend: StorageBackend, places: list[Locator], meta: Meta | None) -> str | None:
    if meta is None or meta.version == 1:
        return NO_EDGES
    before = [place for place in places if history.number_of(place) == meta.version - 1]
    version = history.load(backend, before[0]) if len(before) == 1 else None
    return version.parts[RELATIONS] if version is not None and version.meta.status is NodeStatus.ACTIVE else None


def _unfinished(backend: StorageBackend, places: list[Locator], meta: Meta | None) -> tuple[Version, ...]:
    found = []
    for place in places:
        if meta is None or (history.number_of(place) >= meta.version and place.name != meta.history_name):
            version = history.load(backend, place)
            if version is not None:
                found.append(version)
    return tuple(found)
