"""What was purged, out of the index too: its words, and the vectors that were made of them.

tantivy only marks what is deleted: its words stay in the files until the segment they lie in is merged, and that may be
never. But a segment of which everything is told again, and so lies elsewhere, is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentm.index.catalogue import PURGED
from agentm.index.meaning import drop_gone

if TYPE_CHECKING:
    from agentm.index.account import AccountIndex

log = logging.getLogger(__name__)

_PASSES = 3
"""One is enough, unless segments are merged meanwhile."""


def sweep(index: AccountIndex, tell: Callable[[], bool]) -> bool:
    """Empty the segments that hold what was purged; ``tell`` says False when time is up.

    False if something may be left: the next one goes on.
    """
    index.drop_others()
    for _ in range(_PASSES):
        left = _left(index)
        if not left:
            break
        with index.catalogue.change():
            index.catalogue.put_fact(PURGED, " ".join(left))
            index.catalogue.mark_untold(_records_in(index, set(left.values())))
        if not tell():
            return False
    else:
        log.warning("words of what was purged may be left in the index; agentm reindex --full builds it anew.")
        return False
    index.fulltext.clear_away()
    drop_gone(index)
    # Its log holds what was in the catalogue until nobody reads that any more.
    if not index.catalogue.settle():
        return False
    with index.catalogue.change():
        index.catalogue.drop_fact(PURGED)
    return True


def _left(index: AccountIndex) -> dict[str, int]:
    """The segments to be emptied, with their places among all. At first, those that hold something deleted."""
    named = (index.catalogue.fact(PURGED) or "").split()
    segments = enumerate(index.fulltext.segments().items())
    return {name: at for at, (name, has_deleted) in segments if (name in named if named else has_deleted)}


def _records_in(index: AccountIndex, places: set[int]) -> list[int]:
    """The records that can be found in these segments."""
    import tantivy

    searcher = index.fulltext.searcher()
    hits = searcher.search(tantivy.Query.all_query(), max(1, searcher.num_docs)).hits
    found = [place for _, place in hits if place.segment_ord in places]
    records = searcher.fast_field_values("record", found) if found else []
    return [record for record in records if isinstance(record, int)]
