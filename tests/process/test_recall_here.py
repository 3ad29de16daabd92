"""`recall_here`: text or nothing, never an error."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

import agentm
from agentm import offer_save_here, recall_here, state_path
from agentm.backends.memory import MemoryBackend
from agentm.process.reading import Database
from agentm.recall.budget import tokens
from agentm.seam import Locator
from tests.process.places import NOTES, build, configure, put
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("PROC-01")


def test_every_store_gives_the_notes_of_the_phase(place):
    text = recall_here({**place.context, "phase": "plan"})
    for key in ("personal/_always-load/style.md", "projects/loom/_index.md", "projects/loom/decisions/dobby.md"):
        assert f"## {key}\n\n{NOTES[key]}" in text
    assert "CRLF" not in text


def test_a_folder_below_the_project_is_in_the_project(place):
    deep = os.path.join(place.project, "src", "deep")
    os.makedirs(deep)
    assert recall_here({"cwd": deep}) == recall_here(place.context) != ""


def test_without_a_context_it_is_the_directory_of_the_process(place, monkeypatch):
    monkeypatch.chdir(place.project)
    assert recall_here(None) == recall_here({}) == recall_here(place.context) != ""


def test_an_unknown_phase_is_work(place):
    work = recall_here({**place.context, "phase": "work"})
    assert recall_here({**place.context, "phase": "deploy"}) == recall_here(place.context) == work
    assert "CRLF" in work


def test_outside_of_a_project_only_the_standing_notes(place):
    text = recall_here({"cwd": place.home})
    assert NOTES["personal/_always-load/style.md"] in text
    assert "dobby" not in text


def test_the_older_layout_is_read_too(home):
    place = build(home, "vault", {"personal-projects/loom/decisions/old.md": "An old decision."})
    assert "An old decision." in recall_here(place.context)


@pytest.mark.parametrize("limit", [0, -1, 5, 29, 40, 60])
def test_a_limit_is_kept(place, limit):
    assert tokens(recall_here(place.context, limit=limit)) <= max(0, limit)


def test_a_limit_with_room_for_a_note_gives_one(place):
    assert "Tests first." in recall_here(place.context, limit=40)


@pytest.mark.spec("PROC-04")
def test_the_environment_limits_a_phase(place, monkeypatch):
    monkeypatch.setenv("HARNESS_RECALL_BUDGET_WORK", "40")
    assert 0 < tokens(recall_here(place.context)) <= 40
    assert "dobby" in recall_here({**place.context, "phase": "release"})
    monkeypatch.setenv("HARNESS_RECALL_BUDGET_WORK", "0")
    assert recall_here(place.context) == ""
    assert "dobby" in recall_here(place.context, limit=500)


@pytest.mark.parametrize("query", ["looms?", "", 'a "quoted" OR (broken', "x" * 100_000, None, 7])
def test_without_an_index_a_query_changes_nothing(place, query):
    assert recall_here(place.context, query=query) == recall_here(place.context)


@pytest.fixture
def indexed(place):
    """Memories of the project, and of another one, that an index knows."""
    with agentm.Memory.open() as memory:
        memory.remember("Warping the loom takes two hours.", slug="warping", tags=["project:loom"], when="2026-01-01")
        memory.remember("The shuttle is made of plum wood.", slug="shuttle", tags=["project:loom"], when="2026-02-01")
        memory.remember("Warping a boat hull is bad.", slug="boat", tags=["project:boats"])
        memory.catch_up()
        yield memory


def test_with_an_index_a_query_ranks(place, indexed):
    text = recall_here(place.context, query="how long does warping take")
    assert text.index("Warping the loom") > text.index("dobby")
    assert "plum wood" not in text
    assert "boat hull" not in text
    assert indexed.address("events/warping") in text


def test_without_a_query_the_newest_come_first(place, indexed):
    text = recall_here(place.context)
    assert text.index("dobby") < text.index("plum wood") < text.index("Warping the loom")
    assert tokens(recall_here(place.context, limit=120)) <= 120


def test_what_was_remembered_a_moment_ago_is_shown_before_anything_indexed_it(place, indexed):
    indexed.remember("The loom gets wool yarn.", slug="yarn", tags=["project:loom"])
    indexed.remember("The boat gets wool sails.", slug="sails", tags=["project:boats"])
    indexed.remember("The shuttle is lost.", slug="shuttle", tags=["project:loom"])
    assert "wool yarn" in recall_here(place.context)
    text = recall_here(place.context, query="wool shuttle")
    assert "wool yarn" in text
    assert "wool sails" not in text
    assert "shuttle is lost" in text
    assert "plum wood" not in text


def test_it_is_shown_also_where_there_is_no_index_yet(place):
    with agentm.Memory.open() as memory:
        memory.remember("The loom gets wool yarn.", slug="yarn", tags=["project:loom"])
        assert "wool yarn" in recall_here(place.context)


def test_what_was_forgotten_or_changed_since_is_not_shown_as_it_was(place, indexed):
    indexed.forget("events/warping")
    indexed.remember("The shuttle is lost.", slug="shuttle")
    text = recall_here(place.context, query="warping shuttle wood")
    assert "Warping the loom" not in text
    assert "plum wood" not in text


@pytest.mark.parametrize("harm", [b"", b"not a database", None])
def test_a_broken_index_changes_nothing(place, indexed, harm):
    without = recall_here(place.context, query="dobby")
    path = Path(indexed.status()["index"]["directory"], "catalogue.db")
    indexed.close()
    if harm is None:
        path.unlink()
    else:
        path.write_bytes(harm)
    before = snapshot(place.home)
    text = recall_here(place.context, query="warping")
    assert "dobby" in text
    assert "Warping" not in text
    assert snapshot(place.home) == before
    assert without


def test_an_empty_home_gives_nothing_and_stays_empty(home):
    assert recall_here(None) == recall_here({"cwd": home, "phase": "plan"}, query="x", limit=10) == ""
    assert snapshot(home) == {}


@pytest.mark.parametrize(
    "config",
    [
        {"storage.backend": "vault", "plugins.obsidian-vault.vault_path": "/nowhere/at/all"},
        {"storage.backend": "vault"},
        {"storage.backend": "sqlite"},
        {"storage.backend": "memory"},
        {"storage.backend": "never-registered"},
        {"storage.backend": 7},
        "{ not json",
        "[]",
    ],
)
def test_a_store_that_cannot_be_had_gives_nothing(home, config):
    configure(home, config)
    before = snapshot(home)
    assert recall_here({"cwd": home}) == ""
    assert snapshot(home) == before


def test_a_vault_that_was_there_and_is_not_mounted_gives_nothing(vault):
    os.rename(vault.store, f"{vault.store}.gone")
    assert recall_here(vault.context) == ""
    assert not os.path.exists(vault.store)


@pytest.mark.parametrize(
    "context",
    [
        [],
        "text",
        7,
        {"cwd": 7},
        {"cwd": "\0"},
        {"cwd": "/nowhere/at/all"},
        {"cwd": b"/tmp"},
        {"phase": ["plan"], "plan": object()},
        {"install_prefix": 7},
    ],
)
def test_a_context_that_makes_no_sense_is_no_error(place, context):
    assert isinstance(recall_here(context), str)


def test_a_directory_that_was_removed_is_no_error(place, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "Tests first." in recall_here(None)


@pytest.mark.parametrize("content", ["{ not json", "[]", '{"vault_project": "../up"}', b"\xff\xfe"])
def test_a_broken_project_file_leaves_the_standing_notes(place, content):
    put(os.path.join(place.project, ".harness", "project.json"), content)
    text = recall_here(place.context)
    assert "Tests first." in text
    assert "dobby" not in text


def test_what_is_no_text_is_left_out(vault):
    put(os.path.join(vault.store, "personal", "_always-load", "a.md"), b"\xff\xfe not text")
    os.mkfifo(os.path.join(vault.store, "personal", "_always-load", "b.md"))
    os.symlink("nowhere", os.path.join(vault.store, "personal", "_always-load", "c.md"))
    os.mkdir(os.path.join(vault.store, "personal", "_always-load", "d.md"))
    put(os.path.join(vault.store, "personal", "_always-load", "e.md"), "x " * 600_000)
    text = recall_here(vault.context)
    assert text.count("## personal/") == 1
    assert "Tests first." in text


def test_notes_in_a_database_that_is_damaged_give_nothing(home):
    place = build(home, "sqlite")
    with open(place.store, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4_000)
    assert recall_here(place.context) == ""


def test_a_database_of_another_program_is_not_read(home):
    place = build(home, "sqlite")
    os.unlink(place.store)
    connection = sqlite3.connect(place.store)
    connection.execute("CREATE TABLE entries (key, parent, is_dir, version, mtime, content)")
    connection.close()
    assert recall_here(place.context) == ""


def test_a_database_in_the_middle_of_a_write_is_waited_for_not_read(home, monkeypatch):
    """What lies beside it means that its pages may be half written."""
    monkeypatch.setattr(Database, "patience", 0.1)
    place = build(home, "sqlite")
    put(f"{place.store}-journal", "a journal that nobody has rolled back")
    before = snapshot(home)
    assert recall_here(place.context) == ""
    assert snapshot(home) == before


def test_a_database_is_read_as_it_is_now(home):
    place = build(home, "sqlite")
    with agentm.SqliteBackend(place.store) as backend:
        for number in range(5):
            backend.write(Locator("personal/_always-load/style.md"), f"version {number}")
            assert f"version {number}" in recall_here(place.context)


def test_a_database_that_was_written_just_now_is_left_to_settle(home):
    """Two writes within a tick of the clock would leave the same time on the file."""
    place = build(home, "sqlite")
    os.utime(place.store)
    written = os.stat(place.store).st_mtime_ns
    assert recall_here(place.context) != ""
    assert time.time_ns() - written >= 20_000_000


def test_a_database_with_a_write_ahead_log_gets_no_files_beside_it(home):
    place = build(home, "sqlite")
    connection = sqlite3.connect(place.store)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    os.utime(place.store, (1, 1))
    before = snapshot(home)
    assert "dobby" in recall_here(place.context)
    assert snapshot(home) == before


class Theirs(MemoryBackend):
    """A third party's store."""

    broken = False

    def __init__(self) -> None:
        super().__init__()
        if Theirs.broken:
            raise SystemExit("no licence")
        self.write(Locator("personal/_always-load/t.md"), "From a plugin.")


