"""The table of words near in meaning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentm.errors import AgentmError
from agentm.index.neighbours import PATH, Neighbours, neighbours
from agentm.index.words import terms

pytestmark = pytest.mark.spec("IDX-03")


@pytest.mark.parametrize(
    ("word", "other"), [("dog", "puppy"), ("job", "career"), ("therapy", "therapist"), ("pottery", "ceramics")]
)
def test_words_of_like_meaning_are_near(word: str, other: str) -> None:
    [stem], [near] = terms(word), terms(other)
    assert near in dict(neighbours().near(stem))


def test_unlike_words_are_not() -> None:
    assert "tax" not in dict(neighbours().near("dog"))


@pytest.mark.parametrize("stem", ["", "a", "xyzzyq", "zzzzzz", "東京", "🎉"])
def test_what_is_not_in_the_table_has_no_neighbours(stem: str) -> None:
    assert neighbours().near(stem) == []


def test_the_nearest_come_first_and_none_is_the_word_itself() -> None:
    for word in ("dog", "paint", "music", "zoo", "aid"):
        near = neighbours().near(word)
        likeness = [similarity for _, similarity in near]
        assert likeness == sorted(likeness, reverse=True)
        assert all(0 < similarity <= 1 for similarity in likeness)
        assert word not in dict(near)


def test_every_neighbour_can_be_looked_up_itself() -> None:
    for word, _ in neighbours().near("dog"):
        assert neighbours().near(word)


def test_it_stays_small() -> None:
    assert os.path.getsize(PATH) < 2_000_000
    assert len(neighbours()) >= 20_000


def test_a_damaged_table_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "neighbours.bin"
    path.write_bytes(bytes(100))
    with pytest.raises(AgentmError, match="install") as raised:
        Neighbours(str(path))
    assert raised.value.code == "damaged_package"
