"""The best entries for a query: tantivy finds some dozens by their words, then each is looked at closely.

What tells a good entry from a similar one is not in any single score: its own words, words near to them in meaning, the
words around it, who said it, when, and whether it asks or answers. A small learned ranker adds these up (`ranker.py`),
so that why an entry is where it is can be said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

from agentm.index.kept import ANSWERS, ASKS, ENDS_ASKING, TELLS_TIME, Kept, kept, number, written
from agentm.index.neighbours import neighbours
from agentm.index.ranker import ranker
from agentm.index.schema import KEPT
from agentm.index.words import asked_dates, terms

if TYPE_CHECKING:
    import tantivy

CANDIDATES = 40
"""Entries that may be looked at closely; twice as many find nothing more worth mentioning."""
_WORTH = 0.3
"""What an entry needs of the best one's first score to be worth a look, unless there are few."""
LONGEST = 32
"""Terms of a query that are looked for, the rarest first: more of them find nothing new and cost time."""

_NEAR_SEARCHED, _NEAR_LOOKED_AT = 8, 24
_FAR = 0.25
"""Similarity from which on two words have nothing to do with each other."""
_NEAREST = 0.85
"""What the nearest other word counts beside the word itself."""
# BM25, with a long entry losing less than usual: entries are short, and none is long for being about many things.
_SATURATION, _LENGTH = 1.2, 0.3
_WHO = 1.4
_MENTIONED = 0.3
"""What a person's name counts among the words: who said it matters more than who is greeted in it."""
_WHEN = re.compile(r"\b(?:when|how long|(?:what|which) (?:date|day|month|time|week|year))\b", re.IGNORECASE)

Row = dict[str, float]


class Hit(NamedTuple):
    """An entry that was found."""

    record: int
    uri: str
    moment: str
    score: float
    row: Row

    @property
    def why(self) -> dict[str, float]:
        """What each of its features added to its score."""
        return ranker().why(self.row)


class Question(NamedTuple):
    """A query, taken apart."""

    words: dict[str, float]
    """What it is about, each term with its inverse document frequency."""
    people: frozenset[str]
    dates: dict[str, float]
    when: bool
    """Whether it asks for a time."""


class Neighbour(NamedTuple):
    """A term that would do instead of a word, and how well."""

    term: str
    likeness: float
    number: int
    written: bytes


class Near(NamedTuple):
    """A term that would do, as it stands in what is kept, and which words of a question it stands for, and how well."""

    written: bytes
    meant: list[tuple[int, float]]


def search(
    searcher: tantivy.Searcher,
    schema: tantivy.Schema,
    query: str,
    *,
    limit: int,
    restrict: tantivy.Query | None = None,
) -> list[Hit]:
    """The best entries, best first, with scores between 0 and 1. Every hit matches ``restrict``."""
    return ranked(searcher, schema, query, many=looked_at(limit), restrict=restrict)[:limit]


def looked_at(limit: int) -> int:
    """How many entries may be looked at closely for so many; as many as are wanted, a third of that, always are."""
    return max(CANDIDATES, 3 * limit)


def ranked(
    searcher: tantivy.Searcher,
    schema: tantivy.Schema,
    query: str,
    *,
    many: int,
    restrict: tantivy.Query | None = None,
) -> list[Hit]:
    """All entries that were looked at closely, best first."""
    question = ask(searcher, query)
    entries = find(searcher, schema, question, many=many, restrict=restrict)
    score = ranker().score
    rows = zip(entries, features(question, entries), strict=True)
    hits = [Hit(entry.record, entry.uri, entry.moment, score(row), row) for entry, row in rows]
    return sorted(hits, key=lambda hit: (-hit.score, hit.record))


def ask(searcher: tantivy.Searcher, query: str, today: date | None = None) -> Question:
    """Take a query apart by what the index knows of its terms."""
    entries = searcher.num_docs
    people, words, dates = set[str](), dict[str, float](), dict[str, float]()
    asked = list(dict.fromkeys(terms(query)))
    if len(asked) > LONGEST:
        asked = sorted(asked, key=lambda term: searcher.doc_freq("body", term) or entries)[:LONGEST]
    for term in asked:
        words[term] = _idf(searcher.doc_freq("body", term), entries)
        if searcher.doc_freq("who", term):
            people.add(term)
            words[term] *= _MENTIONED
    for term in (*asked, *asked_dates(query, today or date.today())):
        if dated := searcher.doc_freq("date", term):
            dates[term] = _idf(dated, entries)
    return Question(words, frozenset(people), dates, bool(_WHEN.search(query)))


def _idf(frequency: int, entries: int) -> float:
    return math.log(1 + (max(entries - frequency, 0) + 0.5) / (frequency + 0.5))


def find(
    searcher: tantivy.Searcher,
    schema: tantivy.Schema,
    question: Question,
    *,
    many: int,
    restrict: tantivy.Query | None = None,
) -> list[Kept]:
    """The entries that share the most with a question, by tantivy's own scores: as many, if they are worth a look."""
    hits: Any = searcher.search(wanted_by(schema, question, restrict), many, count=False).hits
    worth = _WORTH * max((score for score, _ in hits), default=0.0)
    first = many // 3
    return [_kept(searcher.doc(address)) for at, (score, address) in enumerate(hits) if at < first or score >= worth]


def _kept(found: tantivy.Document) -> Kept:
    data: Any = found.get_first(KEPT)
    return kept(data)


