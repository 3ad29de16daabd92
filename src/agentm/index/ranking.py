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
from typing import TYPE_CHECKING, Any

from agentm.index.neighbours import neighbours
from agentm.index.ranker import ranker
from agentm.index.schema import ANSWERS, ASKS, ENDS_ASKING, KEPT, TELLS_TIME
from agentm.index.words import asked_dates, terms
from agentm.records import record_class

if TYPE_CHECKING:
    import tantivy

CANDIDATES = 64
"""Entries that are looked at closely; twice as many find nothing more worth mentioning."""
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


@record_class(frozen=True)
class Hit:
    """An entry that was found, and what each of its features added to its score."""

    record: int
    score: float
    why: dict[str, float]


@record_class(frozen=True)
class Question:
    """A query, taken apart."""

    words: dict[str, float]
    """What it is about, each term with its inverse document frequency."""
    people: frozenset[str]
    dates: dict[str, float]
    near: dict[str, list[tuple[str, float]]]
    """For each term that would do, which words it stands for, and how well."""
    when: bool
    """Whether it asks for a time."""
    mass: float
    """What all its words weigh together."""


@record_class(frozen=True)
class Found:
    """An entry as it was kept, its terms apart."""

    record: int
    traits: str
    who: list[str]
    date: list[str]
    body: list[str]
    before: list[str]
    context: list[str]


def search(
    searcher: tantivy.Searcher,
    schema: tantivy.Schema,
    query: str,
    *,
    limit: int,
    restrict: tantivy.Query | None = None,
) -> list[Hit]:
    """The best entries, best first, with scores between 0 and 1. Every hit matches ``restrict``."""
    question = ask(searcher, query)
    entries = find(searcher, schema, question, many=max(CANDIDATES, 2 * limit), restrict=restrict)
    rows = features(question, entries)
    hits = [Hit(entry.record, *ranker().score(row)) for entry, row in zip(entries, rows, strict=True)]
    return sorted(hits, key=lambda hit: (-hit.score, hit.record))[:limit]


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
    near = _near([word for word in words if word not in people])
    near |= {person: [(person, 1.0)] for person in people}
    return Question(words, frozenset(people), dates, near, bool(_WHEN.search(query)), sum(words.values()) or 1.0)


def _idf(frequency: int, entries: int) -> float:
    return math.log(1 + (max(entries - frequency, 0) + 0.5) / (frequency + 0.5))


def _near(words: Iterable[str]) -> dict[str, list[tuple[str, float]]]:
    near: dict[str, list[tuple[str, float]]] = {}
    for word in words:
        near.setdefault(word, []).append((word, 1.0))
        for other, similarity in neighbours().near(word)[:_NEAR_LOOKED_AT]:
            if similarity > _FAR:
                near.setdefault(other, []).append((word, min(_NEAREST, (similarity - _FAR) / (1 - _FAR))))
    return near


def find(
    searcher: tantivy.Searcher,
    schema: tantivy.Schema,
    question: Question,
    *,
    many: int,
    restrict: tantivy.Query | None = None,
) -> list[Found]:
    """The entries that share the most with a question, by tantivy's own scores."""
    wanted = wanted_by(schema, question, restrict)
    return [_found(searcher.doc(address)) for _, address in searcher.search(wanted, many, count=False).hits]


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
        for other, similarity in neighbours().near(word)[:_NEAR_SEARCHED]:
            if similarity > _FAR and other not in question.words:
                yield "body", other, 0.5 * (similarity - _FAR) / (1 - _FAR)
    for term in question.dates:
        yield "date", term, 1.0


def _found(kept: tantivy.Document) -> Found:
    text: Any = kept.get_first(KEPT)
    record: Any = kept.get_first("record")
    traits, *lines = text.decode().split("\n")
    who, day, title, body, before, context = (line.split() for line in lines)
    return Found(record, traits, who, day, body + title, before, context)


def features(question: Question, entries: Sequence[Found]) -> list[Row]:
    """What there is to say about each entry, as numbers that mean the same for every query."""
    if not entries:
        return []
    usual = sum(len(entry.body) for entry in entries) / len(entries) or 1.0
    usual_around = sum(len(entry.before) + len(entry.context) for entry in entries) / len(entries) or 1.0
    rows = [_features(question, entry, usual, usual_around) for entry in entries]
    for name in ("whole", "body", "meaning", "meaning with before"):
        best = max(row[name] for row in rows) or 1.0
        for row in rows:
            row[f"{name} of best"] = row[name] / best
    return rows


def _features(question: Question, entry: Found, usual: float, usual_around: float) -> Row:
    mass, words, traits = question.mass, question.words, entry.traits
    own, before, behind = (_matches(question, text) for text in (entry.body, entry.before, entry.context))
    with_before = _better(own, before)
    around = _better(with_before, behind)
    body = _bm25(words, own, entry.body, usual)
    context = _bm25(words, _better(before, behind), entry.before + entry.context, usual_around)
    meaning, meaning_around = _weight(words, own), _weight(words, around)
    who = bool(question.people) and not question.people.isdisjoint(entry.who)
    dated = sum(idf for term, idf in question.dates.items() if term in entry.date) if question.dates else 0.0
    return {
        "whole": (body + context + 0.5 * meaning + 0.3 * meaning_around + _WHO * who + dated) / mass,
        "body": body / mass,
        "context": context / mass,
        "meaning": meaning / mass,
        "meaning with before": _weight(words, with_before) / mass,
        "meaning around": meaning_around / mass,
        "covered": _covered(words, own) / mass,
        "covered around": _covered(words, around) / mass,
        "who": (1.0 if who else -1.0) if question.people else 0.0,
        "date": dated,
        "length": float(len(entry.body)),
        "asks": float(ASKS in traits),
        "ends asking": float(ENDS_ASKING in traits),
        "answers": float(ANSWERS in traits),
        "tells time": float(TELLS_TIME in traits),
        "tells when asked": (1.0 if TELLS_TIME in traits else -1.0) if question.when else 0.0,
    }


Matches = dict[str, float]
"""How well each word of a question is met by a text: 1 if it is in it."""


def _matches(question: Question, text: list[str]) -> Matches:
    best: Matches = {}
    near = question.near
    for term in near.keys() & text:
        for word, likeness in near[term]:
            if likeness > best.get(word, 0.0):
                best[word] = likeness
    return best


def _better(one: Matches, other: Matches) -> Matches:
    if not other:
        return one
    merged = dict(one)
    for word, likeness in other.items():
        if likeness > merged.get(word, 0.0):
            merged[word] = likeness
    return merged


def _weight(words: Matches, matches: Matches) -> float:
    return sum(words[word] * likeness for word, likeness in matches.items())


def _covered(words: Matches, matches: Matches) -> float:
    return sum(words[word] for word, likeness in matches.items() if likeness == 1.0)


def _bm25(words: Matches, matches: Matches, text: list[str], usual: float) -> float:
    flat = _SATURATION * (1 - _LENGTH + _LENGTH * len(text) / usual)
    score = 0.0
    for word, likeness in matches.items():
        if likeness == 1.0:
            times = text.count(word)
            score += words[word] * times * (_SATURATION + 1) / (times + flat)
    return score
