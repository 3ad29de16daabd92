"""Putting right what a crash, a full disk or an editor left behind.

What is on the store is observed, a pure function says what is to be done, and an executor does it under the node's
lock, after looking again. A write that is under way holds that lock, so it is never touched; a run that was cut short
can simply be run again; and where nothing is wrong nothing is written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agentm.context import history
from agentm.context.drafting import new_version, utc_now
from agentm.context.events import (
    UPSERT_RELATION,
    OutboxEvent,
    delete_context,
    dump_event,
    event_place,
    move_context,
    upserts,
)
from agentm.context.node import (
    ABSTRACT,
    CONTENT,
    HISTORY,
    META,
    OVERVIEW,
    PARTS,
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
from agentm.context.outbox import applied_version, events_of
from agentm.context.reader import has_arrived, kept_version, read_meta, read_text, standing_files
from agentm.context.relations import backlinks, checked, follow_move, forget, note_backlink
from agentm.context.summarise import checked_abstract
from agentm.context.tenancy import RequestContext
from agentm.context.transitions import clear, finish_move
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.walk import nodes
from agentm.context.writer import Draft, locked, publish
from agentm.errors import AgentmError, InvalidNodeError, InvalidUriError, NodeBrokenError, NotTextError
from agentm.seam import Held, Locator, Remove, Rename, StorageBackend, require

QUIET_SECONDS = 2.0
DAMAGED = ".damaged"
BY_HAND = ("edit:by-hand",)
"""The source of an adopted version. Its text stood in the node before it: it does not show how far a writer got."""

log = logging.getLogger(__name__)


class Action(StrEnum):
    """What is to be done about a node."""

    NOTHING = "nothing"
    COMPLETE = "complete a first write that was cut short"
    DISCARD = "discard the beginning of a write"
    RESTORE = "put back the committed version of files that a cut-short write had reached"
    ACTIVATE = "show a node that was written whole"
    BREAK = "mark as broken what cannot be made whole"
    FINISH_MOVE = "finish a move"
    CANCEL_MOVE = "discard the target of a move that did not happen"
    TELL = "register the event that was lost"
    CLEAR = "remove the files of a node that has ended"
    RELINK = "lead edges to where a node went, or take them away with it"
    ADOPT = "adopt an edit made by hand as a new version"


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


def decide(seen: Observed) -> Action:
    """From what is there to what is to be done; nothing else comes in."""
    if seen.meta_damaged:
        return Action.BREAK
    if seen.meta is None:
        if seen.parts[CONTENT] is not None:
            return Action.COMPLETE
        if CONTENT in seen.damaged:
            return Action.BREAK
        return Action.DISCARD if seen.unfinished or any(seen.parts.values()) else Action.NOTHING
    return _OF_STATUS[seen.meta.status](seen)


def _decide_pending(seen: Observed) -> Action:
    assert seen.meta is not None
    if seen.meta.other_uri is not None:
        return Action.FINISH_MOVE if seen.source_moved_here else Action.CANCEL_MOVE
    return Action.ACTIVATE if seen.complete and not seen.differs else Action.BREAK


def _decide_active(seen: Observed) -> Action:
    if seen.damaged or seen.differs:
        return _decide_about_parts(seen)
    if seen.unfinished:
        return Action.DISCARD
    return Action.NOTHING if seen.told else Action.TELL


def _decide_about_parts(seen: Observed) -> Action:
    reached = any(
        text is not None and digest(text) == version.meta.parts.get(name)
        for version in seen.unfinished
        if version.meta.sources != BY_HAND
        for name, text in seen.parts.items()
        if seen.meta is None or version.meta.parts.get(name) != seen.meta.parts.get(name)
    )
    if seen.kept is not None and (reached or seen.damaged or seen.parts[CONTENT] is None):
        return Action.RESTORE
    if seen.parts[CONTENT] is not None and CONTENT not in seen.damaged:
        return Action.ADOPT if seen.at_rest else Action.NOTHING
    return Action.BREAK


def _decide_ended(seen: Observed) -> Action:
    if not seen.told:
        return Action.TELL
    if seen.unfinished:
        return Action.DISCARD
    left = any(text is not None for text in seen.parts.values()) or bool(seen.damaged)
    if seen.meta is not None and seen.meta.status is NodeStatus.ARCHIVED:
        left = False
        if seen.kept is not None and (seen.damaged or seen.differs):
            return Action.RESTORE
    if left:
        return Action.CLEAR
    return Action.RELINK if seen.pointed_at else Action.NOTHING


_OF_STATUS = {
    NodeStatus.PENDING: _decide_pending,
    NodeStatus.ACTIVE: _decide_active,
    NodeStatus.BROKEN: lambda seen: Action.NOTHING,
    NodeStatus.ARCHIVED: _decide_ended,
    NodeStatus.DELETED: _decide_ended,
    NodeStatus.MOVED: _decide_ended,
}


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
    parts: dict[str, str | None] = {}
    damaged = []
    for name in PARTS:
        try:
            parts[name] = read_text(backend, node.child(name))
        except NotTextError:
            parts[name] = None
            damaged.append(name)
    return Observed(
        address=address,
        meta=meta,
        meta_damaged=meta_damaged,
        parts=parts,
        damaged=tuple(damaged),
        unfinished=_unfinished(backend, node, meta),
        kept=None if meta is None else kept_version(backend, node, meta),
        told=meta is not None and is_told(backend, address, meta),
        source_moved_here=meta is not None and has_arrived(backend, meta),
        pointed_at=bool(backlinks(backend, address)),
        at_rest=quiet <= 0.0 or not any(_touched_within(backend, node.child(name), quiet) for name in PARTS),
    )


def _touched_within(backend: StorageBackend, place: Locator, seconds: float) -> bool:
    try:
        return abs(time.time() - backend.info(place).mtime) < seconds
    except OSError:
        return False


def is_told(backend: StorageBackend, address: ContextUri, meta: Meta) -> bool:
    if applied_version(backend, address.locator) >= meta.version:
        return True
    return any(
        found.event.version == meta.version and found.event.event_type != UPSERT_RELATION
        for found in events_of(backend, address)
    )


def _unfinished(backend: StorageBackend, node: Locator, meta: Meta | None) -> tuple[Version, ...]:
    found = []
    for place in history.places(backend, node):
        if meta is None or (history.number_of(place) >= meta.version and place.name != meta.history_name):
            version = history.load(backend, place)
            if version is not None:
                found.append(version)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was, or would be, done."""

    uri: str
    action: Action
    alert: bool = False
    why: str = ""
    """Set when it could not be done."""


