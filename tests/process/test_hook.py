"""`agentm hook`: in once, out again, and not a byte of anything else."""

from __future__ import annotations

import json
import os
import stat

import pytest

from agentm.cli import main
from tests.process.places import put
from tests.snapshot import snapshot

GROUP = {
    "matcher": "startup|resume|clear|compact",
    "hooks": [{"type": "command", "command": "agentm recall-here"}],
}
THEIRS = {"matcher": "startup", "hooks": [{"type": "command", "command": "./theirs.sh"}]}


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch, tmp_path):
    program = tmp_path / "agentm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.fixture
def project(home, monkeypatch) -> str:
    root = os.path.join(home, "code")
    put(os.path.join(root, ".git", "config"), "")
    os.makedirs(os.path.join(root, "src"))
    monkeypatch.chdir(os.path.join(root, "src"))
    return root


def settings_of(root: str) -> str:
    return os.path.join(root, ".claude", "settings.json")


def read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def hook(capsys, *args: str) -> str:
    assert main(["hook", *args]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_a_project_gets_settings_with_the_hook(project, capsys):
    assert settings_of(project) in hook(capsys, "install", "claude-code")
    assert json.loads(read(settings_of(project))) == {"hooks": {"SessionStart": [GROUP]}}


def test_for_all_projects_of_the_user(project, home, capsys):
    hook(capsys, "install", "claude-code", "--user")
    assert json.loads(read(settings_of(home))) == {"hooks": {"SessionStart": [GROUP]}}
    assert not os.path.exists(settings_of(project))


def test_another_directory_can_be_named(home, capsys, tmp_path):
    hook(capsys, "install", "claude-code", "--cwd", str(tmp_path))
    assert os.path.exists(settings_of(str(tmp_path)))


def test_a_second_time_nothing_is_written(project, capsys):
    hook(capsys, "install")
    before = os.stat(settings_of(project))
    assert hook(capsys, "install").startswith("nothing to do")
    assert os.stat(settings_of(project)) == before


def test_another_phase_replaces_the_hook(project, capsys):
    hook(capsys, "install")
    hook(capsys, "install", "--phase", "plan")
    [group] = json.loads(read(settings_of(project)))["hooks"]["SessionStart"]
    assert [one["command"] for one in group["hooks"]] == ["agentm recall-here --phase plan"]


OTHERS = [
    "{}",
    "{}\n",
    '{ "model" : "opus","env":{"A":1.50, "B":[1,2,  3]},\n\n"x": "\\u00e9é" }',
    '{\n    "permissions": {\n        "allow": ["Bash(ls:*)"]\n    }\n}\n',
    '{\r\n\t"permissions": {"deny": []}\r\n}',
    json.dumps({"hooks": {"SessionStart": [THEIRS]}, "z": 1}, indent=2),
    json.dumps({"hooks": {"SessionStart": [THEIRS]}, "z": 1}),
    json.dumps({"hooks": {"PreToolUse": [THEIRS]}}, indent=4),
    json.dumps({"a": '{"hooks": [1]}', "hooks": {"Stop": [], "SessionStart": [THEIRS, {"hooks": "odd"}, 7]}}),
]


@pytest.mark.parametrize("text", OTHERS)
def test_what_else_is_there_stays_byte_for_byte(project, capsys, text):
    put(settings_of(project), text)
    before = json.loads(text)
    hook(capsys, "install")
    written = read(settings_of(project))
    after = json.loads(written)
    assert after["hooks"]["SessionStart"].pop() == GROUP
    assert {**after, "hooks": None} == {**before, "hooks": None}
    assert after["hooks"].get("SessionStart") == before.get("hooks", {}).get("SessionStart", [])
    for line in text.splitlines()[1:-1]:
        assert line.rstrip(",") in written
    hook(capsys, "remove")
    assert read(settings_of(project)) == text


def test_only_our_hook_is_taken_out_of_a_group(project, capsys):
    ours = {"type": "command", "command": "/opt/bin/agentm recall-here --limit 100"}
    put(settings_of(project), json.dumps({"hooks": {"SessionStart": [{"hooks": [*THEIRS["hooks"], ours]}, GROUP]}}))
    hook(capsys, "remove")
    assert json.loads(read(settings_of(project))) == {"hooks": {"SessionStart": [{"hooks": THEIRS["hooks"]}]}}


@pytest.mark.parametrize("command", ["agentm-other recall-here", "agentm recall-heretic", "echo recall-here"])
def test_the_hooks_of_others_are_not_ours(project, capsys, command):
    text = json.dumps({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}})
    put(settings_of(project), text)
    assert hook(capsys, "remove").startswith("nothing to do")
    assert read(settings_of(project)) == text


