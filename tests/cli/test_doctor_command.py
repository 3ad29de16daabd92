from __future__ import annotations

import json
import os

import pytest

from agentm.cli import main
from agentm.config import CONFIG_NAME
from agentm.selection import storage_preview
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("SEAM-25")


@pytest.fixture
def configure(home):
    def write(content: object) -> None:
        os.makedirs(os.path.join(home, ".agentm"), exist_ok=True)
        with open(os.path.join(home, ".agentm", CONFIG_NAME), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    return write


def test_it_prints_the_preview_first_and_exits_0(capsys, home):
    before = snapshot(home)
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == storage_preview().line
    assert err == ""
    assert snapshot(home) == before


def test_a_warning_exits_0(capsys, home):
    with open(os.path.join(home, ".agentm"), "w"):
        pass
    # The config cannot be looked for there either, so it is a prefix of its own that is fine.
    os.mkdir(os.path.join(home, "prefix"))
    assert main(["doctor", "--install-prefix", os.path.join(home, "prefix")]) == 0
    assert capsys.readouterr().out.startswith("storage [WARN] device-local at ")


@pytest.mark.parametrize("content", ["{", {"storage.backend": "acme"}, {"storage.backend": "vault"}])
def test_a_failure_exits_1(capsys, configure, home, content):
    configure(content)
    before = snapshot(home)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.startswith("storage [FAIL] ")
    assert snapshot(home) == before


def test_json(capsys, configure):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == "ok"
    assert report["checks"][0] == {"name": "storage", "status": "ok", "line": storage_preview().line}
    configure({"storage.backend": "acme"})
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["status"] == "fail"


def test_required_capabilities_that_are_there_pass(capsys, configure, tmp_path):
    configure({"storage.backend": "vault", "vault_path": str(tmp_path)})
    assert main(["doctor", "--requires", "concurrent_writers, sync"]) == 0
    assert capsys.readouterr() == (
        "PASS: backend 'vault' satisfies required capabilities: concurrent_writers, sync\n",
        "",
    )


def test_required_capabilities_that_are_not_there_fail_and_make_nothing(capsys, home):
    before = snapshot(home)
    assert main(["doctor", "--requires", "remove,encryption,sync"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("FAIL: ")
    assert "'device-local'" in out
    assert "encryption, sync" in out
    assert err == ""
    assert snapshot(home) == before


@pytest.mark.parametrize("content", ["{", {"storage.backend": "acme"}, {"storage.backend": "vault"}])
def test_a_store_that_cannot_be_had_fails_every_requirement(capsys, configure, home, content):
    configure(content)
    before = snapshot(home)
    assert main(["doctor", "--requires", "remove"]) == 1
    assert capsys.readouterr().out == f"FAIL: {storage_preview().line.removeprefix('storage [FAIL] ')}\n"
    assert snapshot(home) == before


@pytest.mark.parametrize("names", ["speed", "sync,speed", "speed,power", "", ","])
def test_an_unknown_capability_is_an_error_on_stderr_and_nothing_is_constructed(capsys, home, monkeypatch, names):
    def constructed(*_args, **_more):
        raise AssertionError("constructed")

    monkeypatch.setattr("agentm.doctor.confirm_required", constructed)
    before = snapshot(home)
    assert main(["doctor", "--requires", names]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("agentm: capability_unknown: ")
    for name in names.replace("sync", "").split(","):
        assert name in err
    assert snapshot(home) == before


def test_requirements_as_json(capsys):
    assert main(["doctor", "--requires", "remove,sync", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["required"], report["unsatisfied"]) == ("fail", ["remove", "sync"], ["sync"])
    assert main(["doctor", "--requires", "remove", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "pass"
