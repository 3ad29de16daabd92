"""The vectors of an index, and the search for the nearest: one by one while they are few, through a graph beyond.

That a record has a vector stands in the catalogue, once the vector is durable. A crash in between costs a vector made
twice. Records that are gone leave theirs behind until they are as many as those that are there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentm.errors import EmbedderError
from agentm.index.embed import Vector
from agentm.index.graph import GraphFile
from agentm.index.vector_file import Rows, VectorFile

if TYPE_CHECKING:
    from agentm.index.vector_file import Array

_MORE = 2
"""The graph is asked for so many times more than are wanted: it knows the vectors only roughly."""
_AT_LEAST = 64
_PART = 100
"""Who wants more than a hundredth of all has them looked at one by one: the graph would take longer."""

MOST_GONE = 1_000
"""Vectors of records that are gone may be so many more than those that are there."""


def keep_only(path: str, records: Sequence[int]) -> None:
    """Leave nothing in the files at a path of the vectors of all other records, nor of graphs over them."""
    file = VectorFile(path)
    file.keep(records)
    GraphFile(path).drop_others(file.head())


class Vectors:
    """The vectors that one embedder made for one index."""

    def __init__(self, directory: str, embedder: str) -> None:
        name = hashlib.sha256(embedder.encode()).hexdigest()[:16]
        self.path = os.path.join(directory, f"vectors-{name}")
        self._file = VectorFile(self.path)
        self._graph = GraphFile(self.path)

    @property
    def last(self) -> int:
        """The last record that has a vector, or had one."""
        return self._file.head().last

    def are_sound(self) -> bool:
        """Whether the records they belong to stand in the order in which they were added; if not, they are damaged."""
        rows = self._file.rows()
        if rows is None:
            return True
        found = rows.records
        return bool((found[1:] > found[:-1]).all() and found[-1] <= rows.head.last)

    def drop(self) -> None:
        """Let go of all of them."""
        self._file.drop()

    def add(self, records: Sequence[int], vectors: Sequence[Vector]) -> None:
        """Keep the vectors of these records, durably. Their numbers grow, in one call and from call to call."""
        np = self._file.np
        matrix = np.asarray(vectors, dtype="float32")
        if matrix.ndim != 2 or len(matrix) != len(records):
            raise EmbedderError(f"the embedder gave {matrix.shape} for {len(records)} texts; give one row for each.")
        if not np.isfinite(matrix).all() or not matrix.any(axis=1).all():
            raise EmbedderError("the embedder gave a vector that is no direction: infinite, not a number, or all zero.")
        self._file.add(np.asarray(records, dtype="u8"), self._unit(matrix))

    def _unit(self, matrix: Array) -> Array:
        """Of length one, so that a product is a similarity."""
        np = self._file.np
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        unit: Array = (matrix / np.where(lengths > 0, lengths, 1.0)).astype("float32")
        return unit

    # Searching.

    def nearest(self, vector: Vector, limit: int) -> dict[int, float]:
        """The records whose vectors are nearest, with their similarities. Some of them may be gone by now."""
        return self._searched(vector, limit, self._candidates)

    def nearest_of(self, records: Sequence[int], vector: Vector, limit: int) -> dict[int, float]:
        """Those of some records whose vectors are nearest, with their similarities."""
        return self._searched(vector, limit, lambda rows, query, limit: self._places(rows, records))

    def _searched(
        self, vector: Vector, limit: int, candidates: Callable[[Rows, Array, int], Array]
    ) -> dict[int, float]:
        query = self._unit(self._file.np.asarray([vector], dtype="float32"))[0]
        try:
            rows = self._file.rows()
        except FileNotFoundError:  # others have taken their place meanwhile
            rows = self._file.rows()
        if rows is None or rows.head.size != len(query):
            return {}
        places = candidates(rows, query, limit)
        scores = rows.matrix[places] @ query
        top = self._best(scores, limit)
        return dict(zip(rows.records[places[top]].tolist(), scores[top].tolist(), strict=True))

    def _candidates(self, rows: Rows, query: Array, limit: int) -> Array:
        """Places of rows among which the nearest are."""
        graph = self._graph.opened(rows.head) if rows.head.rows >= limit * _PART else None
        if graph is not None:
            count = max(limit * _MORE, _AT_LEAST)
            found = graph.nearest(query, count)
            if len(found) == min(count, graph.rows):
                newer = graph.rows + self._best(rows.matrix[graph.rows :] @ query, limit)
                both: Array = self._file.np.concatenate([found, newer])
                return both
        return self._best(rows.matrix @ query, limit)

    def _best(self, scores: Array, limit: int) -> Array:
        """Places of the highest, the highest first."""
        np = self._file.np
        some = np.argpartition(-scores, limit)[:limit] if limit < len(scores) else np.arange(len(scores))
        best: Array = some[np.argsort(-scores[some], kind="stable")]
        return best

    def _places(self, rows: Rows, records: Sequence[int]) -> Array:
        np = self._file.np
        wanted = np.unique(np.asarray(records, dtype="u8"))
        at = np.minimum(np.searchsorted(rows.records, wanted), rows.head.rows - 1)
        places: Array = at[rows.records[at] == wanted]
        return places

    # Upkeep, for which nobody waits.

    def is_untidy(self) -> bool:
        """Whether a graph is worth building."""
        return self._graph.is_due(self._file.head())

    def tidy(self, count: int, there: Callable[[], Sequence[int]]) -> None:
        """Let go of the vectors of records that are gone, if they are many, and build a graph, if it is worth it.

        :param count: how many records there are
        :param there: which
        """
        if self._file.head().rows > 2 * count + MOST_GONE:
            self._file.keep(there())
        rows = self._file.rows()
        if rows is not None and self._graph.is_due(rows.head):
            self._graph.build(rows)