def test_removing_without_settings_makes_none(project, capsys):
    before = snapshot(project)
    hook(capsys, "remove", "claude-code")
    assert snapshot(project) == before


@pytest.mark.parametrize("action", ["install", "remove"])
@pytest.mark.parametrize(
    "content",
    [
        "{ not json",
        '{"a": 1, "a": 2}',
        "// comments\n{}",
        "[]",
        '"text"',
        '{"hooks": []}',
        '{"hooks": {"SessionStart": {}}}',
        b"\xff\xfe{}",
    ],
)
def test_settings_that_are_not_understood_are_left_alone(project, capsys, action, content):
    path = put(settings_of(project), content)
    before = (os.stat(path), snapshot(project))
    assert main(["hook", action]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("agentm: hook_settings_invalid: ")
    assert (os.stat(path), snapshot(project)) == before


@pytest.mark.parametrize("args", [["install"], ["install", "--user"], ["install", "generic", "--file", "rc"]])
def test_a_dry_run_shows_the_change_and_makes_none(project, home, capsys, args):
    before = snapshot(home)
    out = hook(capsys, *args, "--dry-run")
    assert "agentm recall-here" in out
    assert all(line[:1] in "+-@ " for line in out.splitlines())
    assert snapshot(home) == before


def test_what_was_done_as_json(project, capsys):
    expected = {
        "agent": "claude-code",
        "command": "agentm recall-here",
        "path": settings_of(project),
        "changed": True,
        "dry_run": False,
    }
    assert json.loads(hook(capsys, "install", "--json")) == expected
    assert json.loads(hook(capsys, "install", "--json")) == {**expected, "changed": False}


def test_mode_and_links_stay(project, home, capsys):
    real = put(os.path.join(home, "dotfiles", "settings.json"), "{}")
    os.chmod(real, 0o640)
    os.makedirs(os.path.dirname(settings_of(project)))
    os.symlink(real, settings_of(project))
    hook(capsys, "install")
    assert os.path.islink(settings_of(project))
    assert "agentm recall-here" in read(real)
    assert stat.S_IMODE(os.stat(real).st_mode) == 0o640
    assert os.listdir(os.path.dirname(real)) == ["settings.json"]


def test_a_place_that_cannot_be_written_is_an_error(project, capsys):
    put(os.path.join(project, ".claude"), "a file where the folder should be")
    assert main(["hook", "install"]) == 1
    assert capsys.readouterr().err.startswith("agentm: hook_")


def test_the_generic_hook_is_a_line_to_paste(project, capsys):
    before = snapshot(project)
    assert hook(capsys, "install", "generic") == "agentm recall-here\n"
    assert hook(capsys, "install", "generic", "--phase", "plan it") == "agentm recall-here --phase 'plan it'\n"
    assert json.loads(hook(capsys, "install", "generic", "--json"))["command"] == "agentm recall-here"
    assert snapshot(project) == before


@pytest.mark.parametrize("text", ["", "export A=1\n", "export A=1"])
def test_the_generic_hook_goes_into_a_file_once_and_out_again(project, capsys, text):
    path = put(os.path.join(project, "rc"), text)
    for _ in range(2):
        hook(capsys, "install", "generic", "--file", path)
        assert read(path).startswith(text)
        assert read(path).count("agentm recall-here") == 1
    hook(capsys, "remove", "generic", "--file", path)
    assert read(path).rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize("args", [["remove", "generic"], ["install", "--file", "x"], ["install", "vim"], ["list"]])
def test_a_wrong_call_is_told(project, capsys, args):
    assert main(["hook", *args]) == 2
    assert capsys.readouterr().err.startswith("agentm: usage: ")


def test_a_missing_program_is_hinted_at(project, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert main(["hook", "install"]) == 0
    assert "on the PATH" in capsys.readouterr().err
