"""One process of the kill test: `index` catches up for ever, `write` changes memories for ever. Says when it begins."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from agentm import AgentmError, DeviceLocalBackend, Memory


def index(memory: Memory) -> None:
    while True:
        memory.catch_up()


def write(memory: Memory) -> None:
    chance = random.Random()
    while True:
        name = f"events/n-{chance.randrange(60)}"
        try:
            if chance.random() < 0.15:
                memory.forget(name)
            else:
                memory.remember(f"Visit {chance.randrange(10**6)} to the weaver. " * chance.choice((1, 60)), to=name)
        except AgentmError:
            continue  # it is not there


if __name__ == "__main__":
    what, directory = sys.argv[1:]
    path = Path(directory)
    with Memory.open(
        DeviceLocalBackend(path / "store"), account="acme", user="alice", index_root=path / "index", install_prefix=path
    ) as opened:
        print("begun", flush=True)
        {"index": index, "write": write}[what](opened)