@dataclass(slots=True)
class RepairReport:
    """What a run came to."""

    scanned: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def alerts(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.alert]


def repair(
    backend: StorageBackend,
    *,
    account: str | None = None,
    dry_run: bool = False,
    actor: str = "process:agentm-repair",
    quiet: float = QUIET_SECONDS,
) -> RepairReport:
    """Go through every node and put right what is wrong; with ``dry_run`` only say what would be done.

    An edit made by hand is adopted once nobody has touched its file for ``quiet`` seconds.
    """
    report = RepairReport()
    for address in nodes(backend, account):
        report.scanned += 1
        for finding in _mend_safely(backend, address, dry_run, actor, quiet):
            report.findings.append(finding)
            if finding.alert and not dry_run:
                log.warning("%s: %s; look at its files. %s", address, finding.action, finding.why)
    return report


def _mend_safely(
    backend: StorageBackend, address: ContextUri, dry_run: bool, actor: str, quiet: float
) -> Iterator[Finding]:
    """What is done about one node. One that cannot be mended does not keep the others from it."""
    action = Action.NOTHING
    try:
        action = decide(observe(backend, address, quiet))
        if action is Action.NOTHING:
            return
        for done in [action] if dry_run else mend(backend, address, actor=actor, quiet=quiet):
            yield Finding(str(address), done, alert=done is Action.BREAK)
    except (AgentmError, OSError) as error:
        yield Finding(str(address), action, alert=True, why=str(error))


def mend(
    backend: StorageBackend, address: ContextUri, *, actor: str = "process:agentm-repair", quiet: float = 0.0
) -> list[Action]:
    """Put one node right, and say what was done."""
    with locked(backend, address.locator) as held:
        done = mend_held(backend, address, held, actor=actor, quiet=quiet)
    seen = observe(backend, address, quiet)
    if decide(seen) is Action.RELINK:
        _relink(backend, seen, actor)
        done.append(Action.RELINK)
    return done


def _relink(backend: StorageBackend, seen: Observed, actor: str) -> None:
    """Changes other nodes, each under its own lock: nobody may hold one and ask for another."""
    from agentm.context.contextfs import ContextFS  # which mends nodes itself

    assert seen.meta is not None
    ctx = RequestContext(seen.address.account, actor=actor)
    if seen.meta.status is NodeStatus.MOVED and seen.meta.other_uri:
        follow_move(ContextFS(backend), seen.address, parse_uri(seen.meta.other_uri), ctx)
    else:
        forget(ContextFS(backend), seen.address, ctx)


def mend_held(
    backend: StorageBackend, address: ContextUri, held: Held, *, actor: str, quiet: float = 0.0
) -> list[Action]:
    """The same for somebody who holds the node already."""
    done: list[Action] = []
    for _ in range(len(Action)):
        seen = observe(backend, address, quiet)
        action = decide(seen)
        if action in (Action.NOTHING, Action.RELINK):
            break
        Executor(backend, held, actor).do(action, seen)
        done.append(action)
    return done


