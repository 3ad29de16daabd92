"""Doing what was decided about a node, under its lock, after looking again."""

from __future__ import annotations

from dataclasses import replace

from agentm.context import relations
from agentm.context.decision import BY_HAND, Action, decide
from agentm.context.drafting import new_version, new_write_id, utc_now
from agentm.context.events import NO_EDGES, OutboxEvent, delete_context, dump_event, event_place, move_context, upserts
from agentm.context.node import (
    ABSTRACT,
    CONTENT,
    DLQ,
    HISTORY,
    META,
    OUTBOX,
    OVERVIEW,
    RELATIONS,
    ContextNode,
    Meta,
    NodeStatus,
    RelationEdge,
    Version,
    digest,
    dump_meta,
    load_relations,
)
from agentm.context.observed import DAMAGED, Observed, observe
from agentm.context.reader import is_shown, standing_files
from agentm.context.summarise import checked_abstract
from agentm.context.tenancy import RequestContext
from agentm.context.transitions import clear, finish_move
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import Draft, locked, publish
from agentm.errors import InvalidNodeError, InvalidUriError
from agentm.seam import Held, Locator, Remove, Rename, StorageBackend, require

ACTOR = "process:agentm-repair"
_NOT_UNDER_THE_LOCK = (Action.NOTHING, Action.REPORT, Action.RELINK)


def mend(backend: StorageBackend, address: ContextUri, *, actor: str = ACTOR, quiet: float = 0.0) -> list[Action]:
    """Put one node right, and say what was done."""
    concerned = [address]
    before = observe(backend, address, quiet)
    if before.meta is not None and decide(before) is Action.REHOME:
        concerned.append(_leave_word(backend, before.meta, address))
    with locked(backend, address.locator) as held:
        done = mend_held(backend, address, held, actor=actor, quiet=quiet)
    for one in concerned:
        seen = observe(backend, one, quiet)
        if decide(seen) is Action.RELINK:
            _relink(backend, seen, actor)
            done.append(Action.RELINK)
    return done


def mend_held(
    backend: StorageBackend, address: ContextUri, held: Held, *, actor: str, quiet: float = 0.0
) -> list[Action]:
    """The same for somebody who holds the node already."""
    done: list[Action] = []
    for _ in range(len(Action)):
        seen = observe(backend, address, quiet)
        action = decide(seen)
        if action in _NOT_UNDER_THE_LOCK:
            break
        Executor(backend, held, actor).do(action, seen)
        done.append(action)
    return done


def _relink(backend: StorageBackend, seen: Observed, actor: str) -> None:
    """Changes other nodes, each under its own lock: nobody may hold one and ask for another."""
    from agentm.context.contextfs import ContextFS  # which mends nodes itself

    assert seen.meta is not None
    ctx = RequestContext(seen.address.account, actor=actor)
    if seen.meta.status is NodeStatus.MOVED and seen.meta.other_uri:
        relations.follow_move(ContextFS(backend), seen.address, parse_uri(seen.meta.other_uri), ctx)
    else:
        relations.forget(ContextFS(backend), seen.address, ctx)


def _leave_word(backend: StorageBackend, meta: Meta, new: ContextUri) -> ContextUri:
    """Where a folder was before somebody renamed it, leave what a move leaves, so that the index and edges follow."""
    old = parse_uri(meta.uri)
    with locked(backend, old.locator):
        if not backend.exists(old.locator):  # else it was copied
            for origin in relations.backlinks(backend, new):
                relations.note_backlink(backend, old, origin)
            gone = replace(
                meta,
                status=NodeStatus.MOVED,
                version=meta.version + 1,
                other_uri=str(new),
                parts={},
                updated_at=utc_now(),
                write_id=new_write_id(),
            )
            event = move_context(Version(gone, {}), str(new))
            backend.write(old.locator.child(META), dump_meta(gone))
            backend.write(event_place(old.locator, event.event_id), dump_event(event))
    return old


