"""Processes that write, read and repair nodes at the same time, and some of them die."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import agentm
from agentm import ContextFS, repair
from agentm.conformance.crashsim import scratch
from tests.context import race_worker
from tests.context.race_worker import CTX, URI, is_mixed, open_store, text_of, uri_of

pytestmark = [pytest.mark.slow, pytest.mark.spec("CTX-05", "CTX-06", "CTX-09")]

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))
SCRIPT = os.path.abspath(race_worker.__file__)
STORES = ("device-local", "vault", "sqlite")
ALL = 1_000_000
"""Versions kept, where all must be found again."""


class Race:
    """A node on a store, and processes that work on it."""

    def __init__(self, store: str, root: str, locks: str) -> None:
        self.store = store
        self._where = (store, root, locks)
        self.fs = ContextFS(open_store(*self._where), keep_versions=ALL)
        self.fs.write_node(text_of("first", 0), CTX)

    def start(self, role: str, name: str, count: int, keep: int = ALL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, SCRIPT, *self._where, str(keep), role, name, str(count)],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *workers: tuple[str, str, int], keep: int = ALL) -> list[Any]:
        with self.going(*workers, keep=keep) as running:
            return [result_of(process) for process in running]

    @contextmanager
    def going(self, *workers: tuple[str, str, int], keep: int = ALL) -> Iterator[list[subprocess.Popen[str]]]:
        with together([self.start(*worker, keep) for worker in workers]) as running:
            yield running


@contextmanager
def together(running: list[subprocess.Popen[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Workers that begin at the same instant, and are gone afterwards."""
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in running:
            say(process)
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def result_of(process: subprocess.Popen[str]) -> Any:
    said, complaint = process.communicate(timeout=3_600)
    assert process.returncode == 0, complaint
    return json.loads(said)


@pytest.fixture(params=STORES)
def race(request):
    with scratch() as root, scratch() as locks:
        yield Race(request.param, root, locks)


def reading_while_writing(race: Race, writers: int, count: int, keep: int) -> None:
    last = writers * count + 1
    readers = [("read", "", last)] * 2
    begun = time.monotonic()
    said = race.run(*(("write", f"w{n}", count) for n in range(writers)), *readers, keep=keep)
    assert sorted(version for one in said[:writers] for version in one["versions"]) == list(range(2, last + 1))
    for one in said[writers:]:
        assert one["wrong"] == []
        assert one["versions"] > 3, "the readers saw next to nothing of it"
    versions = [node.version for node in race.fs.history(URI, CTX)]
    assert versions == list(range(max(1, last - keep + 1), last + 1))
    reads = sum(one["reads"] for one in said[writers:])
    print(
        f"{race.store}: {last - 1} updates by {writers} processes, {reads} reads by {len(readers)}, none mixed, none "
        f"older than the one before it, in {time.monotonic() - begun:.0f} s"
    )


@pytest.mark.parametrize("keep", [ALL, 3])
def test_readers_see_whole_versions_that_never_go_back(race, keep):
    """Also where the version that a reader falls back on may be let go of while it looks."""
    reading_while_writing(race, 2, 60, keep)


@pytest.mark.lab
def test_readers_see_whole_versions_during_ten_thousand_updates(race):
    reading_while_writing(race, 4, 2_500, 20)


def adding_lines(race: Race, writers: int, count: int) -> None:
    before = race.fs.read_node(URI, CTX).content
    begun = time.monotonic()
    said = race.run(*(("add", f"w{n}", count) for n in range(writers)))
    node = race.fs.read_node(URI, CTX)
    added = node.content.removeprefix(before).splitlines()
    assert sorted(added) == sorted(f"w{n} {line}" for n in range(writers) for line in range(count))
    assert node.version == writers * count + 1
    versions = race.fs.history(URI, CTX)
    assert [one.version for one in versions] == list(range(1, node.version + 1))
    assert all(new.content.startswith(old.content) for old, new in pairwise(versions))
    clashes = sum(one["clashes"] for one in said)
    assert clashes > 0, "they never met"
    print(
        f"{race.store}: {len(added)} updates by {writers} processes, {clashes} clashes, none lost, in "
        f"{time.monotonic() - begun:.0f} s"
    )


def test_no_update_is_lost(race):
    adding_lines(race, 4, 20)


@pytest.mark.lab
def test_no_update_of_eight_processes_is_lost(race):
    adding_lines(race, 8, 250)


def test_writers_with_different_locks_lose_nothing_either():
    """Two homes, or two containers, that share a vault and not the folder of its locks."""
    with scratch() as root, scratch() as locks, scratch() as other_locks:
        first, second = Race("vault", root, locks), Race("vault", root, other_locks)
        with together([first.start("insist", "a", 60), second.start("insist", "b", 60)]) as running:
            said = [result_of(process) for process in running]
        node = first.fs.read_node(URI, CTX)
        versions = first.fs.history(URI, CTX)
    assert {f"{name} {n}" for name in "ab" for n in range(60)} <= set(node.content.splitlines())
    assert [one.version for one in versions] == list(range(1, node.version + 1))
    refused = {code for one in said for code in one["refused"]}
    assert refused, "they never met"
    assert "node_broken" not in refused


