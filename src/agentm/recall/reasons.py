"""Why something is in an answer, in words that a person understands; the ranker's numbers are in ``Found.why``."""

from __future__ import annotations

from datetime import date

from agentm.index.neighbours import neighbours
from agentm.index.words import asked_dates, date_terms, terms
from agentm.recall.results import Found

_RECENT = 0.025
"""Half of what recency can give: about a month."""
_FEW = 4
"""Words that are named of each kind."""


def reasons(found: Found, query: str, *, today: date | None = None) -> list[str]:
    """The strongest first: its own words, who and when, words that mean nearly the same, then the gentle signals."""
    asked = _asked(query)
    body = set(terms(f"{found.text} {found.abstract}"))
    said = [word for word, stems in asked.items() if stems & body]
    why = [
        _named("says", said),
        _named("tag", [tag for tag in found.tags if _shares(tag, asked)]),
        _named("who", [found.who] if _shares(found.who, asked) else []),
        _dated(found.when, query, today or date.today()),
        _named("near", _near(asked, said, body)),
    ]
    if not any(why):
        why.append("beside what was asked for")
    if found.why.get("recency", 0.0) >= _RECENT:
        why.append("recent")
    if "related" in found.why:
        why.append("related to others here")
    return [one for one in why if one]


def _asked(query: str) -> dict[str, set[str]]:
    """The words of a question that count, each with its terms."""
    counting = set(terms(query))
    words = {word.strip(".,;:!?\"'()"): set(terms(word)) & counting for word in query.split()}
    return {word: stems for word, stems in words.items() if stems}


def _shares(text: str, asked: dict[str, set[str]]) -> bool:
    own = set(terms(text)) if text else set()
    return any(stems & own for stems in asked.values())


def _near(asked: dict[str, set[str]], said: list[str], body: set[str]) -> list[str]:
    """Words that are not there, with what is there in their stead."""
    table = neighbours()
    found = []
    for word in asked.keys() - set(said):
        others = [other for stem in asked[word] for other, _ in table.near(stem) if other in body]
        if others:
            found.append(f"{word} (≈ {others[0]})")
    return sorted(found)


def _dated(when: str, query: str, today: date) -> str:
    try:
        day = date.fromisoformat(when[:10])
    except ValueError:
        return ""
    return f"dated {day}" if set(date_terms(day)).intersection(asked_dates(query, today)) else ""


def _named(what: str, words: list[str]) -> str:
    more = " …" if len(words) > _FEW else ""
    return f"{what} {', '.join(words[:_FEW])}{more}" if words else ""
