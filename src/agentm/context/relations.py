"""Edges between memories, in both directions.

An edge lies in the memory that it leads away from. So that it is found from the other end too, the memory it leads to
keeps a list of those that point at it. The list is written first, so it names too many rather than too few, and each
name is checked against the edge itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from agentm.context.node import ContextNode, RelationEdge
from agentm.context.reader import is_shown, read_text
from agentm.context.tenancy import RequestContext, check, may
from agentm.context.uri import ContextUri, parse_uri
from agentm.errors import InvalidNodeError, NodeConflictError, NodeNotFoundError
from agentm.seam import Locator, Remove, StorageBackend, require, update

if TYPE_CHECKING:
    from agentm.context.contextfs import ContextFS, Receipt

BACKLINKS = ".backlinks.json"


def checked(edges: tuple[RelationEdge, ...], uri: ContextUri) -> tuple[RelationEdge, ...]:
    """Edges that begin here, each only once; the last one of a name wins."""
    named: dict[tuple[str, str, str], RelationEdge] = {}
    for edge in edges:
        if edge.from_uri != str(uri):
            raise InvalidNodeError(f"an edge begins at {edge.from_uri}, not at {uri}; relate that memory instead.")
        target = parse_uri(edge.to_uri)
        if target.account != uri.account:
            raise InvalidNodeError(f"an edge leads to {edge.to_uri}, in another account; edges stay within one.")
        weighed = isinstance(edge.weight, int | float) and 0.0 <= edge.weight <= 1.0
        if not edge.relation_type or not isinstance(edge.relation_type, str) or not weighed:
            raise InvalidNodeError(f"the edge to {edge.to_uri} needs a type and a weight from 0 to 1.")
        edge = replace(edge, to_uri=str(target))
        named[edge.name] = edge
    return tuple(named.values())


def admit(fs: ContextFS, node: ContextNode, ctx: RequestContext, also: frozenset[str] = frozenset()) -> None:
    """New edges lead to what is there (or is being written along) and may be seen; it learns of them first."""
    uri = parse_uri(node.uri)
    edges = checked(node.relations, uri)
    known = {edge.name for edge in _outgoing(fs, str(uri))} if edges else set()
    for edge in edges:
        if edge.name in known:
            continue
        target = parse_uri(edge.to_uri)
        check(ctx, target)
        if edge.to_uri not in also and not is_shown(fs.backend, target):
            raise NodeNotFoundError(f"there is no memory {target} to relate to; write it first.")
        note_backlink(fs.backend, target, str(uri))


def standing(fs: ContextFS, node: ContextNode, uri: ContextUri) -> ContextNode:
    """An older version as it can be brought back: at its present address, without edges to what is gone."""
    edges = [replace(edge, from_uri=str(uri)) for edge in node.relations]
    edges = [edge for edge in edges if is_shown(fs.backend, parse_uri(edge.to_uri))]
    for edge in edges:
        note_backlink(fs.backend, parse_uri(edge.to_uri), str(uri))
    return replace(node, relations=tuple(edges))


def relate(fs: ContextFS, edge: RelationEdge, ctx: RequestContext, if_version: int | None) -> Receipt:
    source = parse_uri(edge.from_uri)
    check(ctx, source, write=True)
    while True:
        now = fs.read_node(edge.from_uri, ctx)
        edges = tuple(other for other in now.relations if other.name != edge.name)
        wanted = replace(now, relations=(*edges, edge))
        try:
            return fs.write_node(wanted, ctx, if_version=now.version if if_version is None else if_version)
        except NodeConflictError:
            if if_version is not None:
                raise


def edges_of(fs: ContextFS, uri: str, ctx: RequestContext, direction: str) -> list[RelationEdge]:
    address = parse_uri(uri)
    check(ctx, address)
    node = fs.current(address).node()
    found = list(node.relations) if direction in ("out", "both") else []
    if direction in ("in", "both"):
        for origin in backlinks(fs.backend, address):
            if may(ctx, parse_uri(origin), write=False):
                found += [edge for edge in _outgoing(fs, origin) if edge.to_uri == str(address)]
    return found


def backlinks(backend: StorageBackend, address: ContextUri) -> list[str]:
    return _uris(read_text(backend, _place(address)))


def _uris(text: str | None) -> list[str]:
    try:
        return [str(parse_uri(uri)) for uri in json.loads(text)] if text else []
    except (ValueError, TypeError):
        return []  # somebody edited what is derived


def note_backlink(backend: StorageBackend, target: ContextUri, origin: str) -> None:
    def add(text: str | None) -> str:
        known = set(_uris(text))
        return json.dumps(sorted(known | {origin}), ensure_ascii=False, indent=1) + "\n"

    update(backend, _place(target), add)


def follow_move(fs: ContextFS, source: ContextUri, target: ContextUri, ctx: RequestContext) -> None:
    """Edges that led to the old address lead to the new one."""
    for origin in backlinks(fs.backend, source):
        note_backlink(fs.backend, target, origin)
        _redirect(fs, origin, str(source), str(target), ctx)
    for edge in _outgoing(fs, str(target)):
        note_backlink(fs.backend, parse_uri(edge.to_uri), str(target))
    _nobody_points_at(fs.backend, source)


def forget(fs: ContextFS, address: ContextUri, ctx: RequestContext) -> None:
    """Edges that led to what is gone go too."""
    for origin in backlinks(fs.backend, address):
        _redirect(fs, origin, str(address), None, ctx)
    _nobody_points_at(fs.backend, address)


def _nobody_points_at(backend: StorageBackend, address: ContextUri) -> None:
    if backend.exists(_place(address)):
        if backend.capabilities.remove:
            require(backend, Remove).remove(_place(address))
        else:
            backend.write(_place(address), "[]\n")


def _redirect(fs: ContextFS, origin: str, old: str, new: str | None, ctx: RequestContext) -> None:
    def change(node: ContextNode) -> ContextNode:
        edges = [replace(edge, to_uri=new) if edge.to_uri == old and new else edge for edge in node.relations]
        return replace(node, relations=tuple(edge for edge in edges if edge.to_uri != old))

    fs.change(parse_uri(origin), replace(ctx, actor="process:agentm"), change)


def _outgoing(fs: ContextFS, uri: str) -> tuple[RelationEdge, ...]:
    try:
        return fs.current(parse_uri(uri)).node().relations
    except NodeNotFoundError:
        return ()


def _place(address: ContextUri) -> Locator:
    return address.locator.child(BACKLINKS)
