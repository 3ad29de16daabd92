"""The list of what was written a moment ago: what comes late is for the next time, never lost."""

from __future__ import annotations

import os
from pathlib import Path

from agentm.index import todo


def test_what_is_noted_is_taken_once_and_gone_when_done(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    todo.note(home, ["a", "b"])
    todo.note(home, ["a"])
    assert todo.is_there(home)
    assert todo.waiting(home) == ["a", "b"]
    noted, size = todo.taken(home)
    assert noted == ["a", "b"]
    todo.note(home, ["c"])
    assert todo.waiting(home) == ["a", "b", "c"]
    todo.done(home, size)
    assert todo.waiting(home) == ["c"]


def test_what_is_taken_and_not_done_is_taken_again(tmp_path: Path) -> None:
    todo.note(str(tmp_path), ["a"])
    assert todo.taken(str(tmp_path)) == todo.taken(str(tmp_path)) == (["a"], 2)


def test_what_somebody_who_had_the_list_open_adds_late_is_kept(tmp_path: Path) -> None:
    todo.note(str(tmp_path), ["a"])
    fd = os.open(tmp_path / todo.NAME, os.O_WRONLY | os.O_APPEND)
    _, size = todo.taken(str(tmp_path))
    os.write(fd, b"late\0")
    os.close(fd)
    todo.done(str(tmp_path), size)
    assert "late" in todo.taken(str(tmp_path))[0]


def test_a_name_may_be_of_several_lines(tmp_path: Path) -> None:
    todo.note(str(tmp_path), ["a\nb.md", "c"])
    assert todo.waiting(str(tmp_path)) == todo.taken(str(tmp_path))[0] == ["a\nb.md", "c"]


def test_nothing_noted_is_nothing(tmp_path: Path) -> None:
    assert todo.taken(str(tmp_path)) == ([], 0)
    assert not todo.is_there(str(tmp_path))
