from __future__ import annotations

import json

import pytest

from agentm.cli import main
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("SEAM-19")

QUICK = ["--no-processes", "--no-crashes"]


def test_a_backend_that_conforms_exits_0_with_a_table(capsys, home):
    before = snapshot(home)
    assert main(["conformance", "memory", "--routing", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "round_trip" in out
    assert "routing" in out
    assert snapshot(home) == before


def test_one_that_does_not_exits_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "lossy_store.py").write_text(
        "from agentm import MemoryBackend\n"
        "class Lossy(MemoryBackend):\n"
        "    def read(self, locator):\n"
        "        return super().read(locator).replace('\\r', '')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["conformance", "lossy_store:Lossy", "--json", *QUICK]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False


def test_only_some_checks(capsys):
    assert main(["conformance", "memory", "--only", "round_trip, info", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in report["results"] if each["status"] == "pass"] == ["round_trip", "info"]


@pytest.mark.parametrize("target", ["acme", "no_such_module:Store", "json:dumps_not"])
def test_a_backend_that_is_not_there_exits_2_with_one_line(capsys, target):
    assert main(["conformance", target]) == 2
    err = capsys.readouterr().err
    assert err.startswith("agentm: backend_load: ")
    assert err.count("\n") == 1
