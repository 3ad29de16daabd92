"""Checks with several processes fail on stores that only work alone."""

from __future__ import annotations

import pytest

from agentm import ConformanceReport, MemoryBackend, run_conformance
from agentm.conformance import locking
from agentm.conformance.oracles import FileOracle
from tests.conformance import filestore

PROCESS_CHECKS = (
    "survives_reopen",
    "atomic_to_readers",
    "concurrent_writes",
    "concurrent_increments",
    "concurrent_appends",
)

pytestmark = [pytest.mark.slow, pytest.mark.spec("SEAM-19")]


def check(store, root, only, **options) -> ConformanceReport:
    return run_conformance(lambda: store(str(root)), only=only, oracle=FileOracle(), **options)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("survives_reopen", filestore.KeepsToItself),
        ("survives_reopen", filestore.RemembersLists),
        ("atomic_to_readers", filestore.WritesInPlace),
        ("atomic_to_readers", filestore.WritesInPieces),
        ("concurrent_writes", filestore.OneFileWithoutLock),
        ("concurrent_writes", filestore.SharesOneTemp),
        ("concurrent_increments", filestore.LocksNobodyOut),
        ("concurrent_appends", filestore.LocksNobodyOut),
        ("lock_between_processes", filestore.LocksThreadsOnly),
        ("lock_freed_by_death", filestore.LocksThreadsOnly),
        ("lock_freed_by_death", filestore.LocksByMakingAFile),
        ("lock_freed_by_death", filestore.FreesDeadLocksLate),
    ],
)
def test_a_store_that_only_works_alone_fails(name, mutant, tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "PATIENCE", 5.0)
    (result,) = check(mutant, tmp_path, [name]).results
    assert result.status == "fail", result.detail


def test_an_honest_store_passes(tmp_path):
    report = check(filestore.AbleFileStore, tmp_path, PROCESS_CHECKS)
    assert {result.name: result.status for result in report.results} == dict.fromkeys(PROCESS_CHECKS, "pass")
    (writes,) = (result for result in report.results if result.name == "concurrent_writes")
    assert writes.detail.startswith("200 of 200 writes survive, confirmed by an oracle")


def test_honest_locks_pass(tmp_path):
    report = check(filestore.LockingFileStore, tmp_path, ["lock", "lock_between_processes", "lock_freed_by_death"])
    assert [result.status for result in report.results] == ["pass"] * 3, report.table()


def test_a_store_that_does_not_declare_many_writers_is_not_asked_to_have_them(tmp_path):
    report = check(filestore.FileStore, tmp_path, PROCESS_CHECKS)
    assert {result.name: result.status for result in report.results} == dict.fromkeys(PROCESS_CHECKS[:2], "pass")


class CopiedDict(MemoryBackend):
    """Pickles, but with everything in it."""

    def __reduce__(self):
        return _restore, ({key: file.data for key, file in self._files.items()},)


def _restore(files):
    backend = CopiedDict()
    for key, data in files.items():
        backend.write(backend.resolve(key), data.decode())
    return backend


@pytest.mark.parametrize(
    ("store", "reason"), [(MemoryBackend, "only this process can open the store"), (CopiedDict, "would get a copy")]
)
def test_a_store_that_cannot_be_shared_is_skipped_with_the_reason(store, reason):
    report = run_conformance(store, only=[*PROCESS_CHECKS, "crash_write", "round_trip"])
    skipped = [result for result in report.results if result.status == "skip"]
    assert [result.name for result in skipped] == ["survives_reopen", "atomic_to_readers", "crash_write"]
    assert all(reason in result.detail for result in skipped)
    assert report.passed


class Unpicklable(filestore.AbleFileStore):
    def __reduce__(self):
        raise TypeError("cannot pickle me")


def test_a_function_that_opens_the_store_again_is_used(tmp_path):
    # A closure cannot be sent to a fresh interpreter; where processes can be forked it still works.
    root = str(tmp_path)
    report = run_conformance(
        lambda: Unpicklable(root), reopen=lambda _: filestore.AbleFileStore(root), only=[*PROCESS_CHECKS, "crash_write"]
    )
    assert {result.status for result in report.results} == {"pass"}, report.table()


def test_a_store_that_cannot_be_imported_elsewhere_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(filestore.FileStore, "__module__", "no_such_module")
    monkeypatch.setitem(__import__("sys").modules, "no_such_module", filestore)
    (result,) = check(filestore.FileStore, tmp_path, ["survives_reopen"]).results
    assert (result.status, "cannot import the backend" in result.detail) == ("skip", True)


def test_switched_off_checks_are_reported_as_skipped(tmp_path):
    report = check(filestore.FileStore, tmp_path, ["survives_reopen", "crash_write"], processes=False, crashes=False)
    assert [result.status for result in report.results] == ["skip", "skip"]
    assert not report.passed
