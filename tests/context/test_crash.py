"""A power cut at every instant of every change: one whole version is readable at once, and the repair ends it well."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from agentm.conformance.crashsim import Survey
from agentm.conformance.crashsim_states import States
from tests.crash.node_changes import CUT_SHORT, SCENARIOS, SEVERAL_AT_ONCE, program
from tests.crash.node_states import Outcome, check, check_program, check_scenario
from tests.crash.stores import STORES

pytestmark = pytest.mark.spec("CTX-03", "CTX-05", "CTX-06", "CTX-08")


@pytest.fixture
def sampled(monkeypatch):
    """Of lost names too only a sample is taken: counting all combinations takes longer than looking at them."""
    monkeypatch.setattr(States, "MOST_COMBINATIONS", 64)


def assert_sound(result: Survey) -> None:
    assert not result.failed, f"{result.counts}\n" + "\n".join(result.failures)


@pytest.mark.slow
@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_state_of_every_change(store, name):
    assert_sound(check(store, SCENARIOS[name], limit=120))


@pytest.mark.slow
@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", SEVERAL_AT_ONCE)
def test_states_of_many_nodes_at_once(store, name):
    assert_sound(check(store, SEVERAL_AT_ONCE[name], limit=20))
    assert_sound(check(store, SEVERAL_AT_ONCE[name], limit=20, prompt=True))


@pytest.mark.slow
@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("store", STORES)
def test_programs_of_changes(store):
    for seed in range(5):
        assert_sound(check(store, program(seed), limit=80))


def on_every_core(work: list[partial[Outcome]]) -> Outcome:
    """Do all of it, and add up what came out."""
    total = Outcome()
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(one) for one in work]:
            total += done.result()
    return total


@pytest.mark.lab
@pytest.mark.parametrize("store", STORES)
def test_fifty_thousand_states(store):
    """On each of two stores, so a hundred thousand."""
    changes = {**dict.fromkeys(SCENARIOS | CUT_SHORT, 2_000), **dict.fromkeys(SEVERAL_AT_ONCE, 600)}
    work = [partial(check_scenario, store, name, limit) for name, limit in changes.items()]
    total = on_every_core(work + [partial(check_scenario, store, name, 2_000, prompt=True) for name in SEVERAL_AT_ONCE])
    print(f"{store}: {total.states} states of {len(changes)} changes, {len(total.failures)} wrong")
    seed = 0
    while total.states < 50_000:
        total += on_every_core([partial(check_program, store, seed + n, 700) for n in range(40)])
        seed += 40
    print(f"{store}: {total.states} states, {seed} programs of changes among them, {len(total.failures)} wrong")
    assert not total.failures, "\n".join(total.failures[:20])
