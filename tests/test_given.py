"""What is given is looked at first: a value of another kind is one sentence with a code, and nothing happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agentm import AgentmError, ConfigError, InvalidNodeError, InvalidQueryError, InvalidUriError, Memory, Note

TEXT = (5, True, b"x", ["a"], date(2026, 1, 1), 1.5)
FLAG = (0, 1, "no", None)
NUMBER: tuple[Any, ...] = (True, "1", 1.5, -1, [])
TEXTS = ("one", b"x", 5, None, [1], ["a", None])
PATH = (5, b"x", "", ["a"])
FUNCTION = (5, "print")
ADDRESS = (*TEXT, None)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as found:
        found.remember("Ada builds looms.", slug="looms", when="2026-03-01")
        found.catch_up()
        yield found


def opened(tmp_path: Path, **options: Any) -> Memory:
    return Memory.open(
        **{"store": tmp_path / "store", "user": "alice", "install_prefix": tmp_path / "home", "notes": False, **options}
    )


CALLS: dict[str, tuple[type[AgentmError], dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "remember": (
        InvalidNodeError,
        {"text": "Bea sells looms."},
        {
            "text": (*ADDRESS, "", " "),
            "slug": TEXT,
            "category": TEXT,
            "project": TEXT,
            "who": TEXT,
            "tags": TEXTS,
            "sources": TEXTS,
            "if_version": NUMBER,
            "duplicates": FLAG,
            "wait": FLAG,
            "when": (5, "soon", b"x", True),
            "secrets": (5, None, "maybe"),
        },
    ),
    "recall": (
        InvalidQueryError,
        {"query": "looms"},
        {
            "query": (*ADDRESS, "", " "),
            "budget": (*NUMBER, None),
            "limit": (*NUMBER, None, 0),
            "category": TEXT,
            "tag": TEXT,
            "project": TEXT,
            "owner": TEXT,
            "since": (5, "soon", b"x", True),
            "until": (5, "soon", b"x", True),
            "recency": FLAG,
            "related": FLAG,
            "patience": ("a", None, True, -1, float("nan"), [1]),
        },
    ),
    "remember_many": (
        InvalidNodeError,
        {"notes": []},
        {
            "notes": (5, None, "text", ["text"], [5]),
            "progress": FUNCTION,
            "secrets": ("maybe",),
        },
    ),
    "read": (InvalidNodeError, {"address": "events/looms"}, {"version": NUMBER}),
    "forget": (InvalidNodeError, {"address": "events/looms"}, {"if_version": NUMBER, "purge": FLAG}),
    "move": (InvalidNodeError, {"address": "events/looms", "to": "events/other"}, {"if_version": NUMBER}),
    "undo": (InvalidNodeError, {"address": "events/looms"}, {"to": NUMBER, "if_version": NUMBER}),
    "catch_up": (InvalidNodeError, {}, {"progress": FUNCTION}),
    "reindex": (InvalidNodeError, {}, {"progress": FUNCTION}),
}
WRONG = [
    (method, wrong, {**fine, name: value})
    for method, (wrong, fine, arguments) in CALLS.items()
    for name, values in arguments.items()
    for value in values
]
ADDRESSES = [
    ("remember", {"text": "x"}, "to"),
    ("read", {}, "address"),
    ("relate", {"target": "events/looms"}, "source"),
    ("relate", {"source": "events/looms"}, "target"),
    ("forget", {}, "address"),
    ("move", {"to": "events/other"}, "address"),
    ("move", {"address": "events/looms"}, "to"),
    ("history", {}, "address"),
    ("undo", {}, "address"),
    ("list", {}, "place"),
]


def tree(root: Path) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}


@pytest.mark.parametrize(("method", "wrong", "given"), WRONG)
def test_a_value_of_another_kind_is_refused_in_one_sentence(
    memory: Memory, tmp_path: Path, method: str, wrong: type[AgentmError], given: dict[str, Any]
) -> None:
    before = tree(tmp_path)
    with pytest.raises(wrong) as refused:
        getattr(memory, method)(**given)
    assert refused.value.code
    assert "\n" not in str(refused.value)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(("method", "given", "name"), ADDRESSES)
def test_what_is_no_address_is_refused(memory: Memory, method: str, given: dict[str, Any], name: str) -> None:
    for value in TEXT if (method, name) == ("remember", "to") else ADDRESS:
        with pytest.raises(InvalidUriError):
            getattr(memory, method)(**given, **{name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"slug": 5},
        {"category": None},
        {"tags": "one"},
        {"who": 5},
        {"sources": "one"},
        {"relations": "one"},
        {"relations": [5]},
        {"when": 5},
        {"text": b"x"},
    ],
)
def test_a_note_among_many_is_looked_at_before_any_is_written(memory: Memory, given: dict[str, Any]) -> None:
    with pytest.raises(AgentmError):
        memory.remember_many([Note("Bea sells looms."), Note(**{"text": "Cleo weaves.", **given})])
    assert memory.list("events") == [memory.address("events/looms")]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("store", PATH),
        ("install_prefix", PATH),
        ("index_root", PATH),
        ("account", TEXT),
        ("user", TEXT),
        ("agent", TEXT),
        ("actor", TEXT),
        ("visible", TEXTS),
        ("embedder", (5, "model", len)),
        ("notes", (0, "yes")),
    ],
)
def test_what_a_memory_is_opened_with_is_looked_at(tmp_path: Path, name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises((ConfigError, InvalidUriError, InvalidNodeError)):
            opened(tmp_path, **{name: value})
    assert tree(tmp_path) == set()


def test_days_may_be_days(memory: Memory) -> None:
    assert len(memory.recall("looms", since=date(2026, 3, 1), until=date(2026, 3, 1))) == 1
    assert len(memory.recall("looms", since=date(2026, 3, 2))) == 0
