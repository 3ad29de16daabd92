"""One behaviour for files on a disk, in the process and in any store."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    AgentmError,
    BackendStorage,
    Capabilities,
    ConcurrentModificationError,
    DirEntry,
    FsStorage,
    InMemoryStorage,
    InvalidPathError,
    Locator,
    MemoryBackend,
    Storage,
)
from agentm.seam.layer import Layer
from tests.files.storages import NAMES, WITH_SCOPE, made, run

pytestmark = pytest.mark.spec("FILES-01", "FILES-02")


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, str]:
    return made(request.param, tmp_path)


@pytest.fixture(params=WITH_SCOPE)
def each(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, str]:
    """One within a scope as well: what it covers behaves as without."""
    return made(request.param, tmp_path)


def test_each_is_a_storage(place: tuple[Storage, str]) -> None:
    assert isinstance(place[0], Storage)


def test_what_is_missing_is_no_error(each: tuple[Storage, str]) -> None:
    storage, folder = each
    missing = f"{folder}/missing"
    assert run(storage.read(missing)) is None
    assert run(storage.exists(missing)) is False
    assert run(storage.mtime(missing)) is None
    assert run(storage.list(missing)) == []
    assert run(storage.list_entries(missing)) == []


def test_what_would_lie_below_a_file_is_missing(each: tuple[Storage, str]) -> None:
    storage, folder = each
    run(storage.write(f"{folder}/file", "x"))
    below = f"{folder}/file/below"
    assert run(storage.read(below)) is None
    assert run(storage.exists(below)) is False
    assert run(storage.mtime(below)) is None
    assert run(storage.list(below)) == []


@pytest.mark.parametrize("text", ["", "hello", "two\r\nlines\n", "naïve 漢字 🙂", "\ufeffmarked", "x" * 300_000])
@pytest.mark.parametrize("verb", ["write", "write_atomic", "append"])
def test_text_comes_back_as_it_was(each: tuple[Storage, str], text: str, verb: str) -> None:
    storage, folder = each
    run(getattr(storage, verb)(f"{folder}/a.md", text))
    assert run(storage.read(f"{folder}/a.md")) == text
    assert run(storage.exists(f"{folder}/a.md")) is True


@pytest.mark.parametrize("verb", ["write", "write_atomic"])
def test_a_write_replaces_all_of_it(each: tuple[Storage, str], verb: str) -> None:
    storage, folder = each
    run(storage.write(f"{folder}/a.md", "a long text"))
    run(getattr(storage, verb)(f"{folder}/a.md", "short"))
    assert run(storage.read(f"{folder}/a.md")) == "short"
    assert run(storage.list(folder)) == ["a.md"], "no temporary file is left"


def test_appending_adds_at_the_end(place: tuple[Storage, str]) -> None:
    storage, folder = place
    run(storage.append(f"{folder}/log", "one\n"))
    run(storage.append(f"{folder}/log", "two\n"))
    assert run(storage.read(f"{folder}/log")) == "one\ntwo\n"


def test_many_appenders_all_land(place: tuple[Storage, str]) -> None:
    storage, folder = place

    async def all_at_once() -> None:
        await asyncio.gather(*(storage.append(f"{folder}/log", f"line {number}\n") for number in range(20)))

    run(all_at_once())
    text = run(storage.read(f"{folder}/log"))
    assert text is not None
    assert sorted(text.splitlines()) == sorted(f"line {number}" for number in range(20))


def test_the_time_of_a_change_is_in_milliseconds(place: tuple[Storage, str]) -> None:
    storage, folder = place
    before = time.time()
    run(storage.write(f"{folder}/a.md", "x"))
    changed = run(storage.mtime(f"{folder}/a.md"))
    assert changed is not None
    assert (before - 2) * 1000 <= changed <= (time.time() + 2) * 1000


def test_a_folder_lists_its_names_sorted_and_what_they_are(place: tuple[Storage, str]) -> None:
    storage, folder = place
    run(storage.mkdir(f"{folder}/b"))
    run(storage.write(f"{folder}/c", "x"))
    run(storage.write(f"{folder}/a", "x"))
    run(storage.write(f"{folder}/b/deep", "x"))
    assert run(storage.list(folder)) == ["a", "b", "c"]
    assert run(storage.list_entries(folder)) == [DirEntry("a", False), DirEntry("b", True), DirEntry("c", False)]
    assert run(storage.list(f"{folder}/")) == ["a", "b", "c"]


def test_mkdir_makes_the_way_and_may_come_twice(each: tuple[Storage, str]) -> None:
    storage, folder = each
    run(storage.mkdir(f"{folder}/one/two/three"))
    run(storage.mkdir(f"{folder}/one/two/three"))
    assert run(storage.exists(f"{folder}/one/two/three")) is True
    assert run(storage.list(f"{folder}/one/two/three")) == []
    assert run(storage.list_entries(f"{folder}/one")) == [DirEntry("two", True)]


def test_remove_takes_files_empty_folders_and_with_a_word_full_ones(each: tuple[Storage, str]) -> None:
    storage, folder = each
    run(storage.mkdir(f"{folder}/empty"))
    run(storage.mkdir(f"{folder}/full/deep"))
    run(storage.write(f"{folder}/full/deep/a", "x"))
    run(storage.write(f"{folder}/file", "x"))
    run(storage.remove(f"{folder}/file"))
    run(storage.remove(f"{folder}/empty"))
    with pytest.raises(OSError):  # noqa: PT011  # which one is the store's
        run(storage.remove(f"{folder}/full"))
    assert run(storage.read(f"{folder}/full/deep/a")) == "x"
    run(storage.remove(f"{folder}/full", recursive=True))
    assert run(storage.exists(f"{folder}/full")) is False


@pytest.mark.parametrize("recursive", [False, True])
def test_removing_what_is_not_there_is_said(place: tuple[Storage, str], recursive: bool) -> None:
    storage, folder = place
    with pytest.raises(FileNotFoundError):
        run(storage.remove(f"{folder}/missing", recursive=recursive))


def test_rename_moves_a_file_over_another_and_a_folder_whole(each: tuple[Storage, str]) -> None:
    storage, folder = each
    run(storage.write(f"{folder}/a", "new"))
    run(storage.write(f"{folder}/b", "old"))
    run(storage.rename(f"{folder}/a", f"{folder}/b"))
    assert run(storage.read(f"{folder}/b")) == "new"
    run(storage.mkdir(f"{folder}/from"))
    run(storage.write(f"{folder}/from/x", "x"))
    run(storage.rename(f"{folder}/from", f"{folder}/to"))
    assert run(storage.list(folder)) == ["b", "to"]
    assert run(storage.read(f"{folder}/to/x")) == "x"


def test_renaming_what_is_not_there_is_said(place: tuple[Storage, str]) -> None:
    storage, folder = place
    run(storage.write(f"{folder}/b", "old"))
    with pytest.raises(FileNotFoundError):
        run(storage.rename(f"{folder}/a", f"{folder}/b"))
    assert run(storage.read(f"{folder}/b")) == "old"


def test_a_folder_is_no_file_and_a_file_no_folder(each: tuple[Storage, str]) -> None:
    storage, folder = each
    run(storage.mkdir(f"{folder}/sub"))
    run(storage.write(f"{folder}/file", "x"))
    for call in (
        storage.read(f"{folder}/sub"),
        storage.write(f"{folder}/sub", "x"),
        storage.write_atomic(f"{folder}/sub", "x"),
        storage.append(f"{folder}/sub", "x"),
    ):
        with pytest.raises(IsADirectoryError):
            run(call)
    with pytest.raises(NotADirectoryError):
        run(storage.list(f"{folder}/file"))
    with pytest.raises(NotADirectoryError):
        run(storage.list_entries(f"{folder}/file"))
    with pytest.raises(OSError):  # noqa: PT011
        run(storage.mkdir(f"{folder}/file"))
    assert run(storage.read(f"{folder}/file")) == "x"
    assert run(storage.list(f"{folder}/sub")) == []


def said(call: Coroutine[Any, Any, object]) -> str:
    """The code of the error of a call, or "done"."""
    try:
        run(call)
    except AgentmError as error:
        return error.code
    return "done"


def test_a_move_that_cannot_be_is_refused_in_the_same_words(each: tuple[Storage, str]) -> None:
    storage, folder = each
    for name in ("dir/in", "empty"):
        run(storage.mkdir(f"{folder}/{name}"))
    for name in ("file", "other", "dir/in/x"):
        run(storage.write(f"{folder}/{name}", name))
    for source, target, expected in (
        ("dir", "empty", "already_exists"),
        ("empty", "dir", "already_exists"),
        ("dir", "file", "already_exists"),
        ("file", "dir", "is_directory"),
        ("file", "empty", "is_directory"),
        ("dir", "dir/in/deeper", "into_itself"),
        ("file", "file/below", "not_directory"),
        ("file", "other/below", "not_directory"),
        ("missing", "missing", "not_found"),
        ("file/below", "new", "not_found"),
        ("x" * 256, "new", "not_found"),
        ("file", "x" * 256, "name_too_long"),
        ("dir", "dir", "done"),
        ("dir", "dir/", "done"),
        ("file", "file", "done"),
    ):
        assert (source, target, said(storage.rename(f"{folder}/{source}", f"{folder}/{target}"))) == (
            source,
            target,
            expected,
        )
    assert run(storage.list(folder)) == ["dir", "empty", "file", "other"]
    assert run(storage.read(f"{folder}/file")) == "file"
    assert run(storage.read(f"{folder}/dir/in/x")) == "dir/in/x"


def test_nothing_is_made_or_found_below_a_file(each: tuple[Storage, str]) -> None:
    storage, folder = each
    run(storage.write(f"{folder}/file", "x"))
    assert said(storage.mkdir(f"{folder}/file")) == "already_exists"
    for below in (f"{folder}/file/a", f"{folder}/file/a/b"):
        for call in (storage.mkdir(below), storage.write(below, "x"), storage.append(below, "x")):
            assert said(call) == "not_directory"
        assert said(storage.remove(below)) == "not_found"
        assert said(storage.remove(below, recursive=True)) == "not_found"


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128, "x" * 5_000])
def test_a_name_that_no_disk_can_have_is_missing_and_cannot_be_made(each: tuple[Storage, str], name: str) -> None:
    storage, folder = each
    for path in (f"{folder}/{name}", f"{folder}/{name}/below"):
        assert run(storage.read(path)) is None
        assert run(storage.exists(path)) is False
        assert run(storage.mtime(path)) is None
        assert run(storage.list(path)) == []
        assert run(storage.list_entries(path)) == []
        assert said(storage.remove(path)) == "not_found"
        for call in (storage.write(path, "x"), storage.append(path, "x"), storage.mkdir(path)):
            assert said(call) == "name_too_long"
    assert said(storage.write_atomic(f"{folder}/{name}", "x")) == "name_too_long"
    assert run(storage.list(folder)) == []


@pytest.mark.parametrize("path", ["notes/a.md", "", "./a", "~/a", "\0", "/a\0b", "/half \ud83d", 5, None, b"/a"])
def test_a_path_that_is_none_is_refused_by_every_verb(place: tuple[Storage, str], path: str) -> None:
    storage, folder = place
    run(storage.write(f"{folder}/a", "x"))
    for call in (
        storage.read(path),
        storage.exists(path),
        storage.mtime(path),
        storage.list(path),
        storage.list_entries(path),
        storage.write(path, "x"),
        storage.append(path, "x"),
        storage.write_atomic(path, "x"),
        storage.mkdir(path),
        storage.remove(path),
        storage.rename(path, f"{folder}/b"),
        storage.rename(f"{folder}/a", path),
    ):
        with pytest.raises(InvalidPathError) as caught:
            run(call)
        assert caught.value.code == "invalid_path"
    assert run(storage.list(folder)) == ["a"]


@pytest.mark.parametrize("content", [b"bytes", None, 5, "half \ud83d"])
def test_what_is_no_text_is_not_written(place: tuple[Storage, str], content: str) -> None:
    storage, folder = place
    run(storage.write(f"{folder}/a", "old"))
    for call in (
        storage.write(f"{folder}/a", content),
        storage.write_atomic(f"{folder}/a", content),
        storage.append(f"{folder}/a", content),
    ):
        with pytest.raises(AgentmError) as caught:
            run(call)
        assert caught.value.code == "not_text"
    assert run(storage.read(f"{folder}/a")) == "old"


def test_readers_never_see_half_of_a_write(place: tuple[Storage, str]) -> None:
    storage, folder = place
    texts = [str(number) * 20_000 for number in range(10)]
    run(storage.write(f"{folder}/a", texts[0]))

    async def reading_and_writing() -> list[str | None]:
        async def write() -> None:
            for text in texts:
                await storage.write_atomic(f"{folder}/a", text)

        async def read() -> list[str | None]:
            return [await storage.read(f"{folder}/a") for _ in range(30)]

        return (await asyncio.gather(read(), write()))[0]

    assert set(run(reading_and_writing())) <= set(texts)


def test_a_write_that_was_given_up_does_not_land_over_a_later_one(place: tuple[Storage, str]) -> None:
    storage, folder = place

    async def give_up_and_write() -> str | None:
        for delay in (0, 0.0005, 0.002):
            task = asyncio.create_task(storage.write(f"{folder}/a", "old" * 2_000_000))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await storage.write(f"{folder}/a", "new")
            if await storage.read(f"{folder}/a") != "new":
                return "at once"
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(storage.append(f"{folder}/a", "!"), 0.0001)
            await storage.write_atomic(f"{folder}/a", "newer")
        await asyncio.get_running_loop().shutdown_default_executor()
        return storage.blocking.read(f"{folder}/a")  # type: ignore[attr-defined]

    assert run(give_up_and_write()) == "newer"


def test_the_plain_calls_do_the_same(place: tuple[Storage, str]) -> None:
    storage, folder = place
    blocking = storage.blocking  # type: ignore[attr-defined]
    blocking.write(f"{folder}/a", "x")
    blocking.append(f"{folder}/a", "y")
    assert blocking.read(f"{folder}/a") == "xy"
    assert run(storage.read(f"{folder}/a")) == "xy"
    assert blocking.list(folder) == ["a"]


class TestOnDisk:
    """What only a disk has: folders that can be missing, permissions, links."""

    @pytest.mark.parametrize("verb", ["write", "write_atomic", "append"])
    def test_the_folder_has_to_exist(self, tmp_path: Path, verb: str) -> None:
        with pytest.raises(FileNotFoundError):
            run(getattr(FsStorage(), verb)(f"{tmp_path}/missing/a", "x"))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("verb", ["write", "write_atomic"])
    def test_permissions_are_as_asked_whatever_the_umask(self, tmp_path: Path, verb: str) -> None:
        storage, path = FsStorage(), f"{tmp_path}/key"
        old = os.umask(0o077)
        try:
            run(getattr(storage, verb)(path, "x", mode=0o664))
        finally:
            os.umask(old)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o664
        run(getattr(storage, verb)(path, "y", mode=0o600))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        run(getattr(storage, verb)(path, "z"))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, "what is replaced keeps its permissions"

    def test_a_private_file_is_never_readable_on_its_way(self, tmp_path: Path) -> None:
        seen: set[int] = set()

        async def watched() -> None:
            async def write() -> None:
                for _ in range(30):
                    await FsStorage().write_atomic(f"{tmp_path}/key", "secret", mode=0o600)

            async def look() -> None:
                while not done.is_set():
                    for entry in os.scandir(tmp_path):
                        try:
                            with open(entry.path) as file:
                                text = file.read()
                            if text:
                                seen.add(stat.S_IMODE(os.stat(entry.path).st_mode))
                        except FileNotFoundError:
                            pass
                    await asyncio.sleep(0)

            done = asyncio.Event()
            looking = asyncio.create_task(look())
            await write()
            done.set()
            await looking

        run(watched())
        assert seen == {0o600}

    def test_links_are_followed_and_written_through_but_replaced_by_an_atomic_write(self, tmp_path: Path) -> None:
        storage = FsStorage()
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to("real")
        assert run(storage.read(f"{tmp_path}/link")) == "old"
        run(storage.write(f"{tmp_path}/link", "new"))
        assert (tmp_path / "real").read_text() == "new"
        assert (tmp_path / "link").is_symlink()
        run(storage.write_atomic(f"{tmp_path}/link", "own"))
        assert not (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "new"

    def test_all_names_of_a_file_see_a_write(self, tmp_path: Path) -> None:
        (tmp_path / "one").write_text("a longer old text")
        (tmp_path / "two").hardlink_to(tmp_path / "one")
        run(FsStorage().write(f"{tmp_path}/one", "new"))
        assert (tmp_path / "two").read_text() == "new"

    def test_bytes_that_are_no_text_are_said_not_guessed(self, tmp_path: Path) -> None:
        (tmp_path / "image").write_bytes(b"\xff\xd8\xff")
        with pytest.raises(AgentmError) as caught:
            run(FsStorage().read(f"{tmp_path}/image"))
        assert caught.value.code == "not_text"

    def test_a_pipe_is_refused_at_once(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(AgentmError):
            run(FsStorage().read(f"{tmp_path}/pipe"))
        with pytest.raises(AgentmError):
            run(FsStorage().write(f"{tmp_path}/pipe", "x"))

    @pytest.mark.parametrize("length", [240, 255])
    def test_a_name_of_full_length_can_be_written(self, tmp_path: Path, length: int) -> None:
        path = f"{tmp_path}/{'x' * length}"
        run(FsStorage().write_atomic(path, "text"))
        assert run(FsStorage().read(path)) == "text"
        assert len(list(tmp_path.iterdir())) == 1

    def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(self, tmp_path: Path) -> None:
        import resource

        path = f"{tmp_path}/a"
        run(FsStorage().write(path, "old"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(AgentmError) as caught:
                FsStorage().blocking.write(path, "x" * 5000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.code == "too_big"
        assert run(FsStorage().read(path)) == "old"
        assert os.listdir(tmp_path) == ["a"]


def test_a_folder_in_memory_needs_no_making() -> None:
    storage = InMemoryStorage()
    run(storage.write("/etc/foo/bar", "hello"))
    assert run(storage.list("/etc")) == ["foo"]
    assert run(storage.exists("/etc/foo")) is True


def test_two_faces_of_one_store_see_each_other() -> None:
    backend = MemoryBackend()
    run(BackendStorage(backend).write("/notes/a.md", "x"))
    assert run(BackendStorage(backend).read("/notes/a.md")) == "x"
    assert backend.read(backend.resolve("notes", "a.md")) == "x"


@pytest.mark.parametrize("path", ["/a/../b", "/a\\b"])
def test_a_path_that_a_store_cannot_have_is_refused(path: str) -> None:
    with pytest.raises(InvalidPathError):
        run(InMemoryStorage().read(path))


@pytest.mark.parametrize("swaps", [True, False])
def test_a_move_by_copy_does_not_take_away_what_came_meanwhile(swaps: bool) -> None:
    class Plain(Layer):
        """A store that cannot rename, and somebody who writes to the file once it was copied."""

        rival = False

        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(remove=True, compare_and_swap=swaps)

        def write(self, locator: Locator, content: str) -> Locator:
            if self.rival:
                super().write(Locator("a"), "newer")
            return super().write(locator, content)

    store = Plain(MemoryBackend())
    store.write(Locator("a"), "text")
    run(BackendStorage(store).rename("/a", "/b"))
    assert store.read(Locator("b")) == "text"
    assert not store.exists(Locator("a"))
    if swaps:
        store.write(Locator("a"), "text")
        store.rival = True
        with pytest.raises(ConcurrentModificationError):
            run(BackendStorage(store).rename("/a", "/b"))
        assert store.read(Locator("a")) == "newer"
