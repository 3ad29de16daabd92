"""From a query to an answer: searched, read from the store again, and fitted into a budget.

What the index says is only where to look. Every text that is shown was read from the store a moment ago, on behalf of
the caller: what was changed, deleted or is another's is never shown from a stale index.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentm.context.addresses import own_space
from agentm.context.node import CONTENT, ContextNode, NodeStatus, digest
from agentm.context.reader import read_meta, read_text, read_version
from agentm.context.tenancy import RequestContext, check
from agentm.context.uri import SCHEME, parse_uri
from agentm.errors import AgentmError, InvalidQueryError
from agentm.index.account import NOTES, AccountIndex
from agentm.index.catalogue import Edge, Held, Row
from agentm.recall.budget import tokens
from agentm.recall.fitting import Shown, fitted
from agentm.recall.results import Found, Recall
from agentm.records import record_class, replace
from agentm.seam import Locator, StorageBackend

if TYPE_CHECKING:
    import tantivy

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
    ctx: RequestContext,
    query: str,
    *,
    budget: int,
    limit: int,
    filters: Filters,
    recency: bool,
    related: bool,
    patience: float,
) -> Recall:
    """What is known about something, best first, as entries and as markdown of at most ``budget`` tokens."""
    deadline = time.monotonic() + patience
    asked = _checked(query, budget, limit)
    with index.lock:
        looked = index.was_looked_at()
        caught = index.catch_up(deadline=deadline, scan=not looked and index.is_cheap(patience))
        candidates = _ranked(index, ctx, asked, limit, _check_days(filters), deadline)
        related_to = index.catalogue.edges([one.row.uri for one in candidates]) if related else []
    if recency:
        candidates = [_with_recency(one) for one in candidates]
    candidates = _with_relations(related_to, candidates)
    candidates.sort(key=lambda one: -one.score)
    shown, all_read = _all_read(index.backend, ctx, candidates, limit, max(deadline, time.monotonic() + _READING))
    entries, text = fitted(shown, budget, asked, own=f"{own_space(ctx)}/memories/")
    complete = caught.complete and not caught.being_edited and (looked or caught.looked) and all_read
    left_out = len(shown) - len(entries)
    return Recall(query, tuple(entries), budget, tokens(text), left_out, complete, text, len(caught.being_edited))


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


@record_class(frozen=True)
class _Candidate:
    row: Row
    source: Held
    score: float
    why: Mapping[str, float]


def _ranked(
    index: AccountIndex, ctx: RequestContext, query: str, limit: int, filters: Filters, deadline: float
) -> list[_Candidate]:
    """The best record of each source, with scores between 0 and 1."""

    readable = _readable(index, ctx)
    scores = _scores(index, query, limit, _restriction(index.fulltext.schema, readable, filters), deadline)

    def wanted(records: Iterable[int]) -> set[int]:
        rows = index.catalogue.found(records)
        held = index.catalogue.sources({row.uri for row in rows.values()})
        return {record for record, row in rows.items() if row.uri in held and _admits(held[row.uri], readable, filters)}

    _add_meaning(scores, index.near(query, limit, wanted))
    rows = index.catalogue.found(scores)
    sources = index.catalogue.sources({row.uri for row in rows.values()})
    best: dict[str, _Candidate] = {}
    for record, (score, why) in sorted(scores.items(), key=lambda item: -item[1][0]):
        row = rows.get(record)
        if row is None or row.uri not in sources or row.uri in best:
            continue  # replaced since the index was searched; or found better already
        if _admits(sources[row.uri], readable, filters):
            best[row.uri] = _Candidate(row, sources[row.uri], score, why)
    return list(best.values())


_Scores = dict[int, tuple[float, dict[str, float]]]


def _scores(index: AccountIndex, query: str, limit: int, restrict: tantivy.Query, deadline: float) -> _Scores:
    """Records with their scores, between 0 and 1, of as many sources as are wanted.

    A long source can be found in so many of its passages that it crowds out the others: then these are asked for alone.
    """
    import tantivy

    from agentm.index.ranking import CANDIDATES, search

    searcher, schema = index.fulltext.searcher(), index.fulltext.schema
    scores: _Scores = {}
    found: set[str] = set()
    top = 0.0
    for _ in range(_ROUNDS):
        hits = search(searcher, schema, query, limit=CANDIDATES, restrict=restrict)
        top = top or max((hit.score for hit in hits), default=0.0) or 1.0
        scores |= {hit.record: (hit.score / top, dict(hit.why)) for hit in hits}
        found |= {row.uri for row in index.catalogue.found(hit.record for hit in hits).values()}
        if len(hits) < CANDIDATES or len(found) >= limit or time.monotonic() > deadline:
            break
        others = (tantivy.Occur.MustNot, tantivy.Query.term_set_query(schema, "uri", sorted(found)))
        restrict = tantivy.Query.boolean_query([(tantivy.Occur.Must, restrict), others])
    return scores


def _readable(index: AccountIndex, ctx: RequestContext) -> frozenset[str]:
    """The spaces that a caller may read."""
    return frozenset({*ctx.spaces, *ctx.visible, *([NOTES] if index.notes else [])})


def _add_meaning(scores: _Scores, near: Mapping[int, float]) -> None:
    """Similarities as a part of the score, from nothing for the least near to the full weight for the nearest."""
    low, high = min(near.values(), default=0.0), max(near.values(), default=0.0)
    for record, similarity in near.items():
        more = _MEANING * (similarity - low) / (high - low) if high > low else _MEANING
        score, why = scores.get(record, (0.0, {}))
        scores[record] = (score + more, {**why, "meaning": more})


def _admits(source: Held, readable: frozenset[str], filters: Filters) -> bool:
    """Whether a source may be shown and was asked for: what the full-text index is restricted to, vectors are not."""
    moment = source.moment
    return (
        source.space in readable
        and filters.owner in (None, source.space)
        and filters.category in (None, source.category)
        and filters.project in (None, source.project)
        and (filters.tag is None or filters.tag in source.tags)
        and (filters.since is None or moment[:10] >= filters.since[:10])
        and (filters.until is None or moment[:10] <= filters.until[:10])
    )


def _restriction(schema: tantivy.Schema, readable: frozenset[str], filters: Filters) -> tantivy.Query:
    """What every hit must match: a space that the caller may read, always, and what was asked for."""
    import tantivy

    spaces = sorted(readable)
    if filters.owner is not None:
        spaces = [space for space in spaces if space == filters.owner]
    must = [tantivy.Query.term_set_query(schema, "space", spaces)]
    for name, wanted in (("category", filters.category), ("tags", filters.tag), ("project", filters.project)):
        if wanted is not None:
            must.append(tantivy.Query.term_query(schema, name, wanted))
    if filters.since is not None or filters.until is not None:
        from agentm.index.schema import moments

        must.append(moments(schema, filters.since, filters.until))
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, one) for one in must])


def _with_recency(one: _Candidate) -> _Candidate:
    """A little more for what is recent: half of it is gone after a month."""
    try:
        moment = datetime.fromisoformat(one.source.moment)
    except ValueError:
        return one
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    days = max(0.0, (datetime.now(UTC) - moment).total_seconds() / 86_400)
    more = _RECENCY * 0.5 ** (days / _RECENT_DAYS)
    return replace(one, score=one.score + more, why={**one.why, "recency": more})


def _with_relations(edges: list[Edge], candidates: list[_Candidate]) -> list[_Candidate]:
    """A little more for what the others found are related to."""
    scores = {one.row.uri: one.score for one in candidates}
    near: dict[str, float] = {}
    for source, target, _, weight in edges:
        for end, other in ((source, target), (target, source)):
            if end in scores and other in scores:
                near[end] = max(near.get(end, 0.0), scores[other] * min(max(weight, 0.0), 1.0))
    more = {uri: _RELATED * value for uri, value in near.items()}
    return [
        replace(one, score=one.score + more[one.row.uri], why={**one.why, "related": more[one.row.uri]})
        if one.row.uri in more
        else one
        for one in candidates
    ]


def _all_read(
    backend: StorageBackend, ctx: RequestContext, candidates: list[_Candidate], limit: int, deadline: float
) -> tuple[list[Shown], bool]:
    """The best of them with what the store holds of each; False if time was up before there were as many as wanted."""
    shown: list[Shown] = []
    for one in candidates:
        if len(shown) == limit:
            break
        if shown and time.monotonic() > deadline:
            return shown, False
        found = _read_again(backend, ctx, one)
        if found is not None:
            shown.append(found)
    return shown, len(shown) == limit or time.monotonic() <= deadline


def _read_again(backend: StorageBackend, ctx: RequestContext, one: _Candidate) -> Shown | None:
    """None if it is gone, another's, or damaged by now."""
    try:
        node = _node(backend, ctx, one) if one.row.uri.startswith(SCHEME) else _note(backend, one)
    except (AgentmError, OSError):
        return None
    if node is None:
        return None
    text, start, end = _passage(node.content, one.row)
    found = Found(
        uri=one.row.uri,
        kind=one.source.kind,
        version=node.version,
        score=round(one.score, 4),
        level=2,
        text=text,
        abstract=node.abstract or "",
        category=one.source.category,
        tags=one.source.tags,
        when=one.source.moment,
        who=one.source.who,
        start=start,
        end=end,
        actor=node.actor,
        why={name: round(value, 4) for name, value in one.why.items()},
    )
    return Shown(found, node.overview or "", node.content)


