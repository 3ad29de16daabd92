"""The index of an account: it follows the store, whatever happens to it, and gives the same however it came about."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    AccessError,
    ContextNode,
    DeviceLocalBackend,
    Memory,
    Note,
    RequestContext,
    StorageBackend,
    StoreError,
    VaultBackend,
)
from agentm.index import account, keeping
from agentm.index.account import AccountIndex
from agentm.seam import Locator
from tests.index.conftest import opened

ALICE = RequestContext("acme", user_id="alice")


def uris(memory: Memory, query: str, **options: object) -> list[str]:
    return [found.uri.rpartition("/")[2] for found in memory.recall(query, **{"patience": 30.0, **options})]  # type: ignore[arg-type]


def rows(memory: Memory) -> list[tuple[object, ...]]:
    return list(memory._index.catalogue.rows())


def told(memory: Memory) -> list[int]:
    """The records that can be found, as their numbers."""
    import tantivy

    searcher = memory._index.fulltext.searcher()
    found = searcher.search(tantivy.Query.all_query(), max(searcher.num_docs, 1)).hits
    return sorted(int(record or 0) for record in searcher.fast_field_values("record", [at for _, at in found]))


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


class SlowToList(DeviceLocalBackend):
    """Finds one changed file in every second of a clock that only it moves."""

    clock = 0.0

    def changes(self, *args: Any, **options: Any) -> Iterator[Any]:
        for change in super().changes(*args, **options):
            self.clock += 1.0
            yield change

    def monotonic(self) -> float:
        return self.clock


@pytest.mark.spec("IDX-04")
def test_a_look_at_the_store_ends_when_time_is_up_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowToList(tmp_path / "store")
    for n in range(20):
        store.write(Locator(f"note-{n}.md"), f"Number {n} of the looms.")
    with opened(store, tmp_path) as memory:
        monkeypatch.setattr(keeping, "time", store)
        caught = memory._index.catch_up(deadline=8.0)
        assert (caught.complete, 0 < caught.changed < 12) == (False, True)
        assert memory.catch_up().complete
        assert memory.status()["index"]["sources"] == 20


@pytest.mark.spec("IDX-02")
def test_a_note_whose_name_has_several_lines_is_found(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    store.write(Locator("two\nlines.md"), "Ada builds looms.")
    with opened(store, tmp_path) as memory:
        assert uris(memory, "looms") == ["two\nlines.md"]
        store.write(Locator("two\nlines.md"), "Ada builds clocks.")
        assert memory._index.update(["two\nlines.md"])
        assert uris(memory, "clocks") == ["two\nlines.md"]


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
        (directory / "current" / "catalogue.db").write_bytes(b"not a database " * 100)
    elif harm == "future":
        with sqlite3.connect(directory / "current" / "catalogue.db") as there:
            there.execute("PRAGMA user_version=99")
        there.close()
    elif harm == "fulltext":
        (directory / "current" / "fulltext" / "meta.json").write_text("{")
    else:
        shutil.rmtree(directory / "current" / "fulltext")
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
        turn = rival._index._writing()
        turn.__enter__()
        memory.remember("Ada builds clocks.", slug="clocks")
        found = memory.recall("Ada builds")
        assert ([one.uri.rpartition("/")[2] for one in found], found.complete) == (["looms"], False)
        assert memory.remember("Ada sings.", slug="sings", wait=True).indexed == "pending"
        turn.__exit__(None, None, None)
        assert set(uris(memory, "Ada")) == {"looms", "clocks", "sings"}


def test_a_reader_goes_over_to_an_index_that_another_built(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as other:
        memory.remember("Ada builds looms.", slug="looms")
        assert uris(other, "looms") == ["looms"]
        memory.reindex()
        memory.remember("Ada builds clocks.", slug="clocks")
        assert uris(other, "clocks")[0] == "clocks"


def test_a_rebuild_that_was_cut_short_goes_on_and_hinders_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "BATCH", 2)

    def stop(done: int, total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as memory:
        memory.remember_many([Note(f"Loom number {n}.", slug=f"loom-{n}") for n in range(7)])
        assert len(uris(memory, "loom")) == 7
        with pytest.raises(KeyboardInterrupt):
            memory.reindex(progress=stop)
        assert len(uris(memory, "loom")) == 7
        assert memory.reindex().changed == 3
        assert len(uris(memory, "loom")) == 7


def test_what_is_written_while_another_index_is_built_is_found_afterwards(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as other:
        memory.remember("Ada builds looms.", slug="looms", wait=True)
        other.recall("looms")

        def write(done: int, total: int) -> None:
            other.remember("Ada builds clocks.", slug="clocks")

        memory.reindex(progress=write)
        other._index.is_cheap = lambda patience: False  # type: ignore[method-assign]
        assert uris(other, "clocks")[0] == "clocks"


def test_who_has_an_old_index_open_writes_to_the_new_one(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as other:
        memory.remember_many([Note(f"Loom number {n}.", slug=f"loom-{n}") for n in range(9)])
        other.catch_up()
        memory.reindex()
        assert other.remember("A walrus.", slug="walrus", wait=True).indexed == "yes"
        assert sorted(memory._index.catalogue.record_ids()) == told(memory)
        assert memory._index.catalogue.known(memory.address("events/walrus")) is not None
    with opened(store, tmp_path) as fresh:
        assert uris(fresh, "walrus")[0] == "walrus"
        assert sorted(fresh._index.catalogue.record_ids()) == told(fresh)


def test_who_asks_again_and_again_does_not_look_at_the_whole_store_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "_RECENT", 3_600.0)
    looks: list[int] = []
    real = DeviceLocalBackend.changes

    def changes(*args: Any, **options: Any) -> Any:
        looks.append(1)
        return real(*args, **options)

    monkeypatch.setattr(DeviceLocalBackend, "changes", changes)
    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as memory:
        for n in range(5):
            memory.remember(f"Loom number {n}.", slug=f"loom-{n}")
            found = memory.recall("loom", patience=30.0)
            assert (len(found), found.complete) == (n + 1, True)
    assert len(looks) == 1


def test_a_large_store_is_not_looked_at_whole_for_every_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "_CHEAP_SCAN", -1.0)
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        assert uris(memory, "looms", patience=0.0) == ["looms"]
        memory.remember("Ada builds clocks.", slug="clocks")
        assert uris(memory, "clocks", patience=0.0)[0] == "clocks"
        (tmp_path / "store" / "note.md").write_text("They talked of almonds.")
        found = memory.recall("almonds", patience=0.0)
        assert (len(found), found.complete) == (0, False)
        memory.catch_up()
        assert uris(memory, "almonds") == ["note.md"]


@pytest.mark.spec("IDX-01")
@pytest.mark.parametrize("part", ["catalogue.db", "fulltext"])
def test_damage_that_is_only_found_when_it_is_read_is_mended(tmp_path: Path, part: str) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember_many([Note(f"Loom number {n}. " * 50, slug=f"loom-{n}") for n in range(40)])
        assert len(uris(memory, "loom", limit=50, budget=100_000)) == 40
    place = index_directory(tmp_path) / "current" / part
    for path in [place] if place.is_file() else [one for one in place.iterdir() if one.suffix in (".idx", ".store")]:
        data = bytearray(path.read_bytes())
        middle = slice(len(data) // 4, len(data) * 3 // 4)
        data[middle] = b"\xff" * len(data[middle])
        path.write_bytes(data)
    with opened(store, tmp_path) as memory:
        assert len(uris(memory, "loom", limit=50, budget=100_000)) == 40


@pytest.mark.spec("IDX-01")
@pytest.mark.parametrize("part", ["", "current", "current/fulltext", "current/catalogue.db"])
def test_an_index_that_is_deleted_while_it_is_open_costs_no_answer(tmp_path: Path, part: str) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    with opened(store, tmp_path) as memory, opened(store, tmp_path) as other:
        memory.remember("Ada builds looms.", slug="looms")
        assert uris(memory, "looms") == uris(other, "looms") == ["looms"]
        place = index_directory(tmp_path) / part
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        memory.remember("Ada mends looms.", slug="mends")
        other.remember("Ada sells looms.", slug="sells")
        for one in (other, memory):
            assert set(uris(one, "looms")) == {"looms", "mends", "sells"}
    with opened(store, tmp_path) as fresh:
        assert set(uris(fresh, "looms")) == {"looms", "mends", "sells"}


class Refusing(DeviceLocalBackend):
    """A store that cannot say what one of its notes holds, or takes nothing."""

    silent = ""
    full = False

    def read(self, locator: Locator) -> str:
        if self.silent and locator.key.endswith(self.silent):
            raise AccessError("it may not be read.", code="permission_denied")
        return super().read(locator)

    def write_many(self, *steps: Any, **options: Any) -> None:
        if self.full:
            raise StoreError("no space is left.", code="no_space")
        super().write_many(*steps, **options)


def test_what_cannot_be_read_now_stays_as_it_is_known_and_holds_up_no_other(tmp_path: Path) -> None:
    store = Refusing(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        store.write(Locator("secret.md"), "All about looms.")
        assert uris(memory, "looms") == ["secret.md"]
        store.silent = "secret.md"
        store.write(Locator("secret.md"), "All about clocks.")
        memory.remember("Ada builds looms.", slug="looms")
        found = memory.recall("looms", patience=30.0)
        assert ([one.uri.rpartition("/")[2] for one in found], found.complete) == (["looms"], False)
        store.silent = ""
        assert uris(memory, "clocks") == ["secret.md"]


def test_a_store_that_takes_nothing_can_be_recalled_from(tmp_path: Path) -> None:
    store = Refusing(tmp_path / "store")
    with opened(store, tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        store.full = True
        assert uris(memory, "looms") == ["looms"]
        assert uris(memory, "looms") == ["looms"]


def test_an_index_that_cannot_be_written_makes_no_write_fail(tmp_path: Path) -> None:
    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as memory:
        memory.catch_up()
        memory._index.catalogue._db.execute("PRAGMA max_page_count=1")
        assert memory.remember("Ada builds looms. " * 5_000, slug="looms", wait=True).indexed == "pending"
        assert memory.list("events") == [memory.address("events/looms")]


@pytest.mark.spec("IDX-01")
@pytest.mark.parametrize("name", ["acme.rebuilt", "acme.set-aside", "acme.old"])
def test_no_account_has_the_name_of_a_part_of_another(store: StorageBackend, tmp_path: Path, name: str) -> None:
    with opened(store, tmp_path) as acme, opened(store, tmp_path, account=name) as other:
        other.remember("A secret about looms.", slug="secret", wait=True)
        acme.remember("Ada builds looms.", slug="looms", wait=True)
        acme.reindex()
        assert (uris(acme, "looms"), uris(other, "looms")) == (["looms"], ["secret"])
        assert acme.status()["index"]["sources"] == other.status()["index"]["sources"] == 1


@pytest.mark.spec("IDX-04")
def test_a_long_source_does_not_crowd_out_the_others(memory: Memory) -> None:
    memory.remember("\n\n".join(f"# Part {n}\n\n" + "Looms and looms. " * 20 for n in range(120)), slug="long")
    memory.remember_many([Note(f"Loom number {n}.", slug=f"loom-{n}") for n in range(8)])
    assert len(uris(memory, "looms", budget=100_000)) == 9


@pytest.mark.spec("IDX-04")
def test_a_long_source_that_fits_far_better_does_not_crowd_them_out_either(memory: Memory) -> None:
    parts = (f"## Part {n}\n\nLooms of oak, oak for looms. {'Oak looms, with shuttles. ' * 10}" for n in range(25))
    memory.remember("\n\n".join(parts), slug="long")
    story = "In the long winter of that year she sat by the window with her cat, and there was one loom in the house."
    memory.remember_many([Note(f"{story} {n}", slug=f"short-{n}") for n in range(12)])
    assert len(uris(memory, "oak looms and shuttles", budget=100_000)) == 10


def test_copies_that_a_sync_client_left_are_no_notes(tmp_path: Path) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    for key in ("looms.md", "looms (conflicted copy 2026-01-01).md", "looms.sync-conflict-20260101-120000-ABCDEFG.md"):
        store.write(Locator(key), "All about looms.")
    with opened(store, tmp_path) as memory:
        assert uris(memory, "looms") == ["looms.md"]


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


@pytest.mark.spec("IDX-05")
def test_neighbours_that_part_no_longer_help_to_find_each_other(memory: Memory) -> None:
    memory.remember("Which colour would you paint the boat?", slug="a", sources=["chat-1"], when="2026-01-01")
    memory.remember("Definitely turquoise.", slug="b", sources=["chat-1"], when="2026-01-02")
    assert set(uris(memory, "boat")) == {"a", "b"}
    memory.remember("Which colour would you paint the boat?", slug="a", sources=["chat-2"], when="2026-01-01")
    assert uris(memory, "boat") == ["a"]


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


@pytest.mark.spec("IDX-02")
def test_what_others_wrote_neither_shows_nor_takes_room(store: StorageBackend, tmp_path: Path) -> None:
    with opened(store, tmp_path) as alice, opened(store, tmp_path, user="bob") as bob:
        for part in range(3):  # each a commit of its own
            alice.remember_many([Note("Oat milk.", slug=f"milk-{part}-{n}") for n in range(60)])
            alice.catch_up()
        bob.remember("Some weeks ago there was oat milk, and not much of it.", slug="bobs")
        bob.catch_up()
        assert uris(bob, "oat milk") == ["bobs"]
        of_alice = uris(alice, "oat milk", limit=200, budget=100_000)
        assert len(of_alice) == 180
        assert "bobs" not in of_alice
