"""The index of an account: it follows the store, whatever happens to it, and gives the same however it came about."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from agentm import ContextNode, DeviceLocalBackend, Memory, RequestContext, StorageBackend, VaultBackend
from agentm.index.account import AccountIndex
from agentm.seam import Locator
from tests.index.conftest import opened

ALICE = RequestContext("acme", user_id="alice")


def uris(memory: Memory, query: str, **options: object) -> list[str]:
    return [found.uri.rpartition("/")[2] for found in memory.recall(query, **{"patience": 30.0, **options})]  # type: ignore[arg-type]


def rows(memory: Memory) -> list[tuple[object, ...]]:
    return list(memory._index.catalogue.rows())


def index_directory(tmp_path: Path) -> Path:
    [found] = (tmp_path / "index").glob("*/acme")
    return found


@pytest.mark.spec("IDX-01", "IDX-06")
def test_what_is_written_is_found_by_the_next_recall_here_and_elsewhere(store: StorageBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as one, opened(store, tmp_path) as other:
        one.remember("Ada builds looms.", slug="looms")
        assert uris(one, "loom") == ["looms"]
        one.remember("Ada builds looms and clocks.", slug="looms")
        assert uris(other, "clocks") == ["looms"]
        other.move("events/looms", "events/clocks")
        assert uris(one, "looms") == ["clocks"]
        one.forget("events/clocks")
        assert uris(other, "looms") == []
        other.undo("events/clocks")
        assert uris(one, "clock") == ["clocks"]


@pytest.mark.spec("IDX-06")
def test_who_waits_learns_that_it_is_indexed_and_it_is(memory: Memory) -> None:
    assert memory.remember("Ada builds looms.", slug="looms", wait=True).indexed == "yes"
    assert memory._index.catalogue.known(memory.address("events/looms")) is not None
    searcher = memory._index.fulltext.searcher()
    assert searcher.num_docs == 1


@pytest.mark.spec("IDX-05")
def test_hand_edits_are_found_though_their_times_lie(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        assert uris(memory, "looms") == ["looms"]
        path = tmp_path / "store" / "note.md"
        for word in ("almond", "barley", "citrus"):
            path.write_text(f"They talked of {word}.")
            os.utime(path, (1, 1))
            assert uris(memory, word) == ["note.md"]
        path.unlink()
        assert uris(memory, "citrus") == []


@pytest.mark.spec("IDX-02")
def test_plain_notes_are_found_beside_memories_and_hidden_ones_are_not(tmp_path: Path) -> None:
    store = VaultBackend(tmp_path / "vault", lock_root=tmp_path / "locks")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        for key in ("looms.md", "projects/weaving/looms.md", ".obsidian/looms.md", "looms.txt"):
            store.write(Locator(key), "# Notes\n\nAll about looms.")
        assert set(uris(memory, "looms")) == {"looms", "looms.md"}
        found = {one.uri for one in memory.recall("looms")}
        assert found == {memory.address("events/looms"), "looms.md", "projects/weaving/looms.md"}
        assert [one.uri for one in memory.recall("looms", project="weaving")] == ["projects/weaving/looms.md"]


@pytest.mark.spec("IDX-02")
def test_notes_belong_to_the_account_of_the_machine_and_to_every_user_of_it(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    store.write(Locator("looms.md"), "All about looms.")
    with (
        opened(store, tmp_path) as alice,
        opened(store, tmp_path, user="bob") as bob,
        opened(store, tmp_path, account="other") as stranger,
    ):
        for _ in range(2):
            assert uris(alice, "looms") == uris(bob, "looms") == ["looms.md"]
            assert uris(stranger, "looms") == []
    with Memory.open(store, user="carol", index_root=tmp_path / "index", install_prefix=tmp_path / "home") as local:
        assert uris(local, "looms") == ["looms.md"]


@pytest.mark.spec("IDX-02")
def test_one_account_and_one_space_never_see_another(store: StorageBackend, tmp_path: Path) -> None:
    with (
        opened(store, tmp_path) as alice,
        opened(store, tmp_path, user="bob") as bob,
        opened(store, tmp_path, account="other") as stranger,
    ):
        alice.remember("Ada builds looms.", slug="looms")
        assert uris(alice, "looms") == ["looms"]
        assert uris(bob, "looms") == []
        assert uris(stranger, "looms") == []
        assert stranger.status()["index"]["sources"] == 0


@pytest.mark.spec("IDX-05")
def test_an_index_that_followed_every_change_equals_one_built_anew(store: StorageBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as memory:
        for n in range(12):
            memory.remember(f"Visit number {n} to the weaver. " * (1 + 40 * (n % 2)), slug=f"visit-{n}")
            if n % 3 == 0:
                memory.catch_up()
        memory.relate("events/visit-1", "events/visit-2")
        memory.remember("Changed.", slug="visit-4")
        memory.move("events/visit-5", "events/moved")
        memory.forget("events/visit-6")
        memory.catch_up()
        followed = rows(memory)
        assert memory.reindex().changed == 11
        assert rows(memory) == followed
        fulltext = memory._index.fulltext.searcher().num_docs
    with opened(store, tmp_path / "fresh") as fresh:
        fresh.catch_up()
        assert rows(fresh) == followed
        assert fresh._index.fulltext.searcher().num_docs == fulltext


@pytest.mark.spec("IDX-05")
def test_a_second_look_finds_nothing_to_do(memory: Memory) -> None:
    memory.remember("Ada builds looms.")
    assert memory.catch_up().changed == 1
    caught = memory.catch_up()
    assert (caught.changed, caught.gone, caught.complete) == (0, 0, True)


@pytest.mark.spec("IDX-01")
@pytest.mark.parametrize("harm", ["deleted", "catalogue", "future", "fulltext", "emptied"])
def test_an_index_that_is_damaged_is_built_anew(tmp_path: Path, harm: str) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        assert uris(memory, "looms") == ["looms"]
    directory = index_directory(tmp_path)
    if harm == "deleted":
        shutil.rmtree(directory)
    elif harm == "catalogue":
        (directory / "catalogue.db").write_bytes(b"not a database " * 100)
    elif harm == "future":
        with sqlite3.connect(directory / "catalogue.db") as there:
            there.execute("PRAGMA user_version=99")
        there.close()
    elif harm == "fulltext":
        (directory / "fulltext" / "meta.json").write_text("{")
    else:
        shutil.rmtree(directory / "fulltext")
    with opened(store, tmp_path) as memory:
        assert uris(memory, "looms") == ["looms"]


@pytest.mark.spec("IDX-01", "CTX-07")
def test_what_is_indexed_is_let_go_of_by_the_outbox(store: StorageBackend, tmp_path: Path) -> None:
    from agentm.context.outbox import events

    with opened(store, tmp_path) as memory:
        memory.remember("A loom.", slug="loom")
        memory.remember("Ada.", slug="ada")
        memory.relate("events/ada", "events/loom")
        memory.remember("Going.", slug="going")
        memory.forget("events/going")
        assert list(events(store))
        memory.catch_up()
        assert list(events(store)) == []


@pytest.mark.spec("IDX-01")
def test_a_broken_memory_is_not_found_and_holds_up_no_other(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="good")
        memory.remember("Bea builds looms.", slug="bad")
        place = tmp_path / "store/accounts/acme/users/alice/memories/events/bad"
        (place / ".meta.json").write_text("[]")
        assert uris(memory, "looms") == ["good"]


@pytest.mark.spec("IDX-01")
def test_whoever_cannot_write_to_the_index_still_recalls(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as rival:
        memory.remember("Ada builds looms.", slug="looms", wait=True)
        rival._index.fulltext.begin()
        memory.remember("Ada builds clocks.", slug="clocks")
        found = memory.recall("Ada builds")
        assert ([one.uri.rpartition("/")[2] for one in found], found.complete) == (["looms"], False)
        assert memory.remember("Ada sings.", slug="sings", wait=True).indexed == "pending"
        rival._index.fulltext.end()
        assert set(uris(memory, "Ada")) == {"looms", "clocks", "sings"}


def test_a_reader_goes_over_to_an_index_that_another_built(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as other:
        memory.remember("Ada builds looms.", slug="looms")
        assert uris(other, "looms") == ["looms"]
        memory.reindex()
        memory.remember("Ada builds clocks.", slug="clocks")
        assert uris(other, "clocks")[0] == "clocks"


def test_an_index_whose_exchange_was_cut_short_is_put_in_place(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms", wait=True)
        with memory._index.catalogue.change():
            memory._index.catalogue.put_fact("complete", "yes")
    directory = index_directory(tmp_path)
    os.replace(directory, f"{directory}.rebuilt")
    with opened(store, tmp_path) as memory:
        assert memory.status()["index"]["sources"] == 1


@pytest.mark.spec("IDX-02")
def test_long_texts_are_found_by_their_last_words_and_shown_there(memory: Memory) -> None:
    text = "\n\n".join(f"Paragraph {n} is about nothing in particular, and says so at some length." for n in range(200))
    memory.remember(f"{text}\n\nThe zebra finch sang at last.", slug="long")
    [found] = memory.recall("zebra finch", budget=400)
    assert "zebra finch" in found.text
    content = memory.read("events/long").content
    assert found.start > 6_000
    assert content[found.start : found.end] == found.text


@pytest.mark.spec("IDX-02")
def test_a_memory_is_found_by_an_abstract_that_says_something_else(memory: Memory) -> None:
    node = ContextNode(memory.address("events/x"), "She came late.", abstract="Ada missed the ferry to Malmö.")
    memory.fs.write_node(node, memory.ctx)
    assert uris(memory, "ferry") == ["x"]


@pytest.mark.spec("IDX-04")
def test_neighbours_of_one_thread_help_to_find_each_other(memory: Memory) -> None:
    memory.remember("Which colour would you paint the boat?", slug="a", sources=["chat-1"], when="2026-01-01")
    memory.remember("Definitely turquoise.", slug="b", sources=["chat-1"], when="2026-01-02")
    memory.remember("Definitely on Tuesday.", slug="c", sources=["chat-2"], when="2026-01-03")
    assert set(uris(memory, "colour of the boat")[:2]) == {"a", "b"}


@pytest.mark.spec("IDX-02")
def test_another_owners_words_do_not_help_to_find_ones_own(store: StorageBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as alice, opened(store, tmp_path, user="bob") as bob:
        bob.remember("Definitely turquoise.", slug="b", sources=["chat-1"], when="2026-01-02")
        alice.remember("Which colour would you paint the boat?", slug="a", sources=["chat-1"], when="2026-01-01")
        assert uris(alice, "boat") == ["a"]
        assert uris(bob, "boat") == []


def test_an_index_needs_no_store_that_can_tell_what_changed(tmp_path: Path) -> None:
    from agentm import Capabilities, ContextFS, MemoryBackend

    class Plain(MemoryBackend):
        @property
        def capabilities(self) -> Capabilities:
            from dataclasses import replace

            return replace(super().capabilities, change_feed=False)

    fs = ContextFS(Plain())
    fs.write_node(ContextNode("ctx://acme/users/alice/memories/events/x", "Ada builds looms."), ALICE)
    index = AccountIndex(str(tmp_path / "index"), fs.backend, "acme")
    assert index.catch_up().changed == 1
    fs.delete_node("ctx://acme/users/alice/memories/events/x", ALICE)
    assert index.catch_up().gone == 1
    index.close()