def test_a_repair_beside_writers_publishes_nothing_of_its_own(race):
    *writers, mender, _ = race.run(("write", "w0", 60), ("write", "w1", 60), ("mend", "", 121), ("read", "", 121))
    written = sorted(version for one in writers for version in one["versions"])
    assert written == list(range(2, 122)), "a version that no writer was told of"
    assert [one for one in mender["done"] if one[1] != "TELL"] == []
    versions = race.fs.history(URI, CTX)
    assert [one.version for one in versions] == list(range(1, 122))
    assert {one.actor for one in versions} == {"human:alice"}
    assert mender["runs"] > 1
    assert repair(race.fs.backend, quiet=0.0).findings == []


Told = dict[str, dict[int, int]]
"""What a writer that was killed had been told: for `shared` and `own`, the number of a text and its version."""


def killed_writer(process: subprocess.Popen[str], chance: Random) -> Told:
    """Let a writer write for a moment, and kill it wherever it is."""
    assert process.stdout is not None
    heard = [process.stdout.readline() for _ in range(chance.randint(1, 6))]
    select.select([], [], [], chance.uniform(0, 0.02))
    process.kill()
    heard += process.stdout.readlines()  # not by communicate, which would pass over what is read ahead
    assert process.wait() == -9, process.communicate()[1]
    told: Told = {"shared": {}, "own": {}}
    for line in heard:
        which, number, version = line.split()
        told[which][int(number)] = int(version)
    return told


def killing_writers(race: Race, rounds: int) -> None:
    """Two writers at a time, each killed at some instant, while others read and repair without end."""
    chance = Random(rounds)
    told: dict[str, Told] = {}
    with race.going(("mend", "", 0), ("mend", "", 0), ("read", "", 0)) as beside:
        for n in range(rounds):
            names = [f"w{n}a", f"w{n}b"]
            with race.going(*(("report", name, 0) for name in names)) as writers:
                told |= {name: killed_writer(writer, chance) for name, writer in zip(names, writers, strict=True)}
        for process in beside:
            say(process)
        *menders, reader = map(result_of, beside)
    assert reader["wrong"] == []
    did = Counter(action for mender in menders for _, action, _ in mender["done"])
    repair(race.fs.backend, quiet=0.0)
    assert repair(race.fs.backend, quiet=0.0).findings == []
    check_shared(race, told, [one for mender in menders for one in mender["done"]])
    completed = check_own(race, told)
    print(f"{race.store}: {len(told)} writers killed; beside them {dict(did)}; {completed} first writes completed")


def check_shared(race: Race, told: dict[str, Told], done: list[tuple[str, str, str]]) -> None:
    """What nobody was told of can only be what its writer committed: a repair takes back or tells, no more."""
    assert {action for uri, action, _ in done if uri == URI} <= {"TELL", "DISCARD", "RESTORE"}
    assert not [why for _, _, why in done if why]
    versions = {node.version: node for node in race.fs.history(URI, CTX)}
    assert sorted(versions) == list(range(1, len(versions) + 1))
    assert not [node.version for node in versions.values() if is_mixed(node) or node.actor != "human:alice"]
    said = [node.abstract for node in versions.values()]
    assert len(set(said)) == len(said), "a text was published twice"
    for name, one in told.items():
        acknowledged = {version: f"{name} {number}" for number, version in one["shared"].items()}
        assert acknowledged == {version: versions[version].abstract for version in acknowledged}
        unheard = {text for text in said if text and text.startswith(f"{name} ")} - {*acknowledged.values()}
        assert unheard <= {f"{name} {len(acknowledged)}"}, f"{name} did not even begin {unheard}"


def check_own(race: Race, told: dict[str, Told]) -> int:
    """Each first write that was acknowledged is there; the one under way is there whole, or not at all."""
    completed = 0
    for name, one in told.items():
        begun = len(one["shared"])
        for number in range(begun + 1):
            there = race.fs.exists(uri_of(name, number), CTX)
            assert there or number not in one["own"], f"{name} {number} was acknowledged and is lost"
            assert not there or number < begun, f"{name} {number} was not even begun"
            if there:
                assert not is_mixed(race.fs.read_node(uri_of(name, number), CTX))
                completed += number not in one["own"]
    assert completed <= len(told)
    return completed


def test_a_repair_beside_writers_that_are_killed_publishes_nothing_that_was_under_way(race):
    killing_writers(race, 4)


@pytest.mark.lab
def test_a_repair_beside_a_hundred_and_twenty_killed_writers(race):
    killing_writers(race, 60)
