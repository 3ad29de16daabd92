"""Folders of markdown: what a note says, and what it points at."""

from __future__ import annotations

import os

import pytest

from agentm import InvalidUriError, RelationEdge
from agentm.context.node import LARGEST_CONTENT
from tests.importing.sources import MINE, counts, lay, left_out

ADA = """\
---
tags: [people, Maths]
aliases:
  - Countess
created: 2024-05-01
---
# Ada

Builds #looms/big with [[Bob]].
"""


def test_a_note_becomes_one_memory_word_for_word(into):
    report = into.notes({"People/Ada.md": ADA, "Bob.md": "\ufeffOf the looms.\r\n"})
    assert counts(report) == {"new": 2}
    ada = into.read("entities/ada")
    assert ada.content == ADA
    assert ada.tags == ("people", "Maths", "looms/big")
    assert ada.created_at == "2024-05-01T00:00:00.000000Z"
    assert ada.updated_at > "2026"
    assert (ada.actor, ada.sources) == ("process:import", (f"file:{into.source}/People/Ada.md",))
    assert into.read("entities/bob").content == "\ufeffOf the looms.\r\n"


def test_links_between_notes_become_relations(into):
    into.notes(
        {
            "Ada.md": '---\nup: "[[Index]]"\n---\n[[Bob#Youth|him]], ![[looms/Big Loom]], [[Nobody]], [[Ada]], [[bob]]',
            "people/Bob.md": "---\naliases: [Robert]\n---\n[plan](../Plan%20A.md#next) [web](https://x.org/Ada.md)",
            "looms/Big Loom.md": "[[robert]] [[Robert^x]] | [[Plan A\\|p]]",
            "Plan A.md": "```\n[[Ada]]\n```\nand `[[Bob]]`",
            "Index.md": "[[people/Bob]] and [[./Ada.md]]",
        }
    )
    assert into.edges("entities/ada") == [
        ("up", "entities/index"),
        ("links_to", "entities/bob"),
        ("embeds", "entities/big-loom"),
    ]
    assert into.edges("entities/bob") == [("links_to", "entities/plan-a")]
    assert into.edges("entities/big-loom") == [("links_to", "entities/bob"), ("links_to", "entities/plan-a")]
    assert into.edges("entities/plan-a") == []
    assert into.edges("entities/index") == [("links_to", "entities/bob"), ("links_to", "entities/ada")]


def test_of_notes_with_one_name_a_link_means_the_nearest_to_the_root_unless_it_says_which(into):
    into.notes({"b/Loom.md": "deep", "Loom.md": "top", "x.md": "[[Loom]]", "y.md": "[[b/Loom]]"})
    into.notes({"b/z.md": "[[Loom]]", "b/zz.md": "[it](Loom.md)"})
    top = next(name for name in ("loom", "loom-2") if into.read(f"entities/{name}").content == "top")
    deep = ({"loom", "loom-2"} - {top}).pop()
    assert into.edges("entities/x") == [("links_to", f"entities/{top}")]
    assert into.edges("entities/y") == [("links_to", f"entities/{deep}")]
    assert into.edges("entities/z") == [("links_to", f"entities/{top}")]
    assert into.edges("entities/zz") == [("links_to", f"entities/{deep}")]


def test_what_is_no_tag_is_none(into):
    into.notes(
        {"a.md": "# Title\n\n#1 x#y https://x.org/#top (#in-brackets) #über #a/ `#code` ##no\n\n```\n#code\n```"}
    )
    assert into.read("entities/a").tags == ("in-brackets", "über", "a")


def test_a_note_says_its_category_and_a_day_is_an_event(into):
    into.notes({"2024-05-01.md": "Rain.", "tea.md": "---\ncategory: preferences\n---\nGreen.", "x.md": "profile"})
    assert into.names() == ["entities/x", "events/2024-05-01", "preferences/tea"]


def test_everything_goes_where_it_is_told_to(into):
    into.notes({"2024-05-01.md": "Rain.", "x.md": "Sun."}, to="users/alice/memories/cases")
    assert into.names() == ["cases/2024-05-01", "cases/x"]
    into.notes({"y.md": "Snow."}, to="agents/scout/skills")
    assert into.fs.list_children("ctx://acme/agents/scout/skills", into.ctx) == [
        f"ctx://acme/agents/scout/skills/{name}" for name in ("2024-05-01", "x", "y")
    ]


@pytest.mark.parametrize("to", ["users/alice/memories/profile", "users/alice/memories/cases/x", "users"])
def test_a_place_that_is_no_folder_of_memories_is_refused(into, to):
    with pytest.raises(InvalidUriError):
        into.notes({"x.md": "Sun."}, to=to)


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("to", ["users/bob", "agents/other", "users/alicex/memories/cases"])
def test_another_ones_memory_is_not_imported_into(into, to):
    with pytest.raises(PermissionError):
        into.notes({"x.md": "Sun."}, to=to)


