"""Every flush of a recorded run by its name, and the run as it would have been without one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from agentm.conformance.crashsim_states import ROOT_INODE, Relink, Sync, Trace
from tests.crash.stores import OURS

_KINDS = (
    (r"\d{8}-[0-9a-f]+\.json", "a version"),
    (r"[0-9a-f-]{16,}\.json", "an event"),
    (rf"{OURS}.*", "a temporary"),
    (r"visit(-\d)?|other|coffee_shop", "of the node"),
    (r"events|cases|entities", "of the category"),
)


def flushes(trace: Trace) -> dict[str, list[int]]:
    """What is flushed, for a folder after which change of its names → the operations of the trace that do it."""
    names = _last_names(trace)
    found: dict[str, list[int]] = {}
    last: dict[int, str] = {}
    for at, op in enumerate(trace.ops):
        if isinstance(op, Relink):
            last |= {directory: _change(op) for (directory, _), _ in op.changes}
        elif isinstance(op, Sync):
            name = names[op.inode]
            done = last.get(op.inode, "nothing is done")
            label = f"the file {name}" if op.inode in trace.files else f"the folder {name} once {done}"
            found.setdefault(label, []).append(at)
    return found


def without(trace: Trace, forgotten: int) -> Trace:
    return replace(trace, ops=[op for at, op in enumerate(trace.ops) if at != forgotten])


def _change(op: Relink) -> str:
    names = {name: inode for (_, name), inode in op.changes}
    told = [name for name in names if not name.startswith(OURS)] or list(names)
    done = "made" if op.kind == "mkdir" else "gone" if names[told[-1]] is None else "placed"
    return f"{_plain(told[-1])} is {done}"


def _last_names(trace: Trace) -> dict[int, str]:
    """Each inode under the last name it had that was not a temporary one."""
    names = {ROOT_INODE: "of the store"}
    for name, inode in _all_names(trace):
        if inode not in names or not name.startswith(OURS):
            names[inode] = _plain(name)
    return names


def _all_names(trace: Trace) -> Iterator[tuple[str, int]]:
    for (_, name), inode in trace.names.items():
        yield name, inode
    for op in trace.ops:
        if isinstance(op, Relink):
            yield from ((name, inode) for (_, name), inode in op.changes if inode is not None)


def _plain(name: str) -> str:
    return next((plain for pattern, plain in _KINDS if re.fullmatch(pattern, name)), name)
