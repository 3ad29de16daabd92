"""From a query to an answer: searched, read from the store again, and fitted into a budget.

What the index says is only where to look. Every text that is shown was read from the store a moment ago, on behalf of
the caller: what was changed, deleted or is another's is never shown from a stale index.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from agentm.context.addresses import own_space
from agentm.context.node import CONTENT, NodeStatus, digest
from agentm.context.reader import read_meta, read_text, read_version
from agentm.context.tenancy import RequestContext, check
from agentm.context.uri import SCHEME, parse_uri
from agentm.errors import AgentmError, InvalidQueryError, NotTextError
from agentm.index.account import NOTES, AccountIndex, space_of
from agentm.index.catalogue import Edge, Held, Row
from agentm.recall.fitting import Shown, fitted
from agentm.recall.results import Found, Recall
from agentm.records import record_class, replace
from agentm.seam import Locator, StorageBackend

if TYPE_CHECKING:
    import tantivy

    from agentm.index.ranking import Hit
    from agentm.recall.reach import Reach

MOST = 1_000
"""Memories in one answer."""
LONGEST_QUERY = 4_000
"""Characters that are looked at: more says nothing more about what is wanted."""
_ROUNDS = 4
"""How often it is searched again for sources that others crowded out."""
_MEANING = 0.4
"""The weight of an embedder's similarities beside what the words say."""
_READING = 0.1
"""Seconds that there are for reading what was found, however long it took to find it."""
_RECENT_DAYS = 30.0
_RECENCY = 0.05
_RELATED = 0.05
"""How much the gentle signals can add to a score of the best."""


@record_class(frozen=True)
class Filters:
    """What a memory must be, to be recalled."""

    category: str | None = None
    tag: str | None = None
    project: str | None = None
    owner: str | None = None
    since: str | None = None
    until: str | None = None


def recall(
    index: AccountIndex,
    store: StorageBackend,
    ctx: RequestContext,
    query: str,
    *,
    budget: int,
    limit: int,
    filters: Filters,
    recency: bool,
    related: bool,
    patience: float,
    reach: Reach | None = None,
) -> Recall:
    """What is known about something, best first, as entries and as markdown of at most ``budget`` tokens.

    What the index finds is read from the ``store``; where that shows only some of it, ``reach`` says what.
    """
    asked = _checked(query, budget, limit)
    deadline = time.monotonic() + patience
    wanted = _Wanted(_readable(index, ctx), _check_days(filters), reach)
    with index.lock:
        scan = not index.was_looked_at() and index.is_cheap(patience)
        caught = index.catch_up(deadline=deadline, scan=scan)
        candidates, all_found = _ranked(index, asked, limit, wanted, deadline)
        related_to = index.catalogue.edges([one.uri for one in candidates]) if related else []
    if recency:
        now = datetime.now(UTC)
        candidates = [_with_recency(one, now) for one in candidates]
    candidates = _with_relations(related_to, candidates)
    candidates.sort(key=lambda one: -one.score)
    lost: list[_Candidate] = []
    held = _held(index, candidates, wanted, limit, lost)
    shown, all_read = _all_read(store, ctx, held, limit, max(deadline, time.monotonic() + _READING))
    whole = not lost or not index.is_torn({one.record: one.uri for one in lost})
    if not whole:
        index.distrust("its parts do not fit together")
    entries, text, cost = fitted(shown, budget, asked, own=f"{own_space(ctx)}/memories/")
    up_to_date = caught.complete and not caught.being_edited and caught.looked
    complete = up_to_date and caught.embedded and all_found and all_read and whole
    left_out = len(shown) - len(entries)
    edited, unreadable = len(caught.being_edited), _count_unreadable(index, wanted)
    return Recall(query, tuple(entries), budget, cost, left_out, complete, text, edited, unreadable)


def _count_unreadable(index: AccountIndex, wanted: _Wanted) -> int:
    """How many of the sources that the caller may read are damaged, or no text."""
    with index.lock:
        found = index.catalogue.unreadable()
    return sum(1 for uri in found if space_of(uri) in wanted.readable and wanted.shows(uri))