def _node(backend: StorageBackend, ctx: RequestContext, one: _Candidate) -> ContextNode | None:
    address = parse_uri(one.row.uri)
    check(ctx, address)
    meta = read_meta(backend, address.locator)
    if meta is None or meta.uri != one.row.uri:
        return None
    if meta.status is NodeStatus.ACTIVE and meta.version == one.source.version:
        content = read_text(backend, address.locator.child(CONTENT))
        # As it was indexed: no need to read more.
        if content is not None and digest(content) == meta.parts.get(CONTENT):
            held = one.source
            return ContextNode(meta.uri, content, held.abstract, held.overview, version=meta.version, actor=meta.actor)
    version = read_version(backend, address.locator)
    return None if version is None else version.node()


def _note(backend: StorageBackend, one: _Candidate) -> ContextNode:
    return ContextNode(one.row.uri, backend.read(Locator(one.row.uri)), one.source.abstract, "")


def _passage(content: str, row: Row) -> tuple[str, int, int]:
    """The passage as the source has it now; all of the source, if it is no longer there."""
    if row.level == 2 and content[row.start : row.end] == row.text:
        return row.text, row.start, row.end
    at = content.find(row.text) if row.level == 2 else -1
    return (row.text, at, at + len(row.text)) if at >= 0 else (content, 0, len(content))
