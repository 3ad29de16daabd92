"""Doing what was decided about a node, under its lock, after looking again."""

from __future__ import annotations

from typing import Any

from agentm.context import relations
from agentm.context.decision import BY_HAND, Action, decide
from agentm.context.drafting import new_version, new_write_id, utc_now
from agentm.context.events import NO_EDGES, OutboxEvent, delete_context, dump_event, event_place, move_context, upserts
from agentm.context.node import (
    ABSTRACT,
    CONTENT,
    DAMAGED,
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
    dump_version,
    load_meta,
    load_relations,
)
from agentm.context.observed import Observed, observe
from agentm.context.outbox import applied_version
from agentm.context.reader import Part, has_arrived, is_shown, read_part
from agentm.context.summarise import DEFAULT, Summariser, checked_abstract
from agentm.context.transitions import clear, doomed_files, finish_move
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import Draft, locked, publish
from agentm.errors import ConcurrentModificationError, InvalidNodeError, InvalidUriError
from agentm.records import replace
from agentm.seam import ABSENT, CompareAndSwap, Held, Locator, Remove, Rename, StorageBackend, require

ACTOR = "process:agentm-repair"
_NOT_UNDER_THE_LOCK = (Action.NOTHING, Action.WAIT, Action.REPORT, Action.RELINK)
_OF_TWO = (Action.FINISH_MOVE, Action.CANCEL_MOVE)


def mend(
    backend: StorageBackend,
    address: ContextUri,
    *,
    actor: str = ACTOR,
    quiet: float = 0.0,
    summariser: Summariser = DEFAULT,
) -> list[Action]:
    """Put one node right, and say what was done."""
    before = observe(backend, address, quiet)
    source = before.meta.other_uri if before.meta and before.meta.status is NodeStatus.PENDING else None
    if before.meta is not None and decide(before) is Action.REHOME:
        _leave_word(backend, before.meta, address)
    concerned = [address.locator, *([parse_uri(source).locator] if source else [])]
    with locked(backend, *concerned) as held:
        return mend_held(backend, address, held, actor=actor, quiet=quiet, source=source, summariser=summariser)


def mend_held(
    backend: StorageBackend,
    address: ContextUri,
    held: Held,
    *,
    actor: str,
    quiet: float = 0.0,
    source: str | None = None,
    summariser: Summariser = DEFAULT,
) -> list[Action]:
    """The same for somebody who holds the node already, and the ``source`` of a move that has it as its target."""
    done: list[Action] = []
    for _ in range(len(Action)):
        seen = observe(backend, address, quiet)
        action = decide(seen)
        if action in _NOT_UNDER_THE_LOCK or (action in _OF_TWO and (not seen.meta or seen.meta.other_uri != source)):
            break
        try:
            Executor(backend, held, actor, summariser).do(action, seen)
        except ConcurrentModificationError:
            continue  # somebody was faster: look again
        done.append(action)
    return done


def _leave_word(backend: StorageBackend, meta: Meta, new: ContextUri) -> None:
    """Where a folder was before somebody renamed it, leave what a move leaves, so that the index and edges follow."""
    old = parse_uri(meta.uri)
    if (old.account, old.owner_space) != (new.account, new.owner_space):
        return  # what a file says about others' places is not to be acted upon
    with locked(backend, old.locator):
        if backend.exists(old.locator):
            return  # it was copied
        for origin in relations.backlinks(backend, new):
            relations.note_backlink(backend, old, origin)
        stamp: dict[str, Any] = {"updated_at": utc_now(), "write_id": new_write_id()}
        gone = replace(meta, status=NodeStatus.MOVED, version=meta.version + 1, other_uri=str(new), parts={}, **stamp)
        event = move_context(Version(gone, {}), str(new))
        backend.write(old.locator.child(META), dump_meta(gone))
        backend.write(event_place(old.locator, event.event_id), dump_event(event))


