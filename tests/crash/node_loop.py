"""A process that changes nodes by a plan until its disk is gone: a line from the parent starts each change, and a dot
is its acknowledgement.

python node_loop.py STORE ROOT LOCKS SEED [--forget-directories] [--forget-batches]
"""

import os
import sys

from agentm import ContextFS
from agentm.backends import _durable
from agentm.errors import AgentmError
from tests.crash.node_plan import Plan
from tests.crash.one_write import open_store
from tests.crash.put_loop import forget


def main(store, root, locks, seed, *options):
    if "--forget-directories" in options:
        _durable.sync_dir = forget
    if "--forget-batches" in options:
        _durable.sync_file_system = forget
    fs = ContextFS(open_store(store, root, locks))
    for change in Plan(int(seed)):
        if not sys.stdin.readline():
            return
        change.act(fs)
        os.write(1, b".")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AgentmError, OSError) as error:
        sys.exit(str(error))
