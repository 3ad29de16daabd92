"""Nodes on a real file system that is shut down in the middle of their changes."""

from __future__ import annotations

import os
import random
import select
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import pytest

from agentm import ContextFS, MemoryBackend
from agentm.errors import AgentmError
from tests.crash.disks import KINDS, Disk, disk, heard, process
from tests.crash.node_changes import Scenario
from tests.crash.node_plan import EVERYTHING, Change, Plan
from tests.crash.node_states import Glance, View, view
from tests.crash.one_write import opened

pytestmark = [pytest.mark.lab, pytest.mark.spec("CTX-03", "CTX-05", "CTX-06", "CTX-08")]

STORES = ("device-local", "vault", "sqlite")
CRASHES = 90
"""On each file system with each store."""
LONGEST_CHANGE = 0.012
"""Seconds; the power is cut at some instant within it."""


def crash_during(made: Disk, seed: int, acks: int, delay: float, *arguments: str) -> None:
    """Let a process make some changes, and cut the power while it makes one more; bring the disk back."""
    with process("node_loop.py", *arguments[:3], str(seed), *arguments[3:]) as changing:
        assert changing.stdin is not None
        assert changing.stdout is not None
        for _ in range(acks):
            os.write(changing.stdin.fileno(), b"\n")
            heard(changing, 1)
        os.write(changing.stdin.fileno(), b"\n")
        select.select([changing.stdout], [], [], delay)
        made.lose_power()
    made.come_back()


def expected(seed: int, acks: int) -> tuple[View, View, Change]:
    """What was there before the change that was under way, what after it, and what it was."""
    fs = ContextFS(MemoryBackend())
    *done, last = islice(Plan(seed), acks + 1)
    for change in done:
        change.act(fs)
    old = view(fs, EVERYTHING)
    last.act(fs)
    return old, view(fs, EVERYTHING), last


@dataclass
class Tally:
    hit: Counter[str] = field(default_factory=Counter)
    """Crashes by the change that was under way."""
    halfway: int = 0
    """Those that left something to repair."""
    wrong: list[str] = field(default_factory=list)


def rounds(kind: str, store: str, count: int, *options: str) -> Tally:
    """Crash after crash on one disk, each time with a new store."""
    tally = Tally()
    with disk(kind) as made:
        for seed in range(count):
            chance = random.Random(seed)
            acks, delay = chance.randint(1, 20), chance.uniform(0, LONGEST_CHANGE)
            with made.fresh_place(str(seed)) as root:
                where = (store, root, made.locks)
                crash_during(made, seed, acks, delay, *where, *options)
                old, new, last = expected(seed, acks)
                tally.hit[last.name] += 1
                scenario = Scenario((), (), EVERYTHING, last.together, purges=last.name == "purge")
                try:
                    with opened(*where) as backend:
                        glance = Glance(ContextFS(backend), scenario, old, new, acknowledged=True)
                        tally.halfway += glance.verify()
                except (AssertionError, AgentmError) as error:
                    tally.wrong.append(f"seed {seed}, {acks} changes, then {last.name}: {error}")
    return tally


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", STORES)
def test_one_whole_version_is_there_and_the_repair_ends_it_well(kind: str, store: str) -> None:
    tally = rounds(kind, store, CRASHES)
    print(
        f"nodes in {store} on {kind}: {tally.hit.total()} crashes during {dict(tally.hit)}, {tally.halfway} of them "
        f"halfway, {len(tally.wrong)} went wrong"
    )
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.hit.total() == CRASHES
    assert tally.hit.keys() >= {"write", "update", "write_nodes", "move", "relate", "delete"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forgotten", ["--forget-directories", "--forget-batches"])
def test_the_crash_is_a_real_one(kind: str, forgotten: str) -> None:
    """Without these flushes something is lost: else the test above would prove nothing."""
    assert rounds(kind, "device-local", 15, forgotten).wrong
