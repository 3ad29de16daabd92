"""The promises of the project itself: what the lock holds, and that CI never mistakes a skip for a proof."""

from __future__ import annotations

import os
import re
import tomllib

import pytest

from tests.conftest import missing

_PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _text(name: str) -> str:
    with open(os.path.join(_PROJECT, name), encoding="utf-8") as file:
        return file.read()


LOCKS = ("requirements.lock", "requirements-dev.lock")


def _entries(lock: str) -> list[str]:
    """A lock's requirements, each with its hashes, comments left out."""
    bare = re.sub(r"^\s*#.*\n", "", _text(lock), flags=re.MULTILINE)
    return re.split(r"\n(?=\S)", bare.strip())


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_is_pinned_by_hash(lock):
    pinned = re.compile(r"[a-z0-9-]+==\S+( ; [^\\]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\\n)?)+")
    assert [entry.splitlines()[0] for entry in _entries(lock) if not pinned.fullmatch(entry)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_host_and_no_machine(lock):
    assert re.findall(r"\w+://\S*|--(?:extra-)?index\S*|--find-links|@ \S+|(?<![\w.])/\w+", _text(lock)) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_covers_what_pyproject_asks_for(lock):
    settings = tomllib.loads(_text("pyproject.toml"))
    asked = [*settings["build-system"]["requires"], *settings["project"]["dependencies"]]
    if lock == "requirements-dev.lock":
        asked += [one for one in settings["dependency-groups"]["dev"] if isinstance(one, str)]
        asked += [one for extra in settings["project"]["optional-dependencies"].values() for one in extra]
    locked = {entry.partition("==")[0] for entry in _entries(lock)}
    assert {re.split(r"[<>=~!;\[ ]", requirement)[0] for requirement in asked} <= locked


def test_a_missing_tool_skips_on_a_laptop(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such tool"):
        missing("no such tool")


def test_a_missing_tool_fails_on_ci(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no such tool"):
        missing("no such tool")


def test_a_test_has_an_empty_home_of_its_own(home):
    assert os.path.expanduser("~") == home
    assert os.listdir(home) == []
