"""What the index has yet to learn: one file for each event, kept in the node it concerns."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from agentm.context.layout import laid_out
from agentm.context.node import (
    ABSTRACT,
    CONTENT,
    DLQ,
    OUTBOX,
    OVERVIEW,
    RELATIONS,
    Meta,
    RelationEdge,
    Version,
    dump_relations,
    load_relations,
)
from agentm.context.uri import parse_uri
from agentm.errors import InvalidNodeError
from agentm.records import as_dict, field, field_names, record_class
from agentm.seam.locator import Locator

UPSERT_CONTEXT = "UPSERT_CONTEXT"
DELETE_CONTEXT = "DELETE_CONTEXT"
MOVE_CONTEXT = "MOVE_CONTEXT"
UPSERT_RELATION = "UPSERT_RELATION"

MAX_RETRY = 5
APPLIED = "applied.json"

NO_EDGES = dump_relations(())
_NAMESPACE = uuid.UUID("6f1c1d0e-6b1f-5a7e-9a51-7a1b6d0f4c3a")


@record_class(frozen=True)
class OutboxEvent:
    """Something to be told. The same change always has the same ``event_id``, so telling it twice is harmless."""

    event_id: str
    event_type: str
    uri: str
    payload: dict[str, Any]
    version: int
    created_at: str
    status: str = "PENDING"
    retry_count: int = 0
    claimed_by: str | None = None
    claimed_until: float | None = None
    not_before: float = 0.0
    last_error: str | None = None
    rest: dict[str, Any] = field(default_factory=dict)


def event_id(meta: Meta, event_type: str) -> str:
    """The same for the same write, however often it is told; another for another write, should numbers come again."""
    return str(uuid.uuid5(_NAMESPACE, f"{meta.uri}\n{meta.version}\n{meta.write_id}\n{event_type}"))


def upsert_context(version: Version) -> OutboxEvent:
    """The index is to hold this version: its abstract, overview and content as levels 0, 1 and 2, and all its edges.

    So that one event is enough to know a version, whatever became of those before it.
    """
    meta = version.meta
    records = [
        {
            "id": hashlib.sha256(f"{meta.uri}\n{level}".encode()).hexdigest()[:16],
            "uri": meta.uri,
            "level": level,
            "text": version.parts[part],
            "filters": {"account_id": parse_uri(meta.uri).account, "owner_space": meta.owner_space},
            "metadata": {"category": meta.category, "context_type": meta.context_type},
        }
        for level, part in enumerate((ABSTRACT, OVERVIEW, CONTENT))
    ]
    edges = [as_dict(edge) for edge in load_relations(version.parts[RELATIONS])]
    return _event(UPSERT_CONTEXT, version, {"records": records, "edges": edges})


def upserts(version: Version, known_edges: str | None) -> tuple[OutboxEvent, ...]:
    """What the index is to be told of a version; of its edges first, and only if it may not know them.

    ``known_edges`` are those of the version before, as they were written; None if nobody knows. That of the version
    comes last: where it is, all are.
    """
    if version.parts[RELATIONS] == known_edges:
        return (upsert_context(version),)
    return upsert_relation(version, load_relations(version.parts[RELATIONS])), upsert_context(version)


def delete_context(version: Version) -> OutboxEvent:
    return _event(DELETE_CONTEXT, version, {})


def move_context(version: Version, new_uri: str) -> OutboxEvent:
    return _event(MOVE_CONTEXT, version, {"new_uri": new_uri})


def upsert_relation(version: Version, edges: tuple[RelationEdge, ...]) -> OutboxEvent:
    return _event(UPSERT_RELATION, version, {"edges": [as_dict(edge) for edge in edges]})


def _event(event_type: str, version: Version, payload: dict[str, Any]) -> OutboxEvent:
    meta = version.meta
    return OutboxEvent(
        event_id=event_id(meta, event_type),
        event_type=event_type,
        uri=meta.uri,
        payload=payload,
        version=meta.version,
        created_at=meta.updated_at,
    )


def event_place(node: Locator, identity: str) -> Locator:
    return node.child(OUTBOX, f"{identity}.json")


def dead_place(node: Locator, identity: str) -> Locator:
    return node.child(OUTBOX, DLQ, f"{identity}.json")


def dump_event(event: OutboxEvent) -> str:
    fields = {name: getattr(event, name) for name in field_names(OutboxEvent) if name != "rest"}
    return laid_out(fields | event.rest) + "\n"


def load_event(text: str) -> OutboxEvent:
    try:
        found = json.loads(text)
        known = {name: found.pop(name) for name in field_names(OutboxEvent) if name in found and name != "rest"}
        event = OutboxEvent(**known, rest=found)
        if not isinstance(event.version, int) or not isinstance(event.payload, dict):
            raise TypeError("its version or its payload is of the wrong kind")
        return event
    except (ValueError, TypeError, AttributeError, RecursionError) as cause:
        raise InvalidNodeError(f"an event cannot be understood ({cause}); agentm outbox drop takes it out.") from cause