class Executor:
    """Does what was decided. The node is locked."""

    def __init__(self, backend: StorageBackend, held: Held, actor: str) -> None:
        self._backend = backend
        self._held = held
        self._actor = actor

    def do(self, action: Action, seen: Observed) -> None:
        getattr(self, f"_{action.name.lower()}")(seen)

    def _complete(self, seen: Observed) -> None:
        begun = [one for one in seen.unfinished if one.parts[CONTENT] == seen.parts[CONTENT]]
        version = begun[-1] if begun else self._orphan(seen)
        self._publish(seen, version, kept=bool(begun))

    def _orphan(self, seen: Observed) -> Version:
        text = seen.parts[CONTENT] or ""
        return new_version(ContextNode(str(seen.address), text), seen.address, actor=self._actor)

    def _discard(self, seen: Observed) -> None:
        node = seen.address.locator
        for version in seen.unfinished:
            self._remove(node.child(HISTORY, version.meta.history_name))
        if seen.meta is None:
            clear(self._backend, node, purge=False)

    def _restore(self, seen: Observed) -> None:
        assert seen.kept is not None
        for name in seen.damaged:
            self._put_aside(seen.address.locator.child(name))
        self._publish(seen, seen.kept, kept=True, events=() if seen.told else _events_for(seen))
        self._discard(seen)

    def _activate(self, seen: Observed) -> None:
        assert seen.meta is not None
        texts = {name: text for name, text in seen.parts.items() if text is not None}
        hashes = {name: digest(text) for name, text in texts.items()}
        meta = replace(seen.meta, status=NodeStatus.ACTIVE, parts=hashes)
        self._publish(seen, Version(meta, texts), kept=seen.kept is not None)

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
        """Take the copies out again, and let what was there before the move be what is there."""
        assert seen.meta is not None
        assert seen.meta.other_uri is not None
        node = seen.address.locator
        copied = {place.name for place in history.places(self._backend, parse_uri(seen.meta.other_uri).locator)}
        for place in history.places(self._backend, node):
            if place.name in copied | {seen.meta.history_name}:
                self._remove(place)
        self._discard(seen)
        own = [history.load(self._backend, place) for place in history.places(self._backend, node)]
        before = [version for version in own if version is not None and version.meta.version < seen.meta.version]
        if before:
            self._backend.write(node.child(META), dump_meta(before[-1].meta))
        else:
            clear(self._backend, node, purge=False)
            self._remove(node.child(META))

    def _tell(self, seen: Observed) -> None:
        for event in _events_for(seen):
            self._backend.write(event_place(seen.address.locator, event.event_id), dump_event(event))

    def _clear(self, seen: Observed) -> None:
        moved = seen.meta is not None and seen.meta.status is NodeStatus.MOVED
        clear(self._backend, seen.address.locator, purge=moved)

    def _adopt(self, seen: Observed) -> None:
        assert seen.meta is not None
        edges = self._edges(seen)
        abstract = self._edited(seen, ABSTRACT)
        node = ContextNode(
            uri=str(seen.address),
            content=seen.parts[CONTENT] or "",
            abstract=None if abstract is None else checked_abstract(abstract),
            overview=self._edited(seen, OVERVIEW),
            relations=edges,
            tags=seen.meta.tags,
        )
        owner = seen.address.owner_space.partition(":")[2]
        version = new_version(node, seen.address, actor=f"human:{owner}", sources=BY_HAND, before=seen.meta)
        self._publish(seen, version, kept=False)

    def _edited(self, seen: Observed, name: str) -> str | None:
        """What somebody wrote into a part that is otherwise made from the content."""
        text = seen.parts[name]
        edited = text is not None and seen.meta is not None and digest(text) != seen.meta.parts.get(name)
        return text if edited else None

    def _edges(self, seen: Observed) -> tuple[RelationEdge, ...]:
        try:
            edges = checked(load_relations(seen.parts[RELATIONS] or "[]"), seen.address)
        except (InvalidNodeError, InvalidUriError):
            self._put_aside(seen.address.locator.child(RELATIONS))
            return load_relations(seen.kept.parts[RELATIONS]) if seen.kept else ()
        for edge in edges:
            note_backlink(self._backend, parse_uri(edge.to_uri), edge.from_uri)
        return edges

    def _publish(
        self, seen: Observed, version: Version, *, kept: bool, events: tuple[OutboxEvent, ...] | None = None
    ) -> None:
        node = seen.address.locator
        events = upserts(version) if events is None else events
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
        return upserts(version)
    if seen.meta.status is NodeStatus.MOVED and seen.meta.other_uri:
        return (move_context(version, seen.meta.other_uri),)
    return (delete_context(version),)
