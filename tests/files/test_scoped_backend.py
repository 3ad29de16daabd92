"""The same scope around a store: its places, its memories, and what is recalled of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentm import (
    BoundaryError,
    ContextFS,
    ContextNode,
    DeviceLocalBackend,
    Locator,
    Memory,
    MemoryBackend,
    NodeNotFoundError,
    RequestContext,
    ScopedBackend,
    ScopedStorageScope,
    StorageBackend,
    UnsupportedAbilityError,
    run_conformance,
)
from tests.backends.stores import PROTOCOLS, make_store

pytestmark = pytest.mark.spec("FILES-05")


@pytest.fixture(params=PROTOCOLS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    return make_store(request.param, str(tmp_path))


@pytest.fixture
def scoped(backend: StorageBackend) -> ScopedBackend:
    for key in ("in/a", "in/deep/b", "in2/a", "top", "in/out/x", "drop/y"):
        backend.write(Locator(key), key)
    return ScopedBackend(backend, ScopedStorageScope(["/in"], ["/in/out", "/drop"], ["/in/keys"]))


def test_a_layer_that_allows_everything_is_a_store_like_any_other(tmp_path: Path) -> None:
    def store(root: Path) -> ScopedBackend:
        return ScopedBackend(DeviceLocalBackend(root / "store"), ScopedStorageScope(["/"], ["/"]))

    report = run_conformance(lambda: ScopedBackend(MemoryBackend(), ScopedStorageScope(["/"], ["/"])))
    assert report.passed, report
    store(tmp_path).write(Locator("a"), "x")
    assert store(tmp_path).read(Locator("a")) == "x"


def test_what_is_covered_works(scoped: ScopedBackend, backend: StorageBackend) -> None:
    assert scoped.read(Locator("in/a")) == "in/a"
    assert scoped.read_versioned(Locator("in/deep/b")).content == "in/deep/b"
    assert [place.key for place in scoped.list(Locator("in"))] == ["in/a", "in/deep", "in/out"]
    version = scoped.read_versioned(Locator("in/out/x")).version
    scoped.write_versioned(Locator("in/out/x"), "new", if_version=version)
    scoped.append(Locator("in/out/x"), "er")
    scoped.rename(Locator("in/out/x"), Locator("in/out/z"))
    assert backend.read(Locator("in/out/z")) == "newer"
    scoped.remove(Locator("in/out/z"))
    assert not backend.exists(Locator("in/out/z"))


@pytest.mark.parametrize("key", ["in2/a", "in2", "top", "missing", "in/keys/x", "in/KEYS"])
def test_what_is_not_covered_is_refused_by_every_verb(scoped: ScopedBackend, key: str) -> None:
    place = Locator(key)
    looks: list[Callable[[], object]] = [
        lambda: scoped.read(place),
        lambda: scoped.list(place),
        lambda: scoped.exists(place),
        lambda: scoped.info(place),
        lambda: scoped.read_versioned(place),
        lambda: list(scoped.changes({}, place)),
        lambda: scoped.watch(place),
    ]
    changes: list[Callable[[], object]] = [
        lambda: scoped.write(place, "x"),
        lambda: scoped.append(place, "x"),
        lambda: scoped.mkdir(place),
        lambda: scoped.remove(place),
        lambda: scoped.write_versioned(place, "x", if_version="absent"),
        lambda: scoped.write_many([(Locator("in/out/ok"), "x"), (place, "x")]),
        lambda: scoped.rename(place, Locator("in/out/got")),
        lambda: scoped.rename(Locator("in/out/x"), place),
    ]
    for kind, calls in (("read", looks), ("write", changes)):
        for call in calls:
            with pytest.raises(BoundaryError) as caught:
                call()
            assert (caught.value.code, caught.value.kind) == ("storage-boundary", kind)
    assert not scoped.exists(Locator("in/out/ok"))


def test_the_way_to_what_is_readable_shows_nothing_else(scoped: ScopedBackend) -> None:
    assert [place.key for place in scoped.list(Locator())] == ["in"]
    assert scoped.exists(Locator()) is True
    assert {change.locator.key for change in scoped.changes({})} == {"in/a", "in/deep/b", "in/out/x"}


def test_what_can_only_be_written_cannot_be_moved_to_where_it_is_read(scoped: ScopedBackend) -> None:
    with pytest.raises(BoundaryError):
        scoped.rename(Locator("drop/y"), Locator("in/out/y"))
    with pytest.raises(BoundaryError):
        scoped.read(Locator("drop/y"))


def test_a_watcher_is_woken_by_what_it_may_see(backend: StorageBackend, scoped: ScopedBackend) -> None:
    if not backend.capabilities.watch:
        with pytest.raises(UnsupportedAbilityError):
            scoped.watch()
        return
    with scoped.watch() as watcher:
        backend.write(Locator("in2/a"), "unseen")
        assert watcher.wait(0.2) in ((), (Locator(),))
        backend.write(Locator("in/a"), "seen")
        assert watcher.wait(10)


def memories(backend: StorageBackend, account: str = "acme", user: str = "alice") -> ContextFS:
    fs, ctx = ContextFS(backend), RequestContext(account, user)
    for category in ("events", "preferences"):
        fs.write_node(ContextNode(f"ctx://{account}/users/{user}/memories/{category}/tea", f"Tea in {category}."), ctx)
    return fs


def test_memories_obey_the_scope(backend: StorageBackend) -> None:
    memories(backend)
    ctx = RequestContext("acme", "alice")
    uri = "ctx://acme/users/alice/memories"
    place = "/" + _place(backend, "events/tea").parent.key
    fs = ContextFS(ScopedBackend(backend, ScopedStorageScope([place], [place])))
    assert fs.read_node(f"{uri}/events/tea", ctx).content == "Tea in events."
    with pytest.raises((BoundaryError, NodeNotFoundError)):
        fs.read_node(f"{uri}/preferences/tea", ctx)
    fs.write_node(ContextNode(f"{uri}/events/coffee", "Coffee."), ctx)
    assert fs.read_node(f"{uri}/events/coffee", ctx).content == "Coffee."
    with pytest.raises(BoundaryError):
        fs.write_node(ContextNode(f"{uri}/preferences/coffee", "Coffee."), ctx)
    assert ContextFS(backend).read_node(f"{uri}/preferences/tea", ctx).content == "Tea in preferences."


def test_a_recall_finds_what_is_covered_and_nothing_else(backend: StorageBackend) -> None:
    memories(backend)
    place = "/" + _place(backend, "events/tea").parent.key
    scoped = ScopedBackend(backend, ScopedStorageScope([place], [place]))
    with Memory.open(scoped, account="acme", user="alice") as memory:
        found = memory.recall("tea")
        assert [one.uri for one in found.entries] == ["ctx://acme/users/alice/memories/events/tea"]
        assert "preferences" not in str(found)


def test_a_scoped_memory_shares_the_index_and_neither_sees_nor_spoils_the_rest(backend: StorageBackend) -> None:
    place = "/" + _place(backend, "events/tea").parent.key
    with Memory.open(backend, account="acme", user="alice") as whole:
        whole.remember("Tea at noon.", to="events/tea")
        whole.remember("Tea is green.", to="preferences/tea")
        assert len(whole.recall("tea").entries) == 2
        with Memory.open(backend, account="acme", user="alice", scope=ScopedStorageScope([place], [place])) as scoped:
            assert [one.uri for one in scoped.recall("tea").entries] == ["ctx://acme/users/alice/memories/events/tea"]
            receipt = scoped.remember("Tea is green.", to="events/again")
            assert receipt.duplicates == (), "what cannot be read is not told of either"
            with pytest.raises(BoundaryError):
                scoped.remember("Tea is black.", to="preferences/black")
            with pytest.raises(BoundaryError):
                scoped.forget("preferences/tea")
            assert {one.uri.rpartition("/")[2] for one in scoped.recall("tea").entries} == {"tea", "again"}
        whole.catch_up()
        assert len(whole.recall("tea").entries) == 3


def _place(backend: StorageBackend, short: str) -> Locator:
    from agentm.context.uri import parse_uri

    return parse_uri(f"ctx://acme/users/alice/memories/{short}").locator