def _checked(query: str, budget: int, limit: int) -> str:
    if not isinstance(query, str) or not query.strip():
        raise InvalidQueryError("there is nothing to look for; say what it is about, as in: agentm recall 'oat milk'.")
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 0:
        raise InvalidQueryError(f"the budget is {budget!r}; give a number of tokens, such as 2000.")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidQueryError(f"the limit is {limit!r}; give a number of memories, such as 10.")
    if limit > MOST:
        raise InvalidQueryError(f"the limit is {limit:,}; give at most {MOST:,}, and narrow the question instead.")
    return query[:LONGEST_QUERY]


def _check_days(filters: Filters) -> Filters:
    return replace(filters, since=_day(filters.since), until=_day(filters.until))


def _day(text: str | None) -> str | None:
    try:
        return None if text is None else datetime.fromisoformat(text).date().isoformat()
    except (ValueError, TypeError):
        raise InvalidQueryError(f"{text!r} is no day; write it like 2026-03-15.") from None


class _Wanted(NamedTuple):
    """What may be shown, and was asked for."""

    readable: frozenset[str]
    """The spaces that the caller may read."""
    filters: Filters
    reach: Reach | None

    def shows(self, uri: str) -> bool:
        return self.reach is None or self.reach.shows(uri)

    def hidden_among(self, hits: Iterable[Hit]) -> set[str]:
        """The sources that were found and may not be shown."""
        if self.reach is None:
            return set()
        return {uri for uri in {hit.uri for hit in hits} if not self.reach.shows(uri)}


class _Candidate(NamedTuple):
    """A source that was found: by its best record, with a score of about 0 to 1."""

    record: int
    uri: str
    moment: str
    score: float
    hit: Hit | None
    more: Mapping[str, float] = {}
    """What was added to the score of its words."""

    def with_more(self, name: str, more: float) -> _Candidate:
        record, uri, moment, score, hit, known = self
        return _Candidate(record, uri, moment, score + more, hit, {**known, name: more})

    @property
    def why(self) -> dict[str, float]:
        """Rounded: so are the numbers of the ranker."""
        return {**(self.hit.why if self.hit else {}), **{name: round(more, 4) for name, more in self.more.items()}}


def _ranked(
    index: AccountIndex, query: str, limit: int, wanted: _Wanted, deadline: float
) -> tuple[list[_Candidate], bool]:
    """The best record of each source; False if there may be more, and fewer were found than are wanted."""

    def admitted(records: Iterable[int]) -> set[int]:
        known = index.catalogue.found(records).items()
        return {record for record, (_, one) in known if _admits(one, wanted) and wanted.shows(one.uri)}

    def matching(most: int) -> list[int] | None:
        searcher = index.fulltext.searcher()
        restrict = _restriction(searcher, index.fulltext.schema, wanted)
        places = [place for _, place in searcher.search(restrict, most + 1).hits] if restrict is not None else []
        if restrict is None or len(places) > most:
            return None
        records = searcher.fast_field_values("record", places) if places else []
        return [record for record in records if isinstance(record, int)]

    found, all_found = _found(index, query, limit, wanted, deadline)
    near = index.near(query, limit, admitted, matching, deadline)
    _add_meaning(index, found, near or {})
    best: dict[str, _Candidate] = {}
    for one in sorted(found.values(), key=lambda one: -one.score):
        best.setdefault(one.uri, one)
    return list(best.values()), near is not None and (all_found or len(best) >= limit)


def _found(
    index: AccountIndex, query: str, limit: int, wanted: _Wanted, deadline: float
) -> tuple[dict[int, _Candidate], bool]:
    """Records of as many sources as are wanted; False if there may be more of them.

    A long source can be found in so many of its passages that it crowds out the others: then these are asked for alone.
    What may not be shown is left out as soon as it is met, and the rest ranked as if it were not there.
    """
    from agentm.index.ranking import looked_at, ranked

    searcher, schema = index.fulltext.searcher(), index.fulltext.schema
    restrict = within = _restriction(searcher, schema, wanted)
    found: dict[int, _Candidate] = {}
    sources, hidden = set[str](), set[str]()
    many, top, rounds = looked_at(limit), 0.0, _ROUNDS
    while True:
        hits = ranked(searcher, schema, query, many=many, restrict=restrict)
        is_all, met = len(hits) < limit, wanted.hidden_among(hits)
        is_late = time.monotonic() > deadline
        hidden |= met
        if not met or is_late:
            hits = [hit for hit in hits if hit.uri not in met]
            top = top or max((hit.score for hit in hits), default=0.0) or 1.0
            found |= {hit.record: _Candidate(hit.record, hit.uri, hit.moment, hit.score / top, hit) for hit in hits}
            sources = {one.uri for one in found.values()}
            rounds -= 1
            if is_all or len(sources) >= limit:
                return found, True
            if is_late or not rounds:
                return found, False
        restrict = _without(within, schema, sources | hidden)


