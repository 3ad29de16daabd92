"""Death after step n: the process ends in the middle of a verb, and the store must be whole.

A step is a call into C code that can touch the world (a system call, a database's execute); between two of them
nothing outside the process changes. The verb runs once to count its steps. Then, for every one of them, a new
process runs the verb on a fresh copy of the same little tree and ends itself just before that step, without any
clean-up. Another process then opens the store, looks at it, and writes to it.

The last death comes right after the verb has returned and been acknowledged: by then the change must be there.
This is the death of a process; what a power cut leaves is for `agentm.conformance.crashsim`.
"""

from __future__ import annotations

import gc
import io
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from agentm.conformance.expect import Failed, Skipped, expect, same
from agentm.conformance.peers import PATIENCE, Address, Job, Line, find_address, perform, start
from agentm.conformance.scenarios import SCENARIOS, Scenario, scenarios_of
from agentm.conformance.trial import Trial, snapshot
from agentm.records import record_class
from agentm.seam import Locator

CRASH_CODE = 137
MOST_STEPS = 60
"""Steps of one verb at which it dies; of more, an even sample."""
MOST_STEPS_SPAWNED = 12
"""The same where each death costs the start of an interpreter."""
NEXT_WRITE_SECONDS = 20.0
"""A dead writer's lock must be free by then."""

_CAN_FORK = hasattr(os, "fork")


def crash_of(verb: str) -> Callable[[Trial], str]:
    """The check that a verb survives the death of its process at every step."""

    def check(trial: Trial) -> str:
        address = find_address(trial)
        told = []
        with _deathbed(address) as kill:
            for scenario in scenarios_of(verb):
                told.append(_Experiment(trial, scenario, kill).run())
        return f"{', '.join(told)}; {'confirmed by an oracle' if trial.raw else 'no oracle: read by another process'}"

    return check


@record_class(frozen=True, slots=False)
class Outcome:
    """How a job in a process of its own went."""

    said: tuple[Any, ...]
    code: int | None
    """Its exit code; None if it had to be ended because it took too long."""


Run = Callable[..., Outcome]
"""``run(job, *args)`` in a process that may die."""


class _Experiment:
    """One verb in one situation, with a death at each of its steps."""

    def __init__(self, trial: Trial, scenario: Scenario, run: Run) -> None:
        self._trial = trial
        self._scenario = scenario
        self._run = run
        self._fired = 0

    def run(self) -> str:
        calls = self._die_at(0)
        for step in sample(calls, MOST_STEPS if _CAN_FORK else MOST_STEPS_SPAWNED):
            self._die_at(step)
        expect(self._fired, f"{self._scenario.name}: no death could be injected, so nothing was proved")
        return f"{self._scenario.name} {self._fired} of {len(calls)} steps"

    def _die_at(self, step: int) -> list[str]:
        """Let the verb die before that step (0: after its acknowledgement); return the calls it made, if it could."""
        name = self._scenario.name
        base = self._trial.at(f"{name.replace(' ', '-')}/{step}")
        when = f"{name}, death before step {step}" if step else f"{name}, death after it returned"
        acknowledged = _acknowledged(when, self._run(act, name, base, step))
        self._fired += acknowledged is None
        self._judge_raw(when, base, acknowledged is not None)
        after = self._run(look_and_write, name, base)
        state = _answer(when, after, 0)
        problem = self._scenario.judge(state, done=acknowledged is not None)
        expect(not problem, f"{when}: {problem}")
        _answer(f"{when}, then a new write", after, 1)
        return acknowledged or []

    def _judge_raw(self, when: str, base: Locator, done: bool) -> None:
        raw = self._trial.raw
        if raw is None:
            return
        found = {key: raw(base.child(key)) for key in self._scenario.keys}
        problem = self._scenario.judge_bytes({key: data for key, data in found.items() if data is not None}, done=done)
        expect(not problem, f"{when}: the oracle finds that {problem}")


def sample(calls: list[str], most: int) -> list[int]:
    """The steps to die at: all of them, or that many.

    In a long row of equal calls the inner ones matter least, so the ends of such rows come first; what is left is
    spread evenly.
    """
    steps = list(range(1, len(calls) + 1))
    last = len(calls) - 1
    ends = [at + 1 for at, call in enumerate(calls) if at in (0, last) or {calls[at - 1], calls[at + 1]} != {call}]
    if len(steps) <= most:
        return steps
    if len(ends) >= most:
        return _spread(ends, most)
    inner = [step for step in steps if step not in set(ends)]
    return sorted(ends + _spread(inner, most - len(ends)))


def _spread(steps: list[int], most: int) -> list[int]:
    """That many of the steps, evenly, with the first and the last."""
    if most == 1:
        return steps[:1]
    return [steps[round(index * (len(steps) - 1) / (most - 1))] for index in range(most)]


def _acknowledged(when: str, outcome: Outcome) -> list[str] | None:
    """The calls that the verb reported on its return; None if it died before."""
    if outcome.code is None:
        raise Failed(f"{when}: the verb took longer than {PATIENCE:.0f} s")
    for value in outcome.said:
        if isinstance(value, Failed | Skipped):
            raise type(value)(f"{when}: {value}")
    expect(outcome.code == CRASH_CODE, f"{when}: the process ended with code {outcome.code}")
    return outcome.said[0] if outcome.said else None