class Executor:
    """Does what was decided. The node is locked."""

    def __init__(self, backend: StorageBackend, held: Held, actor: str, summariser: Summariser) -> None:
        self._backend = backend
        self._held = held
        self._actor = actor
        self._summariser = summariser

    def do(self, action: Action, seen: Observed) -> None:
        getattr(self, f"_{action.name.lower()}")(seen)

    def _complete(self, seen: Observed) -> None:
        version = seen.begun or self._orphan(seen)
        self._publish(seen, version, upserts(version, seen.edges_before), kept=seen.begun is not None)

    def _orphan(self, seen: Observed) -> Version:
        """A text whose meta is not there. Where there was one before, its versions and its numbers stand."""
        node = ContextNode(str(seen.address), seen.parts[CONTENT] or "")
        version = new_version(node, seen.address, actor=self._actor, summariser=self._summariser)
        return Version(replace(version.meta, version=1 + self._last_number(seen)), version.parts)

    def _last_number(self, seen: Observed) -> int:
        kept = [version.meta.version for version in seen.unfinished]
        return max([0, applied_version(self._backend, seen.address.locator), *kept])

    def _discard(self, seen: Observed) -> None:
        """The parts first: as long as the version is there, nobody takes them for something written by hand."""
        if seen.meta is None:
            doomed = doomed_files(self._backend, seen.address.locator, seen.files, purge=False)
            clear(self._backend, doomed, self._held)
        else:
            self._fence(seen.address, seen.files[META])
        self._drop_unfinished(seen)

    def _drop_unfinished(self, seen: Observed) -> None:
        for version in seen.unfinished:
            self._remove(seen.address.locator.child(HISTORY, version.meta.history_name))

    def _restore(self, seen: Observed) -> None:
        assert seen.kept is not None
        fenced = self._fence(seen.address, seen.files[META])
        aside = {name: self._put_aside(seen, name) for name in seen.damaged}
        restored = Version(load_meta(fenced.text or ""), seen.kept.parts)
        seen = replace(seen, files=seen.files | {META: fenced} | aside)
        self._publish(seen, restored, () if seen.told else _events_for(seen), kept=True)
        self._drop_unfinished(seen)

    def _activate(self, seen: Observed) -> None:
        assert seen.meta is not None
        texts = {name: text for name, text in seen.parts.items() if text is not None}
        hashes = {name: digest(text) for name, text in texts.items()}
        version = Version(replace(seen.meta, status=NodeStatus.ACTIVE, parts=hashes), texts)
        self._publish(seen, version, upserts(version, seen.edges_before), kept=seen.kept is not None)

    def _break(self, seen: Observed) -> None:
        if seen.meta_damaged and self._backend.exists(seen.address.locator.child(META)):
            self._put_aside(seen, META)
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
            version=self._last_number(seen),
            tags=(),
            actor=self._actor,
        )
        # A version of its own, of which the index is told: what is broken is not found either.
        meta = replace(meta, status=NodeStatus.BROKEN, version=meta.version + 1)
        self._backend.write(seen.address.locator.child(META), dump_meta(meta))
        self._tell(replace(seen, meta=meta))

    def _put_aside(self, seen: Observed, name: str) -> Part:
        """A damaged file is evidence: it is kept beside, under a name that says so. What is left is nothing."""
        place = seen.address.locator.child(name)
        aside, count = place.parent.child(f"{place.name}{DAMAGED}"), 1
        while self._backend.exists(aside):
            count += 1
            aside = place.parent.child(f"{place.name}{DAMAGED}-{count}")
        if self._backend.capabilities.rename:
            require(self._backend, Rename).rename(place, aside)
        else:
            self._backend.write(aside, self._backend.read(place))
            self._remove(place)
        return Part(None, ABSENT)

    def _finish_move(self, seen: Observed) -> None:
        assert seen.meta is not None
        texts = {name: text for name, text in seen.parts.items() if text is not None}
        version = seen.kept or Version(seen.meta, texts)
        finish_move(self._backend, version, self._held)

    def _cancel_move(self, seen: Observed) -> None:
        """Take everything out again; where the index was told something before, the number stays used."""
        assert seen.meta is not None
        assert seen.meta.other_uri is not None
        node = seen.address.locator
        source = parse_uri(seen.meta.other_uri)
        standing = read_part(self._backend, source.locator.child(META))
        if has_arrived(self._backend, seen.meta):
            return  # it has just happened: look again
        self._fence(source, standing)
        clear(self._backend, doomed_files(self._backend, node, seen.files, purge=True), self._held)
        if self._backend.list(node.child(OUTBOX)):
            ended = replace(seen.meta, status=NodeStatus.DELETED, purge=True, other_uri=None, parts={}, tags=())
            self._backend.write(node.child(META), dump_meta(ended))
        else:
            self._remove(node.child(META))

    def _fence(self, address: ContextUri, part: Part) -> Part:
        """Change a meta without changing what it says, before the beginnings of somebody's write are taken away.

        Who slept through the loss of the lock, or never shared it, then cannot commit on top of it; and if it has done
        so since we looked, ConcurrentModificationError says that.
        """
        if part.text is None or part.token is None:
            return part
        meta = load_meta(part.text)
        text = dump_meta(replace(meta, rest={**meta.rest, "fence": new_write_id()}))
        swap = require(self._backend, CompareAndSwap)
        return Part(text, swap.write_versioned(address.locator.child(META), text, if_version=part.token))

    def _keep(self, seen: Observed) -> None:
        """The version that stands there, into the history: without it there, the next one would bury it."""
        assert seen.meta is not None
        texts = {name: text for name, text in seen.parts.items() if text is not None}
        place = seen.address.locator.child(HISTORY, seen.meta.history_name)
        self._backend.write(place, dump_version(Version(seen.meta, texts)))

    def _tell(self, seen: Observed) -> None:
        for event in _events_for(seen):
            self._backend.write(event_place(seen.address.locator, event.event_id), dump_event(event))

    def _clear(self, seen: Observed) -> None:
        assert seen.meta is not None
        purge = seen.meta.purge or seen.meta.status is NodeStatus.MOVED
        clear(self._backend, doomed_files(self._backend, seen.address.locator, seen.files, purge=purge), self._held)

    def _adopt(self, seen: Observed) -> None:
        assert seen.meta is not None
        seen, edges = self._edges(seen)
        abstract = self._edited(seen, ABSTRACT)
        node = ContextNode(
            uri=str(seen.address),
            content=seen.parts[CONTENT] or "",
            abstract=None if abstract is None else checked_abstract(abstract),
            overview=self._edited(seen, OVERVIEW),
            relations=edges,
            tags=seen.meta.tags if seen.meta else (),
        )
        known = seen.kept.parts[RELATIONS] if seen.kept and seen.told else None
        self._publish_by_hand(seen, node, BY_HAND, known)

    def _rehome(self, seen: Observed) -> None:
        """The parts are the owner's; events, and what the index knows, are those of the other address."""
        assert seen.meta is not None
        meta = seen.meta
        box = seen.address.locator.child(OUTBOX)
        for place in [*self._backend.list(box), *self._backend.list(box.child(DLQ))]:
            if place.name.endswith(".json"):
                self._remove(place)
        seen, found = self._edges(seen)
        edges = [replace(edge, from_uri=str(seen.address)) for edge in found]
        abstract = seen.parts[ABSTRACT]
        node = ContextNode(
            uri=str(seen.address),
            content=seen.parts[CONTENT] or "",
            abstract=checked_abstract(abstract) if abstract else None,
            overview=seen.parts[OVERVIEW],
            relations=tuple(edge for edge in edges if self._leads_somewhere(edge, seen.address)),
            tags=meta.tags,
        )
        self._publish_by_hand(seen, node, (*BY_HAND, f"copy-of:{meta.uri}"), NO_EDGES)

    def _leads_somewhere(self, edge: RelationEdge, origin: ContextUri) -> bool:
        target = parse_uri(edge.to_uri)
        return target.account == origin.account and is_shown(self._backend, target)

    def _publish_by_hand(
        self, seen: Observed, node: ContextNode, sources: tuple[str, ...], known_edges: str | None
    ) -> None:
        relations.announce(self._backend, node.relations)
        owner = seen.address.owner_space.partition(":")[2]
        version = new_version(
            node,
            seen.address,
            actor=f"human:{owner}",
            sources=sources,
            before=seen.meta,
            summariser=self._summariser,
        )
        self._publish(seen, version, upserts(version, known_edges), kept=False)

    def _edited(self, seen: Observed, name: str) -> str | None:
        """What somebody wrote into a part that is otherwise made from the content."""
        text = seen.parts[name]
        edited = text is not None and seen.meta is not None and digest(text) != seen.meta.parts.get(name)
        return text if edited else None

    def _edges(self, seen: Observed) -> tuple[Observed, tuple[RelationEdge, ...]]:
        """The edges as they are written. What cannot be understood, or leads to nowhere, is put aside."""
        assert seen.meta is not None
        old = load_relations(seen.kept.parts[RELATIONS]) if seen.kept else ()
        try:
            edges = relations.checked(load_relations(seen.parts[RELATIONS] or "[]"), parse_uri(seen.meta.uri))
            good = tuple(one for one in edges if one in old or is_shown(self._backend, parse_uri(one.to_uri)))
        except (InvalidNodeError, InvalidUriError):
            edges, good = (), old
        if edges != good:
            seen = replace(seen, files=seen.files | {RELATIONS: self._put_aside(seen, RELATIONS)})
        return seen, good

    def _publish(self, seen: Observed, version: Version, events: tuple[OutboxEvent, ...], *, kept: bool) -> None:
        draft = Draft(seen.address.locator, version, events, seen.files, kept=kept)
        publish(self._backend, [draft], self._held)

    def _remove(self, place: Locator) -> None:
        if self._backend.exists(place):
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
