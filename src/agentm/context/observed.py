"""What a node directory holds, as the repair sees it: at a glance where all is well, in full where it is not."""

from __future__ import annotations

import time

from agentm.context import history
from agentm.context.events import NO_EDGES, UPSERT_CONTEXT, UPSERT_RELATION, event_id
from agentm.context.node import (
    CONTENT,
    DAMAGED,
    HISTORY,
    META,
    OUTBOX,
    PARTS,
    RELATIONS,
    Meta,
    NodeStatus,
    Version,
    digest,
    load_meta,
)
from agentm.context.outbox import applied_version, events_of
from agentm.context.reader import Part, has_arrived, kept_version, read_part, read_text
from agentm.context.relations import BACKLINKS, backlinks
from agentm.context.uri import ContextUri
from agentm.errors import InvalidNodeError, NotTextError
from agentm.records import record_class
from agentm.seam import Locator, StorageBackend


@record_class(frozen=True)
class Observed:
    """What a node directory holds."""

    address: ContextUri
    meta: Meta | None
    meta_damaged: bool
    files: dict[str, Part]
    """The parts and the meta, with the tokens of what was seen: nothing else may be replaced on the strength of it."""
    damaged: tuple[str, ...]
    """Parts that are no text."""
    unfinished: tuple[Version, ...]
    """Versions in the history that were never committed."""
    kept: Version | None
    """The committed version, from the history."""
    told: bool
    """Whether the index knows the committed version, or an event is there to tell it."""
    told_once: bool = False
    """Whether the index was ever told something of it."""
    source_moved_here: bool = False
    pointed_at: bool = False
    """Whether other nodes may still have edges to it."""
    edges_before: str | None = None
    """The edges of the version before the committed one, as they were written, if that is known."""
    has_history: bool = False
    at_rest: bool = True
    """Whether the parts were last touched long enough ago for an editor to be done with them."""

    @property
    def parts(self) -> dict[str, str | None]:
        """Text of each part, None where it is absent, or no text."""
        return {name: self.files[name].text for name in PARTS}

    @property
    def complete(self) -> bool:
        return not self.damaged and all(text is not None for text in self.parts.values())

    @property
    def differs(self) -> bool:
        """Whether the parts are not those that the meta was written for."""
        if self.meta is None or not self.meta.parts:
            return False
        return any(text is None or digest(text) != self.meta.parts.get(name) for name, text in self.parts.items())

    @property
    def rewritten(self) -> bool:
        """Whether there is a text that the meta was not written for: an editor saved what it still had open."""
        text = self.parts[CONTENT]
        return text is not None and self.meta is not None and digest(text) != self.meta.parts.get(CONTENT, digest(text))

    @property
    def misplaced(self) -> bool:
        """Whether it is the copy of another node, or another one under a new name."""
        return self.meta is not None and self.meta.uri != str(self.address)

    @property
    def begun(self) -> Version | None:
        """The unfinished version whose content is there."""
        found = [one for one in self.unfinished if one.parts[CONTENT] == self.parts[CONTENT]]
        return found[-1] if found else None


def is_healthy(backend: StorageBackend, address: ContextUri) -> bool:
    """Whether there is plainly nothing to be done about a node: shown, whole, told, and nobody in the middle of it.

    Most nodes are, so this reads each file that matters once and nothing else.
    """
    node = address.locator
    try:
        text = read_text(backend, node.child(META))
        meta = None if text is None else load_meta(text)
        if meta is None or meta.status is not NodeStatus.ACTIVE or meta.other_uri or meta.uri != str(address):
            return False
        return _is_whole(backend, node, meta) and _is_settled(backend, node, meta) and _is_told(backend, node, meta)
    except (InvalidNodeError, NotTextError):
        return False


def _is_whole(backend: StorageBackend, node: Locator, meta: Meta) -> bool:
    for name in PARTS:
        text = read_text(backend, node.child(name))
        if text is None or digest(text) != meta.parts.get(name):
            return False
    return True


