"""A graph over vectors, by usearch: finds nearly all of the nearest without looking at every one.

It is derived from the vectors, and only ever a shortcut: without the package, without a graph, or with one that is not
what was built over these very vectors, they are searched one by one. A new graph is a file beside the old one; the
description that names it is replaced in one step, once the file is durable.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from agentm.backends import _durable
from agentm.records import as_dict, record_class

if TYPE_CHECKING:
    from agentm.index.vector_file import Array, Head, Rows

log = logging.getLogger(__name__)

WORTH_A_GRAPH = 20_000
"""Vectors that are in no graph are looked at one by one: up to so many, that takes a few milliseconds."""
_GROWTH = 8
"""A graph grows when an eighth of it is missing: what is copied then stays in proportion to what is new."""
_DESCRIPTION = "graph.json"
_SUFFIX = ".usearch"
_AT_ONCE = 5_000
"""Vectors that are added before somebody who wants to stop is heard."""
_CONNECTIVITY, _EXPANSION_ADD, _EXPANSION_SEARCH = 16, 128, 64


@record_class(frozen=True)
class _Made:
    """What was built, over what, and how to tell that it is still that."""

    file: str
    generation: str
    rows: int
    digest: str
    stamp: list[int]
    """Changes with every write to the file; as long as it does not, nothing has to be read to trust it."""


class Graph:
    """A graph that is open, over the first so many rows."""

    def __init__(self, index: Any, rows: int) -> None:
        self.rows = rows
        self._index = index
        self._lock = Lock()
        """Its searches share their scratch memory."""

    def nearest(self, query: Array, count: int) -> Array:
        """Rows, the nearest first; fewer than asked for if it does not reach more."""
        with self._lock:
            found: Array = self._index.search(query, count).keys
        return found.astype("i8")


class GraphFile:
    """The graph in one directory. One process at a time builds, which is for the caller to see to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: tuple[object, Graph | None] = (None, None)

    def opened(self, head: Head) -> Graph | None:
        """The graph over these vectors, or over the first of them. Opened once, and again when it is another."""
        made = self._made(head)
        if made is None:
            return None
        try:
            key = (made, _stamp(self._at(made)))
            known = self._known
            if known[0] != key:
                self._known = known = (key, self._open(made, head))
        except OSError:  # another has just taken its place
            return None
        return known[1]

    def is_due(self, head: Head) -> bool:
        """Whether so many vectors are in no graph that one is worth building."""
        if head.rows < WORTH_A_GRAPH or _library() is None:
            return False
        graph = self.opened(head)
        covered = graph.rows if graph is not None else 0
        return head.rows - covered >= max(WORTH_A_GRAPH, covered // _GROWTH)

    def build(self, rows: Rows) -> None:
        """A graph over all of these vectors, from the one that there is if it is over the first of them."""
        import numpy

        index, start = self._begun(rows.head)
        for at in range(start, rows.head.rows, _AT_ONCE):
            some = rows.matrix[at : at + _AT_ONCE]
            # Several at once find nothing to link up with in a graph that is nearly empty, and stay out of reach.
            index.add(numpy.arange(at, at + len(some), dtype="u8"), some, threads=0 if at else 1)
        path = os.path.join(self.path, os.urandom(8).hex() + _SUFFIX)
        index.save(path)
        with open(path, "r+b") as file:
            _durable.sync_file(file.fileno())
        _durable.sync_dir(self.path)
        made = _Made(os.path.basename(path), rows.head.generation, rows.head.rows, _digest(path), _stamp(path))
        _durable.write_file(os.path.join(self.path, _DESCRIPTION), json.dumps(as_dict(made)).encode())
        self._known = (None, None)
        self._sweep(made.file)

    def drop_others(self, head: Head) -> None:
        """Remove every graph that is not over these vectors."""
        made = self._made(head)
        if os.path.isdir(self.path):
            self._sweep(made.file if made is not None else "")

    def _begun(self, head: Head) -> tuple[Any, int]:
        made = self._made(head)
        if made is None or self.opened(head) is None:
            return _new(head), 0
        index = _new(head)
        index.load(self._at(made))
        return index, made.rows

    def _made(self, head: Head) -> _Made | None:
        """What the description says, if it is about these vectors."""
        try:
            with open(os.path.join(self.path, _DESCRIPTION), "rb") as file:
                made = _Made(**json.load(file))
        except (OSError, ValueError, TypeError):
            return None
        return made if made.generation == head.generation and made.rows <= head.rows else None

    def _open(self, made: _Made, head: Head) -> Graph | None:
        """None if it cannot be trusted: a link that leads nowhere would end the process."""
        path = self._at(made)
        if _library() is None:
            return None
        if _stamp(path) != made.stamp and _digest(path) != made.digest:
            log.warning("the graph over the vectors is damaged; they are searched one by one until it is built anew.")
            return None
        index = _new(head)
        try:
            index.view(path)
        except Exception as error:  # what another version of the package built, say
            log.warning("the graph over the vectors cannot be opened (%s); they are searched one by one.", error)
            return None
        return Graph(index, made.rows)

    def _at(self, made: _Made) -> str:
        return os.path.join(self.path, made.file)

    def _sweep(self, kept: str) -> None:
        """Graphs that are no longer named, and those that a crash left."""
        for name in os.listdir(self.path):
            if name.endswith(_SUFFIX) and name != kept:
                with suppress(OSError):  # Windows: somebody is reading it
                    _durable.unlink(os.path.join(self.path, name))


def _library() -> Any:
    """usearch, when it is needed; None if it is not installed."""
    try:
        import usearch.index
    except ImportError:
        return None
    return usearch.index


def _new(head: Head) -> Any:
    return _library().Index(
        ndim=head.size,
        metric="cos",
        dtype="i8",  # a quarter of the room; what is found is weighed with the vectors themselves
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
        enable_key_lookups=False,  # a table of all keys, made at every opening
    )


def _stamp(path: str) -> list[int]:
    stat = os.stat(path)
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