def wanted_by(schema: tantivy.Schema, question: Question, restrict: tantivy.Query | None = None) -> tantivy.Query:
    """A question as tantivy takes it: all in one flat sum, which it can cut short."""
    from tantivy import Occur, Query

    wanted = Query.boolean_query(
        [
            (Occur.Should, Query.boost_query(Query.term_query(schema, field, term, "freq"), boost))
            for field, term, boost in _searched(question)
        ]
    )
    if restrict is None:
        return wanted
    return Query.boolean_query([(Occur.Must, wanted), (Occur.Must, Query.const_score_query(restrict, 0.0))])


def _searched(question: Question) -> Iterable[tuple[str, str, float]]:
    """Fields, terms and weights."""
    for word in question.words:
        weight = _MENTIONED if word in question.people else 1.0
        yield from ((field, word, weight) for field in ("body", "title", "context"))
        if word in question.people:
            yield "who", word, 2.0
            continue
        for other in _neighbours(word)[:_NEAR_SEARCHED]:
            if other.term not in question.words:
                yield "body", other.term, 0.5 * other.likeness
    for term in question.dates:
        yield "date", term, 1.0


def features(question: Question, entries: Sequence[Kept]) -> list[Row]:
    """What there is to say about each entry, as numbers that mean the same for every query."""
    if not entries:
        return []
    look = Look(question, entries)
    rows = [look.at(entry) for entry in entries]
    for name in ("whole", "body", "meaning", "meaning with before"):
        best, beside = max([row[name] for row in rows]) or 1.0, f"{name} of best"
        for row in rows:
            row[beside] = row[name] / best
    return rows


class Look:
    """A close look at entries: what is the same for all of them is made up once."""

    def __init__(self, question: Question, entries: Sequence[Kept]) -> None:
        self._weights = list(question.words.values())
        self._mass = sum(self._weights) or 1.0
        self._near = _near(question)
        self._people = frozenset(map(number, question.people))
        self._dates = {number(term): idf for term, idf in question.dates.items()}
        self._when = question.when
        self._usual = sum(entry.length for entry in entries) / len(entries) or 1.0
        self._usual_around = sum(entry.length_around for entry in entries) / len(entries) or 1.0

    def at(self, entry: Kept) -> Row:
        near, weights, mass, traits = self._near, self._weights, self._mass, entry.traits
        # How well each word is met, at best, in the entry, in it and what is before it, and in all around it.
        own = [0.0] * len(weights)
        with_before, around = own.copy(), own.copy()
        body = context = covered = covered_around = 0.0
        flat, flat_around = _flat(entry.length / self._usual), _flat(entry.length_around / self._usual_around)
        for found in near.keys() & entry.terms:
            term, meant = near[found]
            here, before, after = entry.times(term)
            for word, likeness in meant:
                if likeness > around[word]:
                    around[word] = likeness
                if here + before and likeness > with_before[word]:
                    with_before[word] = likeness
                if here and likeness > own[word]:
                    own[word] = likeness
                if likeness == 1.0:
                    weight = weights[word]
                    covered_around += weight
                    covered += weight if here else 0.0
                    body += weight * here / (here + flat)
                    context += weight * (before + after) / (before + after + flat_around)
        body *= _SATURATION + 1
        context *= _SATURATION + 1
        meaning, meaning_around = sum(map(mul, weights, own)), sum(map(mul, weights, around))
        who = bool(self._people) and not self._people.isdisjoint(entry.who)
        dated = sum(self._dates[term] for term in self._dates.keys() & entry.dates) if self._dates else 0.0
        return {
            "whole": (body + context + 0.5 * meaning + 0.3 * meaning_around + _WHO * who + dated) / mass,
            "body": body / mass,
            "context": context / mass,
            "meaning": meaning / mass,
            "meaning with before": sum(map(mul, weights, with_before)) / mass,
            "meaning around": meaning_around / mass,
            "covered": covered / mass,
            "covered around": covered_around / mass,
            "who": (1.0 if who else -1.0) if self._people else 0.0,
            "date": dated,
            "length": float(entry.length),
            "asks": float(traits & ASKS != 0),
            "ends asking": float(traits & ENDS_ASKING != 0),
            "answers": float(traits & ANSWERS != 0),
            "tells time": float(traits & TELLS_TIME != 0),
            "tells when asked": (1.0 if traits & TELLS_TIME else -1.0) if self._when else 0.0,
        }


def _near(question: Question) -> dict[int, Near]:
    """The terms that would do, by their numbers."""
    found: dict[int, Near] = {}
    for at, word in enumerate(question.words):
        itself = number(word)
        found.setdefault(itself, Near(written(itself), [])).meant.append((at, 1.0))
        if word not in question.people:
            for other in _neighbours(word):
                meant = (at, min(_NEAREST, other.likeness))
                if other.number in found:
                    found[other.number].meant.append(meant)
                else:
                    found[other.number] = Near(other.written, [meant])
    return found


@lru_cache(maxsize=2_000)  # who asks again asks with the same words
def _neighbours(word: str) -> list[Neighbour]:
    """The nearest first."""
    return [
        Neighbour(term, (similarity - _FAR) / (1 - _FAR), number(term), written(number(term)))
        for term, similarity in neighbours().near(word)[:_NEAR_LOOKED_AT]
        if similarity > _FAR
    ]


def _flat(length: float) -> float:
    """How slowly more of the same word counts less, in an entry of this length beside the usual."""
    return _SATURATION * (1 - _LENGTH + _LENGTH * length)
