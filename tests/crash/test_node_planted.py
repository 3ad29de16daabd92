"""Bugs planted on purpose into the writing and reading of nodes: the crash simulator must see every one of them.

Each single flush of a change is left out, each step, each hash check; what is left out and not missed is listed with
the reason why it need not be.
"""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from agentm import ContextFS
from agentm.backends import _batch, _durable
from agentm.conformance.crashsim import CrashState, scratch, survey
from agentm.conformance.crashsim_states import States
from agentm.context import observed, reader, transitions, writer
from agentm.context.node import META, Version, dump_version, load_version
from agentm.errors import NodeBrokenError, NodeBusyError
from tests.context.nodes import ALICE, VISIT, place
from tests.crash.flushes import flushes, without
from tests.crash.node_changes import ONE, SCENARIOS, SEVERAL, TWO, Act, Scenario, write, write_several
from tests.crash.node_states import Rehearsal, first_failure, rehearse
from tests.crash.stores import STORES

pytestmark = [pytest.mark.slow, pytest.mark.spec("CTX-03", "CTX-05", "CTX-06", "CTX-08")]

Plant = Callable[[pytest.MonkeyPatch], None]

# Flushes.

NEEDED = {
    "write": (
        "the folder of the store once accounts is made",
        "the folder accounts once acme is made",
        "the folder acme once users is made",
        "the folder users once alice is made",
        "the folder alice once memories is made",
        "the folder memories once of the category is made",
        "the folder of the category once of the node is made",
        "the folder of the node once .outbox is made",
        "the file a version",
        "the folder .history once a version is placed",
        "the file content.md",
        "the folder of the node once content.md is placed",
        "the file .relations.json",
        "the folder of the node once .relations.json is placed",
        "the file .abstract.md",
        "the file .overview.md",
        "the folder of the node once .overview.md is placed",
        "the file .meta.json",
        "the file an event",
        "the folder .outbox once an event is placed",
    ),
    "update": (
        "the file a version",
        "the folder .history once a version is placed",
        "the file content.md",
        "the folder of the node once content.md is placed",
        "the file .abstract.md",
        "the file .overview.md",
        "the folder of the node once .overview.md is placed",
        "the file .meta.json",
        "the folder of the node once .meta.json is placed",
        "the file an event",
        "the folder .outbox once an event is placed",
    ),
    "relate": ("the file .backlinks.json", "the folder of the node once .backlinks.json is placed"),
    "delete": ("the folder of the node once .overview.md is gone",),
    "purge": ("the folder .history once a version is gone",),
    "repair of a move that did not": ("the folder of the node once .meta.json is gone",),
}
"""Each flush by itself, in a change that shows what it is for."""

LATER = "the same folder is flushed again before anything relies on it"
COVERED = {
    "the folder of the node once .abstract.md is placed": LATER,  # by its twin of the same step, .overview.md
    "the folder of the node once content.md is gone": LATER,  # the parts go one after the other
    "the folder of the node once .relations.json is gone": LATER,
    "the folder of the node once .abstract.md is gone": LATER,
    "the folder of the node once a temporary is gone": "what it held was worthless, and goes when a store is opened",
}
"""Flushes that nobody would miss: each is that of a verb, which cannot know what comes after it."""


@functools.cache
def rehearsed(store: str, scenario: str) -> Rehearsal:
    return rehearse(store, SCENARIOS[scenario])


def unnoticed(run: Rehearsal, label: str, limit: int) -> list[int]:
    """The flushes of this name that can be left out without anything going wrong."""
    places = flushes(run.trace)[label]
    return [at for at in places if first_failure(run, without(run.trace, at), limit=limit) is None]


@pytest.mark.parametrize(("scenario", "label"), [(name, label) for name, labels in NEEDED.items() for label in labels])
def test_a_flush_that_is_left_out_is_missed(scenario: str, label: str) -> None:
    run = rehearsed("device-local", scenario)
    assert len(unnoticed(run, label, 400)) < len(flushes(run.trace)[label])


