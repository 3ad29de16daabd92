"""The index of one account: opened, searched, brought up to date, rebuilt.

It is derived from the store and nothing else, and lies outside of every store, on this machine. What is wrong with it
is set aside and built anew; a search answers from what is there meanwhile. What keeping it up takes is loaded when
there is something to do: a question is asked more often than something is written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from agentm.backends import _durable
from agentm.backends._flock import try_flock
from agentm.context.uri import SCHEME, parse_uri
from agentm.errors import IndexBusyError
from agentm.index import todo
from agentm.index.catalogue import CURRENT, Catalogue, Held, Row
from agentm.index.fulltext import FullText
from agentm.records import field, record_class
from agentm.seam import StorageBackend

if TYPE_CHECKING:
    from agentm.index.embed import Asked, Embedder
    from agentm.index.keeping import Work
    from agentm.index.meaning import Matching, Wanted
    from agentm.index.vectors import Vectors

_REBUILT = "rebuilt"
_SET_ASIDE = "set-aside"
_LOCK = "lock"
_COMPLETE = "complete"
_HEALING = 1.0
_BUILDING = 60.0
"""Seconds that who heals an index, or builds it anew, waits for another process to be done with it."""
_AGAIN = 0.05
_CHEAP_SCAN = 0.1
_RECENT = 1.0
"""Seconds."""
_LOOKED_UNTIL = "looked until"
_SHARE = 0.05
"""Of its time, what a process that asks again and again spends on looking at the whole store."""

P = ParamSpec("P")
T = TypeVar("T")

NOTES = "notes"
"""The space of plain notes: they have no owner but the store's."""

Progress = Callable[[int, int], None]


def space_of(uri: str) -> str:
    """The space that a source belongs to."""
    return parse_uri(uri).owner_space if uri.startswith(SCHEME) else NOTES


def _alone(method: Callable[Concatenate[AccountIndex, P], T]) -> Callable[Concatenate[AccountIndex, P], T]:
    """One thread at a time."""

    @wraps(method)
    def alone(index: AccountIndex, /, *args: P.args, **options: P.kwargs) -> T:
        with index.lock:
            return method(index, *args, **options)

    return alone


@record_class()
class Caught:
    """What keeping up came to."""

    changed: int = 0
    gone: int = 0
    complete: bool = True
    """False if somebody else is at it, or time was up before everything was done that was found to be done."""
    being_edited: list[str] = field(default_factory=list)
    """Memories whose files somebody touched just now: once they are left alone, what they say becomes a version."""
    unreadable: list[str] = field(default_factory=list)
    """Sources that were met and are damaged, or no text; of a memory, the version that was written is indexed."""
    embedded: bool = True
    """False if the embedder had no time to see all of it: until it has, words alone find what there is."""
    looked: bool = False
    """Whether the whole store was looked at, now or a moment ago: else what others wrote is not known."""
    busy: bool = False
    """Whether something is left because another process is at it: it is soon done."""


