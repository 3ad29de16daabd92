"""Crash checks fail on stores that a death in the middle of a verb leaves torn, locked or littered."""

from __future__ import annotations

import os
import re
import threading

import pytest

from agentm import ConformanceReport, run_conformance
from agentm.conformance import faults
from agentm.conformance.oracles import FileOracle
from agentm.seam import Locator
from tests.conformance import filestore

CRASH_CHECKS = ("crash_write", "crash_mkdir", "crash_remove", "crash_rename", "crash_append", "crash_write_versioned")

pytestmark = [pytest.mark.slow, pytest.mark.spec("SEAM-19")]


def check(store, root, only, **options) -> ConformanceReport:
    return run_conformance(lambda: store(str(root)), only=only, **options)


@pytest.mark.parametrize("oracle", [FileOracle(), None], ids=["oracle", "no-oracle"])
@pytest.mark.parametrize(
    ("name", "mutant", "why"),
    [
        ("crash_write", filestore.WritesInPlace, "torn: 0 characters"),
        ("crash_write", filestore.WritesInPieces, "torn"),
        ("crash_write", filestore.AnswersTooEarly, "the verb had returned"),
        ("crash_write", filestore.LeavesItsLock, "then a new write"),
        ("crash_write", filestore.ShowsItsTemps, "which nobody wrote"),
        ("crash_rename", filestore.MovesByCopying, "old and new are mixed"),
        ("crash_append", filestore.AppendsInPieces, "torn"),
        ("crash_remove", filestore.RemovesInTwoSteps, "torn: 0 characters"),
        ("crash_mkdir", filestore.MarksNewDirectories, "which nobody wrote"),
        ("crash_write_versioned", filestore.SwapsInPlace, "torn"),
        ("crash_write_many", filestore.WritesManyInPlace, "torn"),
        ("crash_write_many", filestore.WritesManyLater, "the verb had returned"),
        ("crash_write_many", filestore.MovesTheOldOnesAway, "is gone"),
    ],
)
def test_a_store_that_a_crash_breaks_fails(name, mutant, why, oracle, tmp_path):
    (result,) = check(mutant, tmp_path, [name], oracle=oracle).results
    assert result.status == "fail", result.detail
    assert why in result.detail


def test_a_store_that_waits_for_a_dead_writers_lock_fails_in_bounded_time(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "_serve", _impatient_serve)
    (result,) = check(filestore.WaitsForItsLock, tmp_path, ["crash_write"]).results
    assert (result.status, "a lock may have been left behind" in result.detail) == ("fail", True), result.detail


def _impatient_serve(address, line):
    faults.NEXT_WRITE_SECONDS = 0.5
    _serve(address, line)


_serve = faults._serve


def test_an_honest_store_may_show_some_of_many_texts(tmp_path):
    (result,) = check(filestore.LockingFileStore, tmp_path, ["crash_write_many"], oracle=FileOracle()).results
    assert (result.status, "confirmed by an oracle" in result.detail) == ("pass", True), result.detail


def test_an_honest_store_passes_and_every_step_was_tried(tmp_path):
    report = check(filestore.AbleFileStore, tmp_path, CRASH_CHECKS, oracle=FileOracle())
    assert {result.name: result.status for result in report.results} == dict.fromkeys(CRASH_CHECKS, "pass")
    for result in report.results:
        counts = [(int(fired), int(total)) for fired, total in re.findall(r"(\d+) of (\d+) steps", result.detail)]
        assert counts, result.detail
        assert all(0 < fired == total for fired, total in counts), result.detail
        assert "confirmed by an oracle" in result.detail


class WorksElsewhere(filestore.FileStore):
    """Lets a thread that was there before do all the work, so that no step of its own can be seen."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._wake = threading.Condition()
        self._job: tuple[Locator, str] | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def __reduce__(self):
        return type(self), (self.root,)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._job)
                assert self._job
                super().write(*self._job)
                self._job = None
                self._wake.notify_all()

    def write(self, locator: Locator, content: str) -> Locator:
        with self._wake:
            self._job = (locator, content)
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._job is None)
        return locator


def test_a_crash_that_could_not_be_injected_proves_nothing(tmp_path):
    (result,) = check(WorksElsewhere, tmp_path, ["crash_write"]).results
    assert (result.status, "no death could be injected" in result.detail) == ("fail", True), result.detail


def test_without_fork_every_death_is_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "_CAN_FORK", False)
    monkeypatch.setattr(faults, "MOST_STEPS_SPAWNED", 2)
    good, bad = (
        check(store, tmp_path / store.__name__, ["crash_write"])
        for store in (filestore.FileStore, filestore.AnswersTooEarly)
    )
    assert good.passed, good.table()
    assert not bad.passed


class TestSample:
    def test_few_steps_are_all_tried(self):
        assert faults.sample(["open", "write", "close"], 5) == [1, 2, 3]
        assert faults.sample([], 5) == []

    def test_of_many_the_ends_of_every_row_of_equal_calls_are_tried(self):
        calls = ["open", *["write"] * 100, "fsync", "replace"]
        steps = faults.sample(calls, 10)
        assert len(steps) == len(set(steps)) == 10
        assert {1, 2, 101, 102, 103} <= set(steps)

    def test_of_many_different_ones_an_even_sample_is_tried(self):
        assert faults.sample([str(number) for number in range(9)], 3) == [1, 5, 9]

    @pytest.mark.parametrize("most", range(1, 12))
    def test_never_more_than_wanted(self, most):
        steps = faults.sample([*"abc", *"d" * 20, *"ef"], most)
        assert steps == sorted(set(steps))
        assert len(steps) == most


def test_a_fuse_counts_calls_that_reach_the_world_and_no_others(tmp_path):
    with faults.Fuse(0) as fuse:
        sorted(len(str(number)) for number in range(100))
    assert fuse.calls == []
    path = str(tmp_path / "file")
    with faults.Fuse(0) as fuse:
        os.close(os.open(path, os.O_CREAT))
    assert fuse.calls == ["open", "close"]
