"""Keeping an index up with its store: what changed is read, catalogued, and told to the full-text index.

The events of the nodes say where to look, and so does a look at the whole store; what is indexed is what the store
holds at that moment. So it does not matter in which order, or how often, a change is heard of.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING

from agentm.context.node import ABSTRACT, CONTENT, HISTORY, META, OUTBOX, OVERVIEW, RELATIONS, NodeStatus, digest
from agentm.context.reader import has_no_text, read_meta, read_version, untouched_version
from agentm.context.uri import ACCOUNTS, SCHEME, ContextUri, parse_uri, uri_of
from agentm.errors import AgentmError, InvalidNodeError, InvalidUriError, NodeBrokenError, NotTextError
from agentm.index import todo
from agentm.index.catalogue import AROUND, PURGED
from agentm.seam import ChangeFeed, Locator, require

if TYPE_CHECKING:
    from agentm.index.account import AccountIndex, Caught, Progress
    from agentm.index.schema import Entry
    from agentm.index.sources import Source

BATCH = 500
"""Sources that are told together: a commit costs the same for one and for many."""

_SMALL_BATCH = 100
"""While somebody waits for an answer."""

Stamp = tuple[str, str | None]
Work = Mapping[str, Sequence[Stamp]]
"""Sources to look at, and for each what the change feed said about its files."""

_TELLING = frozenset((META, CONTENT, ABSTRACT, OVERVIEW, RELATIONS))
"""The files of a node whose change may change what is found."""
_NOT_TELLING = frozenset((HISTORY, OUTBOX, ".names", ".git", ".obsidian", ".trash"))
"""Folders that hold nothing to be found."""
_ENDED = (NodeStatus.DELETED, NodeStatus.ARCHIVED, NodeStatus.MOVED)
_PASSAGE = 2
_LONGEST_CONTEXT = 2_000
"""Characters of a neighbour that an entry is found by."""


def changed_sources(index: AccountIndex, caught: Caught, deadline: float | None = None) -> Work:
    """What may have changed since the last look at the whole store, and what to remember of this one.

    After the ``deadline``, what was found until then; the next look finds the rest.
    """
    if not index.backend.capabilities.change_feed:
        from agentm.context.walk import nodes

        there = (str(uri) for uri in nodes(index.backend, index.account))
        return dict.fromkeys((*there, *index.catalogue.uris()), ())
    below = Locator("") if index.notes else Locator(f"{ACCOUNTS}/{index.account}")
    work: dict[str, list[Stamp]] = {}
    try:
        for change in require(index.backend, ChangeFeed).changes(index.catalogue.stamps(), below, skip=_NOT_TELLING):
            uri = _source_at(index, change.locator)
            if uri is not None:
                work.setdefault(uri, []).append((change.locator.key, change.stamp))
            if _is_late(deadline):
                caught.complete = False
                break
    except OSError as error:
        _refuse_missing_store(error)
        caught.complete = False  # a folder that cannot be looked at; what was found before it counts
    return work


def _refuse_missing_store(error: OSError) -> None:
    if getattr(error, "code", "") == "store_missing":
        raise error


def _source_at(index: AccountIndex, place: Locator) -> str | None:
    """The source that a file belongs to."""
    if not place.key.startswith(f"{ACCOUNTS}/"):
        return place.key if index.notes and is_note(place.key) else None
    parts = place.parts
    if parts[1] != index.account or parts[-1] not in _TELLING:
        return None
    return _uri_at(place.parent.key)


@lru_cache(maxsize=64)  # the files of a node come one after the other
def _uri_at(key: str) -> str | None:
    with suppress(InvalidUriError):
        return str(uri_of(Locator(key)))
    return None


def is_note(key: str) -> bool:
    """A markdown file outside the memories, not hidden, and no copy that a sync client left of another."""
    if not key.endswith(".md") or key.startswith(f"{ACCOUNTS}/") or "/." in f"/{key}":
        return False
    from agentm.conflicts import is_conflict_name

    return not is_conflict_name(key.rpartition("/")[2], ())


def _mark_purged(index: AccountIndex, uri: str) -> None:
    """Have the words of a memory taken out, if nothing may be left of what it said; once, however often it is met."""
    with suppress(AgentmError, OSError):
        meta = read_meta(index.backend, parse_uri(uri).locator) if uri.startswith(SCHEME) else None
        if meta is None or not meta.purge:
            return
        name, version = f"{PURGED} {digest(uri)[:16]}", str(meta.version)
        if index.catalogue.fact(name) != version:
            index.catalogue.put_fact(name, version)
            index.catalogue.put_fact(PURGED, "")


def work_off(index: AccountIndex, caught: Caught, deadline: float | None) -> None:
    """Everything that is known to be left to do, by the one who writes to the index."""
    _tell(index, caught, deadline)  # what a crash left
    noted, size = todo.taken(index.home)
    apply(index, dict.fromkeys(noted, ()), caught, deadline)
    if caught.complete:
        todo.done(index.home, size)
    if index.embedder is not None:
        from agentm.index.meaning import embed

        caught.embedded = embed(index, index.embedder, deadline)


def apply(
    index: AccountIndex,
    work: Work,
    caught: Caught,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Bring these sources to what the store holds, batch by batch."""
    uris = list(work)
    size = BATCH if deadline is None else min(BATCH, _SMALL_BATCH)
    for start in range(0, len(uris), size):
        if start and _is_late(deadline):
            caught.complete = False
            return
        _apply_some(index, {uri: work[uri] for uri in uris[start : start + size]}, caught, deadline, progress)
        if progress is not None:
            progress(min(start + size, len(uris)), len(uris))


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline


