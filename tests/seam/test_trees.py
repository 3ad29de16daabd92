"""What a folder holds and taking one away whole: the same over every store, with links in it and under a scope."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentm import (
    BoundaryError,
    DeviceLocalBackend,
    Locator,
    MemoryBackend,
    ScopedBackend,
    ScopedStorageScope,
    StorageBackend,
    UnsupportedAbilityError,
)
from agentm.seam import ROOT, Capabilities
from agentm.seam.layer import Layer
from agentm.seam.trees import entries, remove_tree
from tests.backends.stores import PROTOCOLS, make_store

FOLDER = Locator("in/tree")


@pytest.fixture(params=PROTOCOLS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    return filled(make_store(request.param, str(tmp_path)))


def filled(backend: StorageBackend) -> StorageBackend:
    for key in ("in/tree/a", "in/tree/deep/er/b", "in/tree/z", "in/beside", "out/secret"):
        backend.write(Locator(key), key)
    return backend


def everything(backend: StorageBackend, place: Locator = ROOT) -> list[str]:
    below = [key for child in backend.list(place) for key in everything(backend, child)]
    return below or [place.key]


@pytest.fixture
def store(tmp_path: Path) -> DeviceLocalBackend:
    backend = DeviceLocalBackend(tmp_path / "store")
    filled(backend)
    tree = tmp_path / "store/in/tree"
    (tree / "folder").symlink_to(tmp_path / "store/out")
    (tree / "file").symlink_to(tmp_path / "store/out/secret")
    (tree / "nowhere").symlink_to("missing")
    (tree / "round").symlink_to("round")
    (tree / "hard").hardlink_to(tmp_path / "store/in/beside")
    return backend


def scoped(backend: StorageBackend, **more: list[str]) -> ScopedBackend:
    return ScopedBackend(backend, ScopedStorageScope(["/in"], ["/in"], **more))


def test_a_folder_tells_what_it_holds(backend: StorageBackend) -> None:
    found = entries(backend, FOLDER)
    assert [(info.locator.name, info.is_dir, info.size) for info in found] == [
        ("a", False, 9),
        ("deep", True, 0),
        ("z", False, 9),
    ]
    assert entries(backend, Locator("in/tree/a")) == []
    assert entries(backend, Locator("missing")) == []


def test_a_link_is_a_leaf_wherever_it_leads(store: DeviceLocalBackend) -> None:
    for backend in (store, Layer(store)):
        found = {info.locator.name: info.is_dir for info in entries(backend, FOLDER)}
        assert set(found) == {"a", "deep", "file", "folder", "hard", "nowhere", "round", "z"}
        assert [name for name, is_dir in found.items() if is_dir] == ["deep"]


def test_what_may_not_be_looked_at_is_left_out(store: DeviceLocalBackend) -> None:
    found = entries(scoped(store, always_deny=["/in/tree/a"]), FOLDER)
    assert [info.locator.name for info in found] == ["deep", "z"]


def test_a_tree_goes_whole_and_nothing_else(backend: StorageBackend) -> None:
    remove_tree(backend, FOLDER)
    assert everything(backend) == ["in/beside", "out/secret"]
    remove_tree(backend, Locator("in/beside"))
    assert not backend.exists(Locator("in/beside"))
    with pytest.raises(FileNotFoundError):
        remove_tree(backend, FOLDER)


def test_links_go_and_what_they_lead_to_stays(store: DeviceLocalBackend) -> None:
    remove_tree(store, FOLDER)
    assert everything(store) == ["in/beside", "out/secret"]


def test_under_a_scope_links_go_too_and_what_they_lead_to_stays(store: DeviceLocalBackend) -> None:
    remove_tree(scoped(store), FOLDER)
    assert everything(store) == ["in/beside", "out/secret"]


def test_a_link_named_itself_goes_alone(store: DeviceLocalBackend) -> None:
    for backend, name in ((store, "folder"), (scoped(store), "nowhere")):
        remove_tree(backend, FOLDER.child(name))
    assert [info.locator.name for info in entries(store, FOLDER)] == ["a", "deep", "file", "hard", "round", "z"]
    assert store.read(Locator("out/secret")) == "out/secret"


def test_what_holds_something_denied_stays_as_it_is(backend: StorageBackend) -> None:
    before = everything(backend)
    kept = scoped(backend, always_deny=["/in/tree/deep/er"])
    for place in (FOLDER, Locator("in"), Locator("in/tree/deep")):
        with pytest.raises(BoundaryError):
            remove_tree(kept, place)
        with pytest.raises(BoundaryError):
            remove_tree(Layer(kept), place)
    assert everything(backend) == before


def test_what_cannot_be_listed_stays_as_it_is(backend: StorageBackend) -> None:
    before = everything(backend)
    with pytest.raises(BoundaryError):
        remove_tree(ScopedBackend(backend, ScopedStorageScope(["/out"], ["/in"])), FOLDER)
    assert everything(backend) == before


def test_the_root_is_not_removed_nor_anything_in_it(backend: StorageBackend) -> None:
    before = everything(backend)
    with pytest.raises(OSError, match="root"):
        remove_tree(backend, ROOT)
    assert everything(backend) == before


def test_a_store_that_cannot_remove_says_so(backend: StorageBackend) -> None:
    class Keeps(Layer):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities()

    with pytest.raises(UnsupportedAbilityError):
        remove_tree(Keeps(backend), FOLDER)
    assert backend.read(Locator("in/tree/a")) == "in/tree/a"


def test_what_others_remove_meanwhile_is_fine() -> None:
    class Rival(Layer):
        """Somebody removes a file before everybody else does."""

        def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
            if locator == Locator("in/tree/a"):
                super().remove(locator)
            super().remove(locator, if_version=if_version)

    inside = filled(MemoryBackend())
    remove_tree(Rival(inside), FOLDER)
    assert not inside.exists(FOLDER)
