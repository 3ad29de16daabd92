"""An index that lies where this process may not write: it is read, not built anew, and not touched."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentm import CallableEmbedder, DeviceLocalBackend, Memory, Note
from tests.index.conftest import always_looking as always_looking, opened, tmp_path as tmp_path
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("IDX-01")

Opener = Callable[[], Memory]


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Opens a memory whose index somebody else has built."""
    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as owner:
        owner.remember_many([Note(f"Visit {n} to the weaver.", slug=f"visit-{n}") for n in range(20)])
        owner.catch_up()
        owner.catch_up()
    access = os.access

    def refused(path: str, mode: int, **options: object) -> bool:
        inside = os.fspath(path).startswith(f"{tmp_path / 'index'}")
        return not (inside and mode & os.W_OK) and access(path, mode)

    monkeypatch.setattr(os, "access", refused)  # what root may do, nobody refuses
    return lambda: opened(DeviceLocalBackend(tmp_path / "store"), tmp_path)


def test_it_is_read_and_neither_built_anew_nor_touched(read_only: Opener, tmp_path: Path) -> None:
    before = snapshot(str(tmp_path / "index"))
    with read_only() as memory:
        assert not memory.status()["index"]["lasting"]
        assert memory.status()["index"]["sources"] == memory.status()["index"]["records"] == 20
        assert memory.catch_up().changed == 0
        found = memory.recall("weaver", limit=100, patience=30.0)
        assert (len(found), found.complete) == (20, True)
    assert snapshot(str(tmp_path / "index")) == before


def test_what_is_new_is_found_all_the_same(read_only: Opener, tmp_path: Path) -> None:
    with read_only() as memory:
        receipt = memory.remember("Bea sells looms.", slug="bea", wait=True)
        assert receipt.indexed == "pending"  # nobody else will find it there
        memory.forget("events/visit-3")
        assert memory.recall("Bea", patience=30.0).entries[0].uri == memory.address("events/bea")
        found = {one.uri for one in memory.recall("weaver", limit=100, patience=30.0)}
        assert memory.address("events/visit-4") in found
        assert memory.address("events/visit-3") not in found


def test_one_that_is_damaged_costs_no_answer(read_only: Opener, tmp_path: Path) -> None:
    [catalogue] = (tmp_path / "index").glob("*/acme/current/catalogue.db")
    catalogue.write_bytes(b"not a database" * 1_000)
    with read_only() as memory:
        assert len(memory.recall("weaver", limit=100, patience=30.0)) == 20


def test_one_whose_text_is_damaged_costs_no_answer(read_only: Opener, tmp_path: Path) -> None:
    for path in (tmp_path / "index").glob("*/acme/current/fulltext/*"):
        if path.suffix in (".term", ".idx", ".store"):
            path.write_bytes(b"")
    with read_only() as memory:
        assert len(memory.recall("weaver", limit=100, patience=30.0)) == 20


def test_its_vectors_come_along(read_only: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts)
        return [[float(len(text)), 1.0] for text in texts]

    def with_embedder() -> Memory:
        return Memory.open(
            DeviceLocalBackend(tmp_path / "store"),
            account="acme",
            user="alice",
            index_root=tmp_path / "index",
            install_prefix=tmp_path / "home",
            embedder=CallableEmbedder("toy/1", embed),
        )

    with monkeypatch.context() as writable:
        writable.setattr(os, "access", lambda *_, **__: True)
        with with_embedder() as owner:
            owner.catch_up()
    assert len(seen) == 20
    with with_embedder() as memory:
        assert len(memory.recall("weaver", limit=100, patience=30.0)) == 20
    assert seen[20:] == ["weaver"]


def writing_meanwhile(monkeypatch: pytest.MonkeyPatch, times: int, write: Callable[[], None]) -> None:
    """Somebody who may write there does so right after the catalogue was copied, so many times."""
    copy, left = shutil.copyfile, [times]

    def copyfile(source: str, target: str, **options: object) -> str:
        copy(source, target)
        if source.endswith("catalogue.db") and left[0]:
            left[0] -= 1
            write()
        return target

    monkeypatch.setattr(shutil, "copyfile", copyfile)


@pytest.mark.parametrize("times", [1, 1_000])
def test_it_is_taken_as_it_was_at_one_moment_or_not_at_all(
    read_only: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    [catalogue] = (tmp_path / "index").glob("*/acme/current/catalogue.db")
    owner = sqlite3.connect(catalogue, isolation_level=None)

    def write() -> None:
        """Everything under another name: a new beginning of the log, which the old file does not fit."""
        owner.execute("UPDATE sources SET title = title || 'x'")
        owner.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        owner.execute("UPDATE sources SET title = title || 'y'")

    writing_meanwhile(monkeypatch, times, write)
    with read_only() as memory:
        index = memory._index
        titles = {index.catalogue.source(uri).title for uri in index.catalogue.uris()}
        assert {title[-2:] for title in titles} == ({"xy"} if times == 1 else set())
        found = memory.recall("weaver", limit=100, patience=30.0)
        assert (len(found), found.complete) == (20, True)
    owner.close()


def test_what_is_half_copied_is_not_used(read_only: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise OSError(5, "Input/output error")

    writing_meanwhile(monkeypatch, 1, failing)
    with read_only() as memory:
        assert memory._index.catalogue.count() == 0
        assert len(memory.recall("weaver", limit=100, patience=30.0)) == 20


def test_what_was_added_to_it_stays_while_the_process_lives(read_only: Opener) -> None:
    with read_only() as memory:
        memory.remember("Bea sells looms.", slug="bea")
        memory.recall("Bea", patience=30.0)
        memory.close()
        assert memory._index.catalogue.known(memory.address("events/bea")) is not None
