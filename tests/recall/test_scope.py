"""A recall through a scope: everything that it covers is found, and nothing is told of the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    CallableEmbedder,
    ConfigError,
    DeviceLocalBackend,
    Locator,
    Memory,
    Note,
    ScopedStorageScope,
)
from agentm.conformance.crashsim import scratch
from tests.index.conftest import always_looking as always_looking

pytestmark = pytest.mark.spec("FILES-05")

OWN = "ctx://acme/users/alice/memories"
EVENTS = "/accounts/acme/users/alice/memories/events"
CASES = "/accounts/acme/users/alice/memories/cases"


@pytest.fixture(scope="module")
def crowd() -> Iterator[Path]:
    """Many memories and notes about tea, and few that the scopes below cover; indexed."""
    with scratch() as directory:
        home = Path(directory)
        store = DeviceLocalBackend(home / "store")
        for n in range(150):
            store.write(Locator(f"out/tea-{n}.md"), f"Tea, tea, and tea number {n}.")
        for place in ("in (a+b)/tea.md", "in (a+b)c/tea.md"):
            store.write(Locator(place), "Among much else that is in this note there is tea.")
        with opened(home) as memory:
            memory.remember_many([Note(f"Tea, tea, and tea number {n}.", slug=f"tea-{n}") for n in range(200)])
            memory.remember("On Sundays there is a bit of tea among much else.", to="cases/sunday")
            memory.catch_up()
        yield home


@pytest.fixture
def own_crowd(crowd: Path) -> Iterator[Path]:
    """To be changed."""
    with scratch() as directory:
        yield Path(shutil.copytree(crowd, Path(directory, "copy")))


def opened(home: Path, scope: ScopedStorageScope | None = None, **options: Any) -> Memory:
    return Memory.open(
        DeviceLocalBackend(home / "store"),
        account="acme",
        user="alice",
        notes=True,
        index_root=home / "index",
        install_prefix=home / "home",
        scope=scope,
        **options,
    )


def recalled(home: Path, scope: ScopedStorageScope, **options: Any) -> tuple[list[str], bool]:
    with opened(home, scope) as memory:
        found = memory.recall("tea", **{"patience": 30.0, **options})
        return [one.uri for one in found], found.complete


@pytest.mark.parametrize("limit", [1, 5, 10, 50])
@pytest.mark.parametrize(
    ("read", "found"),
    [
        ([CASES], [f"{OWN}/cases/sunday"]),
        ([f"{CASES}/sunday"], [f"{OWN}/cases/sunday"]),
        (["/in (a+b)"], ["in (a+b)/tea.md"]),
        (["//in (a+b)//tea.md"], ["in (a+b)/tea.md"]),
        (["/none", "/in (a+b)"], ["in (a+b)/tea.md"]),
        (["/out/tea"], []),
        ([], []),
    ],
)
def test_what_is_covered_is_found_however_much_lies_outside(
    crowd: Path, read: list[str], found: list[str], limit: int
) -> None:
    assert recalled(crowd, ScopedStorageScope(read), limit=limit) == (found, True)


def test_a_scope_above_memories_and_notes_finds_all_of_them(crowd: Path) -> None:
    for read, many in ((["/"], 353), (["/accounts"], 201), (["/accounts/acme"], 201), (["/out"], 150)):
        found, complete = recalled(crowd, ScopedStorageScope(read), limit=1_000, budget=1_000_000)
        assert (len(found), complete) == (many, True)


def test_what_is_denied_crowds_out_nothing(crowd: Path) -> None:
    scope = ScopedStorageScope(["/"], (), ["/OUT", EVENTS.upper(), "/in (a+b)c"])
    found, complete = recalled(crowd, scope)
    assert (set(found), complete) == ({f"{OWN}/cases/sunday", "in (a+b)/tea.md"}, True)


def test_the_best_that_is_shown_has_the_best_score(crowd: Path) -> None:
    scope = ScopedStorageScope(["/"], (), ["/out", EVENTS, "/in (a+b)c"])
    with opened(crowd, scope) as memory:
        found = memory.recall("tea", recency=False, related=False, patience=30.0)
        assert found.entries[0].score == 1.0, "what is not shown is not told of by the scores either"


def test_links_crowd_out_nothing(own_crowd: Path) -> None:
    linked = own_crowd / "store" / "linked"
    linked.mkdir()
    for n in range(150):
        (linked / f"tea-{n}.md").symlink_to(own_crowd / "store" / "out" / f"tea-{n}.md")
    (linked / "own.md").write_text("Among much else that is in this note there is tea.")
    with opened(own_crowd) as memory:
        memory.catch_up()
        assert "linked/tea-7.md" in {one.uri for one in memory.recall("tea", limit=1_000, budget=10**6)}
    assert recalled(own_crowd, ScopedStorageScope(["/linked"])) == (["linked/own.md"], True)


def test_an_answer_for_which_time_was_too_short_is_not_called_complete(crowd: Path) -> None:
    scope = ScopedStorageScope(["/"], (), ["/OUT", EVENTS.upper()])  # as no search can say it
    with opened(crowd, scope) as memory:
        memory.catch_up()
        assert not memory.recall("tea", patience=0.0).complete
        assert memory.recall("tea", patience=30.0).complete


def test_vectors_obey_the_scope(own_crowd: Path) -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 2.0 if "Tea," in text or text == "drink" else 1.0] for text in texts]

    denying = ScopedStorageScope(["/"], (), ["/out", EVENTS, "/in (a+b)c"])
    for scope in (denying, ScopedStorageScope(["/in (a+b)", CASES])):
        with opened(own_crowd, scope, embedder=CallableEmbedder("toy/1", embed)) as memory:
            memory.catch_up()
            found = memory.recall("drink", patience=30.0)
            assert {one.uri.rpartition("/")[2] for one in found} == {"sunday", "tea.md"}


@pytest.mark.parametrize("scope", ["/notes", ["/notes"], 7])
def test_what_is_no_scope_is_refused_in_one_sentence(tmp_path: Path, scope: Any) -> None:
    with pytest.raises(ConfigError, match="ScopedStorageScope"):
        Memory.open(tmp_path / "store", user="alice", scope=scope)
