"""What was purged, out of the full-text index too.

tantivy only marks what is deleted: its words stay in the files until the segment they lie in is merged, and that may be
never. But a segment of which everything is told again, and so lies elsewhere, is removed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentm.index.catalogue import PURGED

if TYPE_CHECKING:
    from agentm.index.account import AccountIndex

log = logging.getLogger(__name__)

_META = "meta.json"
"""tantivy's own list of its segments."""
_PASSES = 3
"""One is enough, unless segments are merged meanwhile."""


def sweep(index: AccountIndex, tell: Callable[[], bool]) -> None:
    """Empty the segments that hold what was purged; ``tell`` says False when time is up, and the next one goes on."""
    index.drop_set_aside()
    for _ in range(_PASSES):
        left = _left(index)
        if not left:
            break
        with index.catalogue.change():
            index.catalogue.put_fact(PURGED, " ".join(left))
            index.catalogue.mark_untold(_records_in(index, set(left.values())))
        if not tell():
            return
    else:
        log.warning("words of what was purged may be left in the index; agentm reindex --full builds it anew.")
    index.fulltext.clear_away()
    with index.catalogue.change():
        index.catalogue.drop_fact(PURGED)


def _left(index: AccountIndex) -> dict[str, int]:
    """The segments to be emptied, with their places among all. At first, those that hold something deleted."""
    with open(os.path.join(index.fulltext.path, _META), encoding="utf-8") as file:
        segments = json.load(file)["segments"]
    named = (index.catalogue.fact(PURGED) or "").split()
    return {
        one["segment_id"]: at
        for at, one in enumerate(segments)
        if (one["segment_id"] in named if named else one.get("deletes"))
    }


def _records_in(index: AccountIndex, places: set[int]) -> list[int]:
    """The records that can be found in these segments."""
    import tantivy

    searcher = index.fulltext.searcher()
    hits = searcher.search(tantivy.Query.all_query(), max(1, searcher.num_docs)).hits
    found = [place for _, place in hits if place.segment_ord in places]
    records = searcher.fast_field_values("record", found) if found else []
    return [record for record in records if isinstance(record, int)]