def test_basic_memory_names_the_type_of_a_relation(into):
    note = (
        "---\ntitle: Coffee Brewing\ntype: note\npermalink: coffee-brewing\ntags: [coffee]\n---\n# Coffee Brewing\n\n"
        "- [method] Pour over is clear #brewing (tried)\n- requires [[Grinding]] (fine)\n- [[Beans]]\n"
        "- see [[Beans]] and [[grinding-well]]\n"
    )
    files = {
        "notes/coffee.md": note,
        "Beans.md": "---\npermalink: main/beans\n---\n- grown_in [[coffee-brewing]]\n",
        "g.md": "---\ntitle: Grinding\npermalink: grinding-well\n---\nFine.",
    }
    report = into.notes(files)
    assert counts(report) == {"new": 3}
    brewing = into.fs.read_node(f"{MINE}/entities/coffee-brewing", into.ctx)
    assert brewing.tags == ("coffee", "brewing")
    assert [(edge.relation_type, edge.to_uri.rpartition("/")[2], edge.reason) for edge in brewing.relations] == [
        ("requires", "grinding", "fine"),
        ("relates_to", "beans", ""),
        ("links_to", "beans", ""),
        ("links_to", "grinding", ""),
    ]
    assert into.edges("entities/beans") == [("grown_in", "entities/coffee-brewing")]


def test_agent_files_are_named_after_their_project_and_nothing_else_is_read(into):
    files = {
        "CLAUDE.md": "Use tabs.",
        "README.md": "No.",
        "web/AGENTS.md": "See [it](../CLAUDE.md).",
        ".claude/CLAUDE.local.md": "Mine.",
        "node_modules/x/CLAUDE.md": "No.",
    }
    report = into.notes(files)
    assert counts(report) == {"new": 3}
    assert into.names() == ["preferences/source-claude", "preferences/source-claude-local", "preferences/web-agents"]
    assert into.edges("preferences/web-agents") == [("links_to", "preferences/source-claude")]


def test_a_link_finds_what_was_imported_at_another_time(into):
    into.notes({"a/CLAUDE.md": "Use tabs.", "b/AGENTS.md": "See [it](../a/CLAUDE.md)."}, kind="agent-files")
    assert into.edges("preferences/b-agents") == [("links_to", "preferences/a-claude")]
    lay(into.source, {"c/MEMORY.md": "See [it](../a/CLAUDE.md)."})
    into(into.source / "c" / "MEMORY.md")
    assert into.edges("preferences/c-memory") == [("links_to", "preferences/a-claude")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes")
def test_what_cannot_be_read_is_said_and_the_rest_goes_on(into, tmp_path):
    lay_out = {
        "good.md": "Good.",
        "latin.md": "caf\xe9".encode("latin-1"),
        "huge.md": b"x" * (LARGEST_CONTENT + 1),
        "surrogate.md": b"\xed\xa0\x80",
        "empty.md": " \n",
        "note (Ann's conflicted copy 2025-03-17).md": "Other.",
        ".hidden.md": "No.",
        ".trash/gone.md": "No.",
        "picture.png": b"\x89PNG",
    }
    (tmp_path / "secret.md").write_text("secret")
    into.source.mkdir()
    (into.source / "out.md").symlink_to(tmp_path / "secret.md")
    (into.source / "folder").symlink_to(tmp_path)
    (into.source / "inside.md").symlink_to(into.source / "good.md")
    os.mkfifo(into.source / "pipe.md")
    report = into.notes(lay_out)
    assert counts(report) == {"new": 1, "empty": 1, "left_out": 7}
    assert left_out(report) == {
        "latin.md": "not_text",
        "huge.md": "content_too_big",
        "surrogate.md": "not_text",
        "note (Ann's conflicted copy 2025-03-17).md": "conflict_copy",
        "out.md": "symlink_refused",
        "folder": "symlink_refused",
        "pipe.md": "store_failed",
    }
    assert into.names() == ["entities/good"]


@pytest.mark.skipif(os.name == "nt", reason="a file name is Unicode there")
def test_a_file_name_that_is_no_text_is_left_out(into):
    into.source.mkdir()
    with open(os.fsencode(str(into.source)) + b"/caf\xe9.md", "wb") as file:
        file.write(b"Good.")
    assert list(left_out(into.notes({"x.md": "Sun."})).values()) == ["not_text"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_said(into):
    into.notes({"closed/x.md": "Sun.", "y.md": "Rain."}, dry_run=True)
    (into.source / "closed").chmod(0)
    report = into(into.source)
    (into.source / "closed").chmod(0o700)
    assert left_out(report) == {"closed": "permission_denied"}


def test_names_that_no_store_can_hold_and_names_without_letters(into):
    into.notes(
        {"con.md": "One.", "?!.md": "Two.", "日本 語.md": "Three.", f"{'x' * 200}.md": "Four.", "...md": "Five."}
    )
    assert into.names() == [f"entities/{name}" for name in ("note", "note-con", "x" * 48, "日本-語")]


def test_a_relation_that_somebody_added_survives_a_changed_source(into):
    into.notes({"a.md": "[[b]]", "b.md": "B.", "c.md": "C."})
    into.fs.relate(RelationEdge(f"{MINE}/entities/a", f"{MINE}/entities/c", "mine"), into.ctx)
    assert counts(into.notes({"a.md": "now [[c]]"})) == {"changed": 1, "same": 2}
    assert into.edges("entities/a") == [("mine", "entities/c"), ("links_to", "entities/c")]


def test_a_note_with_a_secret_is_left_out_or_comes_without_it(into):
    secret = "ghp_" + "a1B2" * 9
    report = into.notes({"a.md": f"The token is {secret}.", "b.md": "B."})
    assert left_out(report) == {"a.md": "secret_found"}
    assert into.names() == ["entities/b"]
    assert counts(into.notes({}, secrets="redact")) == {"new": 1, "same": 1}
    assert secret not in into.fs.read_node(f"{MINE}/entities/a", into.ctx).content
    assert counts(into.notes({}, secrets="redact")) == {"same": 2}
