"""Changes of nodes whose every instant is looked at: chosen ones, and programs of random ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from agentm import ContextFS, ContextNode, repair
from agentm.errors import InvalidUriError, NodeNotFoundError
from tests.context.nodes import ALICE, OTHER, SHOP, VISIT, edge, memory, place
from tests.context.recording import Died, Recording, dies_at

Act = Callable[[ContextFS], Any]

ONE = memory("the first text, whole", abstract="first", overview="# first\n", tags=("1",))
TWO = memory("the second text, as whole", abstract="second", overview="# second\n", tags=("2",))
THREE = memory("the last text", abstract="last")
RELATED = memory("the third text", abstract="third", overview="# third\n", relations=(edge(),))
BY_HAND = "edited by hand"

SEVERAL = tuple(f"ctx://acme/users/alice/memories/events/visit-{n}" for n in range(8))
"""As many nodes as share their flushes."""


@dataclass(frozen=True)
class Scenario:
    """What lies there, and the changes that are watched."""

    before: tuple[Act, ...]
    steps: tuple[Act, ...]
    uris: tuple[str, ...] = (VISIT, OTHER, SHOP)
    together: tuple[str, ...] = (VISIT, OTHER, SHOP)
    """Those of which all are old or all are new; the others are, each for itself."""
    between: tuple[str, ...] = ()
    """Texts of versions of their own that a step commits on its way."""
    in_order: bool = False
    """Whether each step of the watched changes takes every node through the write order once."""
    purges: bool = False


def write(node: ContextNode) -> Act:
    return lambda fs: fs.write_node(node, ALICE)


def write_several(word: str, uris: tuple[str, ...] = SEVERAL) -> Act:
    nodes = [memory(f"{word} text of {uri}", uri, abstract=word, overview=f"# {word}\n", tags=(word,)) for uri in uris]
    return lambda fs: fs.write_nodes(nodes, ALICE)


def cut_short(act: Act, number: int) -> Act:
    """A change whose process died at one of its steps, the steps before it durable."""

    def attempt(fs: ContextFS) -> None:
        dying = Recording(fs.backend)
        dying.before = dies_at(number)
        with pytest.raises(Died):
            act(ContextFS(dying, quiet=0.0))

    return attempt


def _lenient(act: Act) -> Act:
    """A change that may not be possible just now."""

    def attempt(fs: ContextFS) -> None:
        with suppress(NodeNotFoundError, InvalidUriError):
            act(fs)

    return attempt


def _died(act: Act, number: int) -> Act:
    def attempt(fs: ContextFS) -> None:
        dying = Recording(fs.backend)
        dying.before = dies_at(number)
        with suppress(NodeNotFoundError, InvalidUriError, Died):
            act(ContextFS(dying, quiet=0.0))

    return attempt


def mend(fs: ContextFS) -> None:
    repair(fs.backend, quiet=0.0)


def by_hand(fs: ContextFS) -> None:
    fs.backend.write(place(VISIT, "content.md"), BY_HAND)


def lose_event(fs: ContextFS) -> None:
    for event in fs.backend.list(place(VISIT, ".outbox")):
        fs.backend.remove(event)  # type: ignore[attr-defined]


def delete(fs: ContextFS) -> None:
    fs.delete_node(VISIT, ALICE)


def purge(fs: ContextFS) -> None:
    fs.delete_node(VISIT, ALICE, purge=True)


def move(fs: ContextFS) -> None:
    fs.move_node(VISIT, OTHER, ALICE)


def archive(fs: ContextFS) -> None:
    fs.archive_node(VISIT, ALICE)


def undo(fs: ContextFS) -> None:
    fs.undo(VISIT, ALICE)


def prune(fs: ContextFS) -> None:
    ContextFS(fs.backend, keep_versions=2).write_node(THREE, ALICE)


_SHOP = write(memory("shop", SHOP))
_POINTING = write(memory("drinks there", SHOP, relations=(edge(SHOP, VISIT),)))

SCENARIOS = {
    "write": Scenario((), (write(ONE),), in_order=True),
    "update": Scenario((write(ONE),), (write(TWO),), in_order=True),
    "update with an edge": Scenario((_SHOP, write(ONE)), (write(RELATED),), in_order=True),
    "two updates": Scenario((write(ONE),), (write(TWO), write(THREE)), in_order=True),
    "relate": Scenario((_SHOP, write(ONE)), (lambda fs: fs.relate(edge(), ALICE),), in_order=True),
    "many": Scenario((write(ONE),), (lambda fs: fs.write_nodes([TWO], ALICE),), in_order=True),
    "delete": Scenario((write(ONE), write(TWO)), (delete,)),
    "purge": Scenario((write(ONE), write(TWO)), (purge,), purges=True),
    "delete of what is pointed at": Scenario((write(ONE), _POINTING), (delete,), together=(VISIT, OTHER)),
    "archive": Scenario((write(ONE), write(TWO)), (archive,), in_order=True),
    "move": Scenario((write(ONE), write(TWO)), (move,)),
    "move of what is pointed at": Scenario((write(ONE), _POINTING), (move,), together=(VISIT, OTHER)),
    "move onto what was purged": Scenario(
        (write(memory("old", OTHER)), lambda fs: fs.delete_node(OTHER, ALICE, purge=True), write(ONE)), (move,)
    ),
    "undo": Scenario((write(ONE), write(TWO)), (undo,), in_order=True),
    "undo of a delete": Scenario((write(ONE), delete), (undo,), in_order=True),
    "retention": Scenario((write(ONE), write(TWO)), (prune,)),
    "repair of a first write": Scenario((cut_short(write(ONE), 3),), (mend,)),
    "repair of an update": Scenario((write(ONE), cut_short(write(TWO), 4)), (mend,)),
    "repair of a lost event": Scenario((write(ONE), lose_event), (mend,)),
    "repair of a hand edit": Scenario((write(ONE), by_hand), (mend,)),
    "repair of a move that happened": Scenario((write(ONE), cut_short(move, 11)), (mend,)),
    "repair of a move that did not": Scenario((write(ONE), cut_short(move, 7)), (mend,)),
    "repair of a move that had hardly begun": Scenario((write(ONE), cut_short(move, 4)), (mend,)),
    "write over a hand edit": Scenario((write(ONE), by_hand), (write(TWO),), between=(BY_HAND,)),
}


CUT_SHORT = {
    f"repair of {name} that was cut short at change {number}": Scenario(
        (*before, _died(act, number)), (mend,), purges=act is purge
    )
    for name, before, act in (
        ("a first write", (), write(ONE)),
        ("an update", (write(ONE),), write(TWO)),
        ("an update with an edge", (_SHOP, write(ONE)), write(RELATED)),
        ("a delete", (write(ONE), _POINTING), delete),
        ("a purge", (write(ONE), write(TWO)), purge),
        ("an archive", (write(ONE), _POINTING), archive),
        ("a move", (write(ONE), _POINTING), move),
        ("an undo", (write(ONE), write(TWO)), undo),
        ("an undo of a delete", (write(ONE), delete), undo),
    )
    for number in range(1, 20)
}
"""A repair that is itself watched, of every change whose process died at any of its steps."""


def _several(*words: str) -> Scenario:
    """write_nodes with flushes that are shared: each node is whole old or whole new for itself."""
    *before, last = map(write_several, words)
    return Scenario(tuple(before), (last,), SEVERAL, together=(), in_order=True)


SEVERAL_AT_ONCE = {"first writes at once": _several("first"), "updates at once": _several("first", "second")}


def _changes(random: Random) -> list[Act]:
    """Changes of two nodes, each with one commit, so that a reader sees the one side of it or the other."""
    text = f"text {random.random()}"
    return [
        write(memory(text, VISIT, abstract=text[:20], tags=(text,))),
        write(memory(text, OTHER, abstract=text[:20], overview=text)),
        lambda fs: fs.write_nodes([memory(text)], ALICE),
        lambda fs: fs.delete_node(VISIT, ALICE),
        lambda fs: fs.delete_node(OTHER, ALICE),
        lambda fs: fs.archive_node(VISIT, ALICE),
        lambda fs: fs.move_node(VISIT, OTHER, ALICE),
        lambda fs: fs.move_node(OTHER, VISIT, ALICE),
        lambda fs: fs.undo(VISIT, ALICE),
        lambda fs: fs.undo(OTHER, ALICE),
    ]


def program(seed: int) -> Scenario:
    """Some changes, the last of them perhaps cut short; then, being watched, a repair and more changes."""
    random = Random(seed)
    before = [_lenient(random.choice(_changes(random))) for _ in range(random.randrange(1, 5))]
    if random.random() < 0.7:
        before.append(_died(random.choice(_changes(random)), random.randrange(1, 16)))
    steps = [mend, *(_lenient(random.choice(_changes(random))) for _ in range(3))]
    return Scenario(tuple(before), tuple(steps))
