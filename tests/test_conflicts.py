from __future__ import annotations

import socket

import pytest

import agentm
from agentm.backends.memory import MemoryBackend
from agentm.conflicts import ConflictFile, detect_conflict_files, is_conflict_name, read_conflict_name
from agentm.seam import Locator

pytestmark = pytest.mark.spec("SEAM-16")

# Spellings that say what they are: copies whether or not the original is still there.
SPELT_OUT = [
    ("note (Ann's conflicted copy 2025-03-17).md", "note.md", "dropbox"),
    ("note (Ann’s conflicted copy 2025-03-17).md", "note.md", "dropbox"),
    ("note (Ann Lee's conflicted copy 2025-03-17 (1)).md", "note.md", "dropbox"),
    ("note (DESKTOP-7's conflicted copy 2025-03-17).md", "note.md", "dropbox"),
    ("note (Jochens conflicted copy 2025-03-17).md", "note.md", "dropbox"),
    ("note (Ann's conflicted copy).md", "note.md", "dropbox"),
    ("note (conflicted copy).md", "note.md", "dropbox"),
    ("note (conflicted copy 2).md", "note.md", "dropbox"),
    ("note (conflicted copy from MacBook).md", "note.md", "dropbox"),
    ("note (conflicted copy 2025-03-17).md", "note.md", "dropbox"),
    ("README (mbp.local's conflicted copy 2025-03-17)", "README", "dropbox"),
    ("plan (draft) (Ann's conflicted copy 2025-03-17).md", "plan (draft).md", "dropbox"),
    ("a.tar (Ann's conflicted copy 2025-03-17).gz", "a.tar.gz", "dropbox"),
    (".relations (Ann's conflicted copy 2025-03-17).json", ".relations.json", "dropbox"),
    ("note (In Konflikt stehende Kopie von Ann 2025-03-17).md", "note.md", "dropbox"),
    ("note (Anns in Konflikt stehende Kopie 2025-03-17).md", "note.md", "dropbox"),
    ("note (Copie en conflit de Ann 2025-03-17).md", "note.md", "dropbox"),
    ("note (Copia en conflicto de Ann 2025-03-17).md", "note.md", "dropbox"),
    ("note (Copia conflictiva de Ann 2025-03-17).md", "note.md", "dropbox"),
    ("note (Copia in conflitto di MBP-di-Ann.fritz.box 2025-03-17).md", "note.md", "dropbox"),
    ("note (Cópia em conflito de Ann 2025-03-17).md", "note.md", "dropbox"),
    ("note (конфликтующая копия Ann 2025-03-17).md", "note.md", "dropbox"),
    ("note (Ann 的冲突副本 2025-03-17).md", "note.md", "dropbox"),
    ("note (Ann の競合コピー 2025-03-17).md", "note.md", "dropbox"),
    ("note (Case Conflict).md", "note.md", "dropbox"),
    ("note (case conflict 2).md", "note.md", "dropbox"),
    ("note (Unicode Encoding Conflict).md", "note.md", "dropbox"),
    ("note (White Space Conflict).md", "note.md", "dropbox"),
    ("note (Selective Sync Conflict).md", "note.md", "dropbox"),
    ("note (conflicted copy 2025-04-10 093612).md", "note.md", "nextcloud"),
    ("note (conflicted copy ann 2025-04-10 093612).md", "note.md", "nextcloud"),
    ("note (SFConflict ann@example.org 2025-03-17-10-15-00).md", "note.md", "seafile"),
    ("note.sync-conflict-20250317-101500-ABCDEFG.md", "note.md", "syncthing"),
    ("note.sync-conflict-20250317-101500-A2B3C4D.md", "note.md", "syncthing"),
    ("note.sync-conflict-20150317-101500.md", "note.md", "syncthing"),
    ("Makefile.sync-conflict-20250317-101500-ABCDEFG", "Makefile", "syncthing"),
    ("note.v2.sync-conflict-20250317-101500-ABCDEFG.md", "note.v2.md", "syncthing"),
    (".sync-conflict-20250317-101500-ABCDEFG.gitignore", ".gitignore", "syncthing"),
    ("note (Conflicted copy Ann's phone 202503171015).md", "note.md", "obsidian-sync"),
    ("note (Conflicted copy 202503171015).md", "note.md", "obsidian-sync"),
    ("note [Conflict].md", "note.md", "google-drive"),
    ("note[Conflict].md", "note.md", "google-drive"),
    ("note [Conflict 1].md", "note.md", "google-drive"),
    ("note-workhorse-safeBackup-0001.md", "note.md", "onedrive"),
    ("note (agentm conflict 0a1b2c3d).md", "note.md", "agentm"),
    ("Makefile (agentm conflict 0a1b2c3d)", "Makefile", "agentm"),
    ("two\nlines (agentm conflict 0a1b2c3d).md", "two\nlines.md", "agentm"),
]

