"""A fault at each system call of one write: the old text or the new one, whole; a typed error or a clean death."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import missing
from tests.crash.straced import Fault, calls_of_a_write, faults, judge, lab, strike, synced_again

pytestmark = [pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14"), pytest.mark.slow]

STORES = ("device-local", "vault", "sqlite")
SCENARIOS = ("overwrite", "deep")


@pytest.fixture(autouse=True)
def _strace() -> None:
    if shutil.which("strace") is None:
        missing("strace is not installed")


def provoke(store: str, scenario: str, chosen: list[Fault]) -> list[str]:
    """Strike with every fault, two at a time, and say what went wrong."""

    def one(fault: Fault) -> list[str]:
        with lab(store, scenario) as made:
            return [f"{fault}: {wrong}" for wrong in judge(made, fault, strike(made, fault))]

    with ThreadPoolExecutor(2) as pool:
        return [wrong for found in pool.map(one, chosen) for wrong in found]


@pytest.mark.parametrize("store", STORES)
def test_one_error_and_a_kill_at_every_call(store: str) -> None:
    wrong = provoke(store, "overwrite", faults(store, "overwrite", errors=1))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("store", STORES)
def test_an_error_at_any_flush_is_no_acknowledgement(store: str) -> None:
    flushes = [
        fault
        for fault in faults(store, "overwrite", errors=1)
        if fault.call.name in ("fsync", "fdatasync") and fault.how == "error=EIO"
    ]
    assert len(flushes) >= 2
    wrong = provoke(store, "overwrite", flushes)
    assert not wrong, "\n".join(wrong)


@pytest.mark.lab
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_fault_at_every_call(store: str, scenario: str) -> None:
    chosen = faults(store, scenario, errors=None)
    wrong = provoke(store, scenario, chosen)
    print(f"{store}, {scenario}: {len(chosen)} faults at {len(calls_of_a_write(store, scenario))} calls")
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("store", ["device-local", "vault"])
def test_the_write_is_seen_as_it_is(store: str) -> None:
    """The window is the write and nothing else: what it must do to be durable is in it, in order."""
    names = [call.name for call in calls_of_a_write(store, "overwrite")]
    place = "rename" if store == "device-local" else "renameat2"
    assert names.index("write") < names.index("fsync") < names.index(place) < len(names) - names[::-1].index("fsync")
    assert Counter(names)["write"] == 1


def test_a_second_flush_would_be_seen() -> None:
    assert synced_again(["fsync(3) = -1 EIO (Input/output error) (INJECTED)", "fsync(3) = 0"])
    assert not synced_again(["fsync(3) = -1 EIO (INJECTED)", "close(3) = 0", "openat() = 3", "fsync(3) = 0"])
