"""Importing again: nothing is written twice, nothing of the owner's is written over, what was cut short is ended."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from agentm import ContextFS, ContextNode, DeviceLocalBackend, NodeConflictError
from agentm.context.decision import Action as Mended
from agentm.context.repair import repair
from agentm.importing.report import Action
from tests.backends.stores import tree
from tests.importing.sources import MINE, Importer, counts, lay

NOTES: dict[str, str | bytes] = {"a.md": "A and [[b]].", "b.md": "B and [[a]]. #tag", "sub/c.md": "C."}


def test_a_second_run_writes_nothing(everywhere):
    assert counts(everywhere.notes(NOTES)) == {"new": 3}
    before = tree(everywhere.fs.backend)
    assert counts(everywhere.notes({})) == {"same": 3}
    assert tree(everywhere.fs.backend) == before


def test_a_dry_run_writes_nothing_and_says_what_a_run_then_does(everywhere):
    foreseen = everywhere.notes(NOTES, dry_run=True)
    assert tree(everywhere.fs.backend) == {}
    done = everywhere.notes({})
    assert [(one.source, one.action, one.uri) for one in foreseen.outcomes] == [
        (one.source, one.action, one.uri) for one in done.outcomes
    ]


@pytest.mark.spec("CTX-09")
def test_a_changed_source_makes_a_new_version(into):
    into.notes(NOTES)
    assert counts(into.notes({"b.md": "B alone."})) == {"changed": 1, "same": 2}
    versions = into.fs.history(f"{MINE}/entities/b", into.ctx)
    assert [(one.content, one.actor, one.sources) for one in versions] == [
        ("B and [[a]]. #tag", "process:import", (f"file:{into.source}/b.md",)),
        ("B alone.", "process:import", (f"file:{into.source}/b.md",)),
    ]
    assert versions[-1].tags == ()
    assert into.edges("entities/b") == []


def test_what_was_edited_here_is_kept_unless_forced(into):
    into.notes(NOTES)
    mine = ContextNode(f"{MINE}/entities/b", "Mine.")
    into.fs.write_node(mine, into.ctx)
    for change in ({}, {"b.md": "B anew."}):
        report = into.notes(change)
        assert counts(report) == {"kept": 1, "same": 2}
        assert into.read("entities/b").content == "Mine."
    assert "--force" in report.of(Action.KEPT)[0].message
    assert counts(into.notes({}, force=True)) == {"changed": 1, "same": 2}
    assert into.read("entities/b").content == "B anew."
    assert counts(into.notes({})) == {"same": 3}


def test_other_tags_are_an_edit_too(into):
    into.notes(NOTES)
    into.fs.write_node(ContextNode(f"{MINE}/entities/c", "C.", tags=("mine",)), into.ctx)
    assert counts(into.notes({"sub/c.md": "C anew."})) == {"kept": 1, "same": 2}


def test_what_was_forgotten_here_stays_forgotten_unless_forced(into):
    into.notes(NOTES)
    into.fs.delete_node(f"{MINE}/entities/b", into.ctx)
    for change in ({}, {"b.md": "B anew, of [[a]]."}):
        assert counts(into.notes(change)) == {"kept": 1, "same": 2}
        assert into.names() == ["entities/a", "entities/c"]
        assert into.edges("entities/a") == []
    assert counts(into.notes({}, force=True)) == {"changed": 2, "same": 1}
    assert into.read("entities/b").content == "B anew, of [[a]]."
    assert into.edges("entities/a") == [("links_to", "entities/b")]


def test_what_was_moved_here_is_found_where_it_went(into):
    into.notes(NOTES)
    into.fs.move_node(f"{MINE}/entities/b", f"{MINE}/cases/bee", into.ctx)
    assert counts(into.notes({})) == {"same": 3}
    assert counts(into.notes({"b.md": "B anew of [[sub/c]]."})) == {"changed": 1, "same": 2}
    assert into.read("cases/bee").content == "B anew of [[sub/c]]."
    assert into.edges("entities/a") == [("links_to", "cases/bee")]
    assert into.names() == ["cases/bee", "entities/a", "entities/c"]


def test_a_relation_that_somebody_took_away_stays_away_until_the_source_says_more(into):
    into.notes(NOTES)
    into.fs.unrelate(f"{MINE}/entities/a", f"{MINE}/entities/b", into.ctx, relation_type="links_to")
    assert counts(into.notes({})) == {"same": 3}
    assert into.edges("entities/a") == []


def test_a_note_that_comes_later_is_pointed_at_by_those_that_waited_for_it(into):
    into.notes({"a.md": "A waits for [[later]]."})
    assert into.edges("entities/a") == []
    abstract = ContextNode(f"{MINE}/entities/a", "A waits for [[later]].", abstract="By hand.")
    into.fs.write_node(abstract, into.ctx)
    assert counts(into.notes({"later.md": "L."})) == {"new": 1, "changed": 1}
    assert into.edges("entities/a") == [("links_to", "entities/later")]
    assert into.read("entities/a").abstract == "By hand."


def test_a_name_that_is_taken_gets_a_number_and_keeps_it(into):
    into.fs.write_node(ContextNode(f"{MINE}/entities/a", "Mine."), into.ctx)
    into.fs.write_node(ContextNode(f"{MINE}/entities/B", "Mine too, in capitals."), into.ctx)
    into.fs.write_node(ContextNode(f"{MINE}/entities/c", "Gone."), into.ctx)
    into.fs.delete_node(f"{MINE}/entities/c", into.ctx)
    into.notes({**NOTES, "x/A.md": "Another A."})
    assert into.names() == [f"entities/{name}" for name in ("B", "a", "a-2", "a-3", "b-2", "c-2")]
    assert into.read("entities/a").content == "Mine."
    assert counts(into.notes({})) == {"same": 4}


def test_a_name_whose_memory_was_purged_is_free(into):
    into.fs.write_node(ContextNode(f"{MINE}/entities/c", "Gone."), into.ctx)
    into.fs.delete_node(f"{MINE}/entities/c", into.ctx, purge=True)
    into.notes(NOTES)
    assert into.read("entities/c").content == "C."


def test_the_same_memory_is_not_made_twice_because_obsidian_was_there_in_between(into):
    into.notes(NOTES)
    assert counts(into.notes({".obsidian/app.json": "{}"})) == {"same": 3}


def test_a_store_inside_the_folder_is_not_imported_into_itself(everywhere, tmp_path):
    everywhere.source = tmp_path
    everywhere.notes({"a.md": "A.", "b.md": "B."})
    assert counts(everywhere.notes({})) == {"same": 2}


class Stop(BaseException):
    """As Ctrl-C."""


@pytest.mark.parametrize("at", range(1, 8))
def test_an_import_that_is_cut_short_leaves_whole_memories_and_the_next_one_ends_it(into, at):
    calls = 0

    def stop(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Stop

    with pytest.raises(Stop):
        into.notes(NOTES, progress=stop)
    for name in into.names():
        assert into.read(name).content in NOTES.values()
    repair(into.fs.backend, quiet=0.0)
    into.notes({})
    assert counts(into.notes({})) == {"same": 3}
    assert into.edges("entities/a") == [("links_to", "entities/b")]
    assert into.edges("entities/b") == [("links_to", "entities/a")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed in the middle")
@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("mended", [False, True])
def test_an_import_that_is_killed_is_ended_by_the_next_one(tmp_path, at, mended):
    into = Importer(ContextFS(DeviceLocalBackend(tmp_path / "memory"), quiet=0.0), tmp_path / "source")
    lay(into.source, NOTES)
    child = os.fork()
    if not child:
        calls = iter(range(1, 100))
        into.notes({}, progress=lambda done, total: os._exit(9) if next(calls) == at else None)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    if mended:
        repair(into.fs.backend, quiet=0.0)
    assert counts(into.notes({}, dry_run=True)).keys() <= {"new", "same", "changed"}
    into.notes({})
    assert counts(into.notes({})) == {"same": 3}
    assert into.names() == ["entities/a", "entities/b", "entities/c"]
    assert into.edges("entities/a") == [("links_to", "entities/b")]
    assert into.edges("entities/b") == [("links_to", "entities/a")]
    # Of what was committed, the index may still have to be told: that is for the repair to do, and nothing else is.
    assert {finding.action for finding in repair(into.fs.backend, quiet=0.0).findings} <= {Mended.TELL}


def test_one_that_somebody_else_was_faster_with_does_not_keep_the_others_out(into):
    """Somebody takes a name after the import has looked."""
    talks = [{"id": str(n), "memory": f"Talk {n}."} for n in range(300)]

    def rival(done: int, total: int) -> None:
        uri = f"{MINE}/entities/talk-299"
        if not into.fs.exists(uri, into.ctx):
            into.fs.write_node(ContextNode(uri, "Mine."), into.ctx)

    report = into.dump(talks, progress=rival)
    assert counts(report) == {"new": 299, "left_out": 1}
    (refused,) = report.of(Action.LEFT_OUT)
    assert (refused.source, refused.code) == ("mem0:299", NodeConflictError.code)
    assert into.read("entities/talk-299").content == "Mine."
    assert counts(into.dump(talks)) == {"same": 299, "new": 1}
    assert into.read("entities/talk-299-2").content == "Talk 299.\n"


@pytest.fixture
def one_by_one(monkeypatch):
    """Memories that point at each other are written one after the other, as thousands of them are in batches."""
    monkeypatch.setattr("agentm.context.contextfs.LARGEST_BATCH", 1)


def test_somebody_who_was_faster_does_not_keep_out_notes_that_point_at_each_other(into, one_by_one):
    notes: dict[str, str | bytes] = {"a.md": "A [[d]].", "b.md": "B.", "c.md": "C [[d]].", "d.md": "D [[a]]."}

    def rival(done: int, total: int) -> None:
        if not into.fs.exists(f"{MINE}/entities/b", into.ctx):
            into.fs.write_node(ContextNode(f"{MINE}/entities/b", "Mine."), into.ctx)

    assert counts(into.notes(notes, progress=rival)) == {"new": 3, "left_out": 1}
    assert into.read("entities/b").content == "Mine."
    into.notes({})
    assert counts(into.notes({})) == {"same": 4}
    assert into.read("entities/b-2").content == "B."
    for name in ("a", "c"):
        assert into.edges(f"entities/{name}") == [("links_to", "entities/d")]
    assert into.edges("entities/d") == [("links_to", "entities/a")]


def test_an_import_that_is_cut_short_again_and_again_loses_no_edge(into, one_by_one):
    notes: dict[str, str | bytes] = {f"{name}.md": f"{name}: [[a]] [[b]] [[c]] [[d]]" for name in "abcd"}

    for most in (1, 2, 3, 2, 4, 3):

        def stop(done: int, total: int, most: int = most) -> None:
            if done >= most:
                raise Stop

        with suppress(Stop):
            into.notes(notes, progress=stop)
    into.notes({})
    assert counts(into.notes({})) == {"same": 4}
    for name in "abcd":
        others = {("links_to", f"entities/{one}") for one in "abcd" if one != name}
        assert set(into.edges(f"entities/{name}")) == others


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed in the middle")
def test_what_was_begun_by_an_import_that_was_killed_may_change_before_the_next_one(tmp_path):
    into = Importer(ContextFS(DeviceLocalBackend(tmp_path / "memory"), quiet=0.0), tmp_path / "source")
    lay(into.source, NOTES)
    if not (child := os.fork()):
        calls = iter(range(1, 100))
        into.notes({}, progress=lambda done, total: os._exit(9) if next(calls) == 3 else None)
    os.waitpid(child, 0)
    assert "left_out" not in counts(into.notes({"a.md": "A anew, and [[z]].", "z.md": "Z."}))
    assert into.read("entities/a").content == "A anew, and [[z]]."
    assert into.edges("entities/a") == [("links_to", "entities/z")]
