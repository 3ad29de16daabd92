"""Changes of nodes that follow from a number alone: one process makes them, another knows what they came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from agentm import ContextFS, ContextNode, RelationEdge, RequestContext

CTX = RequestContext("acme", user_id="alice")
SINGLE = tuple(f"ctx://acme/users/alice/memories/events/single-{n}" for n in range(5))
BATCH = tuple(f"ctx://acme/users/alice/memories/cases/batch-{n}" for n in range(10))
"""Written at once: more than enough of them to share flushes."""
EVERYTHING = SINGLE + BATCH


@dataclass(frozen=True)
class Change:
    """One change: its name, what it does, and the nodes it changes in one instant (for others, each has its own)."""

    name: str
    act: Callable[[ContextFS], Any]
    together: tuple[str, ...]


def node(uri: str, serial: int) -> ContextNode:
    """Every part says the same, so that a mix of two versions shows; sizes differ, up to several blocks."""
    said = f"{serial} of {uri[-8:]}"
    return ContextNode(uri, f"{said}\n" * (serial * 7 % 400), abstract=said, overview=f"{said}\n", tags=(said,))


class Plan:
    """Changes, one after the other, each of them possible."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._there: set[str] = set()
        self._ended: set[str] = set()

    def __iter__(self) -> Iterator[Change]:
        serial = 0
        while True:
            serial += 1
            yield self._next(serial)

    def _next(self, serial: int) -> Change:
        kinds = ["write", "write", "write_nodes"]
        kinds += ["update", "update", "delete", "purge", "archive"] * bool(self._there)
        kinds += ["move", "move"] * bool(self._there and self._free)
        kinds += ["relate", "relate"] * (len(self._there) > 1)
        kinds += ["undo", "undo"] * bool(self._ended)
        kind = self._random.choice(kinds)
        change: Change = getattr(self, f"_{kind}")(serial)
        return change

    @property
    def _free(self) -> set[str]:
        """Addresses without a past: what two histories at one address come to is for other tests."""
        return {*SINGLE} - self._there - self._ended

    def _pick(self, among: set[str]) -> str:
        return self._random.choice(sorted(among))

    def _write(self, serial: int) -> Change:
        uri = self._random.choice(SINGLE)
        self._there.add(uri)
        self._ended.discard(uri)
        return Change("write", lambda fs: fs.write_node(node(uri, serial), CTX), (uri,))

    def _update(self, serial: int) -> Change:
        uri = self._pick(self._there)
        return Change("update", lambda fs: fs.write_node(node(uri, serial), CTX), (uri,))

    def _write_nodes(self, serial: int) -> Change:
        return Change("write_nodes", lambda fs: fs.write_nodes([node(uri, serial) for uri in BATCH], CTX), ())

    def _delete(self, serial: int) -> Change:
        uri = self._end()
        self._ended.add(uri)
        return Change("delete", lambda fs: fs.delete_node(uri, CTX), (uri,))

    def _purge(self, serial: int) -> Change:
        uri = self._end()
        return Change("purge", lambda fs: fs.delete_node(uri, CTX, purge=True), (uri,))

    def _archive(self, serial: int) -> Change:
        uri = self._end()
        self._ended.add(uri)
        return Change("archive", lambda fs: fs.archive_node(uri, CTX), (uri,))

    def _end(self) -> str:
        uri = self._pick(self._there)
        self._there.discard(uri)
        return uri

    def _move(self, serial: int) -> Change:
        source, target = self._pick(self._there), self._pick(self._free)
        self._there ^= {source, target}
        return Change("move", lambda fs: fs.move_node(source, target, CTX), (source, target))

    def _relate(self, serial: int) -> Change:
        source, target = self._random.sample(sorted(self._there), 2)
        edge = RelationEdge(source, target, reason=f"change {serial}")
        return Change("relate", lambda fs: fs.relate(edge, CTX), (source,))

    def _undo(self, serial: int) -> Change:
        uri = self._pick(self._ended)
        self._ended.discard(uri)
        self._there.add(uri)
        return Change("undo", lambda fs: fs.undo(uri, CTX), (uri,))
