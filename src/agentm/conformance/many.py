"""Many texts in one call: all of them land, exactly, and each one is refused as a plain write refuses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agentm.conformance.checks import EXACT_TEXTS
from agentm.conformance.expect import expect, refuses, same
from agentm.conformance.trial import Trial, snapshot
from agentm.errors import ConcurrentModificationError
from agentm.seam import ABSENT, CompareAndSwap, Locator, WriteMany, require

MANY = 300
"""More than a store will want to have open at once."""

Put = Callable[[Sequence[tuple[Locator, str]]], object]


def write_many(trial: Trial) -> str:
    put: Put = require(trial.backend, WriteMany).write_many
    trial.put("bystander.md", "untouched\n")
    same("write_many of nothing", put([]), None)
    same("what lies there then", snapshot(trial.backend, trial.scratch), {"bystander.md": "untouched\n"})
    _lands(trial, put, "one text", {"one.md": "one\n"})
    exact = {f"exact/{n}/text.md": text for n, text in enumerate(EXACT_TEXTS.values())}
    _lands(trial, put, "texts that must come back byte for byte", exact)
    many = {f"many/{n % 7}/{n}.md": f"text {n}\n" * (n % 50) for n in range(MANY)}
    _lands(trial, put, f"{MANY} texts into new directories", many)
    _lands(trial, put, "other texts over these", {key: f"new {text}" for key, text in many.items()})
    _the_last_one_wins(trial, put)
    _refusals(trial, put)
    _steps(trial)
    if trial.backend.capabilities.compare_and_swap:
        _versions(trial)
    return f"{MANY} at once, " + ("confirmed by an oracle" if trial.raw else "no oracle for the raw bytes")


def _lands(trial: Trial, put: Put, what: str, texts: dict[str, str]) -> None:
    same(f"write_many of {what}", put([(trial.at(key), text) for key, text in texts.items()]), None)
    for key, text in texts.items():
        same(f"{what}: read of {key!r}", trial.backend.read(trial.at(key)), text)
        if trial.raw is not None:
            same(f"{what}: the store's bytes of {key!r}", trial.raw(trial.at(key)), text.encode())
    same(f"{what}: read of a bystander", trial.backend.read(trial.at("bystander.md")), "untouched\n")


def _the_last_one_wins(trial: Trial, put: Put) -> None:
    place, others = trial.at("twice.md"), [(trial.at(f"beside/{n}.md"), str(n)) for n in range(20)]
    put([(place, "first, and longer\n"), *others, (place, "last\n")])
    same("read of a place that was named twice", trial.backend.read(place), "last\n")
    put([(place, "first\n"), (place, "second\n"), (place, "third\n")])
    same("read of a place that was named three times", trial.backend.read(place), "third\n")


def _steps(trial: Trial) -> None:
    store = require(trial.backend, WriteMany)
    for size in (1, 20):
        steps = [[(trial.at(f"steps/{size}/{step}-{n}.md"), f"{n}\n") for n in range(size)] for step in range(3)]
        called: list[int] = []

        def look(number: int, steps: list[list[tuple[Locator, str]]] = steps, called: list[int] = called) -> None:
            called.append(number)
            for at, step in enumerate(steps):
                there = [trial.backend.exists(place) for place, _ in step]
                same(f"before step {number}: whether step {at} is there", set(there), {at < number})

        store.write_many(*steps, before=look)
        same("the steps of which ``before`` was told", called, [0, 1, 2])
        for place, text in (text for step in steps for text in step):
            same(f"read of {place.key!r} once all steps are done", trial.backend.read(place), text)
        _stops(trial, size)


def _stops(trial: Trial, size: int) -> None:
    def stop(number: int) -> None:
        if number:
            raise RuntimeError("no further")

    steps = [[(trial.at(f"stopped/{size}/{step}-{n}.md"), f"{n}\n") for n in range(size)] for step in range(2)]
    refuses(
        "write_many of two steps with a ``before`` that raises",
        (RuntimeError,),
        partial(require(trial.backend, WriteMany).write_many, *steps, before=stop),
    )
    for number, step in enumerate(steps):
        there = {trial.backend.exists(place) for place, _ in step}
        same(f"whether step {number} is there after ``before`` raised at step 1", there, {number == 0})


def _versions(trial: Trial) -> None:
    store, swap = require(trial.backend, WriteMany), require(trial.backend, CompareAndSwap)
    for size in (2, 20):
        texts = [(trial.at(f"versions/{size}-{n}.md"), f"first {n}\n") for n in range(size)]
        store.write_many(texts, if_versions=dict.fromkeys((at for at, _ in texts), ABSENT))
        seen = {at: swap.read_versioned(at).version for at, _ in texts}
        again = [(at, f"second {text}") for at, text in texts]
        store.write_many(again, if_versions=seen)
        what = f"write_many of {size} texts of which one has another version by now"
        third = [(at, f"third {text}") for at, text in texts]
        now = {at: swap.read_versioned(at).version for at, _ in texts} | {texts[-1][0]: seen[texts[-1][0]]}
        refuses(what, (ConcurrentModificationError,), partial(store.write_many, third, if_versions=now))
        for at, text in again:
            same(f"{what}: read of {at.key!r}", trial.backend.read(at), text)


def _refusals(trial: Trial, put: Put) -> None:
    trial.put("refused/folder/note.md", "kept\n")
    for size in (2, 20):
        for what, kinds, key, text in (
            ("a directory among them", (IsADirectoryError,), "refused/folder", "x"),
            ("a place below a file among them", (OSError,), "refused/folder/note.md/below.md", "x"),
            ("half a character among them", (OSError, ValueError), "refused/half.md", "half a pair: \ud83d"),
        ):
            if _plainly_refused(trial, trial.at(key), text):
                _refuses(trial, put, f"write_many with {what}", kinds, (trial.at(key), text), size)


def _plainly_refused(trial: Trial, place: Locator, text: str) -> bool:
    """A store may hold half a character, if it gives it back; what `write` refuses is refused here too."""
    try:
        trial.backend.write(place, text)
    except (OSError, ValueError):
        return True
    return False


def _refuses(
    trial: Trial,
    put: Put,
    what: str,
    kinds: tuple[type[Exception], ...],
    bad: tuple[Locator, str],
    size: int,
) -> None:
    good = {f"refused/{size}-{n}.md": f"new {n}\n" for n in range(size)}
    for key in good:
        trial.put(key, "old\n")
    texts = [(trial.at(key), text) for key, text in good.items()]
    texts.insert(size // 2, bad)
    refuses(what, kinds, lambda: put(texts))
    for key, text in good.items():
        got = trial.backend.read(trial.at(key))
        expect(got in ("old\n", text), f"after {what}, {key!r} holds neither the old text nor the new one")
    same(f"{what}: read of what stood there", trial.backend.read(trial.at("refused/folder/note.md")), "kept\n")
