"""Locks: they keep out whoever asks, in this process and in others, and nobody else; and a death frees them.

That somebody is kept out can only be seen by waiting a moment, so a good store costs a few such moments; that somebody
gets in is waited for as long as it takes, up to a limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from agentm.conformance.expect import Failed, describe, expect, refuses, same
from agentm.conformance.peers import Address, Line, find_address, second_address, start
from agentm.conformance.processes import CHANGES, PROCESSES, at_the_gate, together
from agentm.conformance.trial import Trial, close_backend, snapshot
from agentm.seam import ROOT, Locator, Lock, StorageBackend, require

A_MOMENT = 0.15
"""Seconds after which somebody who waits is taken to be kept out."""
PATIENCE = 30.0
"""Seconds within which somebody who may get in must be in; only a hang takes so long."""
FREED_SECONDS = 2.0
"""Seconds within which the lock of a dead process must be free, also on a busy machine."""
TURNS = 10
OTHERS = 8


def lock(trial: Trial) -> None:
    others = _Others(trial)
    place = trial.at("deep/note.md")
    with require(trial.backend, Lock).lock(place) as held:
        same("ours() while the lock is held", held.ours(), True)
        _keeps_out_the_same_place(others, place)
        _lets_others_pass(others)
        _holds_up_no_verb(others)
        same("ours() after others asked", held.ours(), True)
    same("ours() after the block", held.ours(), False)
    _is_free(others, "it was given back", place)
    _a_failure_gives_it_back(others, place)
    _any_place_can_be_locked(others)
    _any_order_ends(others)
    _threads_take_turns(others)


class _Others:
    """Makers of others who use the same store: threads, each with an instance of its own where that can be had."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._address = second_address(trial)

    def run(self, work: Callable[[StorageBackend], None]) -> None:
        if self._address is None:
            work(self.trial.backend)
            return
        backend = self._address.open()
        try:
            work(backend)
        finally:
            close_backend(backend)


def _keeps_out_the_same_place(others: _Others, place: Locator) -> None:
    for asked in ((place,), (others.trial.at("other.md"), place)):
        with _Asker(others, *asked) as rival:
            expect(not rival.is_in(A_MOMENT), "two threads held the lock of one place at once")


def _lets_others_pass(others: _Others) -> None:
    with ExitStack() as stack:
        askers = [stack.enter_context(_Asker(others, others.trial.at(f"deep/note-{n}.md"))) for n in range(OTHERS)]
        deadline = time.monotonic() + PATIENCE
        while sum(asker.is_in(0) for asker in askers) <= OTHERS // 2:
            expect(time.monotonic() < deadline, "the lock of one place keeps most others who ask for other places out")
            time.sleep(0.005)


def _holds_up_no_verb(others: _Others) -> None:
    note, text = others.trial.at("deep/note.md"), "written by somebody who did not ask\n"

    def verbs(backend: StorageBackend) -> None:
        backend.write(note, text)
        same("read of a locked place", backend.read(note), text)
        same("list around a locked place", backend.list(note.parent), [note])
        backend.info(note)
        backend.mkdir(note.parent.child("er"))

    with _InThread(others, verbs) as user:
        expect(user.is_done(PATIENCE), "a verb waits for the lock of its place; only those who ask for it may")


def _a_failure_gives_it_back(others: _Others, place: Locator) -> None:
    def fail() -> None:
        with require(others.trial.backend, Lock).lock(place):
            raise LookupError("the holder's own mistake")

    refuses("an error of the holder", LookupError, fail)
    _is_free(others, "an error ended its block", place)


def _any_place_can_be_locked(others: _Others) -> None:
    trial = others.trial
    before = snapshot(trial.backend, trial.scratch)
    for place in (trial.at("absent/er.md"), trial.at("deep"), ROOT):
        _is_free(others, "nobody else asked for it", place)
    _is_free(others, "it was only named twice", trial.at("twice.md"), trial.at("twice.md"))
    _is_free(others, "nobody else asked for any of them", *(trial.at(f"many/{n}.md") for n in range(300)))
    _is_free(others, "nothing was asked for")
    same("what lies there after locking", snapshot(trial.backend, trial.scratch), before)


def _is_free(others: _Others, when: str, *places: Locator) -> None:
    with _Asker(others, *places) as next_one:
        expect(next_one.is_in(PATIENCE), f"a lock could not be had within {PATIENCE:.0f} s though {when}")