@pytest.fixture
def plugin(home, monkeypatch):
    monkeypatch.setattr(agentm.registry, "_classes", {**agentm.registry._classes, "theirs": Theirs})
    configure(home, {"storage.backend": "theirs"})
    return Theirs


def test_a_third_partys_store_is_asked_too(home, plugin):
    assert "From a plugin." in recall_here({"cwd": home})


def test_and_may_fail(home, plugin, monkeypatch):
    monkeypatch.setattr(plugin, "broken", True)
    assert recall_here({"cwd": home}) == ""


def test_a_store_that_fails_later_leaves_what_the_project_itself_says(home, plugin, monkeypatch):
    def fail(*_: object) -> bool:
        raise ConnectionError("the server is gone")

    project = os.path.join(home, "code")
    put(os.path.join(project, ".git", "config"), '[remote "origin"]\n\turl = https://example.org/ann/loom.git\n')
    os.makedirs(os.path.join(project, "src"))
    monkeypatch.setattr(plugin, "exists", fail)
    context = {"cwd": os.path.join(project, "src")}
    assert recall_here(context) == ""
    assert offer_save_here(context, "text") == [{"body": "text", "project": "loom", "target": None}]
    assert state_path(context, "plan") == Path(project, ".harness", "PLAN.md")


def test_another_prefix_means_another_memory(vault, tmp_path):
    assert recall_here({**vault.context, "install_prefix": str(tmp_path)}) == ""
    assert recall_here({**vault.context, "install_prefix": os.path.join(vault.home, ".agentm")}) != ""
