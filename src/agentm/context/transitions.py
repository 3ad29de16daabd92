"""Ends and moves of nodes: like every change, one commit point, before which nothing has happened.

What was ended leaves its meta behind, so that the event about it has a place to lie in, its versions can be brought
back, and a number is never given out twice.
"""

from __future__ import annotations

from contextlib import suppress
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
    DAMAGED,
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
from agentm.context.reader import Part, Standing, standing as read_standing
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import Draft, publish
from agentm.errors import AgentmError, InvalidNodeError, LockLostError
from agentm.records import replace
from agentm.seam import ABSENT, Held, Locator, Remove, StorageBackend, require


def end(
    backend: StorageBackend,
    current: Version,
    standing: Standing,
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
    node = parse_uri(version.meta.uri).locator
    doomed = doomed_files(backend, node, standing.files, purge=purge) if status is NodeStatus.DELETED else []
    draft = Draft(node, version, (delete_context(version),), standing.files, kept=purge)
    publish(backend, [draft], held)
    clear(backend, doomed, held)
    return draft


def move(
    backend: StorageBackend,
    current: Version,
    standing: dict[ContextUri, Standing],
    source: ContextUri,
    target: ContextUri,
    stamp: dict[str, Any],
    held: Held,
) -> Draft:
    """Lay out the target, unseen; then let the source say that it has gone there: that is the commit; then the rest."""
    draft = _lay_out(backend, current, source, standing[target], target, stamp, held)
    laid_out = read_standing(backend, target.locator)
    if laid_out.meta != draft.version.meta or not laid_out.sound():
        # From its meta on the target is fenced; what was there before, somebody without our lock may have cleared away.
        raise LockLostError("somebody took away what this move had begun; look where the memory is, and try again.")
    changes = {"status": NodeStatus.MOVED, "version": current.meta.version + 1, "other_uri": str(target), **stamp}
    leaving = Version(replace(current.meta, **changes), current.parts)
    doomed = doomed_files(backend, source.locator, standing[source].files, purge=True)
    doomed.append((source.locator.child(HISTORY, leaving.meta.history_name), None))
    event = move_context(leaving, str(target))
    publish(backend, [Draft(source.locator, leaving, (event,), standing[source].files)], held)
    # From here on the move has happened: what cannot be tidied up now is left to the repair.
    draft.told = False
    with suppress(AgentmError, OSError):
        draft.told = finish_move(backend, draft.version, held)
        clear(backend, doomed, held)
    return draft


def _lay_out(
    backend: StorageBackend,
    current: Version,
    source: ContextUri,
    there: Standing,
    target: ContextUri,
    stamp: dict[str, Any],
    held: Held,
) -> Draft:
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
        version=max(current.meta.version, there.meta.version if there.meta else 0) + 1,
        other_uri=str(source),
        parts={name: digest(text) for name, text in parts.items()},
        **stamp,
    )
    draft = Draft(target.locator, Version(meta, parts), (), there.files)
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
    draft = Draft(node, version, upserts(version, NO_EDGES), read_standing(backend, node).files, kept=True)
    publish(backend, [draft], held)
    return draft.told


Doomed = list[tuple[Locator, str | None]]
"""Files that are to go, the parts only as they were seen."""


def doomed_files(backend: StorageBackend, node: Locator, files: dict[str, Part], *, purge: bool) -> Doomed:
    """The parts of a node that ends, and with ``purge`` its history and whatever else holds its text.

    To be listed before the end is committed: what somebody writes afterwards is not among them.
    """
    parts = [(node.child(name), files[name].token) for name in PARTS if name in files]
    if not purge:
        return parts
    aside = [place for place in backend.list(node) if DAMAGED in place.name]
    idle: Doomed = [(place, None) for place in (*_events_with_text(backend, node), *aside)]
    # The history last: as long as it is there, the repair knows that it is not done, and whose the parts are.
    return idle + parts + [(place, None) for place in history.places(backend, node)]


def clear(backend: StorageBackend, doomed: Doomed, held: Held) -> None:
    """Remove files of a node that has ended; what is left after an error or a crash is left to the repair."""
    for place, token in doomed:
        if not held.ours():
            return
        if token == ABSENT:
            continue
        with suppress(AgentmError, OSError):
            require(backend, Remove).remove(place, if_version=token)


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
