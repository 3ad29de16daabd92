"""Texts in passages: nothing is lost, nothing is cut inside a character, and each knows its place."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentm.context.graphemes import clusters
from agentm.index.passages import SIZE, passages

pytestmark = pytest.mark.spec("IDX-02")

TEXTS = st.text(st.sampled_from("ab .!?\n#é漢字ก👩‍👩‍👧é"), max_size=4 * SIZE)


@given(TEXTS)
def test_every_word_is_in_exactly_one_passage_at_its_place(text: str) -> None:
    found = passages(text)
    at = 0
    for number, passage in enumerate(found):
        assert passage.number == number
        assert text[passage.start : passage.end] == passage.text
        assert not text[at : passage.start].strip()
        assert passage.text.strip()
        at = passage.end
    assert not text[at:].strip()


@pytest.mark.parametrize("text", ["x" * 5_000, "漢" * 5_000, "a\u0301" * 3_000, "👩‍👩‍👧" * 700, "word " * 2_000])
def test_a_text_without_paragraphs_is_cut_between_words_or_characters(text: str) -> None:
    found = passages(text)
    assert len(found) > 1
    assert all(len(passage.text) <= SIZE for passage in found)
    assert "".join(passage.text for passage in found).replace(" ", "") == text.replace(" ", "")
    whole = set(clusters(text))
    assert all(set(clusters(passage.text)) <= whole for passage in found)


def test_sections_are_passages_once_they_say_enough_and_know_their_heading() -> None:
    sections = {"# One": "First. " * 40, "## Two": "Second. " * 40, "## Three": "Short.", "## Four": "Short too."}
    text = "\n\n".join(f"{heading}\n\n{body}" for heading, body in sections.items())
    found = passages(text)
    assert [passage.heading for passage in found] == ["One", "Two", "Three"]
    assert "Short too." in found[-1].text


def test_a_short_text_is_one_passage_below_its_front_matter() -> None:
    text = "---\ndate: 2026-03-15\n---\n\nMet Ada.\n\nShe builds looms."
    start = text.index("\nMet")
    [passage] = passages(text, start)
    assert passage.text == "Met Ada.\n\nShe builds looms."


def test_nothing_is_no_passage() -> None:
    assert passages("") == passages(" \n\n ") == []