def _is_settled(backend: StorageBackend, node: Locator, meta: Meta) -> bool:
    """Whether the newest version in the history is the committed one, and the only one with its number."""
    names = [place.name for place in backend.list(node.child(HISTORY))]
    return names[-1:] == [meta.history_name] and (len(names) == 1 or names[-2] < f"{meta.version:08d}")


def _is_told(backend: StorageBackend, node: Locator, meta: Meta) -> bool:
    waiting = f"{event_id(meta, UPSERT_CONTEXT)}.json"
    if any(place.name == waiting for place in backend.list(node.child(OUTBOX))):
        return True
    return applied_version(backend, node) >= meta.version


def observe(backend: StorageBackend, address: ContextUri, quiet: float = 0.0) -> Observed:
    """Look at everything a node directory holds; its parts are at rest after ``quiet`` seconds without a change."""
    node = address.locator
    files, damaged = _files(backend, node)
    meta, meta_damaged = _meta(backend, node, files[META], META in damaged)
    places = history.places(backend, node)
    told = meta is not None and _knows(backend, address, meta)
    return Observed(
        address=address,
        meta=meta,
        meta_damaged=meta_damaged,
        files=files,
        damaged=tuple(name for name in damaged if name != META),
        unfinished=_unfinished(backend, places, meta),
        kept=None if meta is None else kept_version(backend, node, meta),
        told=told,
        told_once=bool(backend.list(node.child(OUTBOX))),
        edges_before=None if told else _edges_before(backend, places, meta),
        source_moved_here=meta is not None and has_arrived(backend, meta),
        pointed_at=bool(backlinks(backend, address)),
        has_history=bool(places),
        at_rest=is_at_rest(backend, node, quiet),
    )


def _files(backend: StorageBackend, node: Locator) -> tuple[dict[str, Part], tuple[str, ...]]:
    files: dict[str, Part] = {}
    damaged = []
    for name in (*PARTS, META):
        try:
            files[name] = read_part(backend, node.child(name))
        except NotTextError:
            files[name] = Part(None, None)
            damaged.append(name)
        except IsADirectoryError:
            files[name] = Part(None, None)
    return files, tuple(damaged)


def _meta(backend: StorageBackend, node: Locator, part: Part, damaged: bool) -> tuple[Meta | None, bool]:
    """The meta, and whether there is one that cannot be understood."""
    if damaged:
        return None, True
    if part.text is None:
        # Put aside, and then the repair died before it could say so.
        return None, backend.exists(node.child(f"{META}{DAMAGED}"))
    try:
        return load_meta(part.text), False
    except InvalidNodeError:
        return None, True


def is_at_rest(backend: StorageBackend, node: Locator, quiet: float) -> bool:
    """Whether nobody has touched a part of a node, or the list of what points at it, for so many seconds."""
    names = (*PARTS, BACKLINKS)
    return quiet <= 0.0 or not any(_touched_within(backend, node.child(name), quiet) for name in names)


def _touched_within(backend: StorageBackend, place: Locator, seconds: float) -> bool:
    try:
        return abs(time.time() - backend.info(place).mtime) < seconds
    except OSError:
        return False


def _knows(backend: StorageBackend, address: ContextUri, meta: Meta) -> bool:
    if applied_version(backend, address.locator) >= meta.version:
        return True
    return any(
        found.event.version == meta.version and found.event.event_type != UPSERT_RELATION
        for found in events_of(backend, address)
    )


def _edges_before(backend: StorageBackend, places: list[Locator], meta: Meta | None) -> str | None:
    if meta is None or meta.version == 1:
        return NO_EDGES
    before = [place for place in places if history.number_of(place) == meta.version - 1]
    version = history.load(backend, before[0]) if len(before) == 1 else None
    return version.parts[RELATIONS] if version is not None and version.meta.status is NodeStatus.ACTIVE else None


def _unfinished(backend: StorageBackend, places: list[Locator], meta: Meta | None) -> tuple[Version, ...]:
    found = []
    for place in places:
        if meta is None or (history.number_of(place) >= meta.version and place.name != meta.history_name):
            version = history.load(backend, place)
            if version is not None:
                found.append(version)
    return tuple(found)
