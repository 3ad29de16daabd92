"""The index of one account: opened, searched, brought up to date, rebuilt.

It is derived from the store and nothing else, and lies outside of every store, on this machine. What is wrong with it
is set aside and built anew; a search answers from what is there meanwhile. What keeping it up takes is loaded when
there is something to do: a question is asked more often than something is written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from agentm.index import todo
from agentm.index.catalogue import Catalogue
from agentm.index.fulltext import FullText, WriterBusyError
from agentm.seam import StorageBackend

if TYPE_CHECKING:
    from agentm.index.embed import Embedder
    from agentm.index.vectors import Vectors

_SET_ASIDE = ".set-aside"
_REBUILT = ".rebuilt"
_COMPLETE = "complete"
_CHEAP_SCAN = 0.1
_STALE = 600.0
"""Seconds."""

P = ParamSpec("P")
T = TypeVar("T")

NOTES = "notes"
"""The space of plain notes: they have no owner but the store's."""

Progress = Callable[[int, int], None]


def _alone(method: Callable[Concatenate[AccountIndex, P], T]) -> Callable[Concatenate[AccountIndex, P], T]:
    """One thread at a time."""

    @wraps(method)
    def alone(index: AccountIndex, /, *args: P.args, **options: P.kwargs) -> T:
        with index.lock:
            return method(index, *args, **options)

    return alone


@dataclass(slots=True)
class Caught:
    """What keeping up came to."""

    changed: int = 0
    gone: int = 0
    complete: bool = True
    """False if somebody else is at it, or time was up before everything was looked at."""


class AccountIndex:
    """One account's index in a directory of its own, with ``notes`` of the plain notes of the store too."""

    def __init__(
        self,
        directory: str,
        backend: StorageBackend,
        account: str,
        *,
        notes: bool = False,
        embedder: Embedder | None = None,
    ) -> None:
        self.directory = directory
        self.backend = backend
        self.account = account
        self.notes = notes
        self.embedder = embedder
        self.vectors: Vectors | None = None
        self.lock = RLock()
        """Held by whoever uses what is open here: threads share one connection."""
        if not os.path.isdir(directory) and _is_complete(directory + _REBUILT):
            os.replace(directory + _REBUILT, directory)  # somebody died between taking the old one away and this
        os.makedirs(directory, exist_ok=True)
        self.catalogue, self.fulltext = self._opened()

    def _opened(self) -> tuple[Catalogue, FullText]:
        try:
            return self._open()
        except sqlite3.OperationalError:
            raise  # the disk says no, not what lies on it
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
        import shutil

        aside = self.directory + _SET_ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(self.directory, aside)
        os.makedirs(self.directory)

    @_alone
    def close(self) -> None:
        self.fulltext.end()
        self.catalogue.close()

    @_alone
    def refresh(self) -> None:
        """Open what lies in the directory now, if somebody has built a new index meanwhile."""
        if not self.catalogue.is_at(self.directory):
            self.close()
            os.makedirs(self.directory, exist_ok=True)
            self.vectors = None
            self.catalogue, self.fulltext = self._opened()

    @_alone
    def status(self) -> dict[str, object]:
        from agentm.index.meaning import EMBEDDER

        changed, gone = self.catalogue.untold()
        return {
            "directory": self.directory,
            "sources": self.catalogue.count(),
            "records": self.fulltext.searcher().num_docs,
            "untold": len(changed) + len(gone),
            "embedder": self.catalogue.fact(EMBEDDER),
            "scanned_at": self.catalogue.fact("scanned at"),
        }

    def near(self, query: str, limit: int) -> dict[int, float]:
        """Records near in meaning, with their similarities; none without an embedder that has seen all of them."""
        if self.embedder is None:
            return {}
        from agentm.index.meaning import near

        return near(self, self.embedder, query, limit)

    # Keeping up.

    @_alone
    def catch_up(self, *, scan: bool = True, deadline: float | None = None, progress: Progress | None = None) -> Caught:
        """Index what changed: what was noted, and with ``scan`` what a look at the whole store finds."""
        caught = Caught()
        if not scan and not self._is_behind():
            return caught
        from agentm.index.keeping import changed_sources, work_off

        started = time.monotonic()
        work = changed_sources(self) if scan else {}
        took = time.monotonic() - started
        if work or self._is_behind():
            try:
                with self._writing():
                    work_off(self, work, caught, deadline, progress)
            except WriterBusyError:
                caught.complete = False  # whoever it is works it off for all
        if scan and caught.complete:
            self._remember_scan(took)
        return caught

    def _is_behind(self) -> bool:
        """Whether something is known that is yet to be done."""
        return todo.is_there(self.directory) or any(self.catalogue.untold()) or self._has_to_embed()

    def _has_to_embed(self) -> bool:
        return self.embedder is not None and bool(self.catalogue.unembedded(self.embedder.name, 1))

    def is_cheap(self) -> bool:
        """Whether a look at the whole store is worth its time now: it takes little, or the last was a while ago."""
        took, when = self.catalogue.fact("scan seconds"), self.catalogue.fact("scanned at")
        if took is None or when is None:
            return True
        return float(took) < _CHEAP_SCAN or abs(time.time() - float(when)) > _STALE

    def _remember_scan(self, took: float) -> None:
        """For `is_cheap`; not worth a flush of the disk where the next look is cheap as well."""
        known = self.catalogue.fact("scan seconds")
        if known is None or max(took, float(known)) >= _CHEAP_SCAN:
            with self.catalogue.change():
                self.catalogue.put_fact("scan seconds", f"{took:.3f}")
                self.catalogue.put_fact("scanned at", f"{time.time():.0f}")
            self.catalogue.settle()

    @_alone
    def update(self, uris: Sequence[str]) -> bool:
        """Index these now; False if somebody else is writing to the index."""
        from agentm.index.keeping import apply

        try:
            with self._writing():
                apply(self, dict.fromkeys(uris, ()), Caught())
        except WriterBusyError:
            todo.note(self.directory, uris)
            return False
        return True

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.fulltext.begin()
        try:
            yield
        finally:
            self.fulltext.end()
            self.catalogue.settle()

    # Building it anew.

    @_alone
    def rebuild(self, progress: Progress | None = None) -> Caught:
        """Build everything anew beside the old one, which answers until then. One that was cut short goes on."""
        beside = AccountIndex(
            self.directory + _REBUILT, self.backend, self.account, notes=self.notes, embedder=self.embedder
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
        import shutil

        self.close()
        old = f"{self.directory}.{os.getpid()}.old"
        os.replace(self.directory, old)
        os.replace(self.directory + _REBUILT, self.directory)
        shutil.rmtree(old, ignore_errors=True)
        self.vectors = None
        self.catalogue, self.fulltext = self._opened()


def _is_complete(directory: str) -> bool:
    """Whether an index was built to its end there."""
    if not os.path.isdir(directory):
        return False
    try:
        catalogue = Catalogue(directory)
    except (sqlite3.Error, OSError):
        return False
    try:
        return catalogue.fact(_COMPLETE) is not None
    finally:
        catalogue.close()
