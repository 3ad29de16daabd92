"""A process that writes until its disk is gone, saying after each write that it was acknowledged.

python put_loop.py STORE ROOT LOCKS [--forget-directories]
"""

import os
import sys
from contextlib import suppress

from agentm.backends import _durable
from agentm.errors import AgentmError
from agentm.seam.locator import Locator
from tests.crash.one_write import open_store


def text(n):
    return f"{n:8}" + "x" * (n * 37 % 9000)


def forget(path):
    pass


def main(store, root, locks, *options):
    if "--forget-directories" in options:
        _durable.sync_dir = forget
    backend = open_store(store, root, locks)
    n = 0
    while True:
        n += 1
        backend.write(Locator(f"new-{n}/deep/note"), text(n))
        backend.write(Locator("same"), text(n))
        os.write(1, b"%8d" % n)


if __name__ == "__main__":
    with suppress(AgentmError, OSError):
        main(*sys.argv[1:])
