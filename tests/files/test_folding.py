"""On a volume that folds case and normal forms, a name never stands for another's."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    AgentmError,
    BoundaryError,
    ContextFS,
    DeviceLocalBackend,
    FsStorage,
    InvalidUriError,
    Locator,
    RequestContext,
    ScopedBackend,
    ScopedStorage,
    ScopedStorageScope,
)
from agentm.conformance.crashsim import scratch
from agentm.context.node import ContextNode
from agentm.files import _way
from tests.files.folding_volume import Unusable, folding_volume
from tests.files.storages import run

pytestmark = pytest.mark.spec("FILES-03")

COMPOSED, TAKEN_APART = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
PAIRS = [("acme", "ACME"), ("ACME", "acme"), ("Acme.md", "acme.md"), (COMPOSED, TAKEN_APART), (TAKEN_APART, COMPOSED)]


@pytest.fixture(scope="module")
def volume() -> Iterator[str]:
    with scratch() as directory:
        try:
            with folding_volume(directory) as path:
                yield path
        except Unusable as reason:
            pytest.skip(str(reason))  # mounting is root's, and CI need not be root


@pytest.fixture
def work(volume: str) -> str:
    """A folder of the test's own on the volume."""
    path = f"{volume}/{len(os.listdir(volume))}-work"
    os.mkdir(path)
    return path


