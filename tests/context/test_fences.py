"""Rivals who do not share our lock: one that slept through its loss, or has another lock folder.

They come at every step of a change. Nothing that was acknowledged is lost, nothing becomes unreadable, and a node that
moves is in one place. Whoever is too late is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentm import Held, Locator, MemoryBackend
from agentm.context.contextfs import ContextFS
from agentm.context.repair import repair
from agentm.errors import AgentmError
from tests.context.nodes import ALICE, OTHER, VISIT, memory, texts_below
from tests.context.recording import Recording

pytestmark = pytest.mark.spec("CTX-05", "CTX-06", "CTX-08", "CTX-09")

EIGHT = [f"ctx://acme/users/alice/memories/cases/n{n}" for n in range(8)]


class _Believes:
    def ours(self) -> bool:
        return True


class Lockless(Recording):
    """A store whose locks keep nobody out, and whose holders never learn of it."""

    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Held]:
        yield _Believes()


Act = Callable[[ContextFS], Any]

CHANGES: dict[str, tuple[str | None, Act]] = {
    "write": ("ours", lambda fs: fs.write_node(memory("ours"), ALICE)),
    "many": ("ours", lambda fs: fs.write_nodes([memory("ours", uri) for uri in (VISIT, *EIGHT)], ALICE)),
    "move": ("two", lambda fs: fs.move_node(VISIT, OTHER, ALICE)),
    "delete": ("two", lambda fs: fs.delete_node(VISIT, ALICE)),
    "archive": ("two", lambda fs: fs.archive_node(VISIT, ALICE)),
    "undo": ("one", lambda fs: fs.undo(VISIT, ALICE)),
    "purge": (None, lambda fs: fs.delete_node(VISIT, ALICE, purge=True)),
}
RIVALS: dict[str, tuple[str | None, Act]] = {
    "repair": (None, lambda fs: repair(fs.backend, quiet=0.0)),
    "write": ("theirs", lambda fs: fs.write_node(memory("theirs"), ALICE)),
    "two writes": (
        "theirs",
        lambda fs: [fs.write_node(memory("before theirs"), ALICE), fs.write_node(memory("theirs"), ALICE)],
    ),
}


def at_step(number: int, change: Act, rival: Act) -> tuple[bool, bool, bool, ContextFS]:
    """Whether the change was acknowledged, whether the rival's was, and whether the rival came at all."""
    store = Lockless(MemoryBackend())
    fs = ContextFS(store, quiet=0.0)
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    said = {"theirs": False, "came": False}
    left = [number]

    def come(verb: str, key: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            store.before = lambda verb, key: None
            said["came"] = True
            try:
                rival(ContextFS(store, quiet=0.0))
                said["theirs"] = True
            except AgentmError:
                pass

    store.before = come
    try:
        change(fs)
        ours = True
    except AgentmError:
        ours = False
    store.before = lambda verb, key: None
    return ours, said["theirs"], said["came"], fs


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_rival_at_any_step_loses_nothing_and_spoils_nothing(change: str, rival: str) -> None:
    for number in range(1, 200):
        ours, theirs, came, fs = at_step(number, CHANGES[change][1], RIVALS[rival][1])
        repair(fs.backend, quiet=0.0)
        what = f"step {number}, ours {ours}, theirs {theirs}"
        shown = [uri for uri in (VISIT, OTHER) if fs.exists(uri, ALICE)]
        if change == "move" and rival == "repair":
            assert len(shown) == 1, what
        for uri in shown:
            fs.read_node(uri, ALICE)
        acknowledged = [CHANGES[change][0]] * ours + [RIVALS[rival][0]] * theirs
        if not (change == "purge" and ours):
            acknowledged += ["two"]
        texts = "\n".join(texts_below(fs.backend, Locator("accounts")))
        for text in filter(None, acknowledged):
            assert f'"content.md": "{text}"' in texts, f"{what}: {text!r} is in no version"
        assert not repair(fs.backend, quiet=0.0).findings, what
        if not came:
            assert number > 3
            return
    raise AssertionError("the change has more steps than were tried")
