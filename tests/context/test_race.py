"""Processes that write, read and repair one node at the same time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

import agentm
from agentm.conformance.crashsim import scratch
from agentm.context.contextfs import ContextFS
from agentm.context.repair import repair
from tests.context import race_worker
from tests.context.race_worker import CTX, URI, open_store, text_of
from tests.crash.stores import STORES

pytestmark = [pytest.mark.slow, pytest.mark.spec("CTX-05", "CTX-06", "CTX-09")]

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))
SCRIPT = os.path.abspath(race_worker.__file__)


class Race:
    """A node on a store, and processes that work on it."""

    def __init__(self, store: str, root: str, locks: str) -> None:
        self._where = (store, root, locks)
        self.fs = ContextFS(open_store(*self._where), keep_versions=100_000)

    def start(self, role: str, name: str, count: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, SCRIPT, *self._where, role, name, str(count)],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *workers: tuple[str, str, int]) -> list[Any]:
        running = [self.start(*worker) for worker in workers]
        try:
            for process in running:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in running:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            return [self._hear(process) for process in running]
        finally:
            for process in running:
                process.kill()

    def _hear(self, process: subprocess.Popen[str]) -> Any:
        said, complaint = process.communicate(timeout=240)
        assert process.returncode == 0, complaint
        return json.loads(said)


@pytest.fixture(params=STORES)
def race(request):
    with scratch() as root, scratch() as locks:
        yield Race(request.param, root, locks)


def reading_while_writing(race: Race, writers: int, count: int) -> None:
    race.fs.write_node(text_of("first", 0), CTX)
    last = writers * count + 1
    said = race.run(*(("write", f"w{n}", count) for n in range(writers)), *(("read", "", last) for _ in range(2)))
    assert sorted(version for one in said[:writers] for version in one["versions"]) == list(range(2, last + 1))
    for one in said[writers:]:
        assert one["wrong"] == []
        assert one["versions"] > 3, "the readers saw next to nothing of it"
    assert [node.version for node in race.fs.history(URI, CTX)] == list(range(1, last + 1))


def test_readers_see_whole_versions_that_never_go_back(race):
    reading_while_writing(race, 2, 100)


@pytest.mark.lab
def test_readers_see_whole_versions_during_ten_thousand_updates(race):
    reading_while_writing(race, 4, 2_500)


def adding_lines(race: Race, writers: int, count: int) -> None:
    race.fs.write_node(text_of("first", 0), CTX)
    before = race.fs.read_node(URI, CTX).content
    said = race.run(*(("add", f"w{n}", count) for n in range(writers)))
    node = race.fs.read_node(URI, CTX)
    added = node.content.removeprefix(before).splitlines()
    assert sorted(added) == sorted(f"w{n} {line}" for n in range(writers) for line in range(count))
    assert node.version == writers * count + 1
    versions = race.fs.history(URI, CTX)
    assert [one.version for one in versions] == list(range(1, node.version + 1))
    assert all(new.content.startswith(old.content) for old, new in pairwise(versions))
    assert sum(one["clashes"] for one in said) > 0, "they never met"


def test_no_update_is_lost(race):
    adding_lines(race, 4, 20)


@pytest.mark.lab
def test_no_update_of_eight_processes_is_lost(race):
    adding_lines(race, 8, 125)


def test_a_repair_beside_writers_publishes_nothing_of_its_own(race):
    race.fs.write_node(text_of("first", 0), CTX)
    *writers, mender, _ = race.run(("write", "w0", 60), ("write", "w1", 60), ("mend", "", 121), ("read", "", 121))
    written = sorted(version for one in writers for version in one["versions"])
    assert written == list(range(2, 122)), "a version that no writer was told of"
    assert [one for one in mender["done"] if one[0] != "TELL"] == []
    versions = race.fs.history(URI, CTX)
    assert [one.version for one in versions] == list(range(1, 122))
    assert {one.actor for one in versions} == {"human:alice"}
    assert mender["runs"] > 1
    assert repair(race.fs.backend, quiet=0.0).findings == []
