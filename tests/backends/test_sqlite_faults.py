"""The one-file store when a system call fails: the old text or a true answer, never a lie."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentm import SqliteBackend
from tests.backends.stores import at
from tests.conftest import missing

OLD, NEW = "old " * 3_000, "new " * 5_000
CALLS = ("pwrite64", "fdatasync", "fsync", "unlink")

WRITE = """
import sys
from agentm import Locator, SqliteBackend, StoreError
backend = SqliteBackend(sys.argv[1])
try:
    backend.write(Locator("d/note"), "new " * 5_000)
except StoreError as error:
    print(error.code, error.backend, error.verb, error.locator)
else:
    print("written")
"""


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "memory.db")
    with SqliteBackend(path) as backend:
        backend.write(at("d/note"), OLD)
    return path


def run(store: str, log: Path, *options: str) -> str:
    """One process that opens the store and writes once, traced; what it printed."""
    if shutil.which("strace") is None:
        missing("strace is not installed (apt-get install strace)")
    command = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={','.join(CALLS)}", *options]
    done = subprocess.run(
        [*command, sys.executable, "-c", WRITE, store], capture_output=True, text=True, timeout=60, check=False
    )
    if "Operation not permitted" in done.stderr:
        missing("this machine does not let strace trace")
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()


@pytest.mark.spec("SEAM-06")
def test_a_write_is_on_the_medium_when_it_returns(store: str, tmp_path: Path) -> None:
    assert run(store, tmp_path / "log") == "written"
    calls = re.findall(r"(pwrite|sync|unlink)\w*\(.*?[<\"](/.+?)[>\"]", (tmp_path / "log").read_text())
    last_write = max(n for n, (call, _) in enumerate(calls) if call == "pwrite")
    # The text, then the removal of the journal that makes it count, then the directory that remembers the removal.
    assert calls[last_write:] == [
        ("pwrite", store),
        ("sync", store),
        ("unlink", f"{store}-journal"),
        ("sync", str(tmp_path)),
    ]


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize(
    ("call", "nth", "error", "code", "texts"),
    [
        ("pwrite64", 1, "ENOSPC", "no_space", [OLD]),
        ("pwrite64", -1, "ENOSPC", "no_space", [OLD]),
        ("pwrite64", -1, "EIO", "io_error", [OLD]),
        ("sync", 1, "EIO", "io_error", [OLD]),
        ("sync", -2, "EIO", "io_error", [OLD]),
        # From the removal of the journal on, nobody can say what a power cut would leave.
        ("unlink", 1, "EIO", "outcome_unknown", [OLD, NEW]),
        ("sync", -1, "EIO", "outcome_unknown", [OLD, NEW]),
    ],
)
def test_a_call_that_fails_before_or_after_the_commit_point(
    store: str, tmp_path: Path, call: str, nth: int, error: str, code: str, texts: list[str]
) -> None:
    log = tmp_path / "log"
    shutil.copytree(tmp_path, tmp_path / "trial")
    assert run(str(tmp_path / "trial" / "memory.db"), log) == "written"
    trace = log.read_text()
    if call == "sync":
        call = "fdatasync" if "fdatasync(" in trace else "fsync"  # as SQLite was built
    made = trace.count(f" {call}(")
    said = run(store, log, "-e", f"inject={call}:error={error}:when={nth if nth > 0 else made + 1 + nth}")
    assert "INJECTED" in log.read_text(), "the fault never fired"
    assert said.split() == [code, "sqlite", "write", "d/note"]
    with SqliteBackend(store) as backend:
        assert backend.read(at("d/note")) in texts
        backend.write(at("d/note"), "and on it goes")
        assert backend.read(at("d/note")) == "and on it goes"
