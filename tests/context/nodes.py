"""Nodes, callers and glances that the tests of the memory share."""

from __future__ import annotations

import json
from typing import Any

from agentm import Locator, StorageBackend
from agentm.context.contextfs import ContextFS
from agentm.context.decision import Action
from agentm.context.node import META, PARTS, ContextNode, RelationEdge
from agentm.context.outbox import events_of
from agentm.context.repair import RepairReport, repair
from agentm.context.tenancy import RequestContext
from agentm.context.uri import parse_uri
from tests.context.recording import Recording

ALICE = RequestContext("acme", user_id="alice", agent_id="scout", actor="human:alice", sources=("chat:42",))

VISIT = "ctx://acme/users/alice/memories/events/visit"
SHOP = "ctx://acme/users/alice/memories/entities/coffee_shop"
OTHER = "ctx://acme/users/alice/memories/cases/other"
PROFILE = "ctx://acme/users/alice/memories/profile"
SKILL = "ctx://acme/agents/scout/skills/brewing"


def memory(content: str = "Alice drinks coffee.", uri: str = VISIT, **given: Any) -> ContextNode:
    return ContextNode(uri, content, **given)


def edge(from_uri: str = VISIT, to_uri: str = SHOP, **given: Any) -> RelationEdge:
    return RelationEdge(from_uri, to_uri, **given)


def place(uri: str = VISIT, *names: str) -> Locator:
    return parse_uri(uri).locator.child(*names)


def meta_of(store: StorageBackend, uri: str = VISIT) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.read(place(uri, META)))
    return found


def set_meta(store: StorageBackend, uri: str = VISIT, **changes: Any) -> None:
    store.write(place(uri, META), json.dumps({**meta_of(store, uri), **changes}))


def files_of(store: StorageBackend, uri: str = VISIT) -> dict[str, str]:
    return {name: store.read(place(uri, name)) for name in PARTS if store.exists(place(uri, name))}


def told(store: StorageBackend, uri: str = VISIT) -> list[tuple[str, int]]:
    """Type and version of each event that waits in a node."""
    return [(found.event.event_type, found.event.version) for found in events_of(store, parse_uri(uri))]


def mended(store: StorageBackend, **options: Any) -> dict[str, list[Action]]:
    """What a repair did, by node."""
    return by_node(repair(store, **{"quiet": 0.0, **options}))


def settled(store: Recording) -> None:
    """A second run finds nothing and changes nothing."""
    store.changes.clear()
    assert mended(store) == {}
    assert store.changes == []


def by_node(report: RepairReport) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = {}
    for finding in report.findings:
        assert not finding.why or "is kept as" in finding.why, finding.why
        if finding.action is not Action.REPORT:  # nothing was done
            found.setdefault(finding.uri, []).append(finding.action)
    return found


def texts_below(store: StorageBackend, at: Locator) -> list[str]:
    """Every text of a store below a place."""
    found: list[str] = []
    for child in store.list(at):
        found += texts_below(store, child) if store.info(child).is_dir else [store.read(child)]
    return found


def contents(fs: ContextFS, uri: str = VISIT, ctx: RequestContext = ALICE) -> list[str]:
    return [version.content for version in fs.history(uri, ctx)]
