"""`agentm conformance <target>`: finding the target, printing, exit codes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

from agentm import ConformanceReport
from agentm.conformance import command

pytestmark = pytest.mark.spec("SEAM-19")

MODULE = """
import os, pathlib, sys
from agentm import MemoryBackend, StorageBackend
from agentm.conformance import checks

class Plain(MemoryBackend):
    pass

class Broken(MemoryBackend):
    def list(self, locator):
        return super().list(locator)[::-1]

class InDirectory(MemoryBackend):
    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__()
        assert isinstance(directory, pathlib.Path) and directory.is_dir() and not list(directory.iterdir())

class AtPath(MemoryBackend):
    def __init__(self, path, *, lock_root=None, size=3) -> None:
        super().__init__()
        assert not os.path.exists(path) and os.path.isdir(os.path.dirname(path)) and lock_root

class NeedsMore(MemoryBackend):
    def __init__(self, bucket) -> None:
        super().__init__()

class Abstract(StorageBackend):
    pass

class Nested:
    Inner = Plain

def factory():
    return Plain()

def fails():
    raise RuntimeError("no store today")

def lies():
    return "a backend"

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module in it that Python would not find otherwise."""
    (tmp_path / "mystore.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "broken_module.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    yield tmp_path
    for name in ("mystore", "broken_module"):
        sys.modules.pop(name, None)


def quick(target, **options):
    return command.run(target, **{"processes": False, "crashes": False, **options})


@pytest.mark.parametrize(
    "target",
    ["memory", "device-local", "mystore:Plain", "mystore:InDirectory", "mystore:AtPath", "mystore:Nested.Inner",
     "mystore:factory"],
)  # fmt: skip
def test_a_conforming_target_is_0(folder, target, capsys):
    assert quick(target) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Conformance of {target}\n")
    assert "conforms." in printed.splitlines()[-1]


def test_a_failing_target_is_1_and_the_row_says_why(folder, capsys):
    assert quick("mystore:Broken") == 1
    rows = capsys.readouterr().out.splitlines()
    (row,) = (row for row in rows if row.startswith("  ✗"))
    assert "list_children" in row
    assert "list of 'a_b' gave" in row


@pytest.mark.parametrize(("target", "why"), [("mystore:fails", "no store today"), ("mystore:lies", "gave str")])
def test_a_factory_that_makes_no_backend_is_1(folder, target, why, capsys):
    assert quick(target) == 1
    assert why in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "code", "why"),
    [
        ("nonsense", "backend_load", "name one of"),
        ("", "backend_load", "name one of"),
        ("no_such_module:Thing", "backend_load", "No module named"),
        ("broken_module:Thing", "backend_load", "no_such_module_anywhere"),
        ("mystore:Missing", "backend_load", "Missing"),
        ("mystore:", "backend_load", "module:Class"),
        (":Plain", "backend_load", "module:Class"),
        ("mystore:number", "backend_load", "int"),
        ("mystore:Nested", "backend_load", "does not derive from StorageBackend"),
        ("mystore:Abstract", "backend_load", "is abstract; implement capabilities, exists"),
        ("mystore:NeedsMore", "target_needs_arguments", "needs the argument 'bucket'"),
    ],
)
class TestBadTarget:
    def test_it_is_2_and_one_sentence(self, folder, target, code, why, capsys):
        assert quick(target) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.splitlines()) == 1
        assert captured.err.startswith(f"agentm: {code}: ")
        assert why in captured.err

    def test_it_is_json_on_request(self, folder, target, code, why, capsys):
        assert quick(target, json=True) == 2
        error = json.loads(capsys.readouterr().err)["error"]
        assert error["code"] == code
        assert why in error["message"]


def test_an_unknown_check_is_2(capsys):
    assert quick("memory", only=["roundtrip"]) == 2
    assert "no check named 'roundtrip'" in capsys.readouterr().err


def test_no_check_at_all_is_1(capsys):
    assert quick("memory", only=[]) == 1
    assert "was not checked" in capsys.readouterr().out


def test_json_is_the_report(folder, capsys):
    assert quick("mystore:Broken", json=True) == 1
    report = ConformanceReport.from_dict(json.loads(capsys.readouterr().out))
    assert [result.name for result in report.failures] == ["list_children"]


def test_a_terminal_without_unicode_gets_ascii(folder, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert quick("mystore:Broken") == 1
    sys.stdout.flush()
    text = raw.getvalue().decode("ascii")
    assert "  + round_trip" in text
    assert "  x list_children" in text


def test_rows_come_out_as_the_checks_end(monkeypatch, capsys):
    from agentm.conformance import runner

    seen: list[str] = []
    real = runner.run_check

    def spy(requirement, setup):
        seen.append(capsys.readouterr().out)
        return real(requirement, setup)

    monkeypatch.setattr(runner, "run_check", spy)
    quick("memory", only=["round_trip", "info"])
    assert "round_trip" in seen[1]


def test_nothing_is_left_in_the_temporary_directory_or_the_home(tmp_path, monkeypatch, home, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert quick("device-local") == quick("vault") == quick("sqlite") == 0
    assert os.listdir(tmp_path) == []
    assert os.listdir(home) == []


INTERRUPTED = """
import os, signal, sys
from agentm import DeviceLocalBackend

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may have it ignored

class Slow(DeviceLocalBackend):
    def write(self, locator, content):
        print("writing", self.root, flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        return super().write(locator, content)
"""


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind(tmp_path):
    (tmp_path / "slowstore.py").write_text(INTERRUPTED)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "agentm", "conformance", "slowstore:Slow"],
        cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode in (130, -signal.SIGINT)
    assert "writing" in done.stdout
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_the_command_line_runs_it(tmp_path):
    (tmp_path / "mystore.py").write_text(textwrap.dedent(MODULE))
    codes = {
        target: subprocess.run(
            [sys.executable, "-m", "agentm", "conformance", target, "--json"],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
        ).returncode
        for target in ("mystore:Plain", "mystore:Broken", "mystore:Missing")
    }  # fmt: skip
    assert codes == {"mystore:Plain": 0, "mystore:Broken": 1, "mystore:Missing": 2}