class AccountIndex:
    """One account's index in a home of its own, with ``notes`` of the plain notes of the store too."""

    def __init__(
        self,
        home: str,
        backend: StorageBackend,
        account: str,
        *,
        notes: bool = False,
        embedder: Embedder | None = None,
        part: str = CURRENT,
        lasting: bool = True,
        obstacle: str | None = None,
    ) -> None:
        """One that is not ``lasting`` is thrown away with the process, and vouches for nothing that was written.

        :param obstacle: why it does not lie where it would last
        """
        self.home = home
        self.lasting = lasting
        self.obstacle = obstacle
        self.directory = os.path.join(home, part)
        self.backend = backend
        self.account = account
        self.notes = notes
        self.embedder = embedder
        self.vectors: Vectors | None = None
        self.asked: Asked | None = None
        self.lock = RLock()
        """Held by whoever uses what is open here: threads share one connection."""
        self._next_look: float | None = None
        self._last_look = Caught()
        self.embedding_takes = 0.0
        self.embedder_rests_until = 0.0
        self._was_mended = False
        os.makedirs(home, exist_ok=True)
        self.catalogue, self.fulltext = self._opened()

    def _opened(self) -> tuple[Catalogue, FullText]:
        try:
            return self._open()
        except BaseException as error:
            self._refuse_to_mend(error)
        with self._alone_on_this_machine(_HEALING):
            try:
                return self._open()  # somebody may have built a new one meanwhile
            except BaseException as error:
                self._refuse_to_mend(error)
            self._set_aside()
            return self._open()

    def _refuse_to_mend(self, error: BaseException) -> None:
        """Raise what is no damage."""
        from agentm.index.damage import is_damage

        if not is_damage(error, self.directory):
            raise error

    def _open(self) -> tuple[Catalogue, FullText]:
        os.makedirs(self.directory, exist_ok=True)
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
        self._move_aside(self.directory)

    def _move_aside(self, path: str) -> None:
        self.drop_set_aside()
        with suppress(FileNotFoundError):
            _durable.replace(path, os.path.join(self.home, _SET_ASIDE))

    def drop_set_aside(self) -> None:
        self._drop(_SET_ASIDE)

    def drop_others(self) -> None:
        """Remove what no question is answered from: what was set aside, and one whose building was cut short."""
        for part in (_SET_ASIDE, _REBUILT):
            if os.path.join(self.home, part) != self.directory:
                self._drop(part)

    def _drop(self, part: str) -> None:
        import shutil

        path = os.path.join(self.home, part)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def mended(self, action: Callable[[], T]) -> T:
        """Do something with the index; if that shows that it is damaged, once more with a new one."""
        try:
            return action()
        except BaseException as error:
            self._refuse_to_mend(error)
        with self.lock:
            with suppress(Exception):  # what is damaged may not even be closed
                self._shut()
            with self._alone_on_this_machine(_HEALING):
                if self.catalogue.is_at(self.directory):  # else somebody has built a new one meanwhile
                    self._set_aside()
            self._reopen()
            self._was_mended = True
        return action()

    def distrust(self, why: str) -> None:
        """Have it built anew by `mended`, unless that was done already and did not help."""
        if not self._was_mended:
            raise ValueError(why)

    @_alone
    def close(self) -> None:
        self._shut()

    def _shut(self) -> None:
        self.fulltext.end()
        self.catalogue.close()

    def _reopen(self) -> None:
        self.vectors = None
        self._next_look = 0.0  # what is there now may be new and empty
        self.catalogue, self.fulltext = self._opened()

    @_alone
    def refresh(self) -> None:
        """Open what lies in the directory now, if somebody has built a new index meanwhile."""
        if not self.catalogue.is_at(self.directory):
            self._shut()
            self._reopen()

    @_alone
    def status(self) -> dict[str, object]:
        from agentm.index.meaning import EMBEDDER

        return {
            "directory": self.directory,
            "sources": self.catalogue.count(),
            "records": self.fulltext.searcher().num_docs,
            "untold": self.catalogue.count_untold(),
            "embedder": self.catalogue.fact(EMBEDDER),
            "lasting": self.lasting,
            "obstacle": self.obstacle,
            "unreadable": self.catalogue.unreadable(),
            "scanned_at": self.catalogue.fact("scanned at"),
        }

    @_alone
    def is_torn(self, found: Mapping[int, str]) -> bool:
        """Whether records were found, with these sources, that the catalogue does not hold: a part is damaged.

        False also while another process writes, as then the parts need not fit together.
        """
        try:
            with self._alone_on_this_machine():
                if self.catalogue.is_behind():
                    return False
                known = self.catalogue.found(found)
                lost = [record for record, uri in found.items() if not _fits(uri, *known.get(record, (None, None)))]
                return any(self.fulltext.has(record) for record in lost)
        except IndexBusyError:
            return False

    def near(
        self, query: str, limit: int, wanted: Wanted, matching: Matching, deadline: float
    ) -> dict[int, float] | None:
        """Wanted records near in meaning, with their similarities; none without an embedder that has seen all.

        None if the embedder does not answer before the ``deadline``.
        """
        if self.embedder is None:
            return {}
        from agentm.index.meaning import near

        return near(self, self.embedder, query, limit, wanted, matching, deadline)

    # Keeping up.

    @_alone
    def catch_up(self, *, scan: bool = True, deadline: float | None = None, progress: Progress | None = None) -> Caught:
        """Index what changed: what was noted, and then, with ``scan``, what a look at the whole store finds.

        With a ``deadline`` it ends after the batch in which that comes; something is done every time.
        """
        caught = Caught()
        behind = self._is_behind(hurried=deadline is not None)
        if behind or scan:
            self._catch_up(caught, behind, scan, deadline, progress)
        if not scan and self.was_looked_at():
            self._as_last_seen(caught)
        return caught

    def _catch_up(
        self, caught: Caught, behind: bool, scan: bool, deadline: float | None, progress: Progress | None
    ) -> None:
        from agentm.index.keeping import work_off

        try:
            if behind:
                with self._writing():
                    work_off(self, caught, deadline)
            if scan and caught.complete:
                self._look(caught, deadline, progress)
        except IndexBusyError:
            caught.complete, caught.busy = False, True  # whoever it is works it off for all

    def _look(self, caught: Caught, deadline: float | None, progress: Progress | None) -> None:
        """Look at the whole store, and index what changed. Where time was too short, the next question goes on."""
        from agentm.index.keeping import apply

        self._last_look, self._next_look = caught, 0.0
        work, took = self._looked(caught, deadline)
        rest = max(_RECENT, took / _SHARE)
        try:
            if work:
                with self._writing():
                    apply(self, work, caught, deadline, progress)
                    self._embed(caught, deadline)
        except IndexBusyError:
            caught.complete, caught.busy = False, True
        caught.looked = True
        if caught.being_edited:
            from agentm.context.holding import QUIET_SECONDS

            rest = min(rest, QUIET_SECONDS)  # then it can be taken for saved
        if caught.complete or deadline is None or time.monotonic() <= deadline:
            self._next_look = time.monotonic() + rest
        if caught.complete and not caught.being_edited and took >= _CHEAP_SCAN:
            with self.catalogue.change():
                self.catalogue.put_fact(_LOOKED_UNTIL, f"{time.time() + rest:.3f}")
            self.catalogue.settle()

    def _as_last_seen(self, caught: Caught) -> None:
        """What the last look did not get at is as unknown as it was then."""
        caught.looked = True
        caught.complete = caught.complete and self._last_look.complete
        caught.being_edited = [*self._last_look.being_edited]

    def _embed(self, caught: Caught, deadline: float | None) -> None:
        if self.embedder is not None:
            from agentm.index.meaning import embed

            caught.embedded = embed(self, self.embedder, deadline)

    def _looked(self, caught: Caught, deadline: float | None) -> tuple[Work, float]:
        """What a look at the whole store finds, and how long it took: for `is_cheap`."""
        from agentm.index.keeping import changed_sources

        started = time.monotonic()
        work = changed_sources(self, caught, deadline)
        took = time.monotonic() - started
        known = self.catalogue.fact("scan seconds")
        # Not worth a flush of the disk where the next look is cheap as well.
        if known is None or max(took, float(known)) >= _CHEAP_SCAN:
            with self.catalogue.change():
                self.catalogue.put_fact("scan seconds", f"{took:.3f}")
                self.catalogue.put_fact("scanned at", f"{time.time():.0f}")
            self.catalogue.settle()
        return work, took

    def _is_behind(self, *, hurried: bool) -> bool:
        """Whether something is known that is yet to be done; what takes long, only when nobody waits."""
        return todo.is_there(self.home) or self.catalogue.is_behind() or self._has_to_embed(hurried)

    def _has_to_embed(self, hurried: bool) -> bool:
        if self.embedder is None:
            return False
        from agentm.index.meaning import is_behind

        return is_behind(self, self.embedder, hurried=hurried)

    def is_cheap(self, patience: float) -> bool:
        """Whether a look at the whole store takes so little that a question can wait for it."""
        took = self.catalogue.fact("scan seconds")
        return took is None or float(took) < max(_CHEAP_SCAN, patience * 0.8)

    def was_looked_at(self) -> bool:
        """Whether the last look at the whole store was so short a while ago that another is not worth it yet."""
        if self._next_look is None:
            self._next_look = time.monotonic() + self._others_look_holds()
        return time.monotonic() < self._next_look

    def _others_look_holds(self) -> float:
        """How many seconds a whole look of another process still counts. Looks that cost little are not shared."""
        took, until = self.catalogue.fact("scan seconds"), self.catalogue.fact(_LOOKED_UNTIL)
        if took is None or until is None:
            return 0.0
        left = float(until) - time.time()
        return left if 0 < left <= float(took) / _SHARE + _RECENT else 0.0  # else somebody set the clock

    @_alone
    def update(self, uris: Sequence[str], progress: Progress | None = None) -> bool:
        """Index these now; False if that cannot be done now, and then it is noted."""
        from agentm.index.keeping import apply

        if not self.lasting:
            return False
        caught = Caught()

        def apply_all() -> None:
            with self._writing():
                apply(self, dict.fromkeys(uris, ()), caught, progress=progress)

        try:
            self.mended(apply_all)
        except (OSError, sqlite3.Error):  # what is indexed late is written all the same
            caught.complete = False
        if not caught.complete:
            todo.note(self.home, uris)
        return caught.complete

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The one who writes to the index, in what lies in the directory now."""
        with self._alone_on_this_machine():
            self.refresh()
            self.fulltext.begin()
            try:
                yield
            finally:
                self.fulltext.end()
                self.catalogue.settle()

    @contextmanager
    def _alone_on_this_machine(self, patience: float = 0.0, progress: Progress | None = None) -> Iterator[None]:
        """IndexBusyError while another process writes to the index, builds a new one, or sets one aside.

        :param progress: is told of nothing done of nothing while it waits
        """
        until = time.monotonic() + patience
        fd = self._lock_file()
        try:
            while not try_flock(fd):
                if time.monotonic() >= until:
                    raise IndexBusyError(f"{_holder(fd)} is writing to the index; try again when it is done.")
                if progress is not None:
                    progress(0, 0)
                time.sleep(_AGAIN)
            _sign(fd)
            yield
        finally:
            os.close(fd)

    def _lock_file(self) -> int:
        path, flags = os.path.join(self.home, _LOCK), os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        if os.path.isdir(path):
            self._move_aside(path)
        return os.open(path, flags, 0o600)

    # Building it anew.

    def rebuild(self, progress: Progress | None = None) -> Caught:
        """Build everything anew beside the old one, which answers until then. One that was cut short goes on."""
        with self._alone_on_this_machine(_BUILDING, progress):  # nobody else changes the old one, or builds a new one
            beside = _Beside(
                self.home, self.backend, self.account, notes=self.notes, embedder=self.embedder, part=_REBUILT
            )
            try:
                caught = beside.mended(partial(beside.catch_up, progress=progress))
            finally:
                beside.close()
            with self.lock:
                with suppress(Exception):  # one that is damaged may not even be closed
                    self._shut()
                self._exchange(beside.directory)
                self._reopen()
        return caught

    def _exchange(self, new: str) -> None:
        """Put the new one in place of the old one. Whoever has the old one open goes on reading it until it looks."""
        import shutil

        if not _durable.exchange(self.directory, new):
            self._set_aside()
            _durable.replace(new, self.directory)
        shutil.rmtree(new, ignore_errors=True)


class _Beside(AccountIndex):
    """An index that is being built by one who holds the lock already."""

    @contextmanager
    def _alone_on_this_machine(self, patience: float = 0.0, progress: Progress | None = None) -> Iterator[None]:
        yield

    def _is_behind(self, *, hurried: bool) -> bool:
        """What is noted is for the one that is searched."""
        return self.catalogue.is_behind() or self._has_to_embed(hurried)


def _fits(uri: str, row: Row | None, source: Held | None) -> bool:
    """Whether a record that was found is what the catalogue holds of it."""
    return row is not None and source is not None and row.uri == uri and source.space == space_of(uri)


def _sign(lock: int) -> None:
    """Say who holds a lock: for those who wait."""
    with suppress(OSError):  # on a full disk it holds all the same
        os.truncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, str(os.getpid()).encode())


def _holder(lock: int) -> str:
    with suppress(OSError):
        os.lseek(lock, 0, os.SEEK_SET)
        if number := os.read(lock, 20).decode("ascii", "ignore"):
            return f"process {number}"
    return "another process"
