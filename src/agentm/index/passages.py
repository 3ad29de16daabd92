"""A text in passages: pieces small enough to be found and shown by themselves, with their place in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentm.context.graphemes import clusters
from agentm.context.prose import sentence_ends
from agentm.records import record_class

SIZE = 1_000
"""Characters that a passage aims at."""
LEAST = 200
"""Below that, a heading does not begin a passage of its own: a page of short sections is not a page of scraps."""

_PARAGRAPH = re.compile(r"\S(?:.|\n(?!\s*\n))*")
_HEADING = re.compile(r"#{1,6}\s+(.*)")


@record_class(frozen=True)
class Passage:
    number: int
    start: int
    end: int
    """Characters of the source."""
    text: str
    heading: str
    """The heading it stands under."""


def passages(content: str, start: int = 0) -> list[Passage]:
    """The passages of a text, in order; ``start`` is where the text begins below its front matter."""
    found: list[Passage] = []
    heading = ""
    begin = end = start
    under = ""
    for first, last in _pieces(content, start):
        title = _HEADING.match(content, first, last)
        full = last - begin > SIZE or (title is not None and end - begin > LEAST)
        if end > begin and full:
            found.append(_passage(len(found), content, begin, end, under))
            begin = end
        if title is not None:
            heading = title[1].strip()
        if end == begin:
            begin, under = first, heading
        end = last
    if end > begin:
        found.append(_passage(len(found), content, begin, end, under))
    return found


def _passage(number: int, content: str, begin: int, end: int, heading: str) -> Passage:
    return Passage(number, begin, end, content[begin:end], heading)


def _pieces(content: str, start: int) -> Iterator[tuple[int, int]]:
    """Paragraphs, and of long ones their sentences or, without any, as much as fits."""
    for found in _PARAGRAPH.finditer(content, start):
        first, last = found.span()
        if last - first <= SIZE:
            yield first, last
        else:
            yield from _parts(content, first, last)


def _parts(content: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    ends = [first + end for end in sentence_ends(content[first:last])]
    for end in [*ends, last]:
        while end - first > SIZE:
            cut = _cut(content, first, first + SIZE)
            yield first, cut
            first = cut
        if end > first:
            yield first, end
            first = end


def _cut(content: str, first: int, limit: int) -> int:
    """Between two words if there is a place, else between two characters."""
    blank = max(content.rfind(mark, first + SIZE // 2, limit) for mark in " \n\t")
    if blank > first:
        return blank
    # Never between a character and the marks that belong to it.
    *whole, _ = clusters(content[first : limit + 1]) or ("",)
    return first + sum(map(len, whole)) if whole else limit
