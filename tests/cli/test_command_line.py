"""How `agentm` behaves as a program, whatever the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

import agentm
from agentm.cli import dispatch, main
from tests.conftest import missing
from tests.snapshot import snapshot


def program(*args: str, **options) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentm", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def run(*args: str, env: dict[str, str] | None = None) -> tuple[int, bytes, bytes]:
    process = program(*args, env={**os.environ, **(env or {})})
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_told_without_loading_the_rest(flag):
    code = f"import sys; from agentm.cli import main; main([{flag!r}]); print(sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    line, modules = answer.splitlines()
    assert line == f"agentm {agentm.__version__}"
    assert not {"argparse", "json", "dataclasses", "agentm.errors", "agentm.seam", "agentm.cli.dispatch"} & set(
        json.loads(modules.replace("'", '"'))
    )


def test_it_runs_as_a_module():
    assert run("--version")[:2] == (0, f"agentm {agentm.__version__}\n".encode())


def test_a_command_loads_no_other_command():
    code = "import sys; from agentm.cli import main; main(['config']); print(sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "agentm.cli.config" in answer
    for other in ("agentm.cli.doctor", "agentm.doctor", "agentm.cli.conformance", "agentm.backends.vault"):
        assert other not in answer


def test_a_recall_loads_nothing_that_costs_more_than_it_brings():
    code = "import sys; from agentm.cli import main; main(['recall', 'tea']); print(sorted(sys.modules))"
    run("remember", "Alice drinks tea.")
    run("recall", "tea")  # which makes the index
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Alice" in answer
    loaded = set(json.loads(answer.splitlines()[-1].replace("'", '"')))
    assert "tantivy" in loaded
    assert not {"dataclasses", "inspect", "shutil", "difflib", "numpy", "importlib.metadata"} & loaded


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command_with_an_example(args, capsys):
    assert main(args) == 0
    out = capsys.readouterr().out
    for name, what in dispatch.COMMANDS.items():
        assert f"  {name} " in out
        assert what in out
    assert "examples:" in out


@pytest.mark.parametrize("name", dispatch.COMMANDS)
def test_every_command_explains_itself_with_examples(name, capsys):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: agentm {name}")
    assert "examples:\n  agentm " in out
    assert "--json" in out


def test_no_command_is_a_usage_error_that_shows_the_commands(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "doctor" in err


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["docter"], "there is no command 'docter' (did you mean 'doctor'?)"),
        (["conf"], "there is no command 'conf' (did you mean 'config'?)"),
        (["xyzzy"], "there is no command 'xyzzy'; see agentm --help."),
        (["--frobnicate"], "there is no option '--frobnicate'; see agentm --help."),
        (["doctor", "--reqires", "x"], "unrecognized arguments: --reqires x; see agentm doctor --help."),
        (["doctor", "--req", "x"], "unrecognized arguments: --req x; see agentm doctor --help."),
        (["config", "get"], "the following arguments are required: KEY; see agentm config get --help."),
    ],
)
def test_a_wrong_call_exits_2_with_one_line(args, sentence, capsys):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"agentm: usage: {sentence}")
    assert err.count("\n") == 1


def test_with_json_errors_are_json_on_stderr(capsys):
    assert main(["config", "get", "no.such", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["code"] == "config_key_unset"
    assert main(["doctor", "--json", "--nonsense"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "usage"


@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_ours_is_one_line_and_its_traceback_is_there_on_demand(capsys, monkeypatch, debug):
    def fault(_):
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("agentm.cli.config._list", fault)
    if debug:
        monkeypatch.setenv("AGENTM_DEBUG", "1")
    assert main(["config", "list"]) == 1
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("agentm: internal_error: ZeroDivisionError: two lines; ")
    assert "AGENTM_DEBUG=1" in err
    assert ("Traceback" in err) is debug


def test_an_interrupt_is_quiet(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentm.cli.config._list", interrupted)
    assert main(["config", "list"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_not_complained_about(unbuffered):
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [sys.executable, "-m", "agentm", "doctor"],
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(write)
    assert process.communicate()[1] == b""
    assert process.returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("args", [["--version"], ["doctor"], ["config", "--json"]])
def test_a_full_disk_behind_the_output_is_one_line(args, unbuffered):
    if not os.path.exists("/dev/full"):
        missing("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentm", *args],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
        err = process.communicate()[1].decode()
    assert process.returncode == 1
    assert err.startswith("agentm: output_failed: ")
    assert err.count("\n") == 1


def test_an_output_that_is_not_utf_8_shows_escapes(home):
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert run("config", "set", "greeting", "grüezi – 你好", env=ascii_only)[0] == 0
    code, out, err = run("config", "get", "greeting", env=ascii_only)
    assert (code, out, err) == (0, b"gr\\xfcezi \\u2013 \\u4f60\\u597d\n", b"")
    code, out, _ = run("config", "get", "greeting", "--json", env=ascii_only)
    assert json.loads(out) == {"key": "greeting", "value": "grüezi – 你好"}
    assert run("--help", env=ascii_only)[0] == 0


def test_bytes_in_an_argument_that_are_no_text_do_no_harm():
    process = subprocess.Popen(
        [sys.executable.encode(), b"-m", b"agentm", b"config", b"get", b"\xff\xfe"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    err = process.communicate()[1]
    assert process.returncode == 1
    assert err.startswith(b"agentm: config_key_unset: ")


def test_looking_at_everything_makes_nothing(home):
    before = snapshot(home)
    for args in ([], ["--help"], ["doctor"], ["config"], ["config", "get", "x"], ["config", "unset", "x"], ["nope"]):
        main(args)
    assert snapshot(home) == before