@pytest.fixture(params=["one call", "name by name"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "name by name":
        monkeypatch.setattr(_way, "_kernel_call", lambda: None)


def scoped(*roots: str, **more: Any) -> ScopedStorage:
    return ScopedStorage(FsStorage(), ScopedStorageScope(roots, roots, **more))


def held(folder: str) -> dict[str, str | None]:
    """Every name below a folder as it is spelt there, with what the file holds."""
    found: dict[str, str | None] = {}
    for at, folders, files in os.walk(folder):
        found.update({os.path.join(at, name): None for name in folders})
        found.update({os.path.join(at, name): Path(at, name).read_text() for name in files})
    return found


def refused(call: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises((AgentmError, FileNotFoundError)):
        run(call)


def changes(storage: ScopedStorage, path: str, other: str) -> list[Coroutine[Any, Any, Any]]:
    return [
        *(verb(path, "mine") for verb in (storage.write, storage.append, storage.write_atomic)),
        *(storage.remove(path), storage.remove(path, recursive=True)),
        *(storage.rename(path, f"{path}-2"), storage.rename(other, path)),
    ]


def test_the_volume_does_fold(work: str) -> None:
    """Without this the rest would prove nothing."""
    for first, second in PAIRS[2:4]:
        Path(work, first).write_text("one")
        assert Path(work, second).read_text() == "one"
    assert sorted(os.listdir(work)) == sorted(pair[0] for pair in PAIRS[2:4])


@pytest.mark.parametrize(("there", "asked"), PAIRS)
class TestFiles:
    def test_a_file_answers_to_its_own_name_only(self, work: str, there: str, asked: str) -> None:
        storage, path = scoped(work), f"{work}/{asked}"
        run(storage.write(f"{work}/{there}", "theirs"))
        run(storage.write(f"{work}/other", "other"))
        before = held(work)
        assert run(storage.read(path)) is None
        assert run(storage.exists(path)) is False
        assert run(storage.mtime(path)) is None
        assert run(storage.list(path)) == []
        for call in changes(storage, path, f"{work}/other"):
            refused(call)
        refused(storage.mkdir(path))
        refused(storage.mkdir(f"{path}/below"))
        assert held(work) == before
        assert run(storage.read(f"{work}/{there}")) == "theirs"

    def test_a_folder_is_entered_by_its_own_name_only(self, work: str, there: str, asked: str) -> None:
        storage, path = scoped(work), f"{work}/{asked}/deep/f"
        run(storage.mkdir(f"{work}/{there}/deep"))
        run(storage.write(f"{work}/{there}/deep/f", "theirs"))
        run(storage.write(f"{work}/other", "other"))
        before = held(work)
        for folder in (os.path.dirname(path), f"{work}/{asked}"):
            assert run(storage.list(folder)) == []
            assert run(storage.list_entries(folder)) == []
            assert run(storage.exists(folder)) is False
            refused(storage.mkdir(folder))
            refused(storage.remove(folder, recursive=True))
        assert run(storage.read(path)) is None
        assert run(storage.exists(path)) is False
        for call in changes(storage, path, f"{work}/other"):
            refused(call)
        assert held(work) == before
        assert run(storage.read(f"{work}/{there}/deep/f")) == "theirs"

    def test_a_root_is_entered_by_its_own_name_only(self, work: str, there: str, asked: str) -> None:
        os.makedirs(f"{work}/{there}/deep")
        Path(work, there, "f").write_text("theirs")
        Path(work, there, "deep/f").write_text("theirs")
        before = held(work)
        for root in (f"{work}/{asked}", f"{work}/{asked}/deep"):
            storage = scoped(root)
            assert run(storage.read(f"{root}/f")) is None
            assert run(storage.list(root)) == []
            assert run(storage.exists(root)) is False
            for call in changes(storage, f"{root}/f", f"{root}/g"):
                refused(call)
            refused(storage.mkdir(root))
            refused(storage.mkdir(f"{root}/new"))
        assert held(work) == before

    @pytest.mark.spec("FILES-05")
    def test_a_scoped_store_gives_nobody_anothers_place(self, work: str, there: str, asked: str) -> None:
        store = DeviceLocalBackend(work)
        mine, theirs = Locator(f"{asked}/f"), Locator(f"{there}/f")
        own = ScopedBackend(store, ScopedStorageScope([f"/{there}"], [f"/{there}"]))
        own.write(theirs, "theirs")
        before = held(work)
        other = ScopedBackend(store, ScopedStorageScope([f"/{asked}"], [f"/{asked}"]))
        calls: list[Callable[[], Any]] = [
            *(lambda: other.read(mine), lambda: other.read_versioned(mine), lambda: other.exists(mine)),
            *(lambda: other.info(mine), lambda: other.list(mine.parent), lambda: other.write(mine, "x")),
            *(lambda: other.append(mine, "x"), lambda: other.mkdir(mine.parent), lambda: other.remove(mine)),
            *(lambda: other.rename(mine, mine.parent.child("g")), lambda: other.write_many([(mine, "x")])),
        ]
        for call in calls:
            with pytest.raises(BoundaryError):
                call()
        assert held(work) == before
        assert own.read(theirs) == "theirs"


@pytest.mark.parametrize("asked", ["secret", "SECRET", "Secret", "ſecret", "secret.", "ｓecret"])
@pytest.mark.parametrize("there", ["secret", "SECRET"])
def test_what_is_denied_is_denied_in_every_spelling(work: str, there: str, asked: str) -> None:
    os.mkdir(f"{work}/{there}")
    Path(work, there, "key").write_text("key")
    before = held(work)
    storage = scoped(work, always_deny=[f"{work}/secret"])
    for path in (f"{work}/{asked}", f"{work}/{asked}/key"):
        for look in (storage.read, storage.exists, storage.mtime, storage.list, storage.list_entries):
            with pytest.raises(BoundaryError, match="floor"):
                run(look(path))
        for call in changes(storage, path, f"{work}/other"):
            with pytest.raises(BoundaryError):
                run(call)
    assert held(work) == before


@pytest.mark.parametrize("scope", [None, ["/"]])
@pytest.mark.parametrize(("first", "second"), [("acme", "ACME"), ("ACME", "acme"), ("Straße", "STRASSE")])
def test_of_two_accounts_that_the_volume_cannot_tell_apart_the_second_is_refused(
    work: str, first: str, second: str, scope: list[str] | None
) -> None:
    store: Any = DeviceLocalBackend(work)
    if scope:
        store = ScopedBackend(store, ScopedStorageScope(scope, scope))
    fs = ContextFS(store)

    def address(account: str) -> tuple[str, RequestContext]:
        return f"ctx://{account}/users/alice/memories/events/visit", RequestContext(account, user_id="alice")

    uri, caller = address(first)
    fs.write_node(ContextNode(uri, "theirs"), caller)
    before = held(work)
    other, rival = address(second)
    with pytest.raises((InvalidUriError, BoundaryError)):
        ContextFS(store).write_node(ContextNode(other, "mine"), rival)
    with pytest.raises(AgentmError):
        ContextFS(store).read_node(other, rival)
    assert held(work) == before
    assert fs.read_node(uri, caller).content == "theirs"
