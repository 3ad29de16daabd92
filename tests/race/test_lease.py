"""Looking whether somebody writes to a file, at the very moment when somebody does."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentm.backends import _durable

pytestmark = [
    pytest.mark.spec("SEAM-14"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has leases"),
]

OPENS = """
import os, sys
try:
    os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
except BlockingIOError:
    print("had to wait")
"""


@pytest.fixture
def note(tmp_path: Path) -> str:
    (tmp_path / "note").write_text("text")
    return str(tmp_path / "note")


def test_a_file_that_nobody_has_open_for_writing(note: str) -> None:
    with open(note, encoding="utf-8"):
        assert not _durable.being_written(note)
    with open(note, "r+", encoding="utf-8") as file:
        file.write("done")
    assert not _durable.being_written(note)


def test_a_file_that_somebody_has_open_for_writing(note: str) -> None:
    with open(note, "r+", encoding="utf-8"):
        assert _durable.being_written(note)


def test_somebody_who_opens_it_during_the_look_is_seen_and_does_not_end_this_process(
    note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells the holder of a lease by a signal; the one that it sends if not told otherwise kills."""
    real, said = fcntl.fcntl, list[str]()

    def meanwhile(fd: int, command: int, argument: int = 0) -> int:
        answer = real(fd, command, argument)
        if command == fcntl.F_SETLEASE and argument == fcntl.F_RDLCK:
            opener = subprocess.run([sys.executable, "-c", OPENS, note], capture_output=True, text=True, check=True)
            said.append(opener.stdout.strip())
        return int(answer)

    monkeypatch.setattr(fcntl, "fcntl", meanwhile)
    assert _durable.being_written(note)
    assert said == ["had to wait"]


def test_nobody_has_to_wait_afterwards(note: str) -> None:
    _durable.being_written(note)
    os.close(os.open(note, os.O_WRONLY | os.O_NONBLOCK))
