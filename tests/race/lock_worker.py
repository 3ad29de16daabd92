"""The processes of the tests of locks and of many texts. Like those of `worker.py`, they say what they do and wait for
orders.

python lock_worker.py ROLE STORE DIRECTORY ARGUMENTS...
"""

import os
import sys
from collections.abc import Callable

from agentm.backends import _durable
from agentm.errors import AgentmError
from agentm.seam import Locator
from tests.race.worker import hear, kill_often, open_store, say

MANY = 20


def lock(store, directory, *keys):
    """Hold places, and until told to leave do as told."""
    backend = open_store(store, directory)
    note = Locator(keys[0])
    with backend.lock(*map(Locator, keys)) as held:
        version = backend.read_versioned(note).version if backend.exists(note) else None
        say("holding")
        while (order := hear()) != "leave":
            if order == "look":
                say("ours", held.ours())
            else:
                swap(backend, note, order.removeprefix("swap "), version)
    say("left")
    hear()


def swap(backend, note, text, version):
    try:
        backend.write_versioned(note, text, if_version=version)
    except AgentmError as error:
        say("refused", type(error).__name__)
    else:
        say("wrote", text)


def count(store, directory, times, *keys):
    """Add one to several counters, which only their locks make one step."""
    backend = open_store(store, directory)
    say("ready")
    hear()
    for _ in range(int(times)):
        with backend.lock(*map(Locator, keys)):
            for key in keys:
                backend.write(Locator(key), str(int(backend.read(Locator(key))) + 1))
    say("done")


def fill(store, directory, name, times):
    """Write texts that nobody else writes, many at once."""
    backend = open_store(store, directory)
    say("ready")
    hear()
    for turn in range(int(times)):
        backend.write_many([(Locator(f"shared/{name}-{turn}-{n}"), f"{name} wrote {n}") for n in range(MANY)])
    say("done")


def dies(store, directory, times):
    """Kill a writer of many texts at an unforeseeable moment; after each death every one of them must be whole."""
    kill_often(
        store, directory, times, write_for_ever, left_over, check_after_death, most_writes=3, longest_wait=100_000
    )


def write_for_ever(backend, outlet):
    turn = 0
    while True:
        turn += 1
        backend.write_many([(Locator(f"d{n % 3}/{n}"), text(turn)) for n in range(MANY)])
        os.write(outlet, b"%8d" % turn)


def text(turn):
    return f"{turn:8}" + "x" * 5_000


def check_after_death(backend, directory, acknowledged):
    for n in range(MANY):
        found = backend.read(Locator(f"d{n % 3}/{n}"))
        if found not in (text(acknowledged), text(acknowledged + 1)):
            sys.exit(f"acknowledged {acknowledged}, found {found[:20]!r} of length {len(found)}")
    backend.write_many([(Locator(f"after/{n}"), "works") for n in range(MANY)])
    if left := left_over(directory):
        sys.exit(f"left behind: {left}")


def left_over(directory):
    names = os.listdir(f"{directory}/root")
    return [name for name in names if name.startswith(_durable.TEMP_PREFIX) or name.endswith("-journal")]


ROLES: dict[str, Callable[..., None]] = {"lock": lock, "count": count, "fill": fill, "dies": dies}

if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    ROLES[role](*arguments)