def _answer(when: str, outcome: Outcome, index: int) -> Any:
    """One of the things that the process after the dead one had to say."""
    if len(outcome.said) <= index:
        if outcome.code is None:
            raise Failed(f"{when}: the next process hung; a lock may have been left behind")
        raise Failed(f"{when}: the next process ended with code {outcome.code} before it answered")
    value = outcome.said[index]
    if isinstance(value, Failed | Skipped):
        raise type(value)(f"{when}: {value}")
    return value


# What runs in the processes that may die.


def act(address: Address, line: Line, name: str, base: Locator, step: int) -> NoReturn:
    """Lay out the scenario's tree, run its verb, and die before a step or right after the acknowledgement."""
    scenario, backend = SCENARIOS[name], address.open()
    for key, text in scenario.before.items():
        backend.write(base.child(key), text)
    for key in scenario.before_dirs:
        backend.mkdir(base.child(key))
    with Fuse(step) as fuse:
        scenario.act(backend, base)
    line.say(fuse.calls)
    os._exit(CRASH_CODE)


def look_and_write(address: Address, line: Line, name: str, base: Locator) -> None:
    """Say what is there; then prove that one can go on writing, where the dead process wrote and beside it."""
    backend = address.open()
    line.say(snapshot(backend, base))
    for key in ("next.md", *SCENARIOS[name].keys):
        backend.write(base.child(key), "next\n")
        same(f"read of {key!r}", backend.read(base.child(key)), "next\n")
    line.say("written")


# C code that cannot change anything outside the process: calls into it are no steps.
_PURE = frozenset((
    "array", "binascii", "builtins", "collections", "datetime", "decimal", "errno", "functools", "gc", "itertools",
    "marshal", "math", "operator", "random", "re", "sys", "time", "unicodedata", "weakref", "zlib",
    "_abc", "_bisect", "_codecs", "_collections", "_contextvars", "_datetime", "_functools", "_hashlib", "_heapq",
    "_imp", "_json", "_operator", "_pickle", "_random", "_sha2", "_sha256", "_signal", "_sre", "_stat", "_string",
    "_struct", "_thread", "_warnings", "_weakref",
))  # fmt: skip


class Fuse:
    """Counts the steps of what runs inside the block, and ends the process just before the chosen one."""

    def __init__(self, step: int) -> None:
        self.calls: list[str] = []
        self._step = step

    def __enter__(self) -> Fuse:
        threading.setprofile(self._burn)
        sys.setprofile(self._burn)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _burn(self, frame: FrameType, event: str, callee: Any) -> None:
        if event != "c_call" or _is_pure(callee) or _imports(frame):
            return
        self.calls.append(callee.__name__)
        if len(self.calls) == self._step:
            os._exit(CRASH_CODE)


def _is_pure(callee: Any) -> bool:
    module = getattr(callee, "__module__", None)
    if module is None:  # a method of a C type: what matters is where the type lives
        owner = getattr(callee, "__self__", None)
        module = type(owner).__module__ if owner is not None else None
    return module in _PURE


def _imports(frame: FrameType | None) -> bool:
    """Loading a module on first use is no step of the verb."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# Processes that may die: children forked by a clean peer, or, where there is no fork, a new peer each.


@contextmanager
def _deathbed(address: Address) -> Iterator[Run]:
    if not _CAN_FORK:
        yield lambda job, *args: _spawn_and_listen(address, job, args)
        return
    with start(address, _serve) as peer:

        def run(job: Job, *args: object) -> Outcome:
            peer.say((job, args))
            outcome: Outcome = peer.hear(PATIENCE + 2 * NEXT_WRITE_SECONDS)
            return outcome

        yield run


def _spawn_and_listen(address: Address, job: Job, args: tuple[object, ...]) -> Outcome:
    said = []
    with start(address, job, *args) as peer:
        try:
            while True:
                said.append(peer.hear_any(_patience(job)))
        except EOFError:
            return Outcome(tuple(said), peer.code())


def _serve(address: Address, line: Line) -> None:
    """Fork a child for each job. Forking from a process that never opened the store is cheap and clean."""
    address.prepare()
    gc.freeze()  # so that children do not copy what they only look at
    while True:
        job, args = line.hear()
        line.say(_in_child(address, job, args))


def _in_child(address: Address, job: Job, args: tuple[object, ...]) -> Outcome:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            with open(os.devnull, "rb") as nothing, open(writer, "wb") as out:
                code = perform(address, Line(nothing, out), job, args)
        finally:
            os._exit(code)
    os.close(writer)
    try:
        data, ended = _read_until(reader, time.monotonic() + _patience(job))
    finally:
        os.close(reader)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Outcome(tuple(_values(data)), code if ended else None)


def _patience(job: Job) -> float:
    return PATIENCE if job is act else NEXT_WRITE_SECONDS


def _read_until(reader: int, deadline: float) -> tuple[bytes, bool]:
    """Everything until the other end closes, and whether it did before the time was up."""
    data = b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return data, False
        piece = os.read(reader, 1 << 20)
        if not piece:
            return data, True
        data += piece


def _values(data: bytes) -> Iterator[Any]:
    line = Line(io.BytesIO(data), io.BytesIO())
    while True:
        try:
            yield line.hear()
        except EOFError:
            return
