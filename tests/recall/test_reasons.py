"""Why something was found, in words."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from agentm.recall.reasons import reasons
from agentm.recall.results import Found

pytestmark = pytest.mark.spec("IDX-04")

TODAY = date(2026, 3, 20)


def found(text: str, **more: Any) -> Found:
    fields: dict[str, Any] = {"abstract": "", "tags": (), "when": "2026-03-15T10:00:00", "who": "", "why": {}, **more}
    uri = "ctx://a/users/b/memories/events/c"
    return Found(uri, "node", 1, 1.0, 2, text, category="events", start=0, end=0, **fields)


@pytest.mark.parametrize(
    ("query", "one", "expected"),
    [
        ("who builds looms?", found("Ada is building a loom."), ["says builds, looms"]),
        ("the craft of Ada", found("She weaves.", tags=("craft",), who="Ada"), ["tag craft", "who Ada"]),
        ("what happened last week", found("Rain.", when="2026-03-10"), ["dated 2026-03-10"]),
        ("what happened on 2026-03-11", found("Rain.", when="2026-03-10"), ["beside what was asked for"]),
        ("looms", found("It rained.", why={"recency": 0.049}), ["beside what was asked for", "recent"]),
        ("looms", found("The loom.", why={"recency": 0.01, "related": 0.02}), ["says looms", "related to others here"]),
        ("", found("The loom."), ["beside what was asked for"]),
    ],
)
def test_the_reasons_are_said_in_words(query: str, one: Found, expected: list[str]) -> None:
    assert reasons(one, query, today=TODAY) == expected


def test_a_word_that_means_nearly_the_same_is_named_with_it() -> None:
    [why] = reasons(found("He drives a car."), "automobile", today=TODAY)
    assert "automobile" in why
    assert "car" in why


def test_a_long_question_does_not_make_a_long_line() -> None:
    words = "copper iron silver gold tin lead"
    [why] = reasons(found(words), words, today=TODAY)
    assert why == "says copper, iron, silver, gold …"
