"""What is kept of an entry beside the postings, for the close look that the ranking takes.

A query looks at dozens of entries, so they are kept to be looked at without being taken apart: a term is a number, and
how often it is in the text and around it stands in the same place of three rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from struct import Struct, calcsize, pack
from typing import Final, NamedTuple
from zlib import crc32

ASKS, ENDS_ASKING, ANSWERS, TELLS_TIME = 1, 2, 4, 8
"""Traits of an entry that say what kind of question it may answer."""

_NUMBER: Final = "I"
_SIZE = calcsize(_NUMBER)
_HEAD = Struct("<QB5I")
"""The record and its traits; how many terms it has of its own, and around it; then how long the parts below are."""
_MOST = 255
"""Times that a term is counted."""


class Kept(NamedTuple):
    """An entry, ready to be looked at."""

    record: int
    traits: int
    length: int
    """How many terms it has, each time counted."""
    length_around: int
    uri: str
    moment: str
    terms: memoryview
    """The numbers of its terms, and of those around it."""
    data: bytes
    people: int
    """Where the numbers of the people begin in the data, where those of the dates do, and where they end."""
    days: int
    end: int

    @property
    def who(self) -> memoryview:
        return memoryview(self.data)[self.people : self.days].cast(_NUMBER)

    @property
    def dates(self) -> memoryview:
        return memoryview(self.data)[self.days : self.end].cast(_NUMBER)

    def times(self, term: bytes) -> tuple[int, int, int]:
        """How often a term, which is one of its terms, is in it, just before it, and further around it."""
        data, many = self.data, len(self.terms)
        at = data.find(term, _HEAD.size) - _HEAD.size
        while at % _SIZE:  # across the border of two others
            at = data.find(term, at + _HEAD.size + 1) - _HEAD.size
        place = _HEAD.size + many * _SIZE + at // _SIZE
        return data[place], data[place + many], data[place + 2 * many]


def number(term: str) -> int:
    """A term as a number. That two have the same one is so rare that it costs less than keeping them apart would."""
    return crc32(term.encode())


def written(number: int) -> bytes:
    """A number as it stands in what is kept."""
    return pack(_NUMBER, number)


def keep(
    record: int,
    traits: int,
    uri: str,
    moment: str,
    *,
    own: Sequence[str],
    before: Sequence[str],
    after: Sequence[str],
    who: Iterable[str],
    dates: Iterable[str],
) -> bytes:
    """Everything in one piece; texts as their terms."""
    terms = list(dict.fromkeys((*own, *before, *after)))
    rows = (_times(text, terms) for text in (own, before, after))
    people, days = (_numbers(dict.fromkeys(some)) for some in (who, dates))
    end = f"{uri}\n{moment}".encode()
    head = _HEAD.pack(record, traits, len(own), len(before) + len(after), len(terms), len(people), len(days))
    return b"".join((head, _numbers(terms), *rows, people, days, end))


def _times(text: Sequence[str], terms: Iterable[str]) -> bytes:
    counted = {term: min(times, _MOST) for term, times in Counter(text).items()}
    return bytes([counted.get(term, 0) for term in terms])


def _numbers(terms: Iterable[str]) -> bytes:
    numbers = [number(term) for term in terms]
    return pack(f"{len(numbers)}{_NUMBER}", *numbers)


def kept(data: bytes) -> Kept:
    """What `keep` made, as it was made."""
    record, traits, length, around, many, who, dates = _HEAD.unpack_from(data)
    border = _HEAD.size + many * _SIZE
    people = border + 3 * many
    days = people + who
    end = days + dates
    uri, _, moment = data[end:].decode().rpartition("\n")  # the key of a note may be of several lines
    terms = memoryview(data)[_HEAD.size : border].cast(_NUMBER)
    return Kept(record, traits, length, around, uri, moment, terms, data, people, days, end)
