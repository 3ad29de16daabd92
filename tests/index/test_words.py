"""What a text is searched by."""

from __future__ import annotations

import unicodedata
from datetime import date

import pytest
from hypothesis import given, strategies as st

from agentm.index.words import LONGEST, asked_dates, date_terms, terms

pytestmark = pytest.mark.spec("IDX-02")

TODAY = date(2026, 3, 5)  # a Thursday


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("She adopted two puppies", "adopting a puppy"),
        ("Ann's café", "ANN CAFE"),
        ("We’re camping", "camp"),
        ("ﬁle Ｆｕｌｌ", "file full"),
        ("Straße", "STRASSE"),
        ("книги о котах", "книга кот"),
        ("storage.backend=vault", "storage backend"),
        ("snake_case", "case of a snake"),
    ],
)
def test_what_is_asked_meets_what_is_kept(kept: str, asked: str) -> None:
    assert set(terms(asked)) <= set(terms(kept))


@pytest.mark.parametrize("text", ["what did she do there?", "it isn't", "I'll be with them", "der und die das"])
def test_function_words_are_left_out_beside_others(text: str) -> None:
    assert terms(f"{text} banana")[-1] == "banana"
    assert len(terms(f"{text} banana")) <= 2


def test_a_text_of_nothing_but_function_words_can_still_be_found() -> None:
    assert terms("To be, or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_an_apostrophe_does_not_make_another_word() -> None:
    assert "ill" not in terms("I'll paint")
    assert "ill" in terms("ill again")


def test_order_and_repetition_are_kept() -> None:
    assert terms("tea, milk and more tea") == ["tea", "milk", "tea"]


def test_numbers_stay_whole() -> None:
    assert terms("3.5 miles at 10:30 in 2023, 1,200 people") == ["3.5", "mile", "10:30", "2023", "1,200", "peopl"]


def test_scripts_without_spaces_are_cut_into_pairs() -> None:
    assert terms("東京タワー") == ["東京", "京タ", "タワ", "ワー"]
    assert set(terms("京タ")) <= set(terms("東京タワー"))
    assert terms("猫") == ["猫"]
    assert set(terms("ไทย")) <= set(terms("ภาษาไทยง่าย"))


def test_words_of_india_keep_their_vowels() -> None:
    assert terms("हिन्दी में लिखा") == ["हिन्दी", "में", "लिखा"]


def test_mixed_scripts_fall_apart_where_they_meet() -> None:
    assert terms("iPhone購入 2023年") == ["iphon", "購入", "2023", "年"]


def test_emoji_are_words() -> None:
    assert terms("🎉party🎉 ❤️ 🇩🇪") == ["🎉", "parti", "🎉", "❤", "🇩🇪"]


def test_a_key_in_letters_is_cut() -> None:
    assert max(map(len, terms("A" * 5000))) == LONGEST


@given(st.text())
def test_no_term_is_empty_or_has_blanks_in_it(text: str) -> None:
    assert all(term and not term.isspace() and len(term.split()) == 1 for term in terms(text))


@given(st.text())
def test_how_an_accent_is_written_makes_no_difference(text: str) -> None:
    assert terms(unicodedata.normalize("NFD", text)) == terms(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("what happened on 8 May, 2023?", date(2023, 5, 8)),
        ("on May 8th", date(2023, 5, 8)),
        ("the 8th of may", date(2021, 5, 8)),
        ("in May 2023", date(2023, 5, 30)),
        ("since 2023-05-08", date(2023, 5, 8)),
        ("today", TODAY),
        ("yesterday", date(2026, 3, 4)),
        ("last week", date(2026, 3, 1)),
        ("last week", date(2026, 2, 23)),
        ("this week", date(2026, 3, 2)),
        ("last month", date(2026, 2, 28)),
        ("last year", date(2025, 7, 1)),
        ("3 Sept 2024", date(2024, 9, 3)),
    ],
)
def test_a_query_that_speaks_of_a_day_meets_it(query: str, day: date) -> None:
    assert set(asked_dates(query, TODAY)) & set(date_terms(day))


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("on 8 May 2023", date(2022, 6, 8)),
        ("last week", date(2026, 3, 2)),
        ("last month", date(2026, 3, 1)),
        ("maybe they march", date(2023, 5, 8)),
        ("how it may decorate", TODAY),
    ],
)
def test_a_query_does_not_meet_other_days(query: str, day: date) -> None:
    assert not set(asked_dates(query, TODAY)) & set(date_terms(day))


def test_names_of_months_and_weekdays_meet_days_too() -> None:
    assert {*terms("a monday in May"), *terms("2023")} <= set(date_terms(date(2023, 5, 8)))
