"""Ends and moves of nodes: like every change, one commit point, before which nothing has happened.

What was ended leaves its meta behind, so that the event about it has a place to lie in, its versions can be brought
back, and a number is never given out twice.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentm.context import history
from agentm.context.events import (
    APPLIED,
    NO_EDGES,
    UPSERT_CONTEXT,
    delete_context,
    load_event,
    move_context,
    upserts,
)
from agentm.context.node import (
    DLQ,
    HISTORY,
    OUTBOX,
    PARTS,
    RELATIONS,
    NodeStatus,
    RelationEdge,
    Version,
    digest,
    dump_relations,
    load_relations,
)
from agentm.context.reader import read_meta, standing_files
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import Draft, publish
from agentm.errors import InvalidNodeError
from agentm.seam import Held, Locator, Remove, StorageBackend, require


def end(
    backend: StorageBackend,
    current: Version,
    address: ContextUri,
    status: NodeStatus,
    stamp: dict[str, Any],
    held: Held,
    *,
    purge: bool,
) -> Draft:
    """Delete or archive: the meta says so first, then the index is told, then the files go.

    A purge leaves nothing of the text: no copy in the history, no hash, no tag.
    """
    changes = {"status": status, "version": current.meta.version + 1, "other_uri": None, **stamp}
    if purge:
        changes |= {"purge": True, "parts": {}, "tags": ()}
    version = Version(replace(current.meta, **changes), current.parts)
    standing = standing_files(backend, address.locator)
    draft = Draft(address.locator, version, (delete_context(version),), standing, kept=purge)
    publish(backend, [draft], held)
    if status is NodeStatus.DELETED:
        clear(backend, address.locator, purge=purge)
    return draft


def move(
    backend: StorageBackend,
    current: Version,
    source: ContextUri,
    target: ContextUri,
    stamp: dict[str, Any],
    held: Held,
) -> Draft:
    """Lay out the target, unseen; then let the source say that it has gone there: that is the commit; then the rest."""
    draft = _lay_out(backend, current, source, target, stamp, held)
    changes = {"status": NodeStatus.MOVED, "version": current.meta.version + 1, "other_uri": str(target), **stamp}
    leaving = Version(replace(current.meta, **changes), current.parts)
    standing = standing_files(backend, source.locator)
    publish(backend, [Draft(source.locator, leaving, (move_context(leaving, str(target)),), standing)], held)
    # From here on the move has happened: what cannot be tidied up now is left to the repair.
    draft.told = False
    with suppress(OSError):
        draft.told = finish_move(backend, draft.version, held)
        clear(backend, source.locator, purge=True)
    return draft


def _lay_out(
    backend: StorageBackend,
    current: Version,
    source: ContextUri,
    target: ContextUri,
    stamp: dict[str, Any],
    held: Held,
) -> Draft:
    old = read_meta(backend, target.locator)
    edges = load_relations(current.parts[RELATIONS])
    parts = {
        **current.parts,
        RELATIONS: dump_relations(led_elsewhere(edges, str(source), str(target))),
    }
    meta = replace(
        current.meta,
        uri=str(target),
        context_type=target.context_type,
        category=target.category,
        owner_space=target.owner_space,
        status=NodeStatus.PENDING,
        version=max(current.meta.version, old.version if old else 0) + 1,
        other_uri=str(source),
        parts={name: digest(text) for name, text in parts.items()},
        **stamp,
    )
    draft = Draft(target.locator, Version(meta, parts), (), standing_files(backend, target.locator))
    publish(backend, [draft], held)
    # Only now: whatever lies in the history of a node that waits for a move can be told from what was there before.
    for place in history.places(backend, source.locator):
        backend.write(target.locator.child(HISTORY, place.name), backend.read(place))
    return draft


def led_elsewhere(edges: tuple[RelationEdge, ...], old: str, new: str) -> tuple[RelationEdge, ...]:
    """The edges of a node once it has moved."""
    return tuple(replace(edge, from_uri=new, to_uri=new if edge.to_uri == old else edge.to_uri) for edge in edges)


def finish_move(backend: StorageBackend, arrived: Version, held: Held) -> bool:
    """The source says that it has gone: show the target as any other node, and tell the index (True if it was)."""
    version = Version(replace(arrived.meta, status=NodeStatus.ACTIVE, other_uri=None), arrived.parts)
    node = parse_uri(version.meta.uri).locator
    draft = Draft(node, version, upserts(version, NO_EDGES), standing_files(backend, node), kept=True)
    publish(backend, [draft], held)
    return draft.told


def clear(backend: StorageBackend, node: Locator, *, purge: bool) -> None:
    """Remove the parts of a node that has ended, and with ``purge`` its history; a crash leaves it to the repair."""
    if not backend.capabilities.remove:
        return
    # History and parts last: as long as something of them is there, the repair knows that it is not done.
    gone = [*_events_with_text(backend, node), *history.places(backend, node)] if purge else []
    for place in gone + [node.child(name) for name in PARTS]:
        with suppress(OSError):
            require(backend, Remove).remove(place)


def _events_with_text(backend: StorageBackend, node: Locator) -> list[Locator]:
    """Those that a later one, of the end, has made idle."""
    box = node.child(OUTBOX)
    found = [*backend.list(box), *backend.list(box.child(DLQ))]
    return [place for place in found if place.name.endswith(".json") and _holds_text(backend, place)]


def _holds_text(backend: StorageBackend, place: Locator) -> bool:
    try:
        return load_event(backend.read(place)).event_type == UPSERT_CONTEXT
    except (InvalidNodeError, OSError):
        return place.name != APPLIED  # whatever it was
