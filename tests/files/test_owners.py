"""Owners and permissions of files: what stands there keeps its own, and what may not be written is not."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentm import AgentmError, FsStorage, ScopedStorageScope
from agentm.files.base import BlockingStorage
from tests.files.storages import WITH_SCOPE, made, run

pytestmark = pytest.mark.spec("FILES-01", "FILES-02")

NOBODY = 65_534
OTHER = 1_000

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder that everybody may write to, unlike those below the one of pytest."""
    directory = os.path.realpath(tempfile.mkdtemp())
    os.chmod(directory, 0o777)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(params=["anywhere", "beneath"])
def disk(request: pytest.FixtureRequest, folder: str) -> BlockingStorage:
    scope = ScopedStorageScope([folder], [folder])
    return (FsStorage() if request.param == "anywhere" else FsStorage().beneath([folder], scope.is_denied)).blocking


def as_nobody(call: Callable[[], object]) -> str:
    """What a call says to somebody who is not root: the code of its error, or "done"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            call()
            said = "done"
        except BaseException as error:
            said = getattr(error, "code", None) or repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def put(path: str, text: str, mode: int, owner: int = NOBODY) -> None:
    with open(path, "w") as file:
        file.write(text)
    if os.geteuid() == 0:
        os.chown(path, owner, owner)
    os.chmod(path, mode)


def text_of(path: str) -> str:
    with open(path) as file:
        return file.read()


def owner_and_mode(path: str) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


@needs_root
@pytest.mark.parametrize("verb", ["write", "write_atomic"])
def test_what_is_replaced_keeps_its_owner(disk: BlockingStorage, folder: str, verb: str) -> None:
    put(f"{folder}/a", "old", 0o4755, OTHER)
    getattr(disk, verb)(f"{folder}/a", "new")
    assert owner_and_mode(f"{folder}/a") == (OTHER, OTHER, 0o4755)
    getattr(disk, verb)(f"{folder}/a", "newer", mode=0o600)
    assert owner_and_mode(f"{folder}/a") == (OTHER, OTHER, 0o600)


@needs_root
@pytest.mark.parametrize("text", ["new", ""])  # the system looks to it too, but only where bytes are written
@pytest.mark.parametrize("verb", ["write", "write_atomic"])
def test_whoever_cannot_keep_the_owner_makes_no_program_run_as_themselves(
    disk: BlockingStorage, folder: str, verb: str, text: str
) -> None:
    put(f"{folder}/a", "old", 0o6777, OTHER)
    assert as_nobody(lambda: getattr(disk, verb)(f"{folder}/a", text)) == "done"
    assert owner_and_mode(f"{folder}/a") == (NOBODY, NOBODY, 0o777)
    assert text_of(f"{folder}/a") == text


@pytest.mark.parametrize("verb", ["write", "write_atomic", "append"])
def test_a_file_that_may_not_be_written_is_left_alone(disk: BlockingStorage, folder: str, verb: str) -> None:
    put(f"{folder}/a", "old", 0o444)
    assert as_nobody(lambda: getattr(disk, verb)(f"{folder}/a", "new")) == "permission_denied"
    assert text_of(f"{folder}/a") == "old"
    assert os.listdir(folder) == ["a"]


@pytest.mark.parametrize(
    ("verb", "said"), [("write", "done"), ("append", "done"), ("write_atomic", "permission_denied")]
)
def test_a_file_in_a_folder_that_may_not_be_written_is_written_in_place(
    disk: BlockingStorage, folder: str, verb: str, said: str
) -> None:
    put(f"{folder}/a", "a longer old text", 0o644)
    os.chmod(folder, 0o555)
    try:
        assert as_nobody(lambda: getattr(disk, verb)(f"{folder}/a", "new")) == said
        assert as_nobody(lambda: disk.write(f"{folder}/b", "new")) == "permission_denied"
    finally:
        os.chmod(folder, 0o777)
    texts = {"write": "new", "append": "a longer old textnew", "write_atomic": "a longer old text"}
    assert text_of(f"{folder}/a") == texts[verb]


@pytest.mark.parametrize("name", WITH_SCOPE)
@pytest.mark.parametrize("mode", ["600", -1, True, 0o4755, 0o1000, 6.0, b""])
def test_a_mode_that_is_none_is_refused_and_nothing_written(name: str, mode: Any, tmp_path: Path) -> None:
    storage, work = made(name, tmp_path)
    for verb in (storage.write, storage.write_atomic):
        with pytest.raises(AgentmError) as caught:
            run(verb(f"{work}/a", "x", mode=mode))
        assert caught.value.code == "invalid_mode"
    assert run(storage.list(work)) == []


def test_what_could_not_be_added_whole_is_not_added(disk: BlockingStorage, folder: str) -> None:
    put(f"{folder}/log", "old", 0o644)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(AgentmError) as caught:
            disk.append(f"{folder}/log", "z" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "too_big"
    assert text_of(f"{folder}/log") == "old"
    disk.append(f"{folder}/log", "!")
    assert text_of(f"{folder}/log") == "old!"


def test_what_somebody_else_added_meanwhile_stays(
    disk: BlockingStorage, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full after half of it, and a neighbour who was in between."""
    put(f"{folder}/log", "old\n", 0o644)
    real = os.write
    calls = []

    def interrupted(fd: int, data: Any) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = real(fd, bytes(data)[:3])
        with open(f"{folder}/log", "a") as file:
            file.write("theirs\n")
        return count

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(AgentmError) as caught:
        disk.append(f"{folder}/log", "ours\n")
    assert caught.value.code == "no_space"
    assert "theirs\n" in text_of(f"{folder}/log")
