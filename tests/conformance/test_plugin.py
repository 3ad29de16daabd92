"""The example plugin is a real package: built, installed, found by its entry point, proved and selected."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import missing

PLUGIN = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "backend_plugin")

pytestmark = [pytest.mark.slow, pytest.mark.spec("SEAM-10", "SEAM-18", "SEAM-19")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory with nothing in it but the plugin, as pip installs it, without any network."""
    for tool in ("hatchling", "pip"):
        if importlib.util.find_spec(tool) is None:
            missing(f"{tool} is not installed, so the example plugin cannot be built")
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(PLUGIN, source)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
         "--disable-pip-version-check", "--target", str(target), str(source)],
        check=True, timeout=300,
    )  # fmt: skip
    return str(target)


@pytest.fixture
def python(installed, home, tmp_path):
    """Run Python with the plugin installed, in an empty folder."""

    def run(*args, check=True):
        done = subprocess.run(
            [sys.executable, *args], cwd=tmp_path, env={**os.environ, "PYTHONPATH": installed},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run


def test_it_is_unknown_until_it_is_installed(tmp_path):
    code = "from agentm import registry; print(registry.get('jsonfile'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "None\n"


def test_the_registry_finds_it_by_its_entry_point(python):
    code = "from agentm import registry; print(registry.get('jsonfile').__module__, 'jsonfile' in registry.protocols())"
    assert python("-c", code).stdout == "agentm_jsonfile True\n"


def test_one_command_proves_it(python):
    report = json.loads(python("-m", "agentm", "conformance", "jsonfile", "--json").stdout)
    assert (report["backend"], report["passed"]) == ("jsonfile", True)
    names = {result["name"] for result in report["results"] if result["status"] == "pass"}
    assert {"remove", "rename", "refuses_append", "survives_reopen", "crash_write", "crash_rename"} <= names
    assert report["counts"]["skip"] == 0


def test_its_own_three_lines_prove_it_too(python):
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", os.path.join(PLUGIN, "tests"), "-k", "not crash")
    assert "failed" not in done.stdout
    assert "passed" in done.stdout


def test_it_is_selected_by_config(python, home):
    python("-m", "agentm", "config", "set", "storage.backend", "jsonfile")
    code = (
        "from agentm import select_backend; backend = select_backend(); "
        "backend.write(backend.resolve('notes/a.md'), 'by config\\n'); print(type(backend).__name__)"
    )
    assert python("-c", code).stdout == "JsonFileBackend\n"
    with open(os.path.join(home, ".agentm", "memory.json"), encoding="utf-8") as file:
        assert json.load(file)["notes/a.md"][0] == "by config\n"
    assert "storage [OK] jsonfile" in python("-m", "agentm", "doctor").stdout
