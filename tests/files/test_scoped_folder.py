"""A scope around a store that is a folder of files: what its places lead to, and where they really lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    BackendStorage,
    BoundaryError,
    Capabilities,
    ConcurrentModificationError,
    DeviceLocalBackend,
    DirEntry,
    Info,
    Locator,
    MemoryBackend,
    ScopedBackend,
    ScopedStorage,
    ScopedStorageScope,
    SqliteBackend,
    StorageBackend,
    VaultBackend,
)
from agentm.files import _way
from agentm.seam import ABSENT, ROOT, Watcher
from agentm.seam.layer import Layer
from tests.files.storages import run

pytestmark = pytest.mark.spec("FILES-05")

EVERYWHERE = ("/",)
TOKEN = "oauth_token: secret"


def all_of(backend: StorageBackend, **more: Any) -> ScopedBackend:
    return ScopedBackend(backend, ScopedStorageScope(EVERYWHERE, EVERYWHERE, **more))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with keys in it, which is also the folder of a store."""
    home = tmp_path / "home"
    for name in (".config/gh/hosts", ".config/app/settings", ".ssh/id", "notes/a.md"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(TOKEN if "a.md" not in name else "A note.")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(params=["device-local", "vault", "through a layer", "through a link"])
def at_home(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> StorageBackend:
    (tmp_path / "link").symlink_to(home)
    made: dict[str, Callable[[], StorageBackend]] = {
        "device-local": lambda: DeviceLocalBackend(home),
        "vault": lambda: VaultBackend(home, lock_root=tmp_path / "locks"),
        "through a layer": lambda: Layer(DeviceLocalBackend(home)),
        "through a link": lambda: DeviceLocalBackend(tmp_path / "link"),
    }
    return made[request.param]()


class TestAtHome:
    def test_what_holds_a_denied_folder_is_not_moved_nor_put_in_its_place(
        self, at_home: StorageBackend, home: Path
    ) -> None:
        scoped = all_of(at_home)
        files = ScopedStorage(BackendStorage(at_home), ScopedStorageScope(EVERYWHERE, EVERYWHERE))
        through = BackendStorage(scoped)
        for source, target in ((".config", "conf"), ("notes", ".config"), (".ssh", "keys"), ("notes", ".ssh")):
            with pytest.raises(BoundaryError):
                scoped.rename(Locator(source), Locator(target))
            for storage in (files, through):
                with pytest.raises(BoundaryError):
                    run(storage.rename(f"/{source}", f"/{target}"))
        assert (home / ".config/gh/hosts").read_text() == TOKEN
        assert not (home / "conf").exists()
        scoped.rename(Locator(".config/app"), Locator("app"))
        assert scoped.read(Locator("app/settings")) == TOKEN

    def test_what_holds_a_denied_folder_is_not_removed(self, at_home: StorageBackend, home: Path) -> None:
        (home / ".kube").mkdir()
        files = ScopedStorage(BackendStorage(at_home), ScopedStorageScope(EVERYWHERE, EVERYWHERE))
        for storage in (files, BackendStorage(all_of(at_home))):
            for path in ("/.config", "/.ssh", "/.kube"):
                with pytest.raises(BoundaryError):
                    run(storage.remove(path, recursive=True))
                with pytest.raises(BoundaryError):
                    run(storage.remove(path))
        with pytest.raises(BoundaryError):
            all_of(at_home).remove(Locator(".kube"))
        assert (home / ".config/app/settings").exists()
        assert (home / ".config/gh/hosts").exists()

    def test_keys_are_neither_read_nor_shown_nor_told_of(self, at_home: StorageBackend) -> None:
        scoped = all_of(at_home)
        assert ".ssh" not in [place.name for place in scoped.list(ROOT)]
        assert [place.name for place in scoped.list(Locator(".config"))] == ["app"]
        assert {change.locator.key for change in scoped.changes({})} >= {".config/app/settings", "notes/a.md"}
        assert not [
            change for change in scoped.changes({}) if "ssh" in change.locator.key or "gh" in change.locator.key
        ]
        for key in (".ssh", ".ssh/id", ".config/gh/hosts", ".SSH/id"):
            for call in (scoped.read, scoped.list, scoped.exists, scoped.info):
                with pytest.raises(BoundaryError):
                    call(Locator(key))

    def test_a_store_in_a_denied_folder_is_shut(self, home: Path) -> None:
        scoped = all_of(DeviceLocalBackend(home / ".ssh"))
        for call in (scoped.list, scoped.read, scoped.exists):
            with pytest.raises(BoundaryError):
                call(ROOT)


@pytest.fixture(params=["memory", "device-local", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    made: dict[str, Callable[[], StorageBackend]] = {
        "memory": MemoryBackend,
        "device-local": lambda: DeviceLocalBackend(tmp_path / "store"),
        "sqlite": lambda: SqliteBackend(tmp_path / "store.db"),
    }
    return made[request.param]()


def test_a_store_may_have_folders_called_as_those_of_the_machine(store: StorageBackend) -> None:
    scoped = all_of(store, always_deny=["/private"])
    for key in ("etc/notes.md", "proc/x", "sys/x", "run/secrets/x"):
        scoped.write(Locator(key), "mine")
        assert scoped.read(Locator(key)) == "mine"
    assert [place.key for place in scoped.list(ROOT)] == ["etc", "proc", "run", "sys"]
    for key in ("private", "private/x", "Private/x"):
        with pytest.raises(BoundaryError):
            scoped.write(Locator(key), "x")


class OwnFolder(Layer):
    """Somebody's own store over a folder, which is no class of ours inside."""

    def __init__(self, inner: DeviceLocalBackend) -> None:
        super().__init__(MemoryBackend())
        self._files = inner

    @property
    def folder(self) -> str:
        return self._files.root

    @property
    def capabilities(self) -> Capabilities:
        return self._files.capabilities

    def read(self, locator: Locator) -> str:
        return self._files.read(locator)

    def list(self, locator: Locator) -> list[Locator]:
        return self._files.list(locator)

    def info(self, locator: Locator) -> Info:
        return self._files.info(locator)


@pytest.mark.parametrize("around", [Layer, lambda store: Layer(Layer(store)), OwnFolder])
def test_links_are_refused_through_any_layer(
    tmp_path: Path, around: Callable[[DeviceLocalBackend], StorageBackend]
) -> None:
    linked = with_links(tmp_path)
    scoped = all_of(around(linked))
    assert scoped.read(Locator("in/a")) == "inside"
    for key in ("in/file", "in/folder/secret", "in/hard"):
        with pytest.raises(BoundaryError):
            scoped.read(Locator(key))


def with_links(tmp_path: Path) -> DeviceLocalBackend:
    store = DeviceLocalBackend(tmp_path / "store")
    for key in ("in/a", "in/deep/b"):
        store.write(Locator(key), "inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("outside")
    (tmp_path / "store/in/file").symlink_to(tmp_path / "outside/secret")
    (tmp_path / "store/in/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "store/in/hard").hardlink_to(tmp_path / "outside/secret")
    return store


def test_a_change_of_what_cannot_be_read_is_not_told(tmp_path: Path) -> None:
    scoped = all_of(with_links(tmp_path))
    assert {change.locator.key for change in scoped.changes({})} == {"in/a", "in/deep/b"}
    seen = {"in/file": "old", "in/hard": "old", "in/gone": "old"}
    told = {change.locator.key: change.stamp for change in scoped.changes(seen)}
    assert set(told) == {"in/a", "in/deep/b", "in/gone"}
    assert told["in/gone"] is None


def test_links_are_listed_as_leaves_and_go_with_their_folder(tmp_path: Path) -> None:
    store = with_links(tmp_path)
    storage = ScopedStorage(BackendStorage(store), ScopedStorageScope(EVERYWHERE, EVERYWHERE))
    assert run(storage.list_entries("/in")) == [
        DirEntry(name, name == "deep") for name in ("a", "deep", "file", "folder", "hard")
    ]
    assert run(BackendStorage(all_of(store)).list_entries("/in")) == [DirEntry("a", False), DirEntry("deep", True)]
    run(storage.remove("/in/file"))
    run(storage.remove("/in", recursive=True))
    assert not store.exists(Locator("in"))
    assert (tmp_path / "outside/secret").read_text() == "outside"


class TestVersions:
    @pytest.fixture
    def box(self, store: StorageBackend) -> ScopedBackend:
        for key in ("in/a", "drop/mail", "out/secret"):
            store.write(Locator(key), key)
        return ScopedBackend(store, ScopedStorageScope(["/in"], ["/in", "/drop"]))

    def test_the_version_of_what_cannot_be_read_is_not_told(self, box: ScopedBackend) -> None:
        calls: list[Callable[[Locator], object]] = [
            lambda place: box.write_versioned(place, "x", if_version=ABSENT),
            lambda place: box.remove(place, if_version=ABSENT),
            lambda place: box.write_many([(place, "x")], if_versions={place: ABSENT}),
        ]
        for call in calls:
            with pytest.raises(ConcurrentModificationError) as caught:
                call(Locator("drop/mail"))
            assert (caught.value.current, caught.value.expected) == (None, None)
            with pytest.raises(ConcurrentModificationError) as caught:
                call(Locator("in/a"))
            assert caught.value.current == box.read_versioned(Locator("in/a")).version

    def test_a_version_is_only_compared_where_may_be_written(self, box: ScopedBackend, store: StorageBackend) -> None:
        for key in ("out/secret", "out/missing"):
            with pytest.raises(BoundaryError):
                box.write_many([(Locator("in/a"), "x")], if_versions={Locator(key): ABSENT})
        assert store.read(Locator("in/a")) == "in/a"

    def test_a_version_is_not_compared_through_a_link(self, tmp_path: Path) -> None:
        scoped = all_of(with_links(tmp_path))
        with pytest.raises(BoundaryError):
            scoped.remove(Locator("in/file"), if_version=ABSENT)


def test_texts_that_can_be_gone_through_once_are_written(store: StorageBackend) -> None:
    given: Iterator[tuple[Locator, str]] = ((Locator(key), key) for key in ("a", "b"))
    all_of(store).write_many(given)  # type: ignore[arg-type]
    assert [store.read(Locator(key)) for key in ("a", "b")] == ["a", "b"]


class Noisy(Layer):
    """A store in which something outside changes whenever somebody waits."""

    waits = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(watch=True)

    def watch(self, below: Locator = ROOT) -> Watcher:
        return self  # type: ignore[return-value]

    def wait(self, timeout: float) -> tuple[Locator, ...]:
        self.waits += 1
        assert self.waits < 100_000, "it does not stop"
        return (Locator("out/x"),)


@pytest.mark.parametrize("timeout", [0, -1, 0.01])
def test_a_watcher_keeps_its_time_however_much_happens_outside(timeout: float) -> None:
    scoped = ScopedBackend(Noisy(MemoryBackend()), ScopedStorageScope(["/in"]))
    assert scoped.watch().wait(timeout) == ()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files cannot be counted here")
def test_a_name_that_no_disk_can_have_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_way, "_kernel_call", lambda: None)
    scoped = all_of(with_links(tmp_path))
    for _ in range(3):
        assert scoped.exists(Locator("in/\ud800/a")) is False
        with pytest.raises(BoundaryError):
            scoped.read(Locator("in/folder/secret"))
    assert not [path for path in still_open() if path.startswith(str(tmp_path))]


def still_open() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            yield os.readlink(f"/proc/self/fd/{name}")
