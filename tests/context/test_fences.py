"""Rivals who do not share our lock: one that slept through its loss, or has another lock folder.

They come at every step of a change. Nothing that was acknowledged is lost, nothing becomes unreadable, and a node that
moves is in one place. Whoever is too late is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest

from agentm import Held, Locator, MemoryBackend
from agentm.context.contextfs import ContextFS
from agentm.context.node import CONTENT
from agentm.context.repair import repair
from agentm.errors import AgentmError
from tests.context.nodes import ALICE, OTHER, VISIT, memory, place, texts_below
from tests.context.recording import Died, Recording

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


def slept_and_died(first: int, more: int) -> tuple[bool, ContextFS]:
    """Whether a repair cancelled a move at one step; the mover went on, and died some steps later."""
    store = Lockless(MemoryBackend())
    fs = ContextFS(store, quiet=0.0)
    fs.write_node(memory("one"), ALICE)
    steps, done = count(1), set[str]()

    def come(verb: str, key: str) -> None:
        number = next(steps)
        if number == first:
            done.update(finding.action.name for finding in repair(store.inner, quiet=0.0).findings)
        if number >= first + more:
            raise Died

    store.before = come
    with suppress(Died, AgentmError):
        fs.move_node(VISIT, OTHER, ALICE)
    store.before = lambda verb, key: None
    return "CANCEL_MOVE" in done, fs


def test_a_mover_that_slept_and_then_dies_leaves_the_memory_in_one_place() -> None:
    cancelled = 0
    for first in range(1, 30):
        for more in range(1, 12):
            came, fs = slept_and_died(first, more)
            cancelled += came
            for _ in range(2 * came):
                shown = [uri for uri in (VISIT, OTHER) if fs.exists(uri, ALICE)]
                assert len(shown) == 1, f"cancelled at {first}, died {more} steps later: {shown}"
                repair(fs.backend, quiet=0.0)
    assert cancelled > 10


@pytest.mark.parametrize("change", ["delete", "archive", "write", "undo"])
def test_what_an_editor_saves_at_any_step_is_kept(change: str) -> None:
    def save(fs: ContextFS) -> None:
        fs.backend.write(place(VISIT, CONTENT), "saved by hand")

    for number in range(1, 200):
        _, _, came, fs = at_step(number, CHANGES[change][1], save)
        repair(fs.backend, quiet=0.0)
        kept = "\n".join(texts_below(fs.backend, Locator("accounts")))
        if not came:
            return
        assert "saved by hand" in kept, f"step {number}"


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
