"""What is to be done about each item: decided from the item and what is known, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agentm.context.contextfs import ContextFS
from agentm.context.node import ContextNode, RelationEdge, check_content, check_line, digest, dump_relations
from agentm.context.slugs import slug_of
from agentm.context.tenancy import RequestContext
from agentm.context.uri import Folder, parse_place
from agentm.errors import InvalidNodeError, NodeNotFoundError
from agentm.exporting import LeftOut
from agentm.importing.items import Item, Link
from agentm.importing.known import Known, Shelf, says
from agentm.importing.report import Action
from agentm.records import record_class, replace

AGENTM = "process:agentm"
"""How those are called who look after edges."""
_EDITED = "it was edited here since; --force takes what the source says."
_SAID_TWICE = "it comes twice with different texts; the last one is taken."
_FORGOTTEN = "it was forgotten or put away here since; --force brings it back."


@record_class(frozen=True)
class Planned:
    """An item and what is to be done about it."""

    item: Item
    uri: str
    action: Action
    known: Known | None = None
    why: str = ""
    node: ContextNode | None = None
    """What is to be written."""

    @property
    def stays(self) -> bool:
        """Whether there is a memory that others may point at when all is done."""
        return self.action in (Action.NEW, Action.CHANGED) or (self.known is not None and self.known.shown)

    @property
    def expected(self) -> int:
        """The version that it must still have when it is written."""
        return self.known.now.version if self.known is not None and self.known.shown else 0


@record_class(frozen=True)
class Planner:
    """Plans for one user or agent."""

    fs: ContextFS
    ctx: RequestContext
    target: Folder
    shelf: Shelf
    force: bool

    def plan(self, items: Iterable[Item], leave_out: Callable[[LeftOut], None]) -> list[Planned]:
        """Items that may point at each other; what can be no memory is left out."""
        admitted: dict[str, Item] = {}
        for item in items:
            if _refused(item, leave_out):
                continue
            if item.source in admitted and admitted[item.source].content != item.content:
                leave_out(LeftOut(item.source, "said_twice", _SAID_TWICE))
            admitted[item.source] = item
        decided = [self._decided(item) for item in admitted.values()]
        there = {one.item.source: one.uri for one in decided if one.stays}
        there |= {source: one.uri for source, one in self.shelf.known.items() if one.shown and source not in admitted}
        return [self._with_edges(one, there) for one in decided]

    def _decided(self, item: Item) -> Planned:
        known = self.shelf.known.get(item.source)
        if known is None:
            uri = self.shelf.free(self._folder(item), slug_of(item.name))
            return Planned(item, uri, Action.NEW)
        hash_now = digest(item.content)
        if known.shown and says(known.now, hash_now, item.tags):
            return Planned(item, known.uri, Action.SAME, known)
        if not self.force and not known.shown:
            return Planned(item, known.uri, Action.KEPT, known, _FORGOTTEN)
        if not self.force and known.edited:
            return Planned(item, known.uri, Action.KEPT, known, _EDITED)
        return Planned(item, known.uri, Action.CHANGED, known)

    def _folder(self, item: Item) -> Folder:
        if len(self.target.path) == 4 or self.target.path[2:] == ("skills",):
            return self.target
        owner = "/".join(self.target.path[:2])
        folder = parse_place(f"ctx://{self.target.account}/{owner}/memories/{item.category}")
        assert isinstance(folder, Folder)
        return folder

    def _with_edges(self, one: Planned, there: dict[str, str]) -> Planned:
        edges = tuple(_edges(one.uri, one.item.links, there))
        if one.action is Action.SAME:
            return self._with_new_edges(one, edges)
        if one.action is Action.KEPT:
            return one
        theirs = self._edges_by_others(one) if one.expected else ()
        node = ContextNode(one.uri, one.item.content, relations=(*theirs, *edges), tags=one.item.tags)
        return replace(one, node=node)

    def _with_new_edges(self, one: Planned, edges: tuple[RelationEdge, ...]) -> Planned:
        """Changed after all, if the source points at more than the memory does, and nobody wanted it so."""
        assert one.known is not None
        if not edges or digest(dump_relations(edges)) == one.known.edges:
            return one
        now = self.fs.read_node(one.uri, self.ctx)
        there = _ends(now.relations)
        versions = self.fs.history(one.uri, self.ctx)
        missing = [edge for edge in edges if _end(edge) not in there and not _was_taken_away(edge, versions)]
        if not missing:
            return one
        return replace(one, action=Action.CHANGED, node=replace(now, relations=(*now.relations, *missing)))

    def _edges_by_others(self, one: Planned) -> tuple[RelationEdge, ...]:
        """What somebody added since the last import stays."""
        before = self._ends_before(one)
        now = self.fs.read_node(one.uri, self.ctx).relations
        return tuple(edge for edge in now if _end(edge) not in before)

    def _ends_before(self, one: Planned) -> set[tuple[str, str]]:
        """Where it pointed when it was last imported."""
        assert one.known is not None
        try:
            return _ends(self.fs.read_node(one.uri, self.ctx, version=one.known.written.version).relations)
        except NodeNotFoundError:
            return set()


def _end(edge: RelationEdge) -> tuple[str, str]:
    """What tells two edges of one memory apart, whatever address it had."""
    return edge.to_uri, edge.relation_type


def _was_taken_away(edge: RelationEdge, versions: list[ContextNode]) -> bool:
    """Whether somebody took an edge away; agentm itself does so only when there is nothing at its other end."""
    had = [_end(edge) in _ends(version.relations) for version in versions]
    if True not in had:
        return False
    last = len(had) - 1 - had[::-1].index(True)
    return last + 1 < len(versions) and not versions[last + 1].actor.startswith(AGENTM)


def _ends(edges: Iterable[RelationEdge]) -> set[tuple[str, str]]:
    return set(map(_end, edges))


def _refused(item: Item, leave_out: Callable[[LeftOut], None]) -> bool:
    try:
        check_content(item.content)
        check_line(item.source, "source")
        for tag in item.tags:
            check_line(tag, "tag")
    except InvalidNodeError as error:
        leave_out(LeftOut(item.source, error.code, error.message))
        return True
    return False


def _edges(uri: str, links: Iterable[Link], there: dict[str, str]) -> Iterator[RelationEdge]:
    for link in links:
        target = there.get(link.target)
        if target is not None and target != uri:
            yield RelationEdge(uri, target, link.relation_type, reason=link.reason)
