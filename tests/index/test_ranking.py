"""Which entries a query finds, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from agentm.index.ranker import Ranker
from agentm.index.ranking import search
from agentm.index.schema import Entry, asks, document, moments, schema
from agentm.index.words import terms

pytestmark = pytest.mark.spec("IDX-03")

BLANK = Entry(0, "", "users/alice", "events", (), "", 2, "", "", "", "", "", "")
FILLER = (
    "The train to the coast was late again.",
    "We had soup and bread for lunch.",
    "The printer in the office needs new toner.",
    "Rain is expected until the evening.",
    "The bakery closes at six.",
    "A parcel from the bookshop came in the morning.",
)


def searcher(*entries: Entry) -> Any:
    import tantivy

    index = tantivy.Index(schema())
    writer = index.writer(15_000_000, 1)
    for number, entry in enumerate(entries):
        writer.add_document(document(replace(entry, record=number, uri=f"ctx://acme/{number}")))
    writer.commit()
    index.reload()
    return index.searcher()


def told(*texts: str, **more: Any) -> list[Entry]:
    return [replace(BLANK, body=text, **more) for text in texts]


def best(entries: list[Entry], query: str, **options: Any) -> list[int]:
    return [hit.record for hit in search(searcher(*entries), schema(), query, limit=5, **options)]


def test_words_are_found() -> None:
    assert best(told(*FILLER, "Ann adopted a puppy."), "who adopts puppies?")[0] == len(FILLER)


def test_meaning_is_found_where_no_word_is_shared() -> None:
    entries = told(*FILLER, "Ann adopted a puppy.")
    assert not set(terms("dog")) & set(terms(entries[-1].body))
    assert best(entries, "dog")[0] == len(FILLER)


def test_the_word_itself_comes_before_one_near_to_it() -> None:
    assert best(told("Ann has a puppy.", *FILLER, "Ann has a dog."), "dog")[:2] == [len(FILLER) + 1, 0]


def test_a_word_near_in_meaning_decides_between_like_entries() -> None:
    assert best(told("A lorry in the park.", "A puppy in the park.", "A parcel in the park."), "dog, park")[0] == 1


def test_an_answer_comes_before_a_remark() -> None:
    befores = ("There were the colours of the lantern.", "What were the colours of the lantern?")
    entries = [replace(BLANK, body="Red and gold.", before=before) for before in befores]
    assert best([*entries, *told(*FILLER)], "the colours of the lantern")[:2] == [1, 0]


def test_who_asks_when_gets_what_tells_it() -> None:
    entries = told("Ann moved to the coast with joy.", "Ann moved to the coast last week.", *FILLER)
    assert best(entries, "When did Ann move to the coast?")[0] == 1


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    entries = told(*(f"The meeting of week {number} took an hour." for number in range(20)), "Zirconium!")
    assert best(entries, "the zirconium meeting hour")[0] == 20


def test_what_stands_around_an_entry_tells_what_it_is_about() -> None:
    answer = replace(BLANK, body="Red and gold, I think.", before="Which colours did the lantern have?")
    assert best([*told(*FILLER, "Red and gold, I think."), answer], "colours of the lantern")[0] == len(FILLER) + 1


def test_what_follows_an_entry_tells_too() -> None:
    entries = [*told(*FILLER), replace(BLANK, body="Look at this.", context="What a lovely lantern!")]
    assert best(entries, "lantern")[0] == len(FILLER)


def test_what_comes_just_before_an_entry_counts_more_than_what_comes_after_it() -> None:
    said, seen = replace(BLANK, body="Look at this."), "A lantern of paper, red and gold."
    entries = [*told(*FILLER), replace(said, context=seen), replace(said, before=seen)]
    assert best(entries, "paper lantern")[:2] == [len(FILLER) + 1, len(FILLER)]


def test_a_title_is_searched() -> None:
    assert best([*told(*FILLER), replace(BLANK, body="One, two.", title="Lantern")], "lantern")[0] == len(FILLER)


def test_who_said_it_decides_between_like_entries() -> None:
    said = "I painted a lake at sunrise."
    entries = [*told(said, who="Melanie"), *told(said, who="Caroline"), *told(*FILLER, who="Melanie")]
    assert best(entries, "What did Caroline paint?")[0] == 1
    assert best(entries, "What did Melanie paint?")[0] == 0


def test_a_name_is_found_in_the_text_too() -> None:
    entries = [*told(*FILLER, who="Caroline"), *told("I met Caroline.", who="Bea")]
    assert len(FILLER) in best(entries, "Caroline met")


@pytest.mark.spec("IDX-04")
@pytest.mark.parametrize("query", ["what was on 8 May 2023", "painted on 2023-05-08", "painted in May 2023"])
def test_a_day_is_found_by_how_it_is_said(query: str) -> None:
    days = ("2022-11-08", "2023-05-08", "2023-08-14", "2024-01-05")
    entries = [replace(BLANK, body="She painted.", date=day, when=day) for day in days]
    assert best(entries, query)[0] == 1


def test_yesterday_is_yesterday() -> None:
    entries = [
        replace(BLANK, body="She painted.", date=(date.today() - timedelta(ago)).isoformat()) for ago in (40, 1, 9)
    ]
    assert best(entries, "what did she paint yesterday")[0] == 1


@pytest.mark.spec("IDX-02")
def test_every_hit_matches_the_restriction() -> None:
    from tantivy import Query

    entries = [*told("oat milk", space="users/alice"), *told("oat milk", space="users/bob")]
    restrict = Query.term_query(schema(), "space", "users/bob")
    assert best(entries, "oat milk", restrict=restrict) == [1]
    assert best(entries, "puppy", restrict=restrict) == []


@pytest.mark.spec("IDX-04")
@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2023-05-08", None, {1, 2}),
        (None, "2023-05-08", {0, 1}),
        ("2023-05-08T10:00:00+00:00", "2023-05-08", {1}),
        ("2023-05-09", "2023-05-10", set()),
    ],
)
def test_time_can_be_limited(since: str | None, until: str | None, expected: set[int]) -> None:
    days = ("2022-11-08T09:00:00+00:00", "2023-05-08", "2024-01-05", "")
    entries = [replace(BLANK, body="oat milk", when=day) for day in days]
    assert set(best(entries, "oat milk", restrict=moments(schema(), since, until))) == expected


def test_hits_come_best_first_and_no_more_than_asked_for() -> None:
    hits = search(searcher(*told(*FILLER, *FILLER)), schema(), "soup, bread and a parcel in the morning", limit=3)
    scores = [hit.score for hit in hits]
    assert len(hits) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


def test_more_than_the_usual_number_can_be_asked_for() -> None:
    assert len(search(searcher(*told(*["oat milk"] * 150)), schema(), "milk", limit=140)) == 140


def test_a_hit_says_why() -> None:
    entries = [*told("I painted a lake.", who="Caroline"), *told("I painted a lake.", who="Bea")]
    first, second = search(searcher(*entries), schema(), "What did Caroline paint?", limit=2)
    assert first.why["who"] > second.why["who"]
    assert first.why.keys() == second.why.keys()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "?!",
        '"oat AND (milk OR',
        "body:milk^2 -oat +*",
        "NEAR/3 \\ ~ ' [",
        "🎉",
        "\x00 milk",
        "the of and",
        "é" * 3000,
        "unknownword " * 10_000,
    ],
)
def test_no_query_is_too_odd(query: str) -> None:
    assert all(hit.record in range(len(FILLER)) for hit in search(searcher(*told(*FILLER)), schema(), query, limit=5))


def test_a_long_query_still_finds_its_rare_words() -> None:
    many = " ".join(f"word{number}" for number in range(5_000))
    assert best(told(*FILLER, "A zirconium ring."), f"{many} zirconium {many}")[0] == len(FILLER)


def test_an_empty_index_finds_nothing() -> None:
    assert best([], "milk") == []


def test_other_languages_are_found() -> None:
    entries = told(*FILLER, "東京タワーに行きました。", "Она любит зелёный чай.", "Das Café ist dienstags geschlossen.")
    assert best(entries, "東京タワー")[0] == len(FILLER)
    assert best(entries, "зелёного чая")[0] == len(FILLER) + 1
    assert best(entries, "cafe geschlossen")[0] == len(FILLER) + 2


@pytest.mark.parametrize("text", ["Is it?", 'She said "really?"', "どこですか？", "Ready? [a photo of a lake]"])
def test_a_question_is_seen(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["", "It is.", "Is it? It is."])
def test_what_is_none_is_no_question(text: str) -> None:
    assert not asks(text)


def test_steps_hold_up_to_and_with_their_bound() -> None:
    steps = Ranker("length: -1 2 0 5 3\nwho: 0.5 0 1\n")
    lengths = [steps.why({"length": length, "who": 0.0})["length"] for length in (1.0, 2.0, 2.1, 5.0, 9.0)]
    assert lengths == [-1, -1, 0, 0, 3]
    assert steps.score({"length": 9.0, "who": 1.0}) > steps.score({"length": 9.0, "who": 0.0}) > 0.5
