"""What an answer and a receipt say of the index is so, also the second time, and where something went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentm import DeviceLocalBackend, Locator, Memory, StoreError, Versioned
from agentm.index import account, keeping
from tests.index.conftest import opened, tmp_path as tmp_path


@pytest.fixture(autouse=True)
def seldom_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what a look came to says whether there is another."""
    monkeypatch.setattr(account, "_RECENT", 3_600.0)


@pytest.fixture
def store(tmp_path: Path) -> DeviceLocalBackend:
    made = DeviceLocalBackend(tmp_path / "store")
    for n in range(12):
        made.write(Locator(f"note-{n:02}.md"), f"Number {n} of the looms.")
    return made


def asked(memory: Memory, patience: float = 30.0) -> tuple[int, bool]:
    found = memory.recall("looms", limit=100, patience=patience)
    return len(found), found.complete


@pytest.mark.spec("IDX-04")
def test_a_look_that_was_cut_short_is_gone_on_with_and_no_answer_is_called_complete_before(
    store: DeviceLocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_SMALL_BATCH", 4)
    with opened(store, tmp_path) as memory:
        answers = [asked(memory, patience=0.0) for _ in range(40)]
        assert {complete for many, complete in answers if many < 12} == {False}
        assert answers[-1] == (12, True)


@pytest.mark.spec("IDX-04")
def test_while_another_process_writes_to_the_index_no_answer_is_called_complete(
    store: DeviceLocalBackend, tmp_path: Path
) -> None:
    with opened(store, tmp_path) as memory:
        with memory._index._alone_on_this_machine():
            assert [asked(memory) for _ in range(3)] == [(0, False)] * 3
        memory.catch_up()
        assert asked(memory) == (12, True)


class Unreadable(DeviceLocalBackend):
    """One file of it cannot be read now."""

    broken: str | None = None

    def read(self, locator: Locator) -> str:
        if self.broken is not None and locator.key.endswith(self.broken):
            raise StoreError("Input/output error", code="io")
        return super().read(locator)

    def read_versioned(self, locator: Locator) -> Versioned:
        self.read(locator)
        return super().read_versioned(locator)


@pytest.mark.spec("IDX-04")
def test_what_could_not_be_read_is_not_forgotten_by_the_next_answer(store: DeviceLocalBackend, tmp_path: Path) -> None:
    failing = Unreadable(tmp_path / "store")
    failing.broken = "note-03.md"
    with opened(failing, tmp_path) as memory:
        assert [asked(memory) for _ in range(3)] == [(11, False)] * 3
        failing.broken = None
        memory.catch_up()
        assert asked(memory) == (12, True)


@pytest.mark.spec("IDX-04", "CTX-02")
def test_what_somebody_edits_by_hand_is_told_of_by_every_answer(tmp_path: Path) -> None:
    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as memory:
        memory.remember("Ada builds looms.", slug="looms")
        memory.catch_up()
    content = tmp_path / "store" / "accounts/acme/users/alice/memories/events/looms/content.md"
    content.write_text("Ada repairs clo")
    with opened(DeviceLocalBackend(tmp_path / "store"), tmp_path) as memory:
        for _ in range(2):
            found = memory.recall("looms", patience=30.0)
            assert (found.complete, found.being_edited) == (False, 1)


@pytest.mark.spec("IDX-01")
def test_an_index_that_is_new_is_filled_however_short_ago_the_old_one_was(
    store: DeviceLocalBackend, tmp_path: Path
) -> None:
    with opened(store, tmp_path) as memory:
        assert asked(memory) == (12, True)
        [catalogue] = (tmp_path / "index").glob("*/acme/current/catalogue.db")
        memory._index.mended(_Failing())
        assert asked(memory) == (12, True)
        assert catalogue.exists()


class _Failing:
    """Meets what looks like damage, once."""

    met = False

    def __call__(self) -> None:
        if not self.met:
            self.met = True
            raise ValueError("a segment that cannot be read")


@pytest.mark.spec("IDX-06")
def test_a_receipt_says_pending_for_what_could_not_be_indexed(tmp_path: Path) -> None:
    failing = Unreadable(tmp_path / "store")
    failing.broken = "content.md"
    with opened(failing, tmp_path) as memory:
        receipt = memory.remember("Ada builds looms.", slug="looms", duplicates=False, wait=True)
        assert receipt.indexed == "pending"
        failing.broken = None
        assert [one.uri for one in memory.recall("looms", patience=30.0)] == [receipt.uri]
        assert memory.remember("Ada builds clocks.", slug="clocks", wait=True).indexed == "yes"
