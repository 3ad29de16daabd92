"""The three functions as commands: `agentm …` and `python -m agentm.process …`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import agentm
from agentm.cli import main
from agentm.recall.budget import tokens
from tests.process.places import configure, put
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("PROC-05")


def typed(capsys, *args: str) -> str:
    """What a command prints that succeeds and complains about nothing."""
    assert main(list(args)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def as_module(*args: str, cwd: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentm.process", *args]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=60)


def test_recall_here_prints_what_the_function_returns(place, capsys):
    expected = agentm.recall_here({**place.context, "phase": "plan"}, limit=60)
    args = ["--cwd", place.project, "--phase", "plan", "--limit", "60", "--query", "looms"]
    assert typed(capsys, "recall-here", *args) == f"{expected}\n"
    assert expected != ""


def test_recall_here_as_json(place, capsys):
    answer = json.loads(typed(capsys, "recall-here", "--cwd", place.project, "--json"))
    assert answer == {
        "text": agentm.recall_here(place.context),
        "tokens": tokens(agentm.recall_here(place.context)),
    }


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_recall_here_without_room_prints_nothing(place, capsys, limit):
    assert typed(capsys, "recall-here", "--cwd", place.project, "--limit", limit) == ""


def test_state_path_prints_the_path(vault, capsys):
    path = str(agentm.state_path(vault.context, "progress"))
    assert typed(capsys, "state-path", "progress", "--cwd", vault.project) == f"{path}\n"
    assert json.loads(typed(capsys, "state-path", "progress", "--cwd", vault.project, "--json")) == {"path": path}


def test_state_path_of_a_named_plan(vault, capsys):
    assert typed(capsys, "state-path", "plan", "--plan", "foo", "--cwd", vault.project).endswith("PLAN-foo.md\n")


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_offer_save_here_prints_the_list(vault, capsys, tmp_path, json_flag):
    body = put(str(tmp_path / "body.md"), "Our own.\n")
    args = ["--kind", "decision", "--slug", "dobby", "--body-file", body, "--confidence", "0.9"]
    more = ["--confidence-reason", "seen", "--phase", "plan", "--cwd", vault.project]
    assert json.loads(typed(capsys, "offer-save-here", *args, *more, *json_flag)) == [
        {
            "kind": "decision",
            "slug": "dobby",
            "body": "Our own.\n",
            "confidence": 0.9,
            "confidence_reason": "seen",
            "project": "loom",
            "phase": "plan",
            "target": os.path.join(vault.store, "projects", "loom"),
        }
    ]


def test_offer_save_here_needs_no_body(vault, capsys):
    [offered] = json.loads(typed(capsys, "offer-save-here", "--kind", "k", "--slug", "s", "--cwd", vault.project))
    assert "body" not in offered


@pytest.mark.parametrize("config", [None, "{ not json", {"storage.backend": "nobody"}])
@pytest.mark.parametrize(
    ("args", "out"),
    [
        (["recall-here"], ""),
        (["recall-here", "--phase", "nonsense", "--query", '"'], ""),
        (["offer-save-here", "--kind", "k", "--slug", "s"], "[]\n"),
    ],
)
def test_without_a_memory_nothing_is_printed_and_nothing_is_wrong(home, capsys, monkeypatch, config, args, out):
    monkeypatch.chdir(home)
    if config is not None:
        configure(home, config)
    before = snapshot(home)
    assert typed(capsys, *args) == out
    assert snapshot(home) == before


def test_without_a_memory_there_is_a_path(home, capsys):
    assert typed(capsys, "state-path", "plan", "--cwd", home) == os.path.join(home, ".harness", "PLAN.md") + "\n"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["state-path", "plan"], "active_plan_invalid"),
        (["state-path", "plan", "--plan", "../up"], "state_file_invalid"),
    ],
)
def test_a_plan_that_leads_nowhere_is_an_error(vault, capsys, args, code):
    put(os.path.join(vault.project, ".harness", "active-plan"), "ghost")
    assert main([*args, "--cwd", vault.project]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"agentm: {code}: ")
    assert main([*args, "--cwd", vault.project, "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == code


@pytest.mark.parametrize(
    "args",
    [
        ["state-path"],
        ["state-path", "other"],
        ["recall-here", "--limit", "lots"],
        ["offer-save-here", "--kind", "k"],
        ["offer-save-here", "--slug", "s"],
    ],
)
def test_a_wrong_call_is_told_apart(home, capsys, args):
    assert main(args) == 2
    assert capsys.readouterr().err.startswith("agentm: usage: ")


def test_a_body_that_is_not_there_is_an_error(vault, capsys):
    args = ["offer-save-here", "--kind", "k", "--slug", "s", "--cwd", vault.project, "--body-file", "/nowhere"]
    assert main(args) == 1
    assert capsys.readouterr().err.startswith("agentm: not_found: ")


def test_the_same_as_a_module(vault):
    recalled = as_module("recall-here", "--phase", "plan", cwd=vault.project)
    expected = agentm.recall_here({**vault.context, "phase": "plan"})
    assert (recalled.returncode, recalled.stdout, recalled.stderr) == (0, f"{expected}\n", "")
    assert as_module("state-path", "plan", cwd=vault.project).stdout.endswith(os.path.join("_harness", "PLAN.md\n"))
    offered = as_module(
        "offer-save-here", "--kind", "k", "--slug", "s", "--body-file", "-", cwd=vault.project, stdin="b"
    )
    assert json.loads(offered.stdout)[0]["body"] == "b"


def test_the_module_is_silent_without_a_memory(home):
    done = as_module("recall-here", cwd=home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("args", [[], ["--help"], ["remember", "x"]])
def test_the_module_has_no_other_commands(home, args):
    done = as_module(*args, cwd=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert "recall-here, state-path, offer-save-here" in done.stderr
    assert os.listdir(home) == []