def _apply_some(
    index: AccountIndex, work: Work, caught: Caught, deadline: float | None, progress: Progress | None
) -> None:
    from agentm.context.outbox import acknowledge

    catalogue = index.catalogue
    found = dict(_all_read(index, work, caught))
    were_unreadable = set(catalogue.unreadable())
    with catalogue.change():
        for uri, source in found.items():
            if uri in caught.unreadable:
                catalogue.mark_unreadable(uri)
            elif uri in were_unreadable:
                catalogue.mark_readable(uri)
            if source is None:
                caught.gone += catalogue.known(uri) is not None
                catalogue.forget(uri)
                _mark_purged(index, uri)
            elif catalogue.known(uri) != (source.version, source.hash):
                caught.changed += 1
                catalogue.put(source)
            if uri not in caught.being_edited:  # else the next look meets it again
                catalogue.put_stamps(work[uri])
                if index.backend.capabilities.sync:
                    from agentm.index.by_hand import drop_seen

                    drop_seen(catalogue, uri)
    _tell(index, caught, deadline, progress)
    with suppress(AgentmError, OSError):  # an event that stays is told once more, and does nothing
        acknowledge(index.backend, _told(index, found))


def _all_read(index: AccountIndex, uris: Iterable[str], caught: Caught) -> Iterator[tuple[str, Source | None]]:
    """What the store holds of each; what it cannot say now stays as it is known."""
    for uri in uris:
        try:
            yield uri, _read(index, uri, caught)
        except OSError as error:
            _refuse_missing_store(error)
            caught.complete = False


def _told(index: AccountIndex, uris: Iterable[str]) -> dict[ContextUri, int]:
    """What the events of these nodes can be let go of up to: what is indexed, or what was taken away."""
    told = {}
    for uri in uris:
        if not uri.startswith(SCHEME):
            continue
        known = index.catalogue.known(uri)
        with suppress(AgentmError, OSError):
            address = parse_uri(uri)
            meta = read_meta(index.backend, address.locator)
            gone = meta is not None and meta.status in _ENDED
            told[address] = meta.version if meta is not None and gone else known[0] if known else 0
    return told


def _tell(index: AccountIndex, caught: Caught, deadline: float | None, progress: Progress | None = None) -> None:
    """Make the full-text index know what the catalogue has marked, and nothing of what was purged."""
    if _tell_marked(index, caught, deadline) and index.catalogue.fact(PURGED) is not None:
        from agentm.index.purging import sweep

        if not sweep(index, partial(_tell_marked, index, caught, deadline, progress)):
            caught.complete = False


