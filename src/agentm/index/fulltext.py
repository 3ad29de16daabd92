"""The full-text part of an index, on tantivy: told from the catalogue, searched by the ranking.

One process at a time can write to it (tantivy locks it, and the lock goes with its holder); readers see the last
commit and are never kept waiting.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentm.errors import IndexBusyError
from agentm.index.seal import META, Seal

if TYPE_CHECKING:
    import tantivy

    from agentm.index.schema import Entry

NAME = "fulltext"
_HEAP = 30_000_000
_BUSY = "LockBusy"
"""What tantivy says while another process writes."""


class FullText:
    """A directory of tantivy's."""

    def __init__(self, directory: str) -> None:
        import tantivy

        from agentm.index.schema import schema

        self.path = os.path.join(directory, NAME)
        os.makedirs(self.path, exist_ok=True)
        self.is_new = not os.path.exists(os.path.join(self.path, META))
        self._seal = Seal(self.path)
        if not self.is_new:
            self._seal.check()
        self.schema: tantivy.Schema = schema()
        self._index = tantivy.Index(self.schema, path=self.path, reuse=True)
        self._writer: Any = None
        self._uncommitted = False
        self._seen: tuple[int, int] | None = None

    def begin(self) -> None:
        """Become the one who writes; IndexBusyError while somebody else does."""
        if self._writer is None:
            try:
                self._writer = self._index.writer(_HEAP, 1)
            except ValueError as cause:
                if _BUSY not in str(cause):
                    raise
                raise IndexBusyError("another process is writing to the index; try again when it is done.") from cause

    def replace(self, uri: str, entries: Iterable[Entry]) -> None:
        """What is found of a source, instead of what was found of it."""
        from agentm.index.schema import document

        self._uncommitted = True
        self._writer.delete_documents_by_term("uri", uri)
        for entry in entries:
            self._writer.add_document(document(entry))

    def commit(self) -> None:
        self._writer.commit()
        self._uncommitted = False

    def clear_away(self) -> None:
        """Remove the files of segments that are no more; those that are open here to be searched would stay."""
        self._index.reload()
        self._writer.garbage_collect_files()

    def segments(self) -> dict[str, bool]:
        """The segments that are searched, in the order that hits count them in: whether one holds something deleted."""
        return {one["segment_id"]: one["deletes"] is not None for one in self._seal.segments()}

    def end(self) -> None:
        """Let others write; what was not committed is gone."""
        writer, self._writer = self._writer, None
        if writer is not None:
            if self._uncommitted:
                with suppress(ValueError):
                    writer.rollback()
                self._uncommitted = False
            writer.wait_merging_threads()
            self._seal.put()

    def has(self, record: int) -> bool:
        """Whether a record can be found."""
        from tantivy import Query

        return bool(self.searcher().search(Query.term_query(self.schema, "record", record), 1).hits)

    def searcher(self) -> tantivy.Searcher:
        """On the last commit, whoever made it."""
        try:
            meta = os.stat(os.path.join(self.path, META))  # replaced by every commit
        except FileNotFoundError as cause:
            raise ValueError("the full-text index is gone") from cause  # as tantivy says it
        seen = (meta.st_ino, meta.st_mtime_ns)
        if seen != self._seen:
            self._index.reload()
            self._seen = seen
        return self._index.searcher()
