"""As much of what was found as a budget has room for: something of as many as fit, and most of the best."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from agentm.context.front_matter import front_matter
from agentm.recall.budget import fit, tokens
from agentm.recall.results import FULL, Form, Found, short_forms
from agentm.records import record_class, replace

SMALL = 200
"""Tokens of a budget in which the usual lines about where something is from would take more room than what it says."""
_BRIEF = 30
"""Tokens of what is shown of a memory where there is no room for more."""
_FEWEST = 6
"""Tokens of a text that are worth showing."""


@record_class(frozen=True)
class Shown:
    """Something found, with what the store holds of it now."""

    found: Found
    overview: str
    content: str


def fitted(shown: list[Shown], budget: int, query: str, *, own: str) -> tuple[list[Found], str, int]:
    """What fits, as entries and as markdown, and how many tokens that is.

    ``own`` is what the addresses of the caller's own memories begin with.
    """
    everything = [next(_fuller(one)) for one in shown]
    text = FULL.page(everything)
    # Counted once and together, which is the usual case: there is room for all.
    if _may_fit(text, budget) and (cost := tokens(text)) <= budget:
        return everything, text, cost
    for form in (FULL,) if budget >= SMALL else short_forms(own):
        entries = _fitted(shown, budget, query, form)
        if entries:
            text = form.page(entries)
            return entries, text, tokens(text)
    return [], "", 0


def _fitted(shown: list[Shown], budget: int, query: str, form: Form) -> list[Found]:
    """As many as fit, each first in brief; then, best first, as much of each as there is room for."""
    left = budget - _cost(form.header)
    entries = _in_brief(shown, left, query, form, small=budget < SMALL)
    left -= sum(_cost(form.block(one)) for one in entries)
    for at, brief in enumerate(entries):
        room = left + _cost(form.block(brief))
        fuller = next((more for more in _fuller(shown[at]) if _fits(more, room, form)), brief)
        # What was found says more than an overview of everything.
        entries[at] = brief if fuller.level < brief.level else fuller
        left = room - _cost(form.block(entries[at]))
    return entries


def _fits(one: Found, room: int, form: Form) -> bool:
    return _may_fit(one.text, room) and _cost(form.block(one)) <= room


def _may_fit(text: str, room: int) -> bool:
    """A token is never less than a quarter of its bytes: what is far too long need not be counted."""
    return len(text) <= 4 * room


@lru_cache(maxsize=1_000)
def _cost(text: str) -> int:
    """What a part costs, with the blank line behind it. Parts cost at least what they cost together."""
    return tokens(text) + 1


def _fuller(one: Shown) -> Iterator[Found]:
    """More than a brief word, the most first."""
    found = one.found
    _, body = front_matter(one.content)  # what stands above the text is said in the line above it
    yield replace(found, text=body, start=len(one.content) - len(body), end=len(one.content))
    yield found
    if one.overview.strip():
        yield replace(found, level=1, text=one.overview)


def _in_brief(shown: list[Shown], left: int, query: str, form: Form, *, small: bool) -> list[Found]:
    from agentm.index.words import terms

    wanted = set(terms(query))
    entries: list[Found] = []
    for one in shown:
        brief = _brief(one.found, wanted, small=small)
        if not entries and _cost(form.block(brief)) > left:
            brief = _squeezed(brief, left, wanted, form)  # rather the beginning of the best one than nothing
        if not brief.text or _cost(form.block(brief)) > left:
            break
        left -= _cost(form.block(brief))
        entries.append(brief)
    return entries


def _brief(found: Found, wanted: set[str], *, small: bool) -> Found:
    """The abstract, or the sentence that was found, if that says more of what was asked for."""
    start, sentence = _best_sentence(found.text, wanted)
    said, needed = _said(sentence, wanted), _said(found.abstract, wanted)
    if found.abstract.strip() and (said < needed or (said == needed and not small)):
        return replace(found, level=0, text=found.abstract)
    start += found.start
    return replace(found, text=_cut(sentence, _BRIEF, wanted), start=start, end=start + len(sentence))


def _best_sentence(text: str, wanted: set[str]) -> tuple[int, str]:
    """The sentence with the most of the terms that are wanted, the first of them, and where it begins."""
    from agentm.context.prose import sentence_ends

    ends = sorted({*sentence_ends(text), *(at for at, sign in enumerate(text) if sign == "\n"), len(text)})
    best, most = (0, text), -1
    for start, end in zip([0, *ends], ends, strict=False):
        sentence = text[start:end].strip()
        said = _said(sentence, wanted)
        if sentence and said > most:
            best, most = (text.index(sentence, start), sentence), said
    return best


def _said(text: str, wanted: set[str]) -> int:
    from agentm.index.words import terms

    return len(wanted.intersection(terms(text)))


def _squeezed(brief: Found, left: int, wanted: set[str], form: Form) -> Found:
    room = left - _cost(form.block(replace(brief, text=""))) - tokens("> ")
    return replace(brief, text=_cut(brief.text, room, wanted) if room >= _FEWEST else "")


def _cut(text: str, room: int, wanted: set[str]) -> str:
    """What fits of a sentence, with something in it that was asked for, if there is something."""
    start = fit(text, room)
    if start == text or _said(start, wanted) or not _said(text, wanted):
        return start
    words = text.split(" ")
    first = next((at for at, word in enumerate(words) if _said(word, wanted)), 0)
    return fit(f"… {' '.join(words[first:])}", room)
