"""What the store holds and nobody can read as text: told of, and what was written before it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentm import DeviceLocalBackend, Locator, Memory, ScopedStorageScope
from tests.index.conftest import opened, tmp_path as tmp_path

pytestmark = pytest.mark.spec("IDX-04", "CTX-02")
LATIN = "The wifi is called café.".encode("latin-1")
WIFI = "store/accounts/acme/users/alice/memories/entities/wifi"


@pytest.fixture
def store(tmp_path: Path) -> DeviceLocalBackend:
    made = DeviceLocalBackend(tmp_path / "store")
    with opened(made, tmp_path) as memory:
        memory.remember("The wifi is called tavern.", to="entities/wifi", wait=True)
    return made


def asked(memory: Memory) -> tuple[list[str], int]:
    found = memory.recall("wifi", patience=30.0)
    return [one.text.strip() for one in found], found.unreadable


@pytest.mark.parametrize("fresh", [False, True])
def test_of_a_memory_that_was_saved_as_no_text_the_version_before_is_found(
    store: DeviceLocalBackend, tmp_path: Path, fresh: bool
) -> None:
    (tmp_path / WIFI / "content.md").write_bytes(LATIN)
    for _ in range(2):
        with opened(store, tmp_path) as memory:
            if fresh:
                memory.reindex()
            assert asked(memory) == (["The wifi is called tavern."], 1)
            assert memory.status()["index"]["unreadable"] == [memory.address("entities/wifi")]
    store.write(Locator(f"{WIFI}/content.md".removeprefix("store/")), "The wifi is called tavern.\n")
    with opened(store, tmp_path) as memory:
        assert asked(memory) == (["The wifi is called tavern."], 0)


def test_a_memory_whose_meta_is_broken_is_told_of(store: DeviceLocalBackend, tmp_path: Path) -> None:
    meta = tmp_path / WIFI / ".meta.json"
    whole = meta.read_bytes()
    meta.write_text("{")
    for _ in range(2):
        with opened(store, tmp_path) as memory:
            assert asked(memory) == ([], 1)
    meta.write_bytes(whole)
    with opened(store, tmp_path) as memory:
        assert asked(memory) == (["The wifi is called tavern."], 0)


def test_a_note_that_is_no_text_is_told_of_until_it_is_gone(store: DeviceLocalBackend, tmp_path: Path) -> None:
    note = tmp_path / "store/note.md"
    note.write_bytes(LATIN)
    with opened(store, tmp_path) as memory:
        assert memory.catch_up().unreadable == ["note.md"]
        assert asked(memory) == (["The wifi is called tavern."], 1)
        note.unlink()
        assert asked(memory) == (["The wifi is called tavern."], 0)


def test_of_others_and_of_what_is_out_of_reach_nothing_is_told(store: DeviceLocalBackend, tmp_path: Path) -> None:
    (tmp_path / WIFI / "content.md").write_bytes(LATIN)
    (tmp_path / "store/other").mkdir()
    (tmp_path / "store/other/note.md").write_bytes(LATIN)
    with opened(store, tmp_path) as memory:
        assert asked(memory)[1] == 2
    with opened(store, tmp_path, user="bob") as memory:
        assert asked(memory)[1] == 1
    options = {"index_root": tmp_path / "index", "install_prefix": tmp_path / "home", "notes": True}
    scope = ScopedStorageScope(read=("/accounts",))
    with Memory.open(store, account="acme", user="alice", scope=scope, **options) as memory:  # type: ignore[arg-type]
        assert asked(memory) == (["The wifi is called tavern."], 1)
