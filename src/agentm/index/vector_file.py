"""Vectors in files that only grow: what is added costs what is added.

One file has the numbers of the records, ascending, the other a row for each. How many rows there are stands in the
head, which is replaced in one step once they are durable. What lies behind those is left of a crash and is written
over. Readers map the files into memory and look no further than the head they have read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentm.backends import _durable
from agentm.errors import EmbedderError
from agentm.records import as_dict, record_class, replace

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_HEAD = "head.json"
_RECORDS = ".records"
_VECTORS = ".vectors"
_RECORD_BYTES = 8
_NUMBER_BYTES = 4
_AT_ONCE = 10_000
"""Rows that are copied together."""


@record_class(frozen=True)
class Head:
    """What is known of the files without looking at them."""

    file: str = ""
    """What their names begin with; others begin with something else."""
    generation: str = ""
    """Another one as soon as a row says something else: whoever knows it, and a number of rows, knows those rows."""
    size: int = 0
    """Numbers in a vector."""
    rows: int = 0
    last: int = 0
    """The last record that was ever added; its row may be gone."""


@record_class(frozen=True, eq=False)
class Rows:
    """The vectors at one instant, mapped into memory."""

    head: Head
    records: Array
    matrix: Array
    """One row for each record, each of length one."""


class VectorFile:
    """The files in one directory. One process at a time adds to them, which is for the caller to see to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._rows: Rows | None = None

    @cached_property
    def np(self) -> Any:
        try:
            import numpy
        except ImportError as cause:
            raise EmbedderError(
                "vectors need the package numpy; type: pip install 'agentm[vectors]'.", code="missing_extra"
            ) from cause
        return numpy

    def head(self) -> Head:
        """What is there; nothing if it is damaged."""
        try:
            with open(os.path.join(self.path, _HEAD), "rb") as file:
                head = Head(**json.load(file))
            whole = (
                os.path.getsize(self._data(head, _RECORDS)) >= head.rows * _RECORD_BYTES
                and os.path.getsize(self._data(head, _VECTORS)) >= head.rows * head.size * _NUMBER_BYTES
            )
        except (FileNotFoundError, ValueError, TypeError):
            return Head()
        return head if whole else Head()

    def rows(self) -> Rows | None:
        """What can be searched now; None if nothing was added yet."""
        head = self.head()
        if not head.rows:
            return None
        if self._rows is None or self._rows.head != head:
            self._rows = self._mapped(head)
        return self._rows

    def _mapped(self, head: Head) -> Rows:
        np = self.np
        records = np.memmap(self._data(head, _RECORDS), "<u8", "r", shape=(head.rows,))
        matrix = np.memmap(self._data(head, _VECTORS), "<f4", "r", shape=(head.rows, head.size))
        return Rows(head, np.asarray(records), np.asarray(matrix))

    def add(self, records: Array, matrix: Array) -> None:
        """Keep the vectors of these records, durably. What is there of them, or of later ones, was never finished."""
        head = self.head()
        if not head.file:
            head = self._new(matrix.shape[1], 0)
        if matrix.shape[1] != head.size:
            raise EmbedderError(
                f"the embedder gave vectors of {matrix.shape[1]} numbers, and {head.size} before; "
                "give an embedder that has changed another name."
            )
        head = self._cut(head, int(records[0]))
        self._write(head, records, matrix)
        self._put(replace(head, rows=head.rows + len(records), last=int(records[-1])))

    def drop(self) -> None:
        """Let go of everything; the files are cleared away when something is added."""
        self._rows = None
        with suppress(FileNotFoundError):
            _durable.unlink(os.path.join(self.path, _HEAD))

    def _cut(self, head: Head, record: int) -> Head:
        """The rows before this record's."""
        if record > head.last:
            return head
        kept = int(self.np.searchsorted(self._mapped(head).records, record)) if head.rows else 0
        return replace(head, rows=kept, generation=_some_name())

    def keep(self, records: Sequence[int]) -> None:
        """Let go of the vectors of all other records, in files of their own: readers may be at the old ones."""
        old, rows = self.head(), self.rows()
        kept = [] if rows is None else self.np.flatnonzero(self.np.isin(rows.records, self.np.asarray(records, "u8")))
        if len(kept) == old.rows and not self._has_more(old):
            self._sweep(old)
            return
        head = self._new(old.size, old.last)
        for at in range(0, len(kept), _AT_ONCE):
            assert rows is not None  # else none is kept
            some = kept[at : at + _AT_ONCE]
            self._write(head, rows.records[some], rows.matrix[some])
            head = replace(head, rows=head.rows + len(some))
        self._put(head)
        self._rows = None
        del rows  # Windows removes no file that is mapped
        self._sweep(head)

    def _has_more(self, head: Head) -> bool:
        """Whether something lies behind the last row: left of a crash, or of what was done anew."""
        size = os.path.getsize(self._data(head, _VECTORS)) if head.file else 0
        return size > head.rows * head.size * _NUMBER_BYTES

    def _new(self, size: int, last: int) -> Head:
        os.makedirs(self.path, exist_ok=True)
        head = Head(_some_name(), _some_name(), size, 0, last)
        self._sweep(self.head())
        for kind in (_RECORDS, _VECTORS):
            open(self._data(head, kind), "xb").close()
        return head

    def _write(self, head: Head, records: Array, matrix: Array) -> None:
        """Behind the last row. It counts once the head says so."""
        for kind, array, at in (
            (_RECORDS, records.astype("<u8"), head.rows * _RECORD_BYTES),
            (_VECTORS, matrix.astype("<f4"), head.rows * head.size * _NUMBER_BYTES),
        ):
            with open(self._data(head, kind), "r+b") as file:
                file.seek(at)
                file.write(array.tobytes())
                file.flush()
                _durable.sync_file(file.fileno())

    def _put(self, head: Head) -> None:
        """Flushes the directory too, with the names of files that are new."""
        _durable.write_file(os.path.join(self.path, _HEAD), json.dumps(as_dict(head)).encode())

    def _data(self, head: Head, kind: str) -> str:
        return os.path.join(self.path, head.file + kind)

    def _sweep(self, head: Head) -> None:
        """Files that are no longer named, and those that a crash left."""
        for name in os.listdir(self.path):
            stem, kind = os.path.splitext(name)
            if kind in (_RECORDS, _VECTORS) and stem != head.file:
                with suppress(OSError):  # Windows: somebody is reading it
                    _durable.unlink(os.path.join(self.path, name))


def _some_name() -> str:
    return os.urandom(8).hex()
