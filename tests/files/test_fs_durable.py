"""What was acknowledged survives a power cut, and what is secret is never open to others on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agentm import DeviceLocalBackend, FsStorage, Locator, OutcomeUnknownError, StoreError
from agentm.conformance.crashsim import CrashState, Recorder, Trace, record, survey
from agentm.files.base import BlockingStorage
from agentm.files.scope import ScopedStorageScope

pytestmark = pytest.mark.spec("FILES-01")


@pytest.fixture(params=["anywhere", "beneath"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> BlockingStorage:
    root = str(tmp_path)
    scope = ScopedStorageScope([root], [root])
    return (FsStorage() if request.param == "anywhere" else FsStorage().beneath([root], scope.is_denied)).blocking


def recorded(root: Path, *steps: Callable[[], None]) -> Trace:
    """The steps, with a mark after each that has returned."""

    def action(recorder: Recorder) -> None:
        for step in steps:
            step()
            recorder.mark("done")

    return record(str(root), action)


def test_folders_that_were_made_hold_what_is_written_into_them(disk: BlockingStorage, tmp_path: Path) -> None:
    trace = recorded(
        tmp_path,
        lambda: disk.mkdir(f"{tmp_path}/p/q"),
        lambda: disk.write(f"{tmp_path}/p/q/f", "text"),
        lambda: disk.rename(f"{tmp_path}/p/q/f", f"{tmp_path}/p/g"),
        lambda: disk.mkdir(f"{tmp_path}/p/q/r"),
        lambda: disk.remove(f"{tmp_path}/p/q", recursive=True),
    )

    def verify(directory: str, state: CrashState) -> None:
        p, done = Path(directory, "p"), len(state.marks)
        assert (p / "q").is_dir() or done in (0, 4, 5), state.marks
        assert done != 2 or (p / "q/f").exists() or (p / "g").read_text() == "text"
        assert done < 3 or (p / "g").read_text() == "text"
        assert done != 5 or not (p / "q").exists()

    found = survey(trace, verify)
    assert not found.failures
    assert found.counts.complete
    assert found.counts.distinct > 5


def test_a_root_of_a_scope_that_is_made_survives(tmp_path: Path) -> None:
    root = f"{tmp_path}/later/work"
    disk = FsStorage().beneath([root], ScopedStorageScope([root], [root]).is_denied).blocking
    trace = recorded(tmp_path, lambda: disk.mkdir(f"{root}/deep"), lambda: disk.write(f"{root}/deep/f", "text"))

    def verify(directory: str, state: CrashState) -> None:
        assert len(state.marks) < 2 or Path(directory, "later/work/deep/f").read_text() == "text"

    assert not survey(trace, verify).failures


@pytest.mark.parametrize("verb", ["write", "write_atomic"])
def test_a_file_for_one_person_is_at_no_moment_open_to_others(disk: BlockingStorage, tmp_path: Path, verb: str) -> None:
    path = f"{tmp_path}/key"
    old = os.umask(0o022)
    try:
        trace = recorded(
            tmp_path,
            lambda: getattr(disk, verb)(path, "secret", mode=0o600),
            lambda: getattr(disk, verb)(path, "newer"),
        )
    finally:
        os.umask(old)
    assert len(trace.files) == 2
    assert {mode & 0o077 for _, mode in trace.files.values()} == {0}
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_file_that_a_link_leads_to_is_made_as_it_shall_be(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "made")
    seen = []
    real = os.open

    def watched(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        fd = real(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            seen.append(os.fstat(fd).st_mode & 0o077)
        return fd

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched)
        FsStorage().blocking.write(f"{tmp_path}/link", "secret", mode=0o600)
    assert seen == [0]
    assert (tmp_path / "made").read_text() == "secret"


@pytest.mark.parametrize("many", [False, True])
def test_a_store_keeps_a_private_file_private_on_its_way(tmp_path: Path, many: bool) -> None:
    store = DeviceLocalBackend(tmp_path / "store")
    place, other = Locator("key.md"), Locator("other.md")
    for locator in (place, other):
        store.write(locator, "old")
        os.chmod(tmp_path / "store" / locator.key, 0o600)
    seen = []
    real = os.write

    def watched(fd: int, data: bytes) -> int:
        seen.append(os.fstat(fd).st_mode & 0o077)
        return real(fd, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", watched)
        if many:
            store.write_many([(place, "secret"), (other, "secret")])
        else:
            store.write(place, "secret")
    assert set(seen) == {0}
    assert store.read(place) == "secret"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, no folder can be flushed."""
    real = os.fsync

    def fails_for_folders(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    return lambda: monkeypatch.setattr(os, "fsync", fails_for_folders)


@pytest.mark.parametrize("verb", ["write", "remove", "rename"])
def test_a_flush_that_fails_at_the_end_is_no_certain_failure(
    disk: BlockingStorage, tmp_path: Path, failing: Callable[[], None], verb: str
) -> None:
    disk.write(f"{tmp_path}/a", "old")
    failing()
    calls: dict[str, Callable[[], None]] = {
        "write": lambda: disk.write(f"{tmp_path}/a", "new"),
        "remove": lambda: disk.remove(f"{tmp_path}/a"),
        "rename": lambda: disk.rename(f"{tmp_path}/a", f"{tmp_path}/b"),
    }
    with pytest.raises(OutcomeUnknownError) as caught:
        calls[verb]()
    assert (caught.value.verb, caught.value.errno) == (verb, errno.EIO)


def test_a_folder_that_would_not_survive_is_not_made(
    disk: BlockingStorage, tmp_path: Path, failing: Callable[[], None]
) -> None:
    failing()
    with pytest.raises(StoreError) as caught:
        disk.mkdir(f"{tmp_path}/a")
    assert caught.value.errno == errno.EIO
    assert os.listdir(tmp_path) == []
