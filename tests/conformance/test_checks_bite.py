"""Every check fails on a backend that is broken in its way, and only sensible others fail with it."""

from __future__ import annotations

from collections import Counter

import pytest

from agentm import ConformanceReport, MemoryBackend, UnsupportedAbilityError, run_conformance
from agentm.conformance import UNIVERSAL, declared, locking
from agentm.seam import ABILITIES
from tests.conformance.mutants import ABILITY_MUTANTS, UNIVERSAL_MUTANTS, without


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(locking, "A_MOMENT", 0.05)
    monkeypatch.setattr(locking, "PATIENCE", 1.0)


def check(make_backend, **options) -> ConformanceReport:
    return run_conformance(make_backend, processes=False, crashes=False, **options)


def failed(report: ConformanceReport) -> set[str]:
    return {result.name for result in report.failures}


@pytest.mark.spec("SEAM-18")
@pytest.mark.parametrize(
    ("name", "mutant", "also"), UNIVERSAL_MUTANTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_verb_fails_its_check(name, mutant, also):
    report = check(mutant)
    assert failed(report) == {name} | also
    assert not report.passed


@pytest.mark.spec("SEAM-18")
def test_every_universal_check_has_two_mutants():
    assert len(UNIVERSAL) == 9
    counts = Counter(name for name, _, _ in UNIVERSAL_MUTANTS)
    assert {name for name in UNIVERSAL if counts[name] >= 2} == set(UNIVERSAL)


@pytest.mark.spec("SEAM-09", "SEAM-18")
@pytest.mark.parametrize(
    ("name", "mutant", "also"), ABILITY_MUTANTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_ability_fails_its_check(name, mutant, also):
    assert failed(check(mutant)) == {name} | also


@pytest.mark.spec("SEAM-04", "SEAM-09", "SEAM-18")
@pytest.mark.parametrize("flag", ABILITIES)
class TestUndeclared:
    def test_an_ability_that_is_there_but_not_declared_must_refuse(self, flag):
        report = check(without(flag))
        also = {"remove"} if flag == "compare_and_swap" else set()  # it takes a version and must refuse that too
        assert failed(report) == {f"refuses_{flag}"} | also

    def test_the_refusal_must_be_the_typed_error(self, flag):
        def refuse(*_, **__):
            raise NotImplementedError("no")

        vague = type("Vague", (without(flag),), dict.fromkeys(ABILITIES[flag][1], staticmethod(refuse)))
        assert f"refuses_{flag}" in failed(check(vague))

    def test_a_typed_refusal_passes(self, flag):
        def refuse(*_, **__):
            raise UnsupportedAbilityError(f"no {flag} here; use another store.")

        methods: dict[str, object] = dict.fromkeys(ABILITIES[flag][1], staticmethod(refuse))
        if flag == "compare_and_swap":
            methods["remove"] = remove_without_version
        honest = type("Honest", (without(flag),), methods)
        report = check(honest)
        assert report.passed, report.table()
        assert f"refuses_{flag}" in {result.name for result in report.results}

    def test_a_declared_ability_must_be_there(self, flag):
        class Hollow(MemoryBackend):
            def __getattribute__(self, name):
                if name in ABILITIES[flag][1]:
                    raise AttributeError(name)
                return super().__getattribute__(name)

        assert flag in failed(check(Hollow))


def remove_without_version(self, locator, *, if_version=None):
    if if_version is not None:
        raise UnsupportedAbilityError("no versions here; remove without one.")
    MemoryBackend.remove(self, locator)
