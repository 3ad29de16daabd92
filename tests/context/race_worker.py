"""One process of the race tests: ``race_worker.py STORE ROOT LOCKS ROLE NAME COUNT``.

It says that it is ready, waits for a line, and says at its end, as JSON, what it saw.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from agentm import DeviceLocalBackend, StorageBackend, VaultBackend
from agentm.context.contextfs import ContextFS
from agentm.context.node import ContextNode
from agentm.context.repair import repair
from agentm.context.tenancy import RequestContext
from agentm.errors import NodeConflictError

URI = "ctx://acme/users/alice/memories/events/visit"
CTX = RequestContext("acme", user_id="alice")


def open_store(protocol: str, root: str, locks: str) -> StorageBackend:
    return DeviceLocalBackend(root) if protocol == "device-local" else VaultBackend(root, lock_root=locks)


def text_of(name: str, n: int) -> ContextNode:
    """Every part says the same, so that a mix of two versions shows."""
    said = f"{name} {n}"
    return ContextNode(URI, f"{said}\n" * 200, abstract=said, overview=f"{said}\n", tags=(said,))


def write(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Update as fast as it goes, whatever is there."""
    return {"versions": [fs.write_node(text_of(name, n), CTX).version for n in range(count)]}


def add(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Add one line at a time, on top of what is there or not at all."""
    clashes = 0
    for n in range(count):
        while True:
            now = fs.read_node(URI, CTX)
            wanted = replace(now, content=f"{now.content}{name} {n}\n", abstract=None, overview=None)
            try:
                fs.write_node(wanted, CTX, if_version=now.version)
                break
            except NodeConflictError:
                clashes += 1
    return {"clashes": clashes}


def read(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Read until somebody has written the last version, and say what was wrong."""
    wrong: list[str] = []
    reads, last, seen = 0, 0, set()
    while last < count:
        node = fs.read_node(URI, CTX)
        said = node.abstract
        if node.content != f"{said}\n" * 200 or node.overview != f"{said}\n" or node.tags != (said,):
            wrong.append(f"version {node.version} is mixed: {said}")
        if node.version < last:
            wrong.append(f"version {node.version} after {last}")
        reads, last = reads + 1, max(last, node.version)
        seen.add(node.version)
    return {"reads": reads, "versions": len(seen), "wrong": wrong}


def mend(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Repair over and over until somebody has written the last version."""
    runs, done = 0, []
    while True:
        report = repair(fs.backend, quiet=0.0)
        runs += 1
        done += [(finding.action.name, finding.why) for finding in report.findings]
        if fs.read_node(URI, CTX).version >= count:
            return {"runs": runs, "done": done}


ROLES = {"write": write, "add": add, "read": read, "mend": mend}


def main(protocol: str, root: str, locks: str, role: str, name: str, count: str) -> None:
    fs = ContextFS(open_store(protocol, root, locks), keep_versions=100_000)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(ROLES[role](fs, name, int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
