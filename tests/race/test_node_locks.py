"""Locks on places, and many texts at once, between processes: freed by death, lost by sleep, and taken in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentm.seam import Locator
from tests.race.processes import SOURCE, Worker, place, race
from tests.race.worker import open_store

pytestmark = pytest.mark.spec("SEAM-09", "SEAM-14")

HERE = os.path.dirname(os.path.abspath(__file__))
STORES = ("device-local", "vault", "sqlite")
LITTLE, MUCH = "0.3", "60"
"""Patience of those who wait, in seconds."""


class Locker(Worker):
    """A process of `lock_worker.py`."""

    def __init__(self, *arguments: str, patience: str) -> None:
        paths = os.pathsep.join([SOURCE, os.path.dirname(os.path.dirname(HERE))])
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "lock_worker.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "LOCK_PATIENCE": patience},
        )
        self._heard = b""

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        self.wait_until_stopped()

    def asked(self, order: str, expected: str) -> str:
        self.tell(order)
        return self.hear(expected)


@contextmanager
def lockers(*each: tuple[str, ...], patience: str = MUCH) -> Iterator[list[Locker]]:
    started: list[Locker] = []
    try:
        for arguments in each:
            started.append(Locker(*arguments, patience=patience))
        yield started
    finally:
        for locker in started:
            locker.close()


@pytest.mark.parametrize("store", STORES)
def test_a_holder_that_is_killed_frees_its_locks_at_once(store: str) -> None:
    with place() as directory:
        with lockers(("lock", store, directory, "a", "b")) as [holder]:
            holder.hear("holding")
            with lockers(("lock", store, directory, "b"), ("lock", store, directory, "c")) as [other, elsewhere]:
                elsewhere.hear("holding")  # as the other one by now, if it were not kept out
                with pytest.raises(AssertionError, match="said nothing"):
                    other.hear("holding", within=0.2)
                holder.kill()
                begun = time.monotonic()
                other.hear("holding")
                assert time.monotonic() - begun < 1
        assert set(os.listdir(f"{directory}/root")) <= {"store.db"}


def test_a_holder_that_sleeps_while_others_wait_loses_its_lock_and_is_told() -> None:
    with place() as directory, lockers(("lock", "vault", directory, "a/note", "b/note"), patience=LITTLE) as [sleeper]:
        sleeper.hear("holding")
        sleeper.stop()
        with lockers(("lock", "vault", directory, "a/note"), patience=LITTLE) as [other]:
            other.hear("holding")
            assert other.asked("look", "ours") == "True"
            sleeper.resume()
            assert sleeper.asked("look", "ours") == "False"
            sleeper.asked("leave", "left")
            # Its leaving does not take the lock from the one who has it now.
            assert other.asked("look", "ours") == "True"
            with lockers(("lock", "vault", directory, "b/note", "a/note")) as [third]:
                with pytest.raises(AssertionError, match="said nothing"):
                    third.hear("holding", within=0.2)
                other.asked("leave", "left")
                third.hear("holding")


def test_a_holder_that_sleeps_while_nobody_waits_keeps_its_lock() -> None:
    with place() as directory, lockers(("lock", "vault", directory, "a/note"), patience=LITTLE) as [sleeper]:
        sleeper.hear("holding")
        sleeper.stop()
        with lockers(("lock", "vault", directory, "elsewhere"), patience=LITTLE) as [other]:
            other.hear("holding")
        sleeper.resume()
        assert sleeper.asked("look", "ours") == "True"


def test_a_holder_that_is_awake_and_looks_keeps_its_lock() -> None:
    with place() as directory, lockers(("lock", "vault", directory, "a/note"), patience=LITTLE) as [holder]:
        holder.hear("holding")
        with lockers(("lock", "vault", directory, "a/note"), patience=LITTLE) as [other]:
            for _ in range(20):
                assert holder.asked("look", "ours") == "True"
                with pytest.raises(AssertionError, match="said nothing"):
                    other.hear("holding", within=0.05)
            holder.asked("leave", "left")
            other.hear("holding")


def test_what_a_sleeper_writes_late_is_refused_if_it_is_a_swap() -> None:
    """No lock can stop it between its look and its write; the version can."""
    with place() as directory:
        backend = open_store("vault", directory)
        backend.write(Locator("a/note"), "old")
        with lockers(("lock", "vault", directory, "a/note"), patience=LITTLE) as [sleeper]:
            sleeper.hear("holding")
            sleeper.stop()
            with lockers(("lock", "vault", directory, "a/note"), patience=LITTLE) as [other]:
                other.hear("holding")
                assert other.asked("swap theirs", "wrote") == "theirs"
                sleeper.resume()
                assert sleeper.asked("swap late", "refused") == "ConcurrentModificationError"
        assert backend.read(Locator("a/note")) == "theirs"


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_processes_that_ask_for_several_places_in_any_order_take_turns(store: str) -> None:
    orders = ("a b c", "c b a", "b a c", "c a")
    with place() as directory:
        backend = open_store(store, directory)
        for key in "abc":
            backend.write(Locator(key), "0")
        with lockers(*(("count", store, directory, "40", *order.split()) for order in orders)) as counting:
            race(list(counting))
        assert [backend.read(Locator(key)) for key in "abc"] == ["160", "120", "160"]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["vault", "sqlite"])
def test_many_writers_of_many_texts_lose_none(store: str) -> None:
    with place() as directory:
        backend = open_store(store, directory)
        with lockers(*(("fill", store, directory, str(n), "5") for n in range(4))) as filling:
            race(list(filling))
        found = {child.key: backend.read(child) for child in backend.list(Locator("shared"))}
        assert found == {
            f"shared/{who}-{turn}-{n}": f"{who} wrote {n}" for who in range(4) for turn in range(5) for n in range(20)
        }
        if store == "vault":
            assert os.listdir(f"{directory}/root") == ["shared"]


@pytest.mark.slow
@pytest.mark.spec("SEAM-06", "SEAM-09", "SEAM-13", "SEAM-14")
@pytest.mark.parametrize("store", STORES)
def test_kills_in_the_middle_of_many_texts_leave_whole_ones_and_nothing_else(store: str) -> None:
    with place() as directory, lockers(("dies", store, directory, "30")) as [loop]:
        struck, kills = map(int, loop.hear("done", within=600).split())
    print(f"{store}: {struck} of {kills} kills in the middle of a call")
    assert struck >= 3
