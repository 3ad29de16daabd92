"""A process that writes until its disk is gone, saying after each round of writes that it was acknowledged.

python put_loop.py STORE ROOT LOCKS [--many] [--forget-directories] [--forget-batches]
"""

import os
import sys

from agentm.backends import _durable
from agentm.errors import AgentmError
from agentm.seam.locator import Locator
from tests.crash.one_write import open_store

BATCH = 12
"""Texts that go into new places at once, and as many that go over old ones: enough to share flushes."""


def text(n):
    return f"{n:8}" + "x" * (n * 37 % 9000)


def new_places(n, many):
    return [f"new-{n}/deep/note-{i}" for i in range(BATCH)] if many else [f"new-{n}/deep/note"]


def same_places(many):
    return [f"same-{i}" for i in range(BATCH)] if many else ["same"]


def forget(where):
    pass


def main(store, root, locks, *options):
    if "--forget-directories" in options:
        _durable.sync_dir = forget
    if "--forget-batches" in options:
        _durable.sync_file_system = forget
    many = "--many" in options
    backend = open_store(store, root, locks)
    n = 0
    while True:
        n += 1
        texts = [(Locator(key), text(n)) for key in (*new_places(n, many), *same_places(many))]
        if many:
            backend.write_many(texts)
        else:
            for place, what in texts:
                backend.write(place, what)
        os.write(1, b"%8d" % n)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AgentmError, OSError) as error:
        sys.exit(str(error))
