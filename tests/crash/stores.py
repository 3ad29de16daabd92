"""What the crash tests share: stores to open, steps to take, and what a tree may look like after a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentm.backends import _durable
from agentm.backends.device_local import DeviceLocalBackend
from agentm.backends.memory import MemoryBackend
from agentm.backends.vault import VaultBackend
from agentm.conformance.crashsim import CrashState, Recorder, Survey, Trace, record, scratch, survey
from agentm.seam import ABSENT, ROOT, Locator, StorageBackend

Step = tuple[str, ...]
"""A verb and its arguments: ("write", "a/b", "text")."""

OURS = _durable.TEMP_PREFIX


@dataclass(frozen=True)
class Tree:
    """A whole store: the text of every file, and the directories."""

    files: dict[str, str]
    dirs: frozenset[str]


def open_device_local(root: str, _: str) -> StorageBackend:
    return DeviceLocalBackend(root)


def open_vault(root: str, locks: str) -> StorageBackend:
    return VaultBackend(root, lock_root=locks)


Opener = Callable[[str, str], StorageBackend]
STORES: dict[str, Opener] = {"device-local": open_device_local, "vault": open_vault}


def perform(backend: Any, step: Step) -> None:
    verb, *arguments = step
    place, rest = Locator(arguments[0]), arguments[1:]
    if verb == "swap":
        version = backend.read_versioned(place).version if backend.exists(place) else ABSENT
        backend.write_versioned(place, *rest, if_version=version)
    elif verb == "remove_version":
        backend.remove(place, if_version=backend.read_versioned(place).version)
    elif verb in ("rename", "replace"):
        backend.rename(place, Locator(rest[0]), overwrite=verb == "replace")
    else:
        getattr(backend, verb)(place, *rest)


def seen_through(backend: StorageBackend) -> Tree:
    files: dict[str, str] = {}
    dirs: set[str] = set()
    todo = [ROOT]
    while todo:
        for child in backend.list(todo.pop()):
            if backend.info(child).is_dir:
                dirs.add(child.key)
                todo.append(child)
            else:
                files[child.key] = backend.read(child)
    return Tree(files, frozenset(dirs))


def seen_plainly(root: str) -> Tree:
    """The tree as any other program sees it; only what is temporary and agentm's own in the root is looked past."""
    files: dict[str, str] = {}
    dirs: set[str] = set()
    for where, below, names in os.walk(root):
        if where == root:
            below[:] = [name for name in below if not name.startswith(OURS)]
        prefix = os.path.relpath(where, root) + "/" if where != root else ""
        dirs.update(prefix + name for name in below)
        for name in names:
            if prefix or not name.startswith(OURS):
                with open(os.path.join(where, name), encoding="utf-8", newline="") as file:
                    files[prefix + name] = file.read()
    return Tree(files, frozenset(dirs))


def milestones(before: Sequence[Step], steps: Sequence[Step]) -> list[Tree]:
    """What the reference backend holds before the first step and after each."""
    reference = MemoryBackend()
    for step in before:
        perform(reference, step)
    trees = [seen_through(reference)]
    for step in steps:
        perform(reference, step)
        trees.append(seen_through(reference))
    return trees


def run(open_store: Opener, before: Sequence[Step], steps: Sequence[Step], *, fresh: bool = False) -> Trace:
    """Take the steps, saying "ack" after each; with ``fresh`` the store is opened during the recording too."""
    with scratch() as base, scratch() as locks:
        root = f"{base}/new/store" if fresh else base
        if not fresh:
            opened = open_store(root, locks)
            for step in before:
                perform(opened, step)

        def action(recorder: Recorder) -> None:
            backend = open_store(root, locks) if fresh else opened
            for step in steps:
                perform(backend, step)
                recorder.mark("ack", step)

        return record(base, action)


def assert_between(found: Tree, old: Tree, new: Tree, step: Step | None) -> None:
    """Everything is as before the step that was under way or as after it; new parents may be there already."""
    assert found.files in (old.files, new.files), f"files {found.files}, expected {old.files} or {new.files}"
    reached = old if found.files == old.files else new
    assert old.dirs & new.dirs <= found.dirs <= old.dirs | new.dirs, f"directories {sorted(found.dirs)}"
    if old.files != new.files:
        assert found.dirs - reached.dirs <= new.dirs, f"directories {sorted(found.dirs)} beside {found.files}"
    if step is not None and step[0] == "rename":
        assert (step[1] in found.dirs | found.files.keys()) != (step[2] in found.dirs | found.files.keys())


def check(
    open_store: Opener,
    before: Sequence[Step],
    steps: Sequence[Step],
    *,
    fresh: bool = False,
    model: str = "reorder",
    limit: int = 100_000,
) -> Survey:
    """Every crash state of the steps, looked at plainly and through the reopened store."""
    trees = milestones(before, steps)

    with scratch() as locks:

        def verify(directory: str, state: CrashState) -> None:
            root = f"{directory}/new/store" if fresh else directory
            done = len(state.marks)
            step = steps[done] if done < len(steps) else None
            old, new = trees[done], trees[min(done + 1, len(steps))]
            plain = seen_plainly(root)
            assert_between(plain, old, new, step)
            # Each state is the first that this machine sees of the store: the one before was written to, and is gone.
            backend = open_store(root, f"{locks}/{os.urandom(6).hex()}")
            assert seen_through(backend) == plain, f"reopened as {seen_through(backend)}, plainly {plain}"
            left = [name for _, _, names in os.walk(root) for name in names if name.startswith(OURS)]
            assert not left, f"left after reopening: {left}"
            assert backend.write(Locator("after/the crash"), "works").key == "after/the crash"
            assert backend.read(Locator("after/the crash")) == "works"

        return survey(run(open_store, before, steps, fresh=fresh), verify, model=model, limit=limit)
