"""The kit as a pytest class that a third party subclasses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import agentm
from agentm.conformance import REQUIREMENTS
from agentm.seam import ABILITIES

pytestmark = pytest.mark.spec("SEAM-19")


HONEST = """
from agentm import MemoryBackend
from agentm.conformance.pytest import BackendConformance

class TestHonest(BackendConformance):
    def make_backend(self, tmp_path):
        return MemoryBackend()
"""

BROKEN = """
from dataclasses import replace
from agentm import MemoryBackend
from agentm.conformance.pytest import BackendConformance

class Broken(MemoryBackend):
    @property
    def capabilities(self):
        return replace(super().capabilities, watch=False)

    def list(self, locator):
        return super().list(locator)[::-1]

class TestBroken(BackendConformance):
    include_routing = True

    def make_backend(self, tmp_path):
        return Broken()
"""

SHARED = """
import os
from agentm.conformance.pytest import BackendConformance
from tests.conformance.filestore import FileStore

class Unpicklable(FileStore):
    def __reduce__(self):
        raise TypeError("cannot pickle me")

class TestShared(BackendConformance):
    def make_backend(self, tmp_path):
        return Unpicklable(str(tmp_path))

    def reopen(self, backend):
        return FileStore(backend.root)

    def oracle(self, backend, locator):
        path = backend.path(locator)
        return open(path, "rb").read() if os.path.isfile(path) else None
"""


def run(tmp_path, text) -> dict[str, str]:
    """Run a test module in a pytest of its own; the outcome of each item."""
    (tmp_path / "test_backend.py").write_text(text)
    source = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.getcwd()])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    rows = [line.split(" ", 1) for line in done.stdout.splitlines() if "::test_conforms[" in line]
    assert rows, done.stdout + done.stderr
    return {row[1].partition("[")[2].partition("]")[0]: row[0] for row in rows}


@pytest.mark.slow
def test_each_check_is_an_item_with_a_readable_name(tmp_path):
    outcomes = run(tmp_path, HONEST)
    passed = {name for name, outcome in outcomes.items() if outcome == "PASSED"}
    assert {"round_trip", "lf_exact_round_trip", *ABILITIES} <= passed
    assert not [name for name, outcome in outcomes.items() if outcome == "FAILED"]
    assert set(outcomes) <= {requirement.name for requirement in REQUIREMENTS}


@pytest.mark.slow
def test_a_broken_backend_fails_in_its_item_only(tmp_path):
    outcomes = run(tmp_path, BROKEN)
    assert {name for name, outcome in outcomes.items() if outcome == "FAILED"} == {"list_children", "watch"}
    assert outcomes["routing"] == "PASSED"


@pytest.mark.slow
def test_reopen_and_oracle_are_methods_of_the_class(tmp_path):
    outcomes = run(tmp_path, SHARED)
    assert outcomes["crash_write"] == outcomes["atomic_to_readers"] == "PASSED"
    assert "FAILED" not in outcomes.values()


@pytest.mark.slow
def test_the_rest_of_the_kit_does_not_need_pytest():
    code = "import sys; sys.modules['pytest'] = None; import agentm.conformance.command, agentm.conformance.routing"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
