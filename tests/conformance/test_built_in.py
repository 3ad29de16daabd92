"""The four built-in stores keep the contract, with many processes and with a crash at every step."""

from __future__ import annotations

import os

import pytest

from agentm import registry, run_conformance

PLACES = {
    "device-local": lambda own: {"root": os.path.join(own, "store")},
    "memory": lambda own: {},
    "sqlite": lambda own: {"path": os.path.join(own, "store.db")},
    "vault": lambda own: {"root": os.path.join(own, "store"), "lock_root": os.path.join(own, "locks")},
}


@pytest.fixture(params=sorted(PLACES))
def protocol(request):
    return request.param


@pytest.fixture
def make_backend(protocol, tmp_path_factory):
    cls = registry.get(protocol)
    assert cls is not None
    return lambda: cls(**PLACES[protocol](str(tmp_path_factory.mktemp("own"))))


def test_every_built_in_store_is_here():
    assert set(PLACES) <= set(registry.protocols())


@pytest.mark.spec("SEAM-17", "SEAM-18")
def test_the_contract_is_kept(make_backend):
    report = run_conformance(make_backend, include_routing=True, processes=False, crashes=False)
    assert report.passed, report.table()
    assert "routing" in {result.name for result in report.results}


@pytest.mark.slow
@pytest.mark.spec("SEAM-19")
def test_the_contract_is_kept_by_many_processes_and_through_crashes(make_backend, protocol):
    report = run_conformance(make_backend, tidy=False)
    assert report.passed, report.table()
    skipped = [result.name for result in report.results if result.status == "skip"]
    if protocol == "memory":
        alone = ("survives_reopen", "atomic_to_readers", "lock_between_processes", "lock_freed_by_death")
        assert all(name.startswith("crash_") or name in alone for name in skipped)
    else:
        assert skipped == []
        assert all("confirmed by an oracle" in result.detail for result in report.results if "crash_" in result.name)


@pytest.mark.slow
@pytest.mark.spec("SEAM-18")
def test_a_store_in_use_is_left_as_it_was(protocol, tmp_path):
    cls = registry.get(protocol)
    assert cls is not None
    backend = cls(**PLACES[protocol](str(tmp_path)))
    place = backend.write(backend.resolve("notes/mine.md"), "mine\n")
    report = run_conformance(lambda: backend, include_routing=True, crashes=False)
    assert report.passed, report.table()
    assert backend.read(place) == "mine\n"
    assert [child.key for child in backend.list(backend.resolve())] == ["notes"]
