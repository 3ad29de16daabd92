"""`agentm import`"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from agentm import DeviceLocalBackend
from tests.cli.nodes import MINE
from tests.importing.sources import lay, zipped
from tests.snapshot import snapshot


@pytest.fixture
def vault(home) -> Path:
    """Two notes, something that is none, and one that cannot be read."""
    files: dict[str, str | bytes] = {"Ada.md": "Knows [[Bob]].", "Bob.md": "Weaves.", "empty.md": "", "bad.md": b"\xff"}
    return lay(Path(home) / "Notes", {".obsidian/app.json": "{}", **files})


@pytest.mark.spec("SURF-01")
def test_a_vault_is_imported_and_said_what_it_is(shell, vault):
    code, out, err = shell("import", str(vault))
    assert code == 1
    assert err == f"agentm: hint: {vault} is an Obsidian vault (obsidian).\n"
    first, summary = out.splitlines()
    assert first.startswith("left out  file:~/Notes/bad.md  not_text: ")
    assert summary == "2 new, 0 changed, 0 unchanged, 0 kept as they are here, 1 empty, 1 left out"
    assert shell.done("relate", "entities/ada", "--list") == "→ entities/bob  links_to 1\n"
    versions = shell.json("history", "entities/ada")["versions"]
    assert [(one["actor"], one["sources"]) for one in versions] == [("process:import", ["file:~/Notes/Ada.md"])]


def test_a_dry_run_lists_what_would_be_done(shell, vault, home):
    (vault / "bad.md").unlink()
    before = snapshot(home)
    assert shell.done("import", str(vault), "--dry-run", "--from", "markdown") == (
        "new       entities/ada  [from file:~/Notes/Ada.md]\n"
        "new       entities/bob  [from file:~/Notes/Bob.md]\n"
        "2 would be new, 0 would be changed, 0 unchanged, 0 kept as they are here, 1 empty, 0 left out\n"
    )
    assert {path: what for path, what in snapshot(home).items() if "accounts" in path} == {}
    assert {path: what for path, what in snapshot(home).items() if path.startswith("Notes")} == {
        path: what for path, what in before.items() if path.startswith("Notes")
    }


def test_json_says_everything(shell, vault):
    (vault / "bad.md").unlink()
    done = shell.json("import", str(vault))
    assert (done["kind"], done["detected"], done["dry_run"]) == ("obsidian", True, False)
    assert done["counts"] == {"new": 2, "changed": 0, "same": 0, "kept": 0, "empty": 1, "left_out": 0}
    assert done["items"][0] == {
        "source": "file:~/Notes/Ada.md",
        "action": "new",
        "uri": f"{MINE}/entities/ada",
        "version": 1,
        "code": "",
        "message": "",
    }
    assert shell.json("import", str(vault))["counts"]["same"] == 2


def test_an_edit_is_kept_and_force_takes_the_source(shell, vault):
    (vault / "bad.md").unlink()
    shell("import", str(vault))
    shell.done("edit", "entities/ada", "Mine.")
    code, out, _ = shell("import", str(vault))
    assert code == 0
    assert out.startswith("kept      entities/ada  [from file:~/Notes/Ada.md]: it was edited here since; --force ")
    assert shell("import", str(vault), "--force")[1].startswith("0 new, 1 changed, 1 unchanged")
    assert shell.done("read", "entities/ada") == "Knows [[Bob]]."


def test_it_goes_to_a_folder_and_to_an_agent(shell, vault):
    (vault / "bad.md").unlink()
    shell("import", str(vault), "--to", "cases")
    assert [one["uri"] for one in shell.json("ls", "cases")["memories"]] == [
        f"{MINE}/cases/{n}" for n in ("ada", "bob")
    ]
    done = shell.json("import", str(vault), "--agent", "scout", "--from", "markdown")
    assert done["items"][0]["uri"] == "ctx://local/agents/scout/memories/entities/ada"
    assert done["detected"] is False
    shell.refused("import", str(vault), "--to", "users/bob/memories", "--from", "markdown", code="access_denied")


@pytest.mark.parametrize(
    ("args", "code", "status", "says"),
    [
        (["nowhere"], "not_found", 1, "nowhere"),
        (["nowhere", "--from", "mem0"], "not_found", 1, "nowhere"),
        (["."], "import_unrecognised", 1, "--from obsidian|"),
        ([".", "--from", "obsidan"], "usage", 2, "did you mean 'obsidian'?"),
        ([".", "--from", "markdown", "--to", "profile"], "invalid_uri", 1, "name a folder"),
        ([".", "--from", "markdown", "--to", "evnts"], "invalid_uri", 1, "did you mean 'events'?"),
        (["x.zip", "--to", "cases"], "usage", 2, "leave out --to"),
    ],
)
def test_what_makes_no_sense_is_refused(shell, home, monkeypatch, args, code, status, says):
    folder = lay(Path(home) / "empty", {})
    monkeypatch.chdir(folder)
    zipped(folder / "x.zip", {"agentm-export.json": '{"format": 1}'})
    given = [*args] if "--from" in args or args[0] != "x.zip" else [*args, "--from", "agentm"]
    assert says in shell.refused("import", *given, code=code, status=status)


def test_what_is_shown_of_a_source_does_no_harm_to_a_terminal(shell, home):
    folder = lay(Path(home) / "Notes", {"a\x1b[31m.md": "Red.", "b\x1b[31m.md": b"\xff"})
    code, out, err = shell("import", str(folder), "--dry-run")
    assert code == 1
    assert "\x1b" not in out + err


def test_progress_is_shown_on_a_terminal(shell, home, monkeypatch):
    talks = [{"id": str(n), "memory": f"Fact {n}."} for n in range(300)]
    (Path(home) / "m.json").write_text(json.dumps(talks))
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True)
    monkeypatch.setattr("agentm.cli.progress._EVERY", 0.0)
    code, out, err = shell("import", os.path.join(home, "m.json"))
    assert (code, out.startswith("300 new")) == (0, True)
    assert "of 300; Ctrl-C does no harm" in err
    assert err.endswith("\r\033[K")


class Impatient(io.StringIO):
    """A terminal at which somebody types Ctrl-C when more than 300 are done."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        done = re.search(r"agentm: (\d+) of", text)
        if done and int(done[1]) > 300:
            raise KeyboardInterrupt
        return super().write(text)