def _tell_marked(index: AccountIndex, caught: Caught, deadline: float | None, progress: Progress | None = None) -> bool:
    """False if time was up before all of it was told."""
    total = index.catalogue.count_untold() if progress is not None else 0
    for turn in count():
        changed, gone = index.catalogue.untold(BATCH if deadline is None else min(BATCH, _SMALL_BATCH))
        if not changed and not gone:
            return True
        if turn and _is_late(deadline):
            caught.complete = False
            return False
        for uri in gone:
            index.fulltext.replace(uri, ())
        for uri in changed:
            index.fulltext.replace(uri, _entries(index, uri))
        index.fulltext.commit()
        with index.catalogue.change():
            index.catalogue.mark_told(changed, gone)
        if progress is not None:
            progress(total - index.catalogue.count_untold(), total)
    raise AssertionError("it ends when nothing is left")


# From the store.


def _read(index: AccountIndex, uri: str, caught: Caught) -> Source | None:
    """What the store holds of a source now; None if nothing is to be found there, or what is there is damaged.

    What somebody has edited by hand becomes a version first; what is no text cannot, and the version before it is what
    counts. A store that cannot be asked raises: what it holds is not
    gone for that.
    """
    from agentm.index.sources import of_node

    if not uri.startswith(SCHEME):
        return _read_note(index, Locator(uri), caught)
    try:
        address = parse_uri(uri)
        if address.account != index.account:
            return None
        version = untouched_version(index.backend, address.locator)
        if version is None:
            _adopt(index, address, caught)
            version = read_version(index.backend, address.locator)
            if version is not None and has_no_text(index.backend, address.locator):
                caught.unreadable.append(uri)
    except InvalidUriError:
        return None
    except (NodeBrokenError, InvalidNodeError, NotTextError):
        caught.unreadable.append(uri)
        return None
    if version is None or version.meta.uri != uri:
        return None
    return of_node(version.node())


def _adopt(index: AccountIndex, address: ContextUri, caught: Caught) -> None:
    from agentm.index.by_hand import adopt

    uri = str(address)
    if not adopt(index.backend, address, index.catalogue) and uri not in caught.being_edited:
        caught.being_edited.append(uri)


def _read_note(index: AccountIndex, place: Locator, caught: Caught) -> Source | None:
    from agentm.context.summarise import abstract_of
    from agentm.index.account import NOTES
    from agentm.index.sources import of_note

    if not index.notes or not is_note(place.key):
        return None
    try:
        text = index.backend.read(place)
        modified = index.backend.info(place).mtime
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except NotTextError:
        caught.unreadable.append(place.key)
        return None
    return of_note(place.key, text, space=NOTES, modified=modified, abstract=abstract_of(text))


# For the full-text index.


def _entries(index: AccountIndex, uri: str) -> Iterator[Entry]:
    from agentm.index.schema import Entry

    source = index.catalogue.source(uri)
    records = index.catalogue.records(uri)
    earlier, later = ([_text(index, near) for near in side] for side in index.catalogue.neighbours(uri))
    # An abstract or overview stands for all of its source, which its neighbours surround.
    passages = [row.text for row in records if row.level == _PASSAGE]
    for row in records:
        at = row.number if row.level == _PASSAGE else 0
        before = [*earlier, *passages[:at]][-AROUND:]
        after = [*passages[at + 1 :], *later][:AROUND]
        yield Entry(
            record=row.id,
            uri=uri,
            space=source.space,
            category=source.category,
            tags=source.tags,
            project=source.project,
            level=row.level,
            when=source.moment,
            body=row.text,
            title=f"{source.title} {row.heading} {' '.join(source.tags)}",
            who=source.who,
            date=source.moment,
            context="\n".join(after),
            before="\n".join(before),
        )


def _text(index: AccountIndex, uri: str) -> str:
    """What a neighbour says."""
    texts = (row.text for row in index.catalogue.records(uri) if row.level == _PASSAGE)
    return " ".join(texts)[:_LONGEST_CONTEXT]