def _without(within: tantivy.Query | None, schema: tantivy.Schema, sources: set[str]) -> tantivy.Query:
    import tantivy

    must = (tantivy.Occur.Must, within or tantivy.Query.all_query())
    others = (tantivy.Occur.MustNot, tantivy.Query.term_set_query(schema, "uri", sorted(sources)))
    return tantivy.Query.boolean_query([must, others])


def _readable(index: AccountIndex, ctx: RequestContext) -> frozenset[str]:
    """The spaces that a caller may read."""
    return frozenset({*ctx.spaces, *ctx.visible, *([NOTES] if index.notes else [])})


def _add_meaning(index: AccountIndex, found: dict[int, _Candidate], near: Mapping[int, float]) -> None:
    """Similarities as a part of the score, from nothing for the least near to the full weight for the nearest."""
    if not near:
        return
    for record, (row, source) in index.catalogue.found(record for record in near if record not in found).items():
        found[record] = _Candidate(record, row.uri, source.moment, 0.0, None)
    low, high = min(near.values()), max(near.values())
    for record, similarity in near.items():
        if record in found:
            more = _MEANING * (similarity - low) / (high - low) if high > low else _MEANING
            found[record] = found[record].with_more("meaning", more)


def _admits(source: Held, wanted: _Wanted) -> bool:
    """Whether a source may be shown and was asked for: what the full-text index is restricted to, vectors are not."""
    moment, (readable, filters, _) = source.moment, wanted
    return (
        source.space in readable
        and filters.owner in (None, source.space)
        and filters.category in (None, source.category)
        and filters.project in (None, source.project)
        and (filters.tag is None or filters.tag in source.tags)
        and (filters.since is None or moment[:10] >= filters.since[:10])
        and (filters.until is None or moment[:10] <= filters.until[:10])
    )


def _restriction(searcher: tantivy.Searcher, schema: tantivy.Schema, wanted: _Wanted) -> tantivy.Query | None:
    """What every hit must match: a space that the caller may read, and what was asked for; None if everything does."""
    import tantivy

    readable, filters, reach = wanted
    spaces = readable if filters.owner is None else readable & {filters.owner}
    must = []
    if not spaces.issuperset(space for space, _ in searcher.terms_with_prefix("space", "", limit=len(spaces) + 1)):
        # Not as a set of terms: that is first looked up for every entry there is.
        own = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "space", space, "basic")) for space in spaces]
        must.append(tantivy.Query.boolean_query(own))
    if reach is not None and (within := reach.query(schema)) is not None:
        must.append(within)
    for name, value in (("category", filters.category), ("tags", filters.tag), ("project", filters.project)):
        if value is not None:
            must.append(tantivy.Query.term_query(schema, name, value))
    if filters.since is not None or filters.until is not None:
        from agentm.index.schema import moments

        must.append(moments(schema, filters.since, filters.until))
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, one) for one in must]) if must else None


def _with_recency(one: _Candidate, now: datetime) -> _Candidate:
    """A little more for what is recent: half of it is gone after a month."""
    try:
        moment = datetime.fromisoformat(one.moment)
    except ValueError:
        return one
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    days = max(0.0, (now - moment).total_seconds() / 86_400)
    return one.with_more("recency", _RECENCY * 0.5 ** (days / _RECENT_DAYS))