@pytest.mark.slow
def test_ctrl_c_leaves_whole_memories_and_a_second_run_finishes(shell, home, monkeypatch):
    talks = [{"id": str(n), "memory": f"Fact {n}."} for n in range(600)]
    path = os.path.join(home, "m.json")
    Path(path).write_text(json.dumps(talks))
    with monkeypatch.context() as patched:
        patched.setattr("agentm.cli.progress._EVERY", 0.0)
        patched.setattr(sys, "stderr", Impatient())
        assert shell("import", path)[0] == 130
    assert shell.json("repair")["alerts"] == 0
    before = len(shell.json("ls")["memories"])
    assert 0 < before < 600
    assert shell.json("import", path)["counts"] == {
        "new": 600 - before,
        "changed": 0,
        "same": before,
        "kept": 0,
        "empty": 0,
        "left_out": 0,
    }


def of_users(home: str, *users: str) -> str:
    """What mem0 knows about these, one memory each."""
    known = [{"id": f"m{n}", "memory": f"Number {n} likes tea.", "user_id": user} for n, user in enumerate(users)]
    path = Path(home) / "mem0.json"
    path.write_text(json.dumps(known))
    return str(path)


def test_what_is_known_about_several_people_is_not_mixed_unless_that_is_wanted(shell, home):
    path = of_users(home, "alex", "alex", "bo")
    said = shell.refused("import", path, "--from", "mem0", code="import_several_owners")
    assert "'alex' (2), 'bo' (1)" in said
    assert "--of alex" in said
    assert "--everybody" in said
    shell.refused("import", path, "--from", "mem0", "--dry-run", code="import_several_owners")
    assert shell.json("import", path, "--from", "mem0", "--of", "bo")["counts"]["new"] == 1
    assert 'user_id: "bo"' in shell.done("read", "entities/number-2-likes-tea")
    code, out, err = shell("import", path, "--from", "mem0", "--everybody")
    assert (code, out.split(",")[0]) == (0, "2 new")
    assert "alex (2), bo (1)" in err
    assert 'user_id: "alex"' in shell.done("read", "entities/number-0-likes-tea")
    shell.refused("import", path, "--from", "mem0", "--of", "cleo", code="import_owner_unknown")
    shell.refused("import", path, "--of", "bo", "--everybody", code="usage", status=2)


def test_what_is_known_about_one_person_needs_no_word(shell, home):
    assert shell.json("import", of_users(home, "alex", "", "alex"), "--from", "mem0")["counts"]["new"] == 3


def test_an_import_that_is_stopped_says_how_far_it_came_and_goes_on(shell, home, monkeypatch):
    path = of_users(home, *["alex"] * 300)
    write, calls = DeviceLocalBackend.write_many, []

    def interrupted(self, *args, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(self, *args, **options)

    with monkeypatch.context() as typed:
        typed.setattr(DeviceLocalBackend, "write_many", interrupted)
        code, out, err = shell("import", path, "--from", "mem0")
    assert (code, out) == (130, "")
    [line] = err.splitlines()
    [said] = re.findall(r"(\d+) imported", line)
    there = len(shell.done("ls", "entities").splitlines())
    assert 0 < int(said) == there < 300
    assert "again" in line
    assert shell.json("import", path, "--from", "mem0")["counts"] | {"kept": 0} == {
        **dict.fromkeys(("changed", "kept", "empty", "left_out"), 0),
        "new": 300 - there,
        "same": there,
    }
