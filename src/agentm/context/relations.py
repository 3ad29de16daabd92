"""Edges between memories, in both directions.

An edge lies in the memory that it leads away from. So that it is found from the other end too, the memory it leads to
keeps a list of those that point at it. The list is written first, so it names too many rather than too few, and each
name is checked against the edge itself.

An edge never leads to what is gone, whoever is faster. Who adds one puts it down in the list, commits it, and then
looks whether its target is still there. Who takes a target away commits that, and then goes through the list. So at
least one of the two sees the other. A name is put into the list, and taken out of it, only by one who holds the memory
of that name: an edge and what the list says of it do not change between a look and a deed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from agentm.context.node import ContextNode, NodeStatus, RelationEdge, check_line, load_relations
from agentm.context.reader import is_shown, read_meta, read_part, read_text
from agentm.context.tenancy import RequestContext, check, may
from agentm.context.uri import ContextUri, parse_uri
from agentm.errors import (
    ConcurrentModificationError,
    InvalidNodeError,
    NodeBrokenError,
    NodeConflictError,
    NodeNotFoundError,
    NotTextError,
)
from agentm.records import replace
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
        check_line(edge.relation_type, "type of an edge")
        check_line(edge.reason, "reason of an edge")
        edge = replace(edge, to_uri=str(target))
        named[edge.name] = edge
    return tuple(named.values())


def admit(fs: ContextFS, node: ContextNode, ctx: RequestContext, also: frozenset[str] = frozenset()) -> None:
    """New edges lead to what is there, or is being written along, and may be seen."""
    uri = parse_uri(node.uri)
    edges = checked(node.relations, uri)
    known = {edge.name for edge in _outgoing(fs, str(uri))} if edges else set()
    for edge in edges:
        if edge.name in known:
            continue
        target = parse_uri(edge.to_uri)
        check(ctx, target)
        if not is_shown(fs.backend, target):
            if edge.to_uri not in also:
                raise nowhere(target)
            fs._reserve(target)


def announce(backend: StorageBackend, edges: Iterable[RelationEdge]) -> None:
    """Put edges down at their targets, before they are committed. Who calls this holds what they lead away from."""
    for edge in edges:
        note_backlink(backend, parse_uri(edge.to_uri), edge.from_uri)


def confirm(fs: ContextFS, edges: Iterable[RelationEdge], ctx: RequestContext) -> None:
    """Once edges are committed: those whose target went meanwhile go with it, or after it."""
    for edge in edges:
        target = parse_uri(edge.to_uri)
        now = _led_to(fs.backend, target)
        if now != target:
            _redirect(fs, edge.from_uri, target, now, ctx)


def added(edges: tuple[RelationEdge, ...], before: str | None) -> tuple[RelationEdge, ...]:
    """The edges that are not among those in the text which they replace."""
    known = {edge.name for edge in load_relations(before)} if before else set()
    return tuple(edge for edge in edges if edge.name not in known)


def standing(fs: ContextFS, node: ContextNode, uri: ContextUri) -> ContextNode:
    """An older version as it can be brought back: at its present address, without edges to what is gone."""
    edges = [replace(edge, from_uri=str(uri)) for edge in node.relations]
    return replace(node, relations=tuple(edge for edge in edges if is_shown(fs.backend, parse_uri(edge.to_uri))))


def relate(fs: ContextFS, edge: RelationEdge, ctx: RequestContext, if_version: int | None) -> Receipt:
    def add(edges: tuple[RelationEdge, ...]) -> tuple[RelationEdge, ...]:
        return (*(other for other in edges if other.name != edge.name), edge)

    done = _change_edges(fs, edge.from_uri, add, ctx, if_version)
    target = parse_uri(edge.to_uri)
    if _led_to(fs.backend, target) is None:
        raise nowhere(target)
    return done


def unrelate(
    fs: ContextFS, from_uri: str, to_uri: str, relation_type: str, ctx: RequestContext, if_version: int | None
) -> Receipt:
    name = (str(parse_uri(from_uri)), str(parse_uri(to_uri)), relation_type)

    def take_out(edges: tuple[RelationEdge, ...]) -> tuple[RelationEdge, ...]:
        left = tuple(edge for edge in edges if edge.name != name)
        if len(left) == len(edges):
            raise NodeNotFoundError(
                f"{name[0]} is not related to {name[1]} as {relation_type!r}; list its relations to see what there is."
            )
        return left

    return _change_edges(fs, from_uri, take_out, ctx, if_version)


def _change_edges(
    fs: ContextFS,
    uri: str,
    change: Callable[[tuple[RelationEdge, ...]], tuple[RelationEdge, ...]],
    ctx: RequestContext,
    if_version: int | None,
) -> Receipt:
    check(ctx, parse_uri(uri), write=True)
    while True:
        now = fs.read_node(uri, ctx)
        wanted = replace(now, relations=change(now.relations))
        try:
            return fs.write_node(wanted, ctx, if_version=now.version if if_version is None else if_version)
        except NodeConflictError:
            if if_version is not None:
                raise


def edges_of(fs: ContextFS, uri: str, ctx: RequestContext, direction: str) -> list[RelationEdge]:
    address = parse_uri(uri)
    check(ctx, address)
    if direction not in ("out", "in", "both"):
        raise InvalidNodeError(f"there is no direction {direction!r}; it is 'out', 'in' or 'both'.")
    node = fs._current(address).node()
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
    update(backend, _place(target), lambda text: _listing({*_uris(text), origin}))


def _drop_backlink(backend: StorageBackend, target: ContextUri, origin: str) -> None:
    """Take one name out of the list, and the list away once it is empty; never what somebody else put in meanwhile."""
    if origin in backlinks(backend, target):
        update(backend, _place(target), lambda text: _listing({*_uris(text)} - {origin}))
    now = read_part(backend, _place(target))
    if now.text is not None and not _uris(now.text):
        with suppress(ConcurrentModificationError, FileNotFoundError):
            require(backend, Remove).remove(_place(target), if_version=now.token)


def _listing(uris: set[str]) -> str:
    return json.dumps(sorted(uris), ensure_ascii=False, indent=1) + "\n"


def follow_move(fs: ContextFS, source: ContextUri, target: ContextUri, ctx: RequestContext) -> None:
    """Edges that led to the old address lead to the new one."""
    for origin in backlinks(fs.backend, source):
        _redirect(fs, origin, source, target, ctx)


def forget(fs: ContextFS, address: ContextUri, ctx: RequestContext) -> None:
    """Edges that led to what is gone go too."""
    for origin in backlinks(fs.backend, address):
        _redirect(fs, origin, address, None, ctx)


def _redirect(fs: ContextFS, origin: str, old: ContextUri, new: ContextUri | None, ctx: RequestContext) -> None:
    def change(node: ContextNode) -> ContextNode:
        if is_shown(fs.backend, old):
            return node  # it is there again, and so these edges lead somewhere
        edges = [replace(edge, to_uri=str(new)) if edge.to_uri == str(old) and new else edge for edge in node.relations]
        return replace(node, relations=tuple(edge for edge in edges if edge.to_uri != str(old)))

    def settled() -> None:
        if not is_shown(fs.backend, old):
            _drop_backlink(fs.backend, old, origin)

    with suppress(NodeBrokenError, NotTextError):  # damaged: still in the list, and so left to the repair
        fs._change(parse_uri(origin), replace(ctx, actor="process:agentm"), change, settled)


def _led_to(backend: StorageBackend, target: ContextUri) -> ContextUri | None:
    """Where what was at an address is now, damaged or not; None if it is gone."""
    passed = {target}
    while not is_shown(backend, target):
        try:
            meta = read_meta(backend, target.locator)
        except NodeBrokenError:
            return target
        if meta is not None and meta.status is NodeStatus.BROKEN:
            return target
        if meta is None or meta.status is not NodeStatus.MOVED or not meta.other_uri:
            return None
        target = parse_uri(meta.other_uri)
        if target in passed:
            return None
        passed.add(target)
    return target


def nowhere(target: ContextUri) -> NodeNotFoundError:
    return NodeNotFoundError(f"there is no memory {target} to relate to; write it first.")


def _outgoing(fs: ContextFS, uri: str) -> tuple[RelationEdge, ...]:
    try:
        return fs._current(parse_uri(uri)).node().relations
    except (NodeNotFoundError, NodeBrokenError):
        return ()


def _place(address: ContextUri) -> Locator:
    return address.locator.child(BACKLINKS)