@pytest.mark.lab
@pytest.mark.parametrize("store", STORES)
def test_every_flush_of_every_change_is_needed_somewhere_or_covered(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed: dict[str, int] = defaultdict(int)
    for combinations, limit in ((32, 100), (256, 2_000)):  # a closer look at what a quick one does not see
        monkeypatch.setattr(States, "MOST_COMBINATIONS", combinations)
        seen = {label for label, count in missed.items() if count}
        for name in SCENARIOS:
            run = rehearsed(store, name)
            for label, places in flushes(run.trace).items():
                if label not in seen and label not in COVERED:
                    missed[label] += len(places) - len(unnoticed(run, label, limit))
    print(f"{store}: {sum(missed.values())} flushes left out one at a time were missed, of {len(missed)} kinds")
    assert all(missed.values()), [label for label, count in missed.items() if not count]


# Flushes that many nodes share.


def _two_at_once(begin: Act = lambda fs: None) -> Scenario:
    """Few enough for many of the states to be looked at."""
    first, second = (write_several(word, SEVERAL[:2]) for word in ("first", "second"))
    return Scenario((first, begin), (second,), SEVERAL[:2], together=(), in_order=True)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes are shared by any two files; of lost names a sample is taken."""
    monkeypatch.setattr(_batch, "SMALLEST_BATCH", 2)
    monkeypatch.setattr(States, "MOST_COMBINATIONS", 64)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("store", STORES)
def test_nodes_that_share_flushes_are_whole(store: str) -> None:
    run = rehearse(store, _two_at_once())
    assert first_failure(run, run.trace, limit=200) is None


SHARED = ("a version", "content", "abstract and overview", "meta", "an event")
"""The steps of an update that changes no edges: all are flushed together, and each once more when it is placed."""


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("step", SHARED)
def test_a_shared_flush_that_is_left_out_is_missed(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before anything is placed is missed in test_many_crash.py; here the next one, which also flushes
    everything, comes before anybody looks at what was placed."""
    real = _batch.Batch.settle
    seen: list[_batch.Batch] = []

    def forgetful(batch: _batch.Batch) -> None:
        seen.append(batch)
        if len(seen) != SHARED.index(step) + 1:
            real(batch)

    begin = _replaced(_batch.Batch, "settle", forgetful)
    run = rehearse("device-local", _two_at_once(lambda fs: begin(monkeypatch)))
    assert len(seen) == len(SHARED)
    assert first_failure(run, run.trace, limit=400)


# Steps and checks.


def _without_step(step: tuple[str, ...]) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        real = writer.Draft.texts
        monkeypatch.setattr(writer.Draft, "texts", lambda self, asked: [] if asked == step else real(self, asked))

    return plant


def _swapped(first: int) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        order = list(writer.ORDER)
        order[first], order[first + 1] = order[first + 1], order[first]
        monkeypatch.setattr(writer, "ORDER", tuple(order))
        monkeypatch.setattr(writer, "COMMIT", order.index((META,)))

    return plant


def _believing(*callers: str) -> Plant:
    """Whether parts belong to their meta is not looked at in these functions."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        real = Version.sound
        monkeypatch.setattr(Version, "sound", lambda self: sys._getframe(1).f_code.co_name in callers or real(self))

    return plant


def _replaced(where: object, name: str, value: object) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(where, name, value)


def _move_clears_first(monkeypatch: pytest.MonkeyPatch) -> None:
    real = transitions._lay_out

    def lay_out(backend, current, source, there, target, stamp, held):
        files = reader.standing(backend, source.locator).files
        transitions.clear(backend, transitions.doomed_files(backend, source.locator, files, purge=True), held)
        return real(backend, current, source, there, target, stamp, held)

    monkeypatch.setattr(transitions, "_lay_out", lay_out)


def nothing(*_: object, **__: object) -> None:
    return None


_EVERY_STEP = {
    f"step {number} is left out": ("update", _without_step(step)) for number, step in enumerate(writer.ORDER)
}
_EVERY_STEP["step 2 is left out"] = ("write", _without_step(writer.ORDER[2]))
_EVERY_STEP["step 5 is left out"] = ("update with an edge", _without_step(writer.ORDER[5]))
_EVERY_SWAP = {
    f"steps {number} and {number + 1} are swapped": ("update with an edge", _swapped(number))
    for number in range(len(writer.ORDER) - 1)
}

PLANTED: dict[str, tuple[str, Plant]] = {
    **_EVERY_STEP,
    **_EVERY_SWAP,
    "no hash is looked at": ("update", _replaced(Version, "sound", lambda self: True)),
    "the reader believes the parts": ("update", _believing("_parts_of")),
    "the repair believes the parts": ("update", _replaced(observed.Observed, "differs", False)),
    "the quick look believes the parts": (
        "repair of a hand edit",
        _replaced(observed, "_is_whole", lambda *_: True),
    ),
    "a writer believes the parts": ("write over a hand edit", _replaced(reader.Standing, "sound", lambda self: True)),
    "a moved node is shown before it has moved": (
        "move",
        _replaced(reader, "has_arrived", lambda backend, meta: meta.status == "PENDING"),
    ),
    "a moved node is shown only once all is done": ("move", _replaced(reader, "has_arrived", nothing)),
    "a move takes away before it lays out": ("move", _move_clears_first),
    "files are not flushed": ("update", _replaced(_durable, "sync_file", nothing)),
    "directories are not flushed": ("write", _replaced(_durable, "sync_dir", nothing)),
}


@pytest.mark.parametrize(("scenario", "plant"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_is_found(scenario: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = rehearsed("device-local", scenario)
    plant(monkeypatch)
    try:
        run = rehearse("device-local", SCENARIOS[scenario])
    except NodeBusyError:
        return  # what was written did not come to belong together, and the next write said so
    # What must be there is what the code without the bug leaves; what lies in the folders differs by times and names.
    views = [replace(view, folders=own.folders) for view, own in zip(sound.views, run.views, strict=True)]
    shows_at_once = [own.shown for own in run.views] != [view.shown for view in views]
    assert shows_at_once or first_failure(replace(run, views=views), run.trace, limit=400)


# Checks that only matter where something was damaged before the crash.


def _flip(version: Version) -> Version:
    """A kept version with a part that is not the one its meta was written for."""
    return replace(version, parts={**version.parts, "content.md": "the fyrst text, whole"})


def _damaged(how: Callable[[Version], Version]) -> Scenario:
    def damage(fs: ContextFS) -> None:
        for kept in fs.backend.list(place(VISIT, ".history")):
            fs.backend.write(kept, dump_version(how(load_version(fs.backend.read(kept)))))

    return Scenario((write(ONE), damage), (write(TWO),), (VISIT,))


def shown_texts(fs: ContextFS) -> Iterator[str]:
    """Everything that a reader gets to see; what is damaged is refused."""
    with suppress(NodeBrokenError):
        yield fs.read_node(VISIT, ALICE).content
    yield from (one.content for one in fs.history(VISIT, ALICE))


def damage_shown(how: Callable[[Version], Version]) -> int:
    """The crash states of an update in which something is shown that nobody has written."""
    run = rehearse("device-local", _damaged(how))
    with scratch() as locks:

        def verify(directory: str, _: CrashState) -> None:
            texts = set(shown_texts(ContextFS(STORES["device-local"](directory, locks))))
            assert texts <= {ONE.content, TWO.content}, texts

        return survey(run.trace, verify, limit=400).failed


def test_a_damaged_version_is_never_shown() -> None:
    assert damage_shown(_flip) == 0


@pytest.mark.parametrize("caller", ["kept_version", "load"])
def test_a_hash_check_of_kept_versions_that_is_left_out_is_missed(caller: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _believing(caller)(monkeypatch)
    assert damage_shown(_flip)
