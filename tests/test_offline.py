"""Recall with the network cut off, from the package as it is installed, without this source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import missing

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.slow, pytest.mark.spec("IDX-03")]

SESSION = """
import socket
from agentm import Memory
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
except OSError as error:
    assert error.errno == 101, error  # the network is unreachable
with Memory.open(user="alice") as memory:
    memory.remember("Ada bought a puppy in Malmö.", slug="pet")
    memory.remember("The ferry was late.", slug="ferry")
    print(memory.recall("Who got a dog?").entries[0].uri)
    print(memory.__class__.__module__, __import__("agentm").__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, and of what it depends on nothing but tantivy."""
    base = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(base), str(ROOT)], check=True, capture_output=True, cwd=base)
    [wheel] = base.glob("agentm-*.whl")
    site = base / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    found = find_spec("tantivy")
    assert found is not None
    assert found.origin is not None
    shutil.copytree(Path(found.origin).parent, site / "tantivy")
    return site


def test_recall_needs_no_network_and_nothing_that_is_not_installed(installed: Path, tmp_path: Path) -> None:
    cut_off = ["unshare", "--net", "--map-root-user"] if os.geteuid() else ["unshare", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*cut_off, "true"], capture_output=True).returncode:
        missing("the network cannot be cut off here (unshare -n)")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(installed)}
    command = [*cut_off, sys.executable, "-S", "-c", SESSION]  # -S: none of the packages around us
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "ctx://local/users/alice/memories/events/pet"
    assert str(installed) in second