class Executor:
    """Does what was decided. The node is locked."""

    def __init__(self, backend: StorageBackend, held: Held, actor: str) -> None:
        self._backend = backend
        self._held = held
        self._actor = actor

    def do(self, action: Action, seen: Observed) -> None:
        getattr(self, f"_{action.name.lower()}")(seen)

    def _complete(self, seen: Observed) -> None:
        version = seen.begun or self._orphan(seen)
        self._publish(seen, version, upserts(version, seen.edges_before), kept=seen.begun is not None)

    def _orphan(self, seen: Observed) -> Version:
        text = seen.parts[CONTENT] or ""
        return new_version(ContextNode(str(seen.address), text), seen.address, actor=self._actor)

    def _discard(self, seen: Observed) -> None:
        """The parts first: as long as the version is there, nobody takes them for something written by hand."""
        node = seen.address.locator
        if seen.meta is None:
            clear(self._backend, node, purge=False)
        for version in seen.unfinished:
            self._remove(node.child(HISTORY, version.meta.history_name))

    def _restore(self, seen: Observed) -> None:
        assert seen.kept is not None
        for name in seen.damaged:
            self._put_aside(seen.address.locator.child(name))
        self._publish(seen, seen.kept, () if seen.told else _events_for(seen), kept=True)
        self._discard(seen)

    def _activate(self, seen: Observed) -> None:
        assert seen.meta is not None
        texts = {name: text for name, text in seen.parts.items() if text is not None}
        hashes = {name: digest(text) for name, text in texts.items()}
        version = Version(replace(seen.meta, status=NodeStatus.ACTIVE, parts=hashes), texts)
        self._publish(seen, version, upserts(version, seen.edges_before), kept=seen.kept is not None)

    def _break(self, seen: Observed) -> None:
        node = seen.address.locator
        if seen.meta_damaged and self._backend.exists(node.child(META)):
            self._put_aside(node.child(META))
        now = utc_now()
        meta = seen.meta or Meta(
            uri=str(seen.address),
            context_type=seen.address.context_type,
            category=seen.address.category,
            level=3,
            owner_space=seen.address.owner_space,
            status=NodeStatus.BROKEN,
            created_at=now,
            updated_at=now,
            version=1 + max([0, *(one.meta.version for one in seen.unfinished)]),
            tags=(),
            actor=self._actor,
        )
        self._backend.write(node.child(META), dump_meta(replace(meta, status=NodeStatus.BROKEN)))

    def _put_aside(self, place: Locator) -> None:
        """A damaged file is evidence: it is kept beside, under a name that says so."""
        aside, count = place.parent.child(f"{place.name}{DAMAGED}"), 1
        while self._backend.exists(aside):
            count += 1
            aside = place.parent.child(f"{place.name}{DAMAGED}-{count}")
        if self._backend.capabilities.rename:
            require(self._backend, Rename).rename(place, aside)

    def _finish_move(self, seen: Observed) -> None:
        assert seen.meta is not None
        texts = {name: text for name, text in seen.parts.items() if text is not None}
        version = seen.kept or Version(seen.meta, texts)
        finish_move(self._backend, version, self._held)

    def _cancel_move(self, seen: Observed) -> None:
        """Take everything out again; where the index was told something before, the number stays used."""
        assert seen.meta is not None
        node = seen.address.locator
        clear(self._backend, node, purge=True)
        if self._backend.list(node.child(OUTBOX)):
            ended = replace(seen.meta, status=NodeStatus.DELETED, purge=True, other_uri=None, parts={}, tags=())
            self._backend.write(node.child(META), dump_meta(ended))
        else:
            self._remove(node.child(META))

    def _tell(self, seen: Observed) -> None:
        for event in _events_for(seen):
            self._backend.write(event_place(seen.address.locator, event.event_id), dump_event(event))

    def _clear(self, seen: Observed) -> None:
        assert seen.meta is not None
        purge = seen.meta.purge or seen.meta.status is NodeStatus.MOVED
        clear(self._backend, seen.address.locator, purge=purge)

    def _adopt(self, seen: Observed) -> None:
        assert seen.meta is not None
        abstract = self._edited(seen, ABSTRACT)
        node = ContextNode(
            uri=str(seen.address),
            content=seen.parts[CONTENT] or "",
            abstract=None if abstract is None else checked_abstract(abstract),
            overview=self._edited(seen, OVERVIEW),
            relations=self._edges(seen),
            tags=seen.meta.tags,
        )
        known = seen.kept.parts[RELATIONS] if seen.kept and seen.told else None
        self._publish_by_hand(seen, node, BY_HAND, known)

    def _rehome(self, seen: Observed) -> None:
        """The parts are the owner's; events, and what the index knows, are those of the other address."""
        assert seen.meta is not None
        box = seen.address.locator.child(OUTBOX)
        for place in [*self._backend.list(box), *self._backend.list(box.child(DLQ))]:
            if place.name.endswith(".json"):
                self._remove(place)
        edges = [replace(edge, from_uri=str(seen.address)) for edge in self._edges(seen)]
        abstract = seen.parts[ABSTRACT]
        node = ContextNode(
            uri=str(seen.address),
            content=seen.parts[CONTENT] or "",
            abstract=checked_abstract(abstract) if abstract else None,
            overview=seen.parts[OVERVIEW],
            relations=tuple(edge for edge in edges if is_shown(self._backend, parse_uri(edge.to_uri))),
            tags=seen.meta.tags,
        )
        self._publish_by_hand(seen, node, (*BY_HAND, f"copy-of:{seen.meta.uri}"), NO_EDGES)

    def _publish_by_hand(
        self, seen: Observed, node: ContextNode, sources: tuple[str, ...], known_edges: str | None
    ) -> None:
        relations.announce(self._backend, node.relations)
        owner = seen.address.owner_space.partition(":")[2]
        version = new_version(node, seen.address, actor=f"human:{owner}", sources=sources, before=seen.meta)
        self._publish(seen, version, upserts(version, known_edges), kept=False)

    def _edited(self, seen: Observed, name: str) -> str | None:
        """What somebody wrote into a part that is otherwise made from the content."""
        text = seen.parts[name]
        edited = text is not None and seen.meta is not None and digest(text) != seen.meta.parts.get(name)
        return text if edited else None

    def _edges(self, seen: Observed) -> tuple[RelationEdge, ...]:
        """The edges as they are written; what cannot be understood is put aside, and the old ones stand."""
        assert seen.meta is not None
        try:
            return relations.checked(load_relations(seen.parts[RELATIONS] or "[]"), parse_uri(seen.meta.uri))
        except (InvalidNodeError, InvalidUriError):
            self._put_aside(seen.address.locator.child(RELATIONS))
            return load_relations(seen.kept.parts[RELATIONS]) if seen.kept else ()

    def _publish(self, seen: Observed, version: Version, events: tuple[OutboxEvent, ...], *, kept: bool) -> None:
        node = seen.address.locator
        draft = Draft(node, version, events, standing_files(self._backend, node), kept=kept)
        publish(self._backend, [draft], self._held)

    def _remove(self, place: Locator) -> None:
        if self._backend.capabilities.remove and self._backend.exists(place):
            require(self._backend, Remove).remove(place)


def _events_for(seen: Observed) -> tuple[OutboxEvent, ...]:
    assert seen.meta is not None
    texts = {name: text or "" for name, text in seen.parts.items()}
    version = Version(seen.meta, texts if not seen.kept else seen.kept.parts)
    if seen.meta.status is NodeStatus.ACTIVE:
        return upserts(version, seen.edges_before)
    if seen.meta.status is NodeStatus.MOVED and seen.meta.other_uri:
        return (move_context(version, seen.meta.other_uri),)
    return (delete_context(version),)
