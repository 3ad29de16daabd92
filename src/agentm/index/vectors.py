"""The vectors of an index: files that are written once, mapped into memory, and searched exactly.

Each batch of vectors is a file of its own, whole or not there at all. Which records they belong to stands in the file;
that a record has a vector stands in the catalogue, once the file is durable. A crash in between costs a vector made
twice. Records that are gone leave theirs behind until the files are joined.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

from agentm.backends import _durable
from agentm.errors import EmbedderError
from agentm.index.embed import Vector

if TYPE_CHECKING:
    import numpy

_SUFFIX = ".vectors.npy"
MOST_FILES = 16
"""More than that are joined into one."""


class Vectors:
    """The vectors that one embedder made for one index."""

    def __init__(self, directory: str, embedder: str) -> None:
        name = hashlib.sha256(embedder.encode()).hexdigest()[:16]
        self.path = os.path.join(directory, f"vectors-{name}")
        self._loaded: dict[str, tuple[Any, Any]] = {}

    @cached_property
    def _np(self) -> Any:
        try:
            import numpy
        except ImportError as cause:
            raise EmbedderError(
                "vectors need the package numpy; type: pip install 'agentm[vectors]'.", code="missing_extra"
            ) from cause
        return numpy

    def add(self, records: Sequence[int], vectors: Sequence[Vector]) -> None:
        """Keep the vectors of these records, durably."""
        matrix = self._np.asarray(vectors, dtype="float32")
        if matrix.ndim != 2 or len(matrix) != len(records):
            raise EmbedderError(f"the embedder gave {matrix.shape} for {len(records)} texts; give one row for each.")
        if not self._np.isfinite(matrix).all() or not matrix.any(axis=1).all():
            raise EmbedderError("the embedder gave a vector that is no direction: infinite, not a number, or all zero.")
        self._write(self._np.asarray(records, dtype="uint64"), self._unit(matrix))
        if len(self._names()) > MOST_FILES:
            self._join()

    def _unit(self, matrix: Any) -> Any:
        """Of length one, so that a product is a similarity."""
        lengths = self._np.linalg.norm(matrix, axis=1, keepdims=True)
        return (matrix / self._np.where(lengths > 0, lengths, 1.0)).astype("float32")

    def nearest(self, vector: Vector, limit: int) -> dict[int, float]:
        """The records whose vectors are nearest, with their similarities. Some of them may be gone by now."""
        try:
            return self._nearest(vector, limit)
        except FileNotFoundError:  # somebody has joined the files meanwhile
            self._loaded.clear()
            return self._nearest(vector, limit)

    def _nearest(self, vector: Vector, limit: int) -> dict[int, float]:
        np = self._np
        query = self._unit(np.asarray([vector], dtype="float32"))[0]
        best: dict[int, float] = {}
        for name in self._names():
            records, matrix = self._opened(name)
            if matrix.shape[1] != len(query):
                continue  # what another model of the same name left
            scores = matrix @ query
            top = np.argpartition(-scores, min(limit, len(scores) - 1))[:limit] if len(scores) else []
            for at in top:
                best[int(records[at])] = max(best.get(int(records[at]), -1.0), float(scores[at]))
        return dict(sorted(best.items(), key=lambda item: -item[1])[:limit])

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.path) if name.endswith(_SUFFIX))
        except FileNotFoundError:
            return []

    def _opened(self, name: str) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
        if name not in self._loaded:
            stem = os.path.join(self.path, name.removesuffix(_SUFFIX))
            self._loaded[name] = (
                self._np.load(f"{stem}.records.npy", mmap_mode="r"),
                self._np.load(f"{stem}{_SUFFIX}", mmap_mode="r"),
            )
        return self._loaded[name]

    def _write(self, records: Any, matrix: Any) -> str:
        """The records first: the file that makes the pair count is the vectors'."""
        os.makedirs(self.path, exist_ok=True)
        stem = os.path.join(self.path, os.urandom(8).hex())
        for name, array in ((f"{stem}.records.npy", records), (f"{stem}{_SUFFIX}", matrix)):
            data = BytesIO()
            self._np.save(data, array)
            _durable.write_file(name, data.getvalue())
        return os.path.basename(stem) + _SUFFIX

    def _join(self) -> None:
        """One file instead of many; of a record that has two vectors, either will do."""
        names = self._names()
        parts = [self._opened(name) for name in names]
        size = parts[-1][1].shape[1]
        fitting = [(records, matrix) for records, matrix in parts if matrix.shape[1] == size]
        records = self._np.concatenate([records for records, _ in fitting])
        matrix = self._np.concatenate([matrix for _, matrix in fitting])
        records, first = self._np.unique(records, return_index=True)
        self._write(records, matrix[first])
        self._loaded.clear()
        for name in names:
            os.unlink(os.path.join(self.path, name))
            os.unlink(os.path.join(self.path, name.removesuffix(_SUFFIX) + ".records.npy"))