# Spellings that a person might choose: copies only beside their original.
BESIDE = [
    ("note (1).md", "note.md", "google-drive"),
    ("note (12).md", "note.md", "google-drive"),
    ("note_conf(1).md", "note.md", "google-drive"),
    ("Chapter 2.md", "Chapter.md", "icloud"),
    ("2025-03-17 2.md", "2025-03-17.md", "icloud"),
    ("Makefile 3", "Makefile", "icloud"),
    ("note-DESKTOP-AB12CD3.md", "note.md", "onedrive"),
    ("note-DESKTOP-AB12CD3-2.md", "note.md", "onedrive"),
    ("note-LAPTOP-AB12CD34.md", "note.md", "onedrive"),
    ("note-WIN-AB12CD34EF5.md", "note.md", "onedrive"),
    ("note-Anns-MacBook-Pro.md", "note.md", "onedrive"),
    ("note-Ann’s MacBook Air.md", "note.md", "onedrive"),
    ("a-b-DESKTOP-AB12CD3.md", "a-b.md", "onedrive"),
    ("a-b-Anns-iMac.md", "a-b.md", "onedrive"),
]

# Names of memories, whatever lies beside them.
MEMORIES = [
    ("note.md", ("note.md",)),
    ("2025-03-17.md", ("2025-03.md", "2025.md")),
    ("a-b.md", ("a.md",)),
    ("plan-2025.md", ("plan.md",)),
    ("plan-Q3.md", ("plan.md",)),
    ("plan-V2.md", ("plan.md",)),
    ("plan-FINAL.md", ("plan.md",)),
    ("setup-MacBook.md", ("setup.md",)),
    ("buy-DESKTOP-monitor.md", ("buy.md",)),
    ("note-desktop-ab12cd3.md", ("note.md",)),
    ("meeting (1).md", ()),
    ("meeting (1).md", ("meeting.txt", "Meeting.md")),
    ("Chapter 2.md", ()),
    ("Chapter 2.md", ("Chapter 1.md", "Chapter 3.md", "chapter.md")),
    ("Chapter 1.md", ("Chapter.md",)),
    ("Chapter 100.md", ("Chapter.md",)),
    ("Release 2.0.md", ("Release.md",)),
    ("Chapter2.md", ("Chapter.md",)),
    ("Chapter 02.md", ("Chapter.md",)),
    ("note (0).md", ("note.md",)),
    ("note (100).md", ("note.md",)),
    ("note(1).md", ("note.md",)),
    ("note (draft).md", ("note.md",)),
    ("note (copy).md", ("note.md",)),
    ("note (conflict).md", ("note.md",)),
    ("note (merge conflict).md", ("note.md",)),
    ("What to do (what a conflicted copy is).md", ()),
    ("On the (conflicted copy) problem.md", ()),
    ("conflicted copy.md", ()),
    ("(conflicted copy).md", ()),
    ("Ann's conflicted copy 2025-03-17.md", ()),
    ("note [conflict].md", ("note.md",)),
    ("[Conflict].md", ()),
    ("conflict.md", ()),
    ("sync-conflict-notes.md", ()),
    ("note.sync-conflict-soon.md", ("note.md",)),
    ("note.sync-conflict-20250317.md", ("note.md",)),
    (".sync-conflict-20250317-101500-ABCDEFG", ()),
    ("note (agentm conflict).md", ("note.md",)),
    ("note (agentm conflict 0a1b2c3).md", ("note.md",)),
    ("note (agentm conflict 0A1B2C3D).md", ("note.md",)),
    ("how safeBackup-0001 works.md", ()),
    (".md", ("",)),
    ("", ()),
]


@pytest.mark.parametrize(("name", "base", "client"), SPELT_OUT)
def test_what_says_it_is_a_copy_is_one_with_or_without_its_original(name, base, client):
    assert read_conflict_name(name, {name}) == (base, client)
    assert read_conflict_name(name, {name, base}) == (base, client)
    assert is_conflict_name(name, set())


@pytest.mark.parametrize(("name", "base", "client"), BESIDE)
def test_what_a_person_might_have_named_so_is_a_copy_only_beside_its_original(name, base, client):
    assert read_conflict_name(name, {name, base}) == (base, client)
    assert read_conflict_name(name, {name}) is None


@pytest.mark.parametrize(("name", "siblings"), MEMORIES)
def test_a_memory_is_not_taken_for_a_copy(name, siblings):
    assert not is_conflict_name(name, {name, *siblings})


