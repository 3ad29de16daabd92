"""The façade: what every method promises, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path

import pytest

from agentm import (
    ConfigError,
    DeviceLocalBackend,
    InvalidNodeError,
    InvalidQueryError,
    InvalidUriError,
    Memory,
    MemoryBackend,
    NodeConflictError,
    NodeNotFoundError,
    Note,
    Recall,
    SecretFoundError,
    StorageBackend,
)
from tests.index.conftest import STORES, always_looking as always_looking, opened, tmp_path as tmp_path

OWN = "ctx://acme/users/alice/memories"


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    return STORES[request.param](tmp_path)


@pytest.fixture
def memory(store: StorageBackend, tmp_path: Path) -> Iterator[Memory]:
    with opened(store, tmp_path) as found:
        yield found


@pytest.mark.spec("IDX-06")
def test_a_receipt_says_what_became_of_a_write(memory: Memory) -> None:
    receipt = memory.remember("Met Ada at the fair.")
    assert (receipt.uri, receipt.version, receipt.durable) == (f"{OWN}/events/met-ada-at-the-fair", 1, True)
    assert receipt.indexed == "pending"
    assert memory.read(receipt.uri).content == "Met Ada at the fair."


def test_the_same_words_twice_are_two_memories(memory: Memory) -> None:
    first, second = (memory.remember("Met Ada.") for _ in range(2))
    assert first.uri != second.uri
    assert memory.list("events") == [first.uri, second.uri]


def test_an_address_is_written_over_and_keeps_its_tags_and_relations(memory: Memory) -> None:
    memory.remember("A loom.", to="entities/loom")
    memory.remember("Ada.", to="entities/ada", tags=["people"])
    memory.relate("entities/ada", "entities/loom", "builds")
    receipt = memory.remember("Ada, who builds looms.", to="entities/ada")
    node = memory.read("entities/ada")
    assert (receipt.version, node.tags, len(node.relations)) == (3, ("people",), 1)


def test_a_version_that_is_expected_is_checked(memory: Memory) -> None:
    memory.remember("One.", to="profile", if_version=0)
    memory.remember("Two.", to="profile", if_version=1)
    with pytest.raises(NodeConflictError):
        memory.remember("Three.", to="profile", if_version=1)
    with pytest.raises(InvalidNodeError):
        memory.remember("New.", if_version=2)
    assert memory.read("profile").content == "Two."


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("2026-03-15", "2026-03-15T00:00:00"),
        (date(2026, 3, 15), "2026-03-15"),
        (datetime(2026, 3, 15, 14, 30), "2026-03-15T14:30:00"),
    ],
)
def test_when_and_who_stand_above_the_text(memory: Memory, when: str | date, said: str) -> None:
    receipt = memory.remember("Likes oat milk.", when=when, who="Ada\nLovelace")
    assert memory.read(receipt.uri).content == f"---\ndate: {said}\nwho: Ada Lovelace\n---\n\nLikes oat milk."
    assert receipt.uri == f"{OWN}/events/likes-oat-milk"


def test_a_moment_that_is_none_is_refused_and_nothing_is_written(memory: Memory) -> None:
    with pytest.raises(InvalidNodeError):
        memory.remember("Likes tea.", when="yesterday")
    assert memory.list("events") == []


def test_many_at_once_each_from_its_own_source(memory: Memory) -> None:
    notes = [Note(f"Number {n}.", slug=f"n-{n}", sources=(f"chat-{n // 3}",)) for n in range(7)]
    receipts = memory.remember_many(notes)
    assert [receipt.uri for receipt in receipts] == [f"{OWN}/events/n-{n}" for n in range(7)]
    assert [memory.read(receipt.uri).sources for receipt in receipts] == [(f"chat-{n // 3}",) for n in range(7)]
    with pytest.raises(NodeConflictError):
        memory.remember_many(notes[:1])


def test_many_that_say_the_same_get_names_of_their_own(memory: Memory) -> None:
    memory.remember("Ada builds looms.")
    receipts = memory.remember_many([Note("Ada builds looms.", sources=(f"chat-{n}",)) for n in range(3)])
    assert [receipt.uri.rpartition("/")[2] for receipt in receipts] == [f"ada-builds-looms-{n}" for n in (2, 3, 4)]


def test_forget_undo_move_and_history(memory: Memory) -> None:
    memory.remember("One.", to="events/a")
    memory.remember("Two.", to="events/a")
    assert [version.content for version in memory.history("events/a")] == ["One.", "Two."]
    assert memory.undo("events/a").version == 3
    assert memory.move("events/a", "events/b").uri == f"{OWN}/events/b"
    memory.forget("events/b")
    with pytest.raises(NodeNotFoundError):
        memory.read("events/b")
    memory.undo("events/b")
    assert memory.read("events/b").content == "One."


def test_an_address_that_is_none_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidUriError):
        memory.read("nowhere/at/all/there")


def test_the_status_says_whose_it_is(memory: Memory) -> None:
    memory.remember("Met Ada.", wait=True)
    status = memory.status()
    assert (status["account"], status["index"]["sources"], status["index"]["untold"]) == ("acme", 1, 0)


def test_what_says_the_same_or_nearly_is_named_and_written_all_the_same(memory: Memory, store: StorageBackend) -> None:
    if isinstance(store, MemoryBackend):
        return  # its index lasts as long as one object, and is not looked at by those who only write
    long = "Ada told us at the fair in Malmö that she builds looms with twenty-four shafts for weavers in the north."
    first = memory.remember(long, slug="first", when="2026-01-01")
    assert first.duplicates == ()
    assert memory.remember(long.upper(), slug="again").duplicates == (first.uri,)
    memory.catch_up()
    longer = f"{long} {long.replace('Ada', 'Bea')} Nothing else was said that day by anybody we know of."
    one = memory.remember(longer, slug="longer")
    assert memory.remember(longer.replace("anybody", "anyone"), slug="nearly").duplicates == (one.uri,)
    other = "The ferry from Malmö was late again, so we missed the train and slept in a hotel beside the old harbour."
    assert memory.remember(other, slug="other").duplicates == ()
    assert memory.remember("Ada builds looms.", slug="short").duplicates == ()
    assert memory.remember("Ada builds boats.", slug="short-too").duplicates == ()
    assert memory.remember(long, slug="first", duplicates=False).duplicates == ()
    assert len(memory.list("events")) == 7


def test_another_owners_words_are_no_duplicates(store: StorageBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as alice, opened(store, tmp_path, user="bob") as bob:
        alice.remember("Ada builds looms in Malmö.", wait=True)
        assert bob.remember("Ada builds looms in Malmö.").duplicates == ()


def test_secrets_are_refused_taken_out_or_kept_as_one_says(memory: Memory) -> None:
    secret = "ghp_" + "a1B2" * 9
    with pytest.raises(SecretFoundError):
        memory.remember(f"The token is {secret}.")
    with pytest.raises(SecretFoundError):
        memory.remember_many([Note("Fine.", slug="fine"), Note(f"The token is {secret}.", slug="bad")])
    assert memory.list("events") == []
    receipt = memory.remember(f"The token is {secret}.", slug="token", secrets="redact")
    assert receipt.redacted == ("GitHub token",)
    assert secret not in memory.read("events/token").content
    [many] = memory.remember_many([Note(f"It is {secret}.", slug="many")], secrets="redact")
    assert many.redacted == ("GitHub token",)
    memory.remember(f"The token is {secret}.", slug="token", secrets="allow")
    assert secret in memory.read("events/token").content
    with pytest.raises(InvalidNodeError):
        memory.remember("Fine.", secrets="maybe")


def test_threads_share_one_memory(memory: Memory) -> None:
    with ThreadPoolExecutor(8) as pool:
        pool.map(lambda n: memory.remember(f"Loom number {n} stands in room {n}.", slug=f"loom-{n}"), range(40))
        asked = [pool.submit(memory.recall, f"room {n}", limit=50, patience=30.0) for n in range(40)]
        assert all(isinstance(one.result(), Recall) for one in asked)
    assert len(memory.recall("loom", limit=50, budget=50_000, patience=30.0)) == 40


@pytest.mark.parametrize("options", [{"user": ""}, {"account": ""}, {"user": " "}])
def test_nobody_is_not_everybody(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Memory.open(MemoryBackend(), install_prefix=tmp_path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", " \n", 5, None])
def test_nothing_to_remember_is_refused(memory: Memory, text: object) -> None:
    with pytest.raises(InvalidNodeError):
        memory.remember(text)  # type: ignore[arg-type]
    with pytest.raises(InvalidNodeError):
        memory.remember("Fine.", tags="abc")
    assert memory.list("events") == []


def test_a_project_is_recalled_by_its_name(memory: Memory) -> None:
    memory.remember("The loom has 24 shafts.", slug="loom", project="weaving")
    memory.remember("The boat has 2 masts and a loom.", slug="boat")
    assert [one.uri for one in memory.recall("loom", project="weaving", patience=30.0)] == [
        memory.address("events/loom")
    ]


def test_an_index_that_is_thrown_away_vouches_for_nothing(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    (tmp_path / "index").write_text("in the way")
    with opened(store, tmp_path) as memory:
        assert memory.remember("Ada builds looms.", slug="looms", wait=True).indexed == "pending"
        assert len(memory.recall("looms", patience=30.0)) == 1
        assert memory.status()["index"]["lasting"] is False


def test_a_limit_that_nobody_can_mean_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidQueryError):
        memory.recall("looms", limit=10**9)


def test_what_is_written_is_found_at_once_also_where_an_index_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentm.index.account._RECENT", 60.0)
    (tmp_path / "file").write_text("where a folder should be")
    for memory in (
        Memory.open(MemoryBackend(), user="alice"),
        Memory.open(tmp_path / "store", user="alice", index_root=tmp_path / "file" / "index"),
    ):
        with memory:
            for count, text in enumerate(["Tea at noon.", "Tea at four.", "Tea at night."], start=1):
                memory.remember(text)
                assert len(memory.recall("tea").entries) == count


def test_another_text_keeps_what_the_memory_is_about(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", user="alice") as memory:
        memory.remember("Osprey one was seen.", to="events/osprey", when="2020-01-01", who="Ferd")
        memory.remember("Osprey two was seen.", to="events/osprey")
        [found] = memory.recall("osprey").entries
        assert (found.when[:10], found.who) == ("2020-01-01", "Ferd")
        assert "two" in found.text
        memory.remember("Osprey three was seen.", to="events/osprey", when="2021-02-02")
        assert memory.recall("osprey").entries[0].when[:10] == "2021-02-02"


def test_a_costly_look_at_the_whole_store_counts_for_other_processes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentm.index.account._CHEAP_SCAN", 0.0)
    monkeypatch.setattr("agentm.index.account._RECENT", 60.0)
    where = {"user": "alice", "install_prefix": tmp_path, "notes": True}
    with Memory.open(tmp_path / "store", **where) as one:  # type: ignore[arg-type]
        one.remember("Tea at noon.")
        assert len(one.recall("tea").entries) == 1
    (tmp_path / "store/note.md").write_text("Tea at four, says a note.")
    with Memory.open(tmp_path / "store", **where) as other:  # type: ignore[arg-type]
        assert len(other.recall("tea").entries) == 1, "it looked again"
        other.remember("Tea at night.")
        assert len(other.recall("tea").entries) == 2, "what is written through agentm needs no look"
    monkeypatch.setattr("agentm.index.account._RECENT", 0.0)
    with Memory.open(tmp_path / "store", **where) as later:  # type: ignore[arg-type]
        assert len(later.recall("tea").entries) == 3
