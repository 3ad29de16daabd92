"""One process of the race tests: ``race_worker.py STORE ROOT LOCKS KEEP ROLE NAME COUNT``.

It says that it is ready, waits for a line, and says at its end, as JSON, what it saw. A count of 0 means: until
another line comes.
"""

from __future__ import annotations

import json
import os
import select
import sys
from dataclasses import replace

from agentm import ContextFS, ContextNode, DeviceLocalBackend, RequestContext, StorageBackend, VaultBackend, repair
from agentm.errors import AgentmError, NodeConflictError

URI = "ctx://acme/users/alice/memories/events/visit"
CTX = RequestContext("acme", user_id="alice")


def open_store(protocol: str, root: str, locks: str) -> StorageBackend:
    if protocol == "sqlite":
        from agentm import SqliteBackend

        return SqliteBackend(f"{root}/store.db")
    return DeviceLocalBackend(root) if protocol == "device-local" else VaultBackend(root, lock_root=locks)


def text_of(name: str, n: int, uri: str = URI) -> ContextNode:
    """Every part says the same, so that a mix of two versions shows."""
    said = f"{name} {n}"
    return ContextNode(uri, f"{said}\n" * 200, abstract=said, overview=f"{said}\n", tags=(said,))


def is_mixed(node: ContextNode) -> bool:
    said = node.abstract
    return node.content != f"{said}\n" * 200 or node.overview != f"{said}\n" or node.tags != (said,)


def uri_of(name: str, n: int) -> str:
    return f"ctx://acme/users/alice/memories/cases/{name}-{n}"


def told_to_stop() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def write(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Update as fast as it goes, whatever is there."""
    return {"versions": [fs.write_node(text_of(name, n), CTX).version for n in range(count)]}


def report(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Update a node that all share and write one of its own, over and over, until killed; say what was acknowledged."""
    n = 0
    while True:
        version = fs.write_node(text_of(name, n), CTX).version
        os.write(1, f"shared {n} {version}\n".encode())
        fs.write_node(text_of(name, n, uri_of(name, n)), CTX)
        os.write(1, f"own {n} 1\n".encode())
        n += 1


def add(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Add one line at a time, on top of what is there or not at all."""
    clashes = 0
    for n in range(count):
        while True:
            now = fs.read_node(URI, CTX)
            wanted = replace(now, content=f"{now.content}{name} {n}\n", abstract=f"{name} {n}")
            try:
                fs.write_node(wanted, CTX, if_version=now.version)
                break
            except NodeConflictError:
                clashes += 1
    return {"clashes": clashes}


def insist(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """The same beside writers who have another lock: what is refused may be tried again, and may even have landed."""
    refused: list[str] = []
    for n in range(count):
        while True:
            try:
                now = fs.read_node(URI, CTX)
                wanted = replace(now, content=f"{now.content}{name} {n}\n", abstract=f"{name} {n}")
                fs.write_node(wanted, CTX, if_version=now.version)
                break
            except AgentmError as error:
                refused.append(error.code)
    return {"refused": refused}


def read(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Read until somebody has written the last version, and say what was wrong."""
    wrong: list[str] = []
    reads, last, seen = 0, 0, set()
    while not told_to_stop() if count == 0 else last < count:
        node = fs.read_node(URI, CTX)
        if is_mixed(node):
            wrong.append(f"version {node.version} is mixed: {node.abstract}")
        if node.version < last:
            wrong.append(f"version {node.version} after {last}")
        reads, last = reads + 1, max(last, node.version)
        seen.add(node.version)
    return {"reads": reads, "versions": len(seen), "wrong": wrong}


def mend(fs: ContextFS, name: str, count: int) -> dict[str, object]:
    """Repair over and over until somebody has written the last version."""
    runs, done = 0, []
    while not told_to_stop() if count == 0 else fs.read_node(URI, CTX).version < count or runs == 0:
        report = repair(fs.backend, quiet=0.0)
        runs += 1
        done += [(finding.uri, finding.action.name, finding.why) for finding in report.findings]
    return {"runs": runs, "done": done}


ROLES = {"write": write, "report": report, "add": add, "insist": insist, "read": read, "mend": mend}


def main(protocol: str, root: str, locks: str, keep: str, role: str, name: str, count: str) -> None:
    fs = ContextFS(open_store(protocol, root, locks), keep_versions=int(keep))
    os.write(1, b"ready\n")
    os.read(0, 1)
    print(json.dumps(ROLES[role](fs, name, int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
