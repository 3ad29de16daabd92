"""What is kept of an entry for the ranking comes back as it was."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from agentm.index.kept import ANSWERS, ASKS, Kept, keep, kept, number, written

pytestmark = pytest.mark.spec("IDX-03")

WORDS = [f"word{at}" for at in range(3_000)]


def made(own: list[str], before: list[str], after: list[str], who: list[str], dates: list[str]) -> Kept:
    data = keep(
        7, ASKS | ANSWERS, "ctx://a/ü", "2026-03-15T10:00:00", own=own, before=before, after=after, who=who, dates=dates
    )
    return kept(data)


def times(entry: Kept, word: str) -> tuple[int, int, int]:
    return entry.times(written(number(word)))


def test_each_term_is_counted_where_it_is() -> None:
    chance = Random(4)
    for size in (1, 7, 150, 1_000):
        own, before, after = texts = [chance.choices(WORDS, k=size) for _ in range(3)]
        entry = made(own, before, after, ["ann"], ["2026", "march"])
        counts = [Counter(text) for text in texts]
        assert set(entry.terms) == {number(word) for text in texts for word in text}
        for word in {word for text in texts for word in text}:
            assert times(entry, word) == tuple(count[word] for count in counts)


def test_a_term_that_looks_like_the_border_of_two_others_is_told_from_it() -> None:
    """The bytes of one number lie across those of two others, which come first."""
    ends = {written(number(word))[2:]: word for word in WORDS}
    starts = {written(number(word))[:2]: word for word in WORDS}
    third = next(
        word
        for word in (f"other{at}" for at in range(1_000_000))
        if written(number(word))[:2] in ends and written(number(word))[2:] in starts
    )
    first, second = ends[written(number(third))[:2]], starts[written(number(third))[2:]]
    entry = made([first, second, third, third], [], [], [], [])
    assert times(entry, third) == (2, 0, 0)


def test_what_is_not_a_term_comes_back_too() -> None:
    entry = made(["oat"], ["milk"] * 2, ["milk"] * 300, ["ann", "bea"], ["2026"])
    assert (entry.record, entry.traits, entry.uri, entry.moment) == (
        7,
        ASKS | ANSWERS,
        "ctx://a/ü",
        "2026-03-15T10:00:00",
    )
    assert (entry.length, entry.length_around) == (1, 302)
    assert set(entry.who) == {number("ann"), number("bea")}
    assert set(entry.dates) == {number("2026")}
    assert times(entry, "milk") == (0, 2, 255)  # more often says nothing more


def test_nothing_at_all_is_kept() -> None:
    entry = made([], [], [], [], [])
    assert (len(entry.terms), len(entry.who), len(entry.dates), entry.uri) == (0, 0, 0, "ctx://a/ü")
