"""Many processes and threads at once: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import threading

import pytest

from agentm.seam import Locator, registry, update
from tests.race.processes import place, race, workers
from tests.race.worker import one_more, open_store

STORES = ("memory", "device-local", "vault", "sqlite")
CONCURRENT = ("vault", "sqlite")
COUNTER = Locator("a/counter")


def total_of(store: str, processes: int, times: int) -> int:
    with place() as directory:
        backend = open_store(store, directory)
        with workers(*[("count", store, directory, str(times))] * processes) as started:
            race(started)
        return int(backend.read(COUNTER))


@pytest.mark.slow
@pytest.mark.spec("SEAM-09", "SEAM-14")
@pytest.mark.parametrize("store", CONCURRENT)
def test_sixteen_processes_count_together(store: str) -> None:
    assert total_of(store, 16, 1000) == 16_000


@pytest.mark.spec("SEAM-09")
def test_four_processes_count_together_on_device_local() -> None:
    assert total_of("device-local", 4, 50) == 200


@pytest.mark.spec("SEAM-04", "SEAM-14")
@pytest.mark.parametrize("store", CONCURRENT)
def test_every_key_of_four_writers_survives(store: str) -> None:
    """The official MCP memory server kept 72 of 200 here."""
    with place() as directory:
        backend = open_store(store, directory)
        with workers(*[("fill", store, directory, name, "50") for name in "abcd"]) as started:
            race(started)
        expected = {f"shared/{name}-{n}": f"{name} wrote {n}" for name in "abcd" for n in range(50)}
        found = {child.key: backend.read(child) for child in backend.list(Locator("shared"))}
        assert len(found) == 200
        assert found == expected


@pytest.mark.spec("SEAM-04")
def test_every_store_that_promises_concurrent_writers_is_in_this_race() -> None:
    assert set(registry.protocols()) <= set(STORES)
    with place() as directory:
        promising = [store for store in STORES if open_store(store, directory).capabilities.concurrent_writers]
    assert promising == list(CONCURRENT)


@pytest.mark.spec("SEAM-09", "SEAM-17")
@pytest.mark.parametrize("store", STORES)
def test_eight_threads_count_together(store: str) -> None:
    with place() as directory:
        backend = open_store(store, directory)
        failures: list[BaseException] = []
        start = threading.Barrier(8)

        def count() -> None:
            try:
                start.wait()
                for _ in range(25):
                    update(backend, COUNTER, one_more)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert backend.read(COUNTER) == "200"
