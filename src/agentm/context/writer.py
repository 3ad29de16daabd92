"""Writing nodes: one order, one commit point, one executor.

    ⓪ the new version, whole, into the history      what a reader falls back on while the rest is under way
    ① content
    ② relations
    ③ abstract and overview
    ④ meta                                           the commit point
    ⑤ the events for the index                       that of the version last: where it is, all are

Each step is durable before the next begins. Until ④ a reader sees the old version, from then on the new one. An error
before ④ takes everything back; a crash leaves it to the repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from agentm.context.events import OutboxEvent, dump_event, event_place
from agentm.context.names import folded
from agentm.context.node import (
    ABSTRACT,
    CONTENT,
    HISTORY,
    META,
    OVERVIEW,
    RELATIONS,
    RelationEdge,
    Version,
    dump_meta,
    dump_version,
)
from agentm.context.reader import Part, read_part
from agentm.errors import AgentmError, LockLostError
from agentm.records import field, record_class
from agentm.seam import ABSENT, CompareAndSwap, Held, Locator, Lock, Remove, StorageBackend, WriteMany, require

ORDER: tuple[tuple[str, ...], ...] = (
    (HISTORY,),
    (CONTENT,),
    (RELATIONS,),
    (ABSTRACT, OVERVIEW),
    (META,),
    ("other events",),
    ("event",),
)
COMMIT = ORDER.index((META,))

Progress = Callable[[int, int], None]


class _AlwaysOurs:
    def ours(self) -> bool:
        return True


def part_of(progress: Progress | None, start: int, size: int, total: int) -> Progress | None:
    """How far all is, said by one who knows only how far he is with a part."""
    if progress is None:
        return None
    return lambda done, steps: progress(start + size * done // steps, total)


@contextmanager
def locked(backend: StorageBackend, *nodes: Locator) -> Iterator[Held]:
    """Hold nodes while they are changed, each in all its spellings.

    A store without locks that declares no other writers has one; any other without them is refused.
    """
    able = backend.capabilities
    if able.lock or able.concurrent_writers or able.sync:
        with require(backend, Lock).lock(*(Locator(folded(node.key)) for node in nodes)) as held:
            yield held
    else:
        yield _AlwaysOurs()


@record_class()
class Draft:
    """A version on its way into the store, with what stands there now."""

    node: Locator
    version: Version
    events: tuple[OutboxEvent, ...]
    standing: dict[str, Part] = field(default_factory=dict)
    kept: bool = False
    """Whether the history has this version already, as when only its status changes."""
    added: tuple[RelationEdge, ...] = ()
    """The edges that are new with this version."""
    committed: bool = False
    told: bool = False

    def texts(self, step: tuple[str, ...]) -> list[tuple[Locator, str, str | None]]:
        """The files of one step: place, text, and the token of what it may replace."""
        if step == (HISTORY,):
            return [] if self.kept else [(self._history_place, dump_version(self.version), ABSENT)]
        if step in (("other events",), ("event",)):
            events = self.events[-1:] if step == ("event",) else self.events[:-1]
            return [(event_place(self.node, event.event_id), dump_event(event), None) for event in events]
        return [(self.node.child(name), self._text(name), self._token(name)) for name in step if self._differs(name)]

    def _differs(self, name: str) -> bool:
        """What the version does not hold, as when it is ended, stays as it is."""
        if name != META and name not in self.version.parts:
            return False
        return name not in self.standing or self.standing[name].text != self._text(name)

    @property
    def _history_place(self) -> Locator:
        return self.node.child(HISTORY, self.version.meta.history_name)

    def _text(self, name: str) -> str:
        return dump_meta(self.version.meta) if name == META else self.version.parts[name]

    def _token(self, name: str) -> str | None:
        return self.standing[name].token if name in self.standing else ABSENT

    def take_back(self, backend: StorageBackend) -> None:
        """Undo an uncommitted draft as far as the store lets us; what it does not is left to the repair."""
        for name in self.version.parts:
            with suppress(OSError):
                _restore(backend, self.node.child(name), self.version.parts[name], self.standing.get(name))
        if not self.kept:
            with suppress(OSError):
                _remove(backend, self._history_place)

    def may_have_landed(self, backend: StorageBackend) -> bool:
        """Whether the commit is there after all: the error may have come after it."""
        try:
            return read_part(backend, self.node.child(META)).text == self._text(META)
        except OSError:
            return True


def publish(backend: StorageBackend, drafts: Sequence[Draft], held: Held, progress: Progress | None = None) -> None:
    """Take drafts through all steps, sharing the flushes of each step among them."""

    def before(number: int) -> None:
        """Look at the lock before each step; all steps before this one survive a power cut."""
        if number > COMMIT:
            for draft in drafts:
                draft.committed = True
        if progress is not None and number:
            progress(number, len(ORDER))
        if not held.ours():
            raise LockLostError("this process slept through its turn and another one took over; read again and retry.")

    try:
        steps = [[text for draft in drafts for text in draft.texts(step)] for step in ORDER]
        _put(backend, steps, before)
        for draft in drafts:
            draft.told = True
        if progress is not None:
            progress(len(ORDER), len(ORDER))
    except BaseException as error:
        for draft in drafts:
            if not draft.committed and held.ours() and not draft.may_have_landed(backend):
                draft.take_back(backend)
        # Once committed the version stands; that the index has not been told is for the repair to mend.
        if not all(draft.committed for draft in drafts) or not isinstance(error, OSError | AgentmError):
            raise


def _put(
    backend: StorageBackend, steps: list[list[tuple[Locator, str, str | None]]], before: Callable[[int], None]
) -> None:
    """Each step durable before the next. The lock keeps others out; the tokens those who lost it and wake up late."""
    able = backend.capabilities
    if able.write_many:
        versions = {place: token for step in steps for place, _, token in step if token is not None}
        require(backend, WriteMany).write_many(
            *([(place, text) for place, text, _ in step] for step in steps),
            if_versions=versions if able.compare_and_swap else None,
            before=before,
        )
        return
    for number, step in enumerate(steps):
        before(number)
        for place, text, token in step:
            if token is None or not able.compare_and_swap:
                backend.write(place, text)
            else:
                require(backend, CompareAndSwap).write_versioned(place, text, if_version=token)


def _restore(backend: StorageBackend, place: Locator, written: str, old: Part | None) -> None:
    now = read_part(backend, place)
    if now.text != written or (old is not None and old.text == written):
        return
    if old is None or old.text is None:
        _remove(backend, place)
    else:
        backend.write(place, old.text)


def _remove(backend: StorageBackend, place: Locator) -> None:
    with suppress(FileNotFoundError):
        require(backend, Remove).remove(place)
