"""A small file says how far an agent reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentm import BoundaryError, FsStorage, ReachError, ScopedStorage, load_reach, parse_reach
from tests.files.storages import run

pytestmark = pytest.mark.spec("FILES-03")


def test_tokens_stand_for_home_self_and_the_working_directory(home: str) -> None:
    reach = parse_reach(
        'read = ["${cwd}", "${home}/notes"]\nwrite = ["${self}/memory"]\nworkdir = "${CWD}"\n',
        self_dir="/agents/engineer",
        cwd="/work/repo/",
    )
    assert reach.scope.read == ("/work/repo", f"{home}/notes")
    assert reach.scope.write == ("/agents/engineer/memory",)
    assert reach.workdir == "/work/repo"


def test_a_file_is_put_to_use(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a").write_text("x")
    (tmp_path / "reach.toml").write_text('read = ["${cwd}"]\n')
    reach = load_reach(str(tmp_path / "reach.toml"), cwd=str(tmp_path / "repo"))
    storage = ScopedStorage(FsStorage(), reach.scope)
    assert run(storage.read(f"{tmp_path}/repo/a")) == "x"
    with pytest.raises(BoundaryError):
        run(storage.write(f"{tmp_path}/repo/a", "y"))
    with pytest.raises(BoundaryError):
        run(storage.read(f"{tmp_path}/reach.toml"))


def test_what_is_denied_can_be_added() -> None:
    assert parse_reach('read = ["/a"]\nalways_deny = ["/a/b"]').scope.is_denied("/a/b/c")


def test_nothing_said_is_nothing_reached() -> None:
    reach = parse_reach("")
    assert (reach.scope.read, reach.scope.write, reach.workdir) == ((), (), None)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('read = ["${self}/x"]', {}),
        ('read = ["${self}/x"]', {"self_dir": ""}),
        ('read = ["${cwd}"]', {"cwd": ""}),
        ('write = ["${home}"]', {"home": ""}),
        ('write = ["${home}"]', {"home": "relative"}),
        ('read = ["${}"]', {}),
        ('read = ["${nobody}"]', {}),
        ('workdir = "${self}"', {}),
        ('read = ["notes"]', {}),
        ('read = [""]', {}),
        ('read = "/a"', {}),
        ("read = [5]", {}),
        ("workdir = 5", {}),
        ('reads = ["/a"]', {}),
        ('read = ["/a/../b"]', {}),
        ('read = ["${cwd}/../up"]', {"cwd": "/work"}),
        ("read = [", {}),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(text: str, tokens: dict[str, str]) -> None:
    with pytest.raises(ReachError) as caught:
        parse_reach(text, **tokens)
    assert caught.value.code == "reach_invalid"
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReachError):
        load_reach(str(tmp_path / "missing.toml"))
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(ReachError):
        load_reach(str(tmp_path / "bad.toml"))


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_the_environment_does_not_know_is_refused(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    with pytest.raises(ReachError):
        parse_reach('read = ["${home}/n"]')
    assert parse_reach('read = ["/n"]').scope.read == ("/n",)


def test_the_agents_own_folder_is_that_of_its_file_unless_said(tmp_path: Path) -> None:
    (tmp_path / "reach.toml").write_text('read = ["${self}/notes"]\n')
    assert load_reach(str(tmp_path / "reach.toml")).scope.read == (f"{tmp_path}/notes",)
    assert load_reach(str(tmp_path / "reach.toml"), self_dir="/own").scope.read == ("/own/notes",)