def _with_relations(edges: list[Edge], candidates: list[_Candidate]) -> list[_Candidate]:
    """A little more for what the others found are related to."""
    if not edges:
        return candidates
    scores = {one.uri: one.score for one in candidates}
    near: dict[str, float] = {}
    for source, target, _, weight in edges:
        for end, other in ((source, target), (target, source)):
            if end in scores and other in scores:
                near[end] = max(near.get(end, 0.0), scores[other] * min(max(weight, 0.0), 1.0))
    return [one.with_more("related", _RELATED * near[one.uri]) if one.uri in near else one for one in candidates]


class _Held(NamedTuple):
    """A candidate with what the index holds of it."""

    found: _Candidate
    row: Row
    source: Held


def _held(
    index: AccountIndex, candidates: list[_Candidate], wanted: _Wanted, at_once: int, lost: list[_Candidate]
) -> Iterator[_Held]:
    """Looked up a few at a time: seldom are there more than are shown. What is not held is put among the ``lost``."""
    for start in range(0, len(candidates), at_once):
        some = candidates[start : start + at_once]
        with index.lock:
            known = index.catalogue.found(one.record for one in some)
        for one in some:
            row, source = known.get(one.record, (None, None))
            # Else it was replaced since the index was searched, or is in another index by now.
            if row is not None and source is not None and row.uri == one.uri and _admits(source, wanted):
                yield _Held(one, row, source)
            elif one.hit is not None:
                lost.append(one)


def _all_read(
    backend: StorageBackend, ctx: RequestContext, candidates: Iterable[_Held], limit: int, deadline: float
) -> tuple[list[Shown], bool]:
    """The best of them with what the store holds of each; False if time was up before there were as many as wanted."""
    shown: list[Shown] = []
    for one in candidates:
        if shown and time.monotonic() > deadline:
            return shown, False
        found = _read_again(backend, ctx, one)
        if found is not None:
            shown.append(found)
        if len(shown) == limit:
            return shown, True  # before the next one is looked up
    return shown, time.monotonic() <= deadline


def _read_again(backend: StorageBackend, ctx: RequestContext, one: _Held) -> Shown | None:
    """None if it is gone, another's, or damaged by now."""
    candidate, row, source = one
    try:
        now = _node(backend, ctx, source) if row.uri.startswith(SCHEME) else _note(backend, source)
    except (AgentmError, OSError):
        return None
    if now is None:
        return None
    text, start, end = _passage(now.content, row)
    found = Found(
        uri=row.uri,
        kind=source.kind,
        version=now.version,
        score=round(candidate.score, 4),
        level=2,
        text=text,
        abstract=now.abstract or "",
        category=source.category,
        tags=source.tags,
        when=source.moment,
        who=source.who,
        start=start,
        end=end,
        actor=now.actor,
        why=candidate.why,
    )
    return Shown(found, now.overview or "", now.content)


class _Now(NamedTuple):
    """What the store holds of a source."""

    content: str
    abstract: str | None
    overview: str | None
    version: int = 0
    actor: str = ""


def _node(backend: StorageBackend, ctx: RequestContext, source: Held) -> _Now | None:
    address = parse_uri(source.uri)
    check(ctx, address)
    place = address.locator
    meta = read_meta(backend, place)
    if meta is None or meta.uri != source.uri:
        return None
    if meta.status is NodeStatus.ACTIVE and meta.version == source.version:
        content = _content(backend, place)
        # As it was indexed: no need to read more.
        if content is not None and digest(content) == meta.parts.get(CONTENT):
            return _Now(content, source.abstract, source.overview, meta.version, meta.actor)
    version = read_version(backend, place)
    if version is None:
        return None
    node = version.node()
    return _Now(node.content, node.abstract, node.overview, node.version, node.actor)


def _content(backend: StorageBackend, place: Locator) -> str | None:
    try:
        return read_text(backend, place.child(CONTENT))
    except NotTextError:  # somebody saved it so; the version that was written is in the history
        return None


def _note(backend: StorageBackend, source: Held) -> _Now:
    return _Now(backend.read(Locator(source.uri)), source.abstract, "")


def _passage(content: str, row: Row) -> tuple[str, int, int]:
    """The passage as the source has it now; all of the source, if it is no longer there."""
    if row.level == 2 and content[row.start : row.end] == row.text:
        return row.text, row.start, row.end
    at = content.find(row.text) if row.level == 2 else -1
    return (row.text, at, at + len(row.text)) if at >= 0 else (content, 0, len(content))
