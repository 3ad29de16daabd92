"""The run itself: what it selects, what it leaves behind, and what it reports."""

from __future__ import annotations

import json

import pytest

from agentm import AgentmError, Capabilities, ConformanceReport, Locator, MemoryBackend, run_conformance
from agentm.conformance import REQUIREMENTS, UNIVERSAL, CheckResult
from agentm.conformance.trial import snapshot
from tests.conformance.filestore import FileStore
from tests.conformance.mutants import CutsLongTexts, RemovesNothing

pytestmark = pytest.mark.spec("SEAM-18")


def quick(make_backend, **options):
    return run_conformance(make_backend, processes=False, crashes=False, **options)


def test_a_third_party_that_writes_the_seven_verbs_conforms(tmp_path):
    report = quick(lambda: FileStore(str(tmp_path)))
    assert report.passed, report.table()
    ran = [result.name for result in report.results if result.status == "pass"]
    assert ran[: len(UNIVERSAL)] == list(UNIVERSAL)
    assert sum(name.startswith("refuses_") for name in ran) == 8


def test_names_and_lines_of_requirements_are_unique_and_told():
    assert len({requirement.name for requirement in REQUIREMENTS}) == len(REQUIREMENTS)
    assert all(requirement.obligation and requirement.spec.startswith("SEAM-") for requirement in REQUIREMENTS)


class TestZeroChecks:
    def test_a_run_of_nothing_is_a_failure(self):
        report = run_conformance(MemoryBackend, only=[])
        assert (report.results, report.passed) == ((), False)
        assert "was not checked, which is a failure" in report.table()

    def test_a_run_in_which_everything_is_skipped_is_a_failure(self):
        report = quick(MemoryBackend, only=["crash_write", "survives_reopen"])
        assert [result.status for result in report.results] == ["skip", "skip"]
        assert not report.passed


class TestErrors:
    def test_an_error_in_a_check_is_its_failure_and_the_run_goes_on(self):
        class Broken(MemoryBackend):
            def mkdir(self, locator):
                raise RuntimeError("first line\nsecond line")

        report = quick(Broken)
        result = next(result for result in report.failures if result.name == "mkdir_idempotent")
        assert result.detail == "mkdir raised RuntimeError (first line second line)"
        assert len(report.results) == len(quick(MemoryBackend).results)

    def test_a_backend_that_ends_the_program_only_fails(self):
        class Quits(MemoryBackend):
            def info(self, locator):
                raise SystemExit(3)

        assert "info" in {result.name for result in quick(Quits).failures}

    def test_an_interrupt_goes_through_and_the_scratch_is_gone(self):
        class Interrupted(MemoryBackend):
            wanted = True

            def read(self, locator):
                if self.wanted:
                    self.wanted = False
                    assert self._files
                    raise KeyboardInterrupt
                return super().read(locator)

        backend = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            quick(lambda: backend, only=["lf_exact_round_trip"])
        assert snapshot(backend, Locator()) == {}

    @pytest.mark.parametrize(
        ("make_backend", "why"),
        [
            (lambda: 1 / 0, "opening the backend raised ZeroDivisionError (division by zero)"),
            (lambda: object(), "make_backend gave object, which does not derive from StorageBackend"),
            (lambda: type("Odd", (MemoryBackend,), {"capabilities": {"sync": True}})(), "capabilities gave dict"),
        ],
    )
    def test_what_is_no_backend_fails_in_one_sentence(self, make_backend, why):
        report = run_conformance(make_backend)
        assert [result.name for result in report.results] == ["open"]
        assert why in report.results[0].detail
        assert not report.passed

    def test_an_unknown_check_is_refused(self):
        with pytest.raises(AgentmError, match="no check named 'roundtrip'") as refusal:
            run_conformance(MemoryBackend, only=["roundtrip"])
        assert refusal.value.code == "check_unknown"


class TestScratch:
    def test_a_store_in_use_is_left_as_it_was(self):
        backend = MemoryBackend()
        backend.write(Locator("notes/mine.md"), "mine\n")
        backend.mkdir(Locator("notes/empty"))
        before = snapshot(backend, Locator())
        report = quick(lambda: backend, include_routing=True)
        assert report.passed, report.table()
        assert snapshot(backend, Locator()) == before

    def test_a_store_that_cannot_remove_keeps_one_directory(self, tmp_path):
        quick(lambda: FileStore(str(tmp_path)))
        (left,) = tmp_path.iterdir()
        assert left.name.startswith("agentm-conformance-")

    def test_a_broken_removal_does_not_stop_the_run(self):
        assert {"remove"} <= {result.name for result in quick(RemovesNothing, only=["remove", "info"]).failures}

    def test_two_runs_on_one_store_do_not_meet(self, tmp_path):
        store = FileStore(str(tmp_path))
        assert all(quick(lambda: store).passed for _ in range(2))
        assert len(list(tmp_path.iterdir())) == 2

    def test_the_root_is_only_put_at_risk_where_everything_is_ours(self):
        asked = []

        class Careless(MemoryBackend):
            def remove(self, locator, *, if_version=None):
                asked.append(locator.key)
                super().remove(locator, if_version=if_version)

        backend = Careless()
        backend.write(Locator("mine.md"), "mine\n")
        assert quick(lambda: backend, only=["remove"]).passed
        assert asked
        assert "" not in asked
        assert quick(Careless, only=["remove"]).passed
        assert "" in asked

    def test_a_backend_that_can_be_closed_is_closed(self):
        closed = []
        closing = type("Closing", (MemoryBackend,), {"close": lambda self: closed.append(self)})
        quick(closing, only=["info"])
        assert len(closed) == 2  # the one that was asked what it declares, and the one that was checked


class TestReport:
    def test_it_survives_json(self):
        report = quick(CutsLongTexts)
        again = ConformanceReport.from_dict(json.loads(json.dumps(report.to_dict())))
        assert again == report
        data = report.to_dict()
        assert data["passed"] is False
        assert data["counts"] == {status: report.count(status) for status in ("pass", "fail", "skip")}
        assert data["counts"]["fail"] == 2

    def test_its_table_has_a_row_for_each_check_and_a_verdict(self):
        report = quick(CutsLongTexts)
        rows = report.table().splitlines()
        assert rows[0] == "Conformance of memory"
        for result in report.results:
            mark = {"pass": "✓", "fail": "✗", "skip": "–"}[result.status]
            assert any(row.startswith(f"  {mark} {result.name} ") and result.requirement in row for row in rows)
        assert rows[-1].endswith("memory does not conform.")

    def test_its_table_can_be_plain_ascii(self):
        row = CheckResult("info", "SEAM-03", "fail", "read gave 'é'…", 0.1)
        report = ConformanceReport("memory", Capabilities(), (row,))
        assert report.table(ascii_only=True).isascii()
        assert "  x info" in report.table(ascii_only=True)

    def test_progress_hears_of_each_result(self):
        heard: list[CheckResult] = []
        report = quick(MemoryBackend, progress=heard.append)
        assert tuple(heard) == report.results
        run_conformance(lambda: None, progress=heard.append)  # type: ignore[arg-type,return-value]
        assert heard[-1].name == "open"
