"""The index of one account: opened, kept up with the store, rebuilt, searched.

It is derived from the store and nothing else, and lies outside of every store, on this machine. What is wrong with it
is set aside and built anew; a search answers from what is there meanwhile.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from agentm.context.contextfs import ContextFS
from agentm.context.node import ABSTRACT, CONTENT, HISTORY, META, OUTBOX, OVERVIEW, RELATIONS, NodeStatus
from agentm.context.outbox import acknowledge
from agentm.context.reader import read_meta, read_version
from agentm.context.summarise import abstract_of
from agentm.context.uri import ACCOUNTS, ContextUri, parse_uri, uri_of
from agentm.context.walk import nodes
from agentm.errors import AgentmError, InvalidUriError, NotTextError
from agentm.index import todo
from agentm.index.catalogue import Catalogue
from agentm.index.embed import Embedder
from agentm.index.fulltext import FullText, WriterBusyError
from agentm.index.sources import NODE, Source, is_node, of_node, of_note
from agentm.index.vectors import Vectors
from agentm.seam import ChangeFeed, Locator, require

if TYPE_CHECKING:
    from agentm.index.schema import Entry

log = logging.getLogger(__name__)

BATCH = 500
"""Sources that are told together: a commit costs the same for one and for many."""
_SET_ASIDE = ".set-aside"
_REBUILT = ".rebuilt"
_COMPLETE = "complete"
_EMBEDDER = "embedder"
_EMBEDDED_AT_ONCE = 64
_CHEAP_SCAN = 0.1
_STALE = 600.0
"""Seconds."""

Progress = Callable[[int, int], None]
Stamp = tuple[str, str | None]
Work = Mapping[str, Sequence[Stamp]]
"""Sources to look at, and for each what the change feed said about its files."""


@dataclass(slots=True)
class Caught:
    """What keeping up came to."""

    changed: int = 0
    gone: int = 0
    complete: bool = True
    """False if somebody else is at it, or time was up before everything was looked at."""


class AccountIndex:
    """One account's index in a directory of its own. ``notes`` is the space that plain notes of the store belong to."""

    def __init__(
        self,
        directory: str,
        fs: ContextFS,
        account: str,
        *,
        notes: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.directory = directory
        self._embedder = embedder
        self.account = account
        self._fs = fs
        self._notes = notes
        if not os.path.isdir(directory) and _is_complete(directory + _REBUILT):
            os.replace(directory + _REBUILT, directory)  # somebody died between taking the old one away and this
        os.makedirs(directory, exist_ok=True)
        self.catalogue, self.fulltext = self._opened()

    def _opened(self) -> tuple[Catalogue, FullText]:
        try:
            return self._open()
        except (sqlite3.DatabaseError, ValueError):
            self._set_aside()
            return self._open()

    def _open(self) -> tuple[Catalogue, FullText]:
        catalogue = Catalogue(self.directory)
        try:
            fulltext = FullText(self.directory)
            if fulltext.is_new and catalogue.count():
                with catalogue.change():
                    catalogue.mark_untold()  # somebody took away what it was told
            return catalogue, fulltext
        except BaseException:
            catalogue.close()
            raise

    def _set_aside(self) -> None:
        """Keep what cannot be used, in case somebody wants to look at it: the last one."""
        aside = self.directory + _SET_ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(self.directory, aside)
        os.makedirs(self.directory)

    def close(self) -> None:
        self.fulltext.end()
        self.catalogue.close()

    # Keeping up.

    def catch_up(self, *, scan: bool = True, deadline: float | None = None, progress: Progress | None = None) -> Caught:
        """Index what changed: what was noted, and with ``scan`` what a look at the whole store finds."""
        caught = Caught()
        started = time.monotonic()
        work = self._changed_places() if scan else {}
        if work or todo.is_there(self.directory) or any(self.catalogue.untold()) or self._has_to_embed():
            try:
                with self._writing():
                    self._work_off(work, caught, deadline, progress)
            except WriterBusyError:
                caught.complete = False  # whoever it is works it off for all
        if scan and caught.complete:
            self._remember_scan(time.monotonic() - started)
        return caught

    def _remember_scan(self, took: float) -> None:
        """For `is_cheap`; not worth a flush of the disk where the next look is cheap as well."""
        known = self.catalogue.fact("scan seconds")
        if known is None or max(took, float(known)) >= _CHEAP_SCAN:
            with self.catalogue.change():
                self.catalogue.put_fact("scan seconds", f"{took:.3f}")
                self.catalogue.put_fact("scanned at", f"{time.time():.0f}")
            self.catalogue.settle()

    def _work_off(self, work: Work, caught: Caught, deadline: float | None, progress: Progress | None) -> None:
        self._tell()  # what a crash left
        noted: Work = {uri: [] for uri in todo.taken(self.directory)}
        self._apply(noted, caught, deadline, None)
        if caught.complete:
            todo.done(self.directory)
            self._apply(work, caught, deadline, progress)
        self._embed(deadline)

    def update(self, uris: Sequence[str]) -> bool:
        """Index these now; False if somebody else is writing to the index."""
        try:
            with self._writing():
                self._apply(dict.fromkeys(uris, ()), Caught(), None, None)
        except WriterBusyError:
            todo.note(self.directory, uris)
            return False
        return True

    def rebuild(self, progress: Progress | None = None) -> Caught:
        """Build everything anew beside the old one, which answers until then. One that was cut short goes on."""
        beside = AccountIndex(
            self.directory + _REBUILT, self._fs, self.account, notes=self._notes, embedder=self._embedder
        )
        try:
            with self._writing():  # nobody else changes the old one, or builds a new one
                caught = beside.catch_up(progress=progress)
                with beside.catalogue.change():
                    beside.catalogue.put_fact(_COMPLETE, "yes")
        finally:
            beside.close()
        self._exchange()
        return caught

    def _exchange(self) -> None:
        """Put the new one in place of the old one. Whoever has the old one open goes on reading it until it looks."""
        self.close()
        old = f"{self.directory}.{os.getpid()}.old"
        os.replace(self.directory, old)
        os.replace(self.directory + _REBUILT, self.directory)
        shutil.rmtree(old, ignore_errors=True)
        self.catalogue, self.fulltext = self._opened()

    def refresh(self) -> None:
        """Open what lies in the directory now, if somebody has built a new index meanwhile."""
        if not self.catalogue.is_at(self.directory):
            self.close()
            os.makedirs(self.directory, exist_ok=True)
            self.catalogue, self.fulltext = self._opened()

    def status(self) -> dict[str, object]:
        changed, gone = self.catalogue.untold()
        return {
            "directory": self.directory,
            "sources": self.catalogue.count(),
            "records": self.fulltext.searcher().num_docs,
            "untold": len(changed) + len(gone),
            "embedder": self.catalogue.fact(_EMBEDDER),
            "scanned_at": self.catalogue.fact("scanned at"),
        }

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.fulltext.begin()
        try:
            yield
        finally:
            self.fulltext.end()
            self.catalogue.settle()

    def _apply(self, work: Work, caught: Caught, deadline: float | None, progress: Progress | None) -> None:
        """Bring these sources to what the store holds, batch by batch."""
        uris = list(work)
        for start in range(0, len(uris), BATCH):
            if deadline is not None and time.monotonic() > deadline:
                caught.complete = False
                return
            some = uris[start : start + BATCH]
            self._apply_some(some, caught, [stamp for uri in some for stamp in work[uri]])
            if progress is not None:
                progress(start + len(some), len(uris))

    def _apply_some(self, uris: Sequence[str], caught: Caught, stamps: Iterable[Stamp]) -> None:
        found = {uri: self._read(uri) for uri in uris}
        with self.catalogue.change():
            for uri, source in found.items():
                if source is None:
                    caught.gone += self.catalogue.known(uri) is not None
                    self.catalogue.forget(uri)
                elif self.catalogue.known(uri) != (source.version, source.hash):
                    caught.changed += 1
                    self.catalogue.put(source)
            self.catalogue.put_stamps(stamps)
        self._tell()
        acknowledge(self._fs.backend, self._told(uris))

    def _told(self, uris: Iterable[str]) -> dict[ContextUri, int]:
        """What the events of these nodes can be let go of up to: what is indexed, or what was taken away."""
        told = {}
        for uri in filter(is_node, uris):
            known = self.catalogue.known(uri)
            with suppress(AgentmError, OSError):
                address = parse_uri(uri)
                meta = read_meta(self._fs.backend, address.locator)
                gone = meta is not None and meta.status in _ENDED
                told[address] = meta.version if meta is not None and gone else known[0] if known else 0
        return told

    def _tell(self) -> None:
        """Make the full-text index know what the catalogue has marked."""
        while True:
            changed, gone = self.catalogue.untold()
            changed = changed[:BATCH]
            if not changed and not gone:
                return
            for uri in gone:
                self.fulltext.replace(uri, ())
            for uri in changed:
                self.fulltext.replace(uri, self._entries(uri))
            self.fulltext.commit()
            with self.catalogue.change():
                self.catalogue.mark_told(changed, gone)

    # Vectors.

    def _has_to_embed(self) -> bool:
        return self._embedder is not None and bool(self.catalogue.unembedded(self._embedder.name, 1))

    def _embed(self, deadline: float | None) -> None:
        """Make vectors for the records that have none. What its embedder fails at is found by its words meanwhile."""
        if self._embedder is None:
            return
        name = self._embedder.name
        vectors = Vectors(self.directory, name)
        while some := self.catalogue.unembedded(name, _EMBEDDED_AT_ONCE):
            if deadline is not None and time.monotonic() > deadline:
                return
            records = [record for record, _ in some]
            try:
                vectors.add(records, self._embedder.embed([text for _, text in some]))
            except Exception as error:  # whatever an embedder does, full text goes on
                log.warning("%s gave no vectors for %d texts: %s", name, len(some), error)
                return
            with self.catalogue.change():
                self.catalogue.mark_embedded(name, records)
        if self.catalogue.fact(_EMBEDDER) != name:
            self._go_over_to(name)

    def _go_over_to(self, embedder: str) -> None:
        """All records have a vector of this embedder: from now on they are searched, and those of others are let go."""
        with self.catalogue.change():
            self.catalogue.put_fact(_EMBEDDER, embedder)
            self.catalogue.drop_other_embedders(embedder)
        own = os.path.basename(Vectors(self.directory, embedder).path)
        for name in os.listdir(self.directory):
            if name.startswith("vectors-") and name != own:
                shutil.rmtree(os.path.join(self.directory, name), ignore_errors=True)

    def near(self, query: str, limit: int) -> dict[int, float]:
        """Records near in meaning, with their similarities; none without an embedder that has seen all of them."""
        if self._embedder is None or self.catalogue.fact(_EMBEDDER) != self._embedder.name:
            return {}
        try:
            [vector] = self._embedder.embed([query])
            return Vectors(self.directory, self._embedder.name).nearest(vector, limit)
        except Exception as error:  # whatever an embedder does, full text answers
            log.warning("%s could not be asked: %s", self._embedder.name, error)
            return {}

    # From the store.

    def _read(self, uri: str) -> Source | None:
        """What the store holds of a source now; None if nothing is to be found there."""
        if not is_node(uri):
            return self._read_note(Locator(uri))
        try:
            address = parse_uri(uri)
        except InvalidUriError:
            return None
        try:
            version = read_version(self._fs.backend, address.locator)
        except (AgentmError, OSError):
            return None  # damaged: nothing of it may be shown
        if version is None or version.meta.uri != uri or address.account != self.account:
            return None
        return of_node(version.node())

    def _read_note(self, place: Locator) -> Source | None:
        if self._notes is None or not is_note(place.key):
            return None
        try:
            text = self._fs.backend.read(place)
            modified = self._fs.backend.info(place).mtime
        except (FileNotFoundError, IsADirectoryError, NotTextError):
            return None
        return of_note(place.key, text, space=self._notes, modified=modified, abstract=abstract_of(text))

    def is_cheap(self) -> bool:
        """Whether a look at the whole store is worth its time now: it takes little, or the last was a while ago."""
        took, when = self.catalogue.fact("scan seconds"), self.catalogue.fact("scanned at")
        if took is None or when is None:
            return True
        return float(took) < _CHEAP_SCAN or abs(time.time() - float(when)) > _STALE

    def _changed_places(self) -> Work:
        """What may have changed since the last look at the whole store, and what to remember of this one."""
        backend = self._fs.backend
        if not backend.capabilities.change_feed:
            everything = dict.fromkeys((str(uri) for uri in nodes(backend, self.account)), ())
            return {**everything, **dict.fromkeys(self.catalogue.uris(NODE), ())}
        below = Locator("") if self._notes is not None else Locator(f"{ACCOUNTS}/{self.account}")
        work: dict[str, list[Stamp]] = {}
        for change in require(backend, ChangeFeed).changes(self.catalogue.stamps(), below, skip=_NOT_TELLING):
            uri = self._source_at(change.locator)
            if uri is not None:
                work.setdefault(uri, []).append((change.locator.key, change.stamp))
        return work

    def _source_at(self, place: Locator) -> str | None:
        """The source that a file belongs to."""
        if place.key.startswith(f"{ACCOUNTS}/"):
            parts = place.parts
            if parts[1] != self.account or parts[-1] not in _TELLING:
                return None
            return _uri_at(place.parent.key)
        return place.key if self._notes is not None and is_note(place.key) else None

    # For the full-text index.

    def _entries(self, uri: str) -> Iterator[Entry]:
        from agentm.index.schema import Entry

        source = self.catalogue.source(uri)
        records = self.catalogue.records(uri)
        before, after = self.catalogue.neighbours(uri)
        around = [self._text(before), *(row.text for row in records), self._text(after)]
        for at, row in enumerate(records, 1):
            yield Entry(
                record=row.id,
                uri=uri,
                space=str(source["space"]),
                category=str(source["category"]),
                tags=tuple(source["tags"]),  # type: ignore[arg-type]
                project=str(source["project"]),
                level=row.level,
                when=str(source["moment"]),
                body=row.text,
                title=f"{source['title']} {row.heading} {' '.join(source['tags'])}",  # type: ignore[arg-type]
                who=str(source["who"]),
                date=str(source["moment"]),
                context=f"{around[at - 1]}\n{around[at + 1]}",
            )

    def _text(self, uri: str | None) -> str:
        return "" if uri is None else " ".join(row.text for row in self.catalogue.records(uri) if row.level == 2)[:2000]


_TELLING = frozenset((META, CONTENT, ABSTRACT, OVERVIEW, RELATIONS))
"""The files of a node whose change may change what is found."""
_NOT_TELLING = frozenset((HISTORY, OUTBOX, ".names", ".git", ".obsidian", ".trash"))
"""Folders that hold nothing to be found."""
_ENDED = (NodeStatus.DELETED, NodeStatus.ARCHIVED, NodeStatus.MOVED)


@lru_cache(maxsize=64)  # the files of a node come one after the other
def _uri_at(key: str) -> str | None:
    with suppress(InvalidUriError):
        return str(uri_of(Locator(key)))
    return None


def _is_complete(directory: str) -> bool:
    """Whether an index was built to its end there."""
    try:
        catalogue = Catalogue(directory)
    except (sqlite3.Error, OSError):
        return False
    try:
        return catalogue.fact(_COMPLETE) is not None
    finally:
        catalogue.close()


def is_note(key: str) -> bool:
    """A markdown file outside the memories, not hidden."""
    return key.endswith(".md") and not key.startswith(f"{ACCOUNTS}/") and "/." not in f"/{key}"