@pytest.mark.parametrize(
    ("host", "is_copy"), [("AnnPC", True), ("annpc", False), ("PC", False), ("", False), ("Ann", False)]
)
def test_onedrive_names_this_computer_exactly_unless_it_might_be_any_word(host, is_copy):
    for name in ("note-AnnPC.md", "note-annpc.md"):
        expected = ("note.md", "onedrive") if is_copy and name == f"note-{host}.md" else None
        assert read_conflict_name(name, {name, "note.md"}, host=host) == expected
    assert read_conflict_name("note-AnnPC.md", {"note-AnnPC.md"}, host=host) is None


def test_a_copy_of_a_copy_leads_to_the_first_original():
    twice = "note (Ann's conflicted copy 2025-03-17).sync-conflict-20250317-101500-ABCDEFG.md"
    assert read_conflict_name(twice, {"note.md"}) == ("note.md", "syncthing")
    again = "note (Ann's conflicted copy 2025-03-17) (1).md"
    assert read_conflict_name(again, {"note (Ann's conflicted copy 2025-03-17).md"}) == ("note.md", "google-drive")


def test_a_conflict_of_case_or_of_unicode_leads_to_the_name_that_stands_there():
    assert read_conflict_name("Records (Case Conflict).md", {"records.md"}) == ("records.md", "dropbox")
    decomposed, composed = "cafe\u0301", "caf\u00e9"
    found = read_conflict_name(f"{composed} (Unicode Encoding Conflict).md", {f"{decomposed}.md"})
    assert found == (f"{decomposed}.md", "dropbox")


def test_a_computer_with_hyphens_leads_to_the_longest_note_that_is_there():
    name = "plan-b-my-old-host-safeBackup-0002.md"
    assert read_conflict_name(name, {"plan-b.md", "plan.md"}) == ("plan-b.md", "onedrive")
    assert read_conflict_name(name, {"plan.md"}) == ("plan.md", "onedrive")


def store(*keys: str) -> MemoryBackend:
    backend = MemoryBackend()
    for key in keys:
        backend.write(Locator(key), key)
    return backend


def test_copies_are_found_everywhere_in_a_store_with_their_base():
    backend = store(
        "note.md",
        "note (Ann's conflicted copy 2025-03-17).md",
        "deep/er/gone.sync-conflict-20250317-101500-ABCDEFG.md",
        "deep/er/Chapter 2.md",
        "deep/note (1).md",
    )
    assert detect_conflict_files(backend) == [
        ConflictFile(
            Locator("deep/er/gone.sync-conflict-20250317-101500-ABCDEFG.md"),
            Locator("deep/er/gone.md"),
            "syncthing",
            False,
        ),
        ConflictFile(Locator("note (Ann's conflicted copy 2025-03-17).md"), Locator("note.md"), "dropbox", True),
    ]


def test_no_copies_in_an_empty_store():
    assert detect_conflict_files(MemoryBackend()) == []


def test_a_directory_is_no_copy_but_is_searched():
    backend = store("note (1)/inside (conflicted copy).md", "note/x.md")
    assert [each.locator.key for each in detect_conflict_files(backend)] == ["note (1)/inside (conflicted copy).md"]


def test_what_was_thrown_away_is_not_searched():
    backend = store(*(f"{folder}/note (conflicted copy).md" for folder in (".trash", ".git", ".stversions", "kept")))
    assert [each.locator.key for each in detect_conflict_files(backend)] == ["kept/note (conflicted copy).md"]


def test_the_name_of_this_computer_counts(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "AnnPC.fritz.box")
    found = detect_conflict_files(store("note.md", "note-AnnPC.md", "note-annpc.md"))
    assert [(each.locator.key, each.client) for each in found] == [("note-AnnPC.md", "onedrive")]


def test_a_file_that_vanishes_while_looking_is_no_error():
    class Vanishing(MemoryBackend):
        def info(self, locator):
            raise FileNotFoundError(locator.key)

    backend = Vanishing()
    backend.write(Locator("note (conflicted copy).md"), "x")
    assert [each.base.key for each in detect_conflict_files(backend)] == ["note.md"]


def test_a_very_long_name_is_judged_at_once():
    for name in ("note (" * 40 + ")" * 40 + ".md", "-" * 250 + ".md", " 2" * 120, "(a" * 120 + ") (b)" * 2):
        assert not is_conflict_name(name, {"note.md"})


def test_it_is_importable_from_the_front_door():
    assert agentm.detect_conflict_files is detect_conflict_files
    assert agentm.ConflictFile is ConflictFile