def _any_order_ends(others: _Others) -> None:
    a, b, c = (others.trial.at(f"{name}.md") for name in "abc")

    def asking(*order: Locator) -> Callable[[StorageBackend], None]:
        def ask(backend: StorageBackend) -> None:
            for _ in range(TURNS):
                with require(backend, Lock).lock(*order):
                    pass

        return ask

    with ExitStack() as stack:
        askers = [stack.enter_context(_InThread(others, asking(*order))) for order in ((a, b, c), (c, b, a), (b, a, c))]
        for asker in askers:
            expect(asker.is_done(PATIENCE), "holders who asked for the same places in different orders are stuck")


def _threads_take_turns(others: _Others) -> None:
    place, threads = others.trial.put("counter", "0"), 3

    def count(backend: StorageBackend) -> None:
        for _ in range(TURNS):
            one_more(backend, place)

    with ExitStack() as stack:
        counting = [stack.enter_context(_InThread(others, count)) for _ in range(threads)]
        for thread in counting:
            expect(thread.is_done(PATIENCE), "threads that take turns do not come to an end")
    same(f"{threads} × {TURNS} turns at a counter", others.trial.backend.read(place), str(threads * TURNS))


def one_more(backend: StorageBackend, place: Locator) -> None:
    """Read, add and write, which only the lock makes one step."""
    with require(backend, Lock).lock(place) as held:
        backend.write(place, str(int(backend.read(place)) + 1))
        expect(held.ours(), "a lock was lost though its holder was awake")


class _InThread:
    """Something that another does, in a thread of its own."""

    def __init__(self, others: _Others, work: Callable[[StorageBackend], None]) -> None:
        self._others = others
        self._work = work
        self._done = threading.Event()
        self._problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def is_done(self, patience: float) -> bool:
        done = self._done.wait(patience)
        if isinstance(self._problem, Failed):
            raise self._problem
        if self._problem is not None:
            raise Failed(f"another thread got {describe(self._problem)}") from self._problem
        return done

    def _run(self) -> None:
        try:
            self._others.run(self._work)
        except (Exception, SystemExit) as error:
            self._problem = error
        finally:
            self._done.set()

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Who is stuck is left behind: the thread is a daemon, and the check has failed already."""


class _Asker(_InThread):
    """Somebody who asks for locks and, once in, stays until the block ends."""

    def __init__(self, others: _Others, *places: Locator) -> None:
        super().__init__(others, self._hold)
        self._places = places
        self._in = threading.Event()
        self._leave = threading.Event()

    def is_in(self, patience: float) -> bool:
        deadline = time.monotonic() + patience
        # An asker that was refused never gets in; its problem is told at once.
        while not self._in.wait(min(0.01, patience)) and not self.is_done(0) and time.monotonic() < deadline:
            pass
        return self._in.is_set()

    def _hold(self, backend: StorageBackend) -> None:
        with require(backend, Lock).lock(*self._places):
            self._in.set()
            self._leave.wait()

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        if self._in.is_set():
            self.thread.join(PATIENCE)


# Between processes.


def lock_between_processes(trial: Trial) -> str:
    place = trial.put("counter", "0")
    together(trial, _count, place)
    same(f"{PROCESSES} × {CHANGES} turns at a counter", trial.backend.read(place), str(PROCESSES * CHANGES))
    return f"{PROCESSES} × {CHANGES} turns, exact"


def _count(address: Address, line: Line, _: int, place: Locator) -> None:
    backend = at_the_gate(address, line)
    for _ in range(CHANGES):
        one_more(backend, place)
    line.say("done")


def lock_freed_by_death(trial: Trial) -> str:
    places = (trial.at("a.md"), trial.at("b.md"))
    with start(find_address(trial), _hold_for_ever, *places) as holder:
        same("the holder in another process", holder.hear(), "holding")
        with _Asker(_Others(trial), *places[::-1]) as next_one:
            expect(not next_one.is_in(A_MOMENT), "two processes held the lock of one place at once")
            died = time.monotonic()
            holder.kill()
            got_in = next_one.is_in(PATIENCE)
            took = time.monotonic() - died
    expect(got_in, f"the lock of a killed process was not free after {PATIENCE:.0f} s")
    expect(took < FREED_SECONDS, f"the lock of a killed process was free only after {took:.1f} s")
    return f"free {took * 1000:.0f} ms after its holder was killed"


def _hold_for_ever(address: Address, line: Line, *places: Locator) -> None:
    with require(address.open(), Lock).lock(*places):
        line.say("holding")
        line.hear()
