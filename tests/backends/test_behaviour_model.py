"""Any sequence of calls has the same outcome in every built-in store as in the reference."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from agentm import ABSENT, AgentmError, Info, Locator, MemoryBackend, Versioned
from agentm.seam import ROOT
from tests.backends.stores import make_store, tree

# Few names, so that calls meet each other; neighbours in byte order of 'a/' ('a!', 'a0'), so that ranges are tried.
KEYS = ("", "a", "a/b", "a/b/c", "a/b/c/d", "a/c", "a!", "a0", "b", "b/a", "b/a/b", "c")
keys = st.sampled_from(KEYS).map(Locator)
tokens = st.sampled_from(["current", "older", ABSENT, "made up"])


class Sameness(RuleBasedStateMachine):
    """Does everything twice, once in the reference, and compares what comes back."""

    protocol = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.model: Any = MemoryBackend()
        self.store: Any = make_store(self.protocol, self.directory)
        self.count = 0
        # What each of the two has told of versions and stamps: their tokens differ, their meaning must not.
        self.versions: dict[tuple[str, str], tuple[str, str]] = {}
        self.seen: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def teardown(self) -> None:
        if hasattr(self.store, "close"):
            self.store.close()
        shutil.rmtree(self.directory)

    def fresh(self) -> str:
        """A text that was never written before, because equal texts may have equal versions."""
        self.count += 1
        return f"text {self.count}\r\n"

    def both(self, verb: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        expected = outcome(self.model, verb, *arguments, **options)
        found = outcome(self.store, verb, *arguments, **options)
        assert comparable(found) == comparable(expected), f"{verb}{arguments}: {found} instead of {expected}"
        return expected, found

    def pair(self, place: Locator, token: str) -> tuple[str, str]:
        """A version token for each: the current one, one from before, or one that means the same to both."""
        if token == "current":
            current = [outcome(side, "read_versioned", place)[1] for side in (self.model, self.store)]
            known = all(isinstance(found, Versioned) for found in current)
            return (current[0].version, current[1].version) if known else (ABSENT, ABSENT)
        return self.versions.get((place.key, token), (token, token))

    def remember(self, place: Locator) -> None:
        self.versions[place.key, "older"] = self.pair(place, "current")

    @rule(place=keys)
    def look(self, place: Locator) -> None:
        for verb in ("read", "list", "exists", "info"):
            self.both(verb, place)
        self.both("read_versioned", place)

    @rule(place=keys)
    def write(self, place: Locator) -> None:
        self.remember(place)
        self.both("write", place, self.fresh())

    @rule(place=keys)
    def append(self, place: Locator) -> None:
        self.remember(place)
        self.both("append", place, self.fresh())

    @rule(place=keys)
    def mkdir(self, place: Locator) -> None:
        self.both("mkdir", place)

    @rule(place=keys)
    def remove(self, place: Locator) -> None:
        self.remember(place)
        self.both("remove", place)

    @rule(source=keys, goal=keys, overwrite=st.booleans())
    def rename(self, source: Locator, goal: Locator, overwrite: bool) -> None:
        self.both("rename", source, goal, overwrite=overwrite)

    @rule(place=keys, token=tokens, verb=st.sampled_from(["write_versioned", "remove"]))
    def swap(self, place: Locator, token: str, verb: str) -> None:
        arguments = (place, self.fresh()) if verb == "write_versioned" else (place,)
        pair = self.pair(place, token)
        found = [
            outcome(side, verb, *arguments, if_version=version)
            for side, version in zip((self.model, self.store), pair, strict=True)
        ]
        # The new version's token is each store's own.
        assert comparable(found[0], tokens=False) == comparable(found[1], tokens=False), (verb, place, token, found)

    @rule(below=st.sampled_from([ROOT, Locator("a"), Locator("a/b"), Locator("b")]))
    def follow(self, below: Locator) -> None:
        told = []
        for side, seen in zip((self.model, self.store), self.seen, strict=True):
            changes = list(side.changes(seen, below))
            for change in changes:
                seen.pop(change.locator.key, None)
                if change.stamp is not None:
                    seen[change.locator.key] = change.stamp
            told.append({(change.locator.key, change.stamp is None) for change in changes})
        expected, found = told
        assert found >= expected, "the feed missed something"
        assert {key for key, gone in found if gone} == {key for key, gone in expected if gone}
        assert self.seen[0].keys() == self.seen[1].keys()

    @invariant()
    def the_trees_are_equal(self) -> None:
        assert tree(self.store) == tree(self.model)


def outcome(backend: Any, verb: str, *arguments: Any, **options: Any) -> tuple[str, Any]:
    try:
        return "returned", getattr(backend, verb)(*arguments, **options)
    except AgentmError as error:
        return "raised", error


def comparable(result: tuple[str, Any], *, tokens: bool = True) -> Any:
    """What must be equal: not the times, the tokens or a store's own name."""
    how, value = result
    if how == "raised":
        current = getattr(value, "current", None)
        return how, type(value), value.code, value.verb, value.locator, current == ABSENT
    if isinstance(value, Info):
        return how, value.locator, value.is_dir, value.size
    if isinstance(value, Versioned):
        return how, value.content
    return how, value if tokens else None


def compare(protocol: str, examples: int, steps: int) -> None:
    machine = type("Sameness", (Sameness,), {"protocol": protocol})
    limits = settings(
        max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck), deadline=None
    )
    run_state_machine_as_test(machine, settings=limits)


@pytest.mark.spec("SEAM-06", "SEAM-09", "SEAM-17")
@pytest.mark.parametrize("protocol", ["device-local", "vault", "sqlite"])
def test_a_store_does_what_the_reference_does(protocol: str) -> None:
    compare(protocol, examples=15, steps=20)


@pytest.mark.slow
@pytest.mark.hypothesis  # so that `make fuzz` runs it, with its own number of examples
@pytest.mark.spec("SEAM-06", "SEAM-09", "SEAM-17")
@pytest.mark.parametrize("protocol", ["device-local", "vault", "sqlite"])
def test_a_store_does_what_the_reference_does_for_long(protocol: str) -> None:
    compare(protocol, examples=max(150, settings().max_examples), steps=50)
