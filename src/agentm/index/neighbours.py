"""Words near in meaning: a table of each stem's nearest stems, made beforehand and read where it lies.

It takes the place of vectors where a query must be answered at once: no model is loaded and nothing is multiplied.
`tools/neighbours.py` makes the table from two sets of static word vectors: GloVe 6B (Pennington, Socher, Manning,
Stanford; Public Domain Dedication and License 1.0) and wordllama (Lee Miller; MIT License).
"""

from __future__ import annotations

import mmap
import os
import struct
from functools import cache

from agentm.errors import AgentmError

MAGIC = b"agentm neighbours 1\n"
HEAD = struct.Struct("<20sII")
"""The magic, how many stems there are, how many neighbours each has."""
PATH = os.path.join(os.path.dirname(__file__), "neighbours.bin")


class Neighbours:
    """The table: for each stem, in order of their bytes, the numbers of its nearest stems and how near they are."""

    def __init__(self, path: str = PATH) -> None:
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        head: tuple[bytes, int, int] = HEAD.unpack_from(self._data)
        magic, self._count, width = head
        if magic != MAGIC:
            raise AgentmError(f"{path} is damaged; install agentm again.", code="damaged_package")
        self._row = struct.Struct(f"<{width}H{width}B")
        self._width = width
        self._places = HEAD.size
        self._rows = self._places + 4 * (self._count + 1)
        self._words = self._rows + self._row.size * self._count

    def __len__(self) -> int:
        return self._count

    def near(self, stem: str) -> list[tuple[str, float]]:
        """The nearest stems, nearest first, with similarities between 0 and 1; none for a stem that is not there."""
        number = self._find(stem.encode())
        if number is None:
            return []
        row = self._row.unpack_from(self._data, self._rows + number * self._row.size)
        pairs = zip(row[: self._width], row[self._width :], strict=True)
        return [(self._word(other).decode(), similarity / 255) for other, similarity in pairs if similarity]

    def _find(self, stem: bytes) -> int | None:
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._word(middle) < stem:
                low = middle + 1
            else:
                high = middle
        return low if low < self._count and self._word(low) == stem else None

    def _word(self, number: int) -> bytes:
        start, end = struct.unpack_from("<2I", self._data, self._places + 4 * number)
        return self._data[self._words + start : self._words + end]


@cache
def neighbours() -> Neighbours:
    """The table of the package."""
    return Neighbours()
