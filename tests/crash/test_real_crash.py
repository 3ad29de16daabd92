"""A real file system that is shut down in the middle of things: what the simulator claims, on ext4 or XFS."""

from __future__ import annotations

import os
import random

import pytest

from agentm.seam import Locator, StorageBackend
from tests.crash.disks import KINDS, Disk, disk, heard, process
from tests.crash.one_write import opened
from tests.crash.put_loop import new_places, same_places, text

pytestmark = [pytest.mark.lab, pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14")]

STORES = ("device-local", "vault", "sqlite")


def crash_while_writing(made: Disk, acks: int, *arguments: str) -> int:
    """Start a writer, cut the power after some acknowledgements, bring the disk back; returns how many there were."""
    with process("put_loop.py", *arguments) as writer:
        acknowledged = [int(heard(writer, 8)) for _ in range(acks)][-1]
        made.lose_power()  # acknowledgements that are not read yet do not count
    made.come_back()
    return acknowledged


def lost(store: str, root: str, locks: str, acknowledged: int, many: bool) -> list[str]:
    """What was acknowledged and is not there, or what is there and not whole."""
    if not os.path.isdir(root):
        return ["everything"]
    with opened(store, root, locks) as backend:
        gone = [
            key
            for n in range(1, acknowledged + 3)
            for key in new_places(n, many)
            if _text_at(backend, key) not in ((text(n),) if n <= acknowledged else (text(n), ""))
        ]
        for key in same_places(many):
            now = _text_at(backend, key)
            if now[:8].strip() == "" or int(now[:8]) < acknowledged or now != text(int(now[:8])):
                gone.append(key)
    left = [name for name in os.listdir(root) if name.startswith(".agentm")]
    return gone + left


def _text_at(backend: StorageBackend, key: str) -> str:
    return backend.read(Locator(key)) if backend.exists(Locator(key)) else ""


def rounds(kind: str, store: str, count: int, *options: str) -> tuple[int, list[str]]:
    """Crash after crash on one disk, each time with a new store; returns the acknowledgements and what was lost."""
    chance = random.Random(count)
    total, gone = 0, []
    with disk(kind) as made:
        for n in range(count):
            with made.fresh_place(str(n)) as root:
                where = (store, root, made.locks)
                acknowledged = crash_while_writing(made, chance.randint(1, 25), *where, *options)
                total += acknowledged
                gone += [f"round {n}: {what}" for what in lost(*where, acknowledged, "--many" in options)]
    return total, gone


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("mode", ["one by one", "many at once"])
def test_nothing_acknowledged_is_lost(kind: str, store: str, mode: str) -> None:
    options = ["--many"] if mode == "many at once" else []
    total, gone = rounds(kind, store, 25, *options)
    print(f"{store} on {kind}, {mode}: 25 crashes, {total} acknowledged rounds of writes, {len(gone)} lost")
    assert not gone, "\n".join(gone)
    assert total > 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forgetting", [("--forget-directories",), ("--many", "--forget-batches")])
def test_the_crash_is_a_real_one(kind: str, forgetting: tuple[str, ...]) -> None:
    """Without these flushes something is lost: else the test above would prove nothing."""
    _, gone = rounds(kind, "device-local", 10, *forgetting)
    assert gone
