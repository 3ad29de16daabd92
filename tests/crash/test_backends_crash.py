"""A power cut at every instant of every verb: nothing acknowledged is lost, nothing torn is shown."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

import pytest

from agentm.backends import _durable
from agentm.conformance.crashsim import CrashState, Mark, Recorder, Trace, record, scratch, states, survey
from agentm.conformance.crashsim_states import Relink
from agentm.errors import AgentmError, ConcurrentModificationError
from agentm.seam import Locator, StorageBackend
from tests.crash.stores import (
    OURS,
    STORES,
    Step,
    check,
    milestones,
    open_vault,
    perform,
    seen_plainly,
)

pytestmark = pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14")

OLD: Step = ("write", "a/note", "the old text\r\n")

VERBS: dict[str, tuple[list[Step], list[Step]]] = {
    "write new": ([], [("write", "note", "text ü")]),
    "write empty": ([OLD], [("write", "a/note", "")]),
    "write into new directories": ([], [("write", "a/b/c/note", "text")]),
    "overwrite": ([OLD], [("write", "a/note", "the new text")]),
    "swap": ([OLD], [("swap", "a/note", "the new text")]),
    "swap from nothing": ([], [("swap", "a/note", "the new text")]),
    "append": ([OLD], [("append", "a/note", "and more")]),
    "append to nothing": ([], [("append", "a/note", "first")]),
    "remove": ([OLD], [("remove", "a/note")]),
    "remove one version": ([OLD], [("remove_version", "a/note")]),
    "remove a directory": ([("mkdir", "a/b")], [("remove", "a/b")]),
    "rename": ([OLD], [("rename", "a/note", "b/c/note")]),
    "rename over a file": ([OLD, ("write", "b/note", "older")], [("replace", "a/note", "b/note")]),
    "rename a directory": ([OLD, ("write", "a/b/deep", "x")], [("rename", "a", "c/d")]),
    "mkdir": ([], [("mkdir", "a/b/c")]),
}

SEQUENCES: dict[str, tuple[list[Step], list[Step]]] = {
    "a life": (
        [OLD],
        [
            ("write", "a/note", "one"),
            ("append", "a/note", ", two"),
            ("rename", "a", "b/c"),
            ("write", "b/c/other", "three"),
            ("remove", "b/c/note"),
            ("swap", "b/c/other", "four"),
        ],
    ),
    "there and back": (
        [OLD],
        [("rename", "a/note", "b"), ("rename", "b", "a/note"), ("remove", "a/note"), ("write", "a/note", "again")],
    ),
    "made, emptied, made again": (
        [],
        [
            ("mkdir", "d/e"),
            ("write", "d/e/f", "1"),
            ("remove", "d/e/f"),
            ("remove", "d/e"),
            ("write", "d/e", "a file now"),
        ],
    ),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", [*VERBS, *SEQUENCES])
def test_every_state_after_a_crash_is_whole(store: str, name: str) -> None:
    before, steps = {**VERBS, **SEQUENCES}[name]
    found = check(STORES[store], before, steps)
    assert not found.failures, found.failures[0]
    assert found.counts.complete
    assert found.counts.distinct > 2 * len(steps)


@pytest.mark.parametrize("store", STORES)
def test_a_store_made_a_moment_ago_survives_with_its_first_write(store: str) -> None:
    found = check(STORES[store], [], [("write", "a/note", "text")], fresh=True)
    assert not found.failures, found.failures[0]
    assert found.counts.complete


@pytest.mark.parametrize("store", STORES)
def test_what_another_program_made_and_did_not_flush_holds_our_write(store: str) -> None:
    """The directory is there already, but its name may not be on the disk yet: a write into it promises it too."""

    def verify(directory: str, state: CrashState) -> None:
        assert not state.marks or seen_plainly(directory).files == {"theirs/below/note": "text"}

    with scratch() as root, scratch() as locks:
        backend = STORES[store](root, locks)

        def action(recorder: Recorder) -> None:
            os.makedirs(f"{root}/theirs/below")
            backend.write(Locator("theirs/below/note"), "text")
            recorder.mark("ack")

        found = survey(record(root, action), verify)
    assert not found.failures, found.failures[0]


@pytest.mark.parametrize("store", STORES)
def test_mkdir_promises_a_directory_that_another_program_made(store: str) -> None:
    def verify(_: str, state: CrashState) -> None:
        assert not state.marks or "theirs/below" in state.dirs

    with scratch() as root, scratch() as locks:
        backend = STORES[store](root, locks)

        def action(recorder: Recorder) -> None:
            os.makedirs(f"{root}/theirs/below")
            backend.mkdir(Locator("theirs/below"))
            recorder.mark("ack")

        found = survey(record(root, action), verify)
    assert not found.failures, found.failures[0]


@pytest.mark.parametrize("name", [*VERBS, *SEQUENCES])
def test_a_vault_on_a_file_system_without_exchange_is_whole_too(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(_durable, "_rename_flags", lambda *_: False)
    before, steps = {**VERBS, **SEQUENCES}[name]
    found = check(open_vault, before, steps)
    assert not found.failures, found.failures[0]


# Bugs planted on purpose: each must be seen.


def no_flush(*_: object) -> None:
    return None


def parents_left_to_luck(_: object, path: str) -> None:
    os.makedirs(path, exist_ok=True)


PLANTED: list[tuple[str, Callable[..., None], str]] = [
    ("sync_dir", no_flush, "write new"),
    ("sync_dir", no_flush, "overwrite"),
    ("sync_dir", no_flush, "swap"),
    ("sync_dir", no_flush, "append"),
    ("sync_dir", no_flush, "remove"),
    ("sync_dir", no_flush, "rename"),
    ("sync_dir", no_flush, "rename a directory"),
    ("sync_dir", no_flush, "mkdir"),
    ("sync_file", no_flush, "write new"),
    ("sync_file", no_flush, "overwrite"),
    ("sync_file", no_flush, "append"),
    ("Directories.ensure", parents_left_to_luck, "write into new directories"),
    ("Directories.ensure", parents_left_to_luck, "rename"),
    ("Directories.ensure", parents_left_to_luck, "mkdir"),
]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("function", "planted", "name"), PLANTED)
def test_a_planted_bug_is_seen(
    monkeypatch: pytest.MonkeyPatch, store: str, function: str, planted: Callable[..., None], name: str
) -> None:
    monkeypatch.setattr(f"agentm.backends._durable.{function}", planted)
    assert check(STORES[store], *VERBS[name]).failed


def in_place(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)


def test_writing_in_place_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentm.backends.device_local import DeviceLocalBackend

    monkeypatch.setattr(DeviceLocalBackend, "_publish", lambda self, path, data, version: in_place(path, data))
    assert check(STORES["device-local"], *VERBS["overwrite"]).failed


# A rival who ignores the lock writes, durably, at the worst moment: just before the two files change places.


def rival_writes(path: str, text: str) -> None:
    aside = f"{path}.rival"
    in_place(aside, text.encode())
    os.replace(aside, path)
    _durable.sync_dir(os.path.dirname(path))


REFUSED: list[Step] = [("swap", "a/note", "ours"), ("write", "a/note", "ours"), ("remove_version", "a/note")]


def refusal(monkeypatch: pytest.MonkeyPatch, step: Step, locks: str) -> Trace:
    """A step that is refused because a rival was there first; marks say when its text was safe, and when we gave up."""
    mover = "replace" if step[0] == "remove_version" else "exchange"
    real = getattr(_durable, mover)
    with scratch() as root:
        backend = open_vault(root, locks)
        perform(backend, OLD)

        def action(recorder: Recorder) -> None:
            def rival_first(first: str, second: str) -> object:
                monkeypatch.setattr(_durable, mover, real)
                rival_writes(f"{root}/a/note", "the rival's text")
                recorder.mark("rival")
                return real(first, second)

            monkeypatch.setattr(_durable, mover, rival_first)
            with pytest.raises(ConcurrentModificationError):
                perform(backend, step)
            recorder.mark("refused")

        return record(root, action)


@pytest.mark.parametrize("step", REFUSED)
def test_a_rivals_text_survives_a_crash_during_our_refusal(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    with scratch() as locks:

        def verify(directory: str, state: CrashState) -> None:
            backend = open_vault(directory, locks)
            texts = seen_plainly(directory).files
            said = {mark.label for mark in state.marks}
            if "rival" in said:
                assert "the rival's text" in texts.values(), f"the rival's text is gone: {texts}"
            if "refused" in said:
                assert texts["a/note"] == "the rival's text", f"refused, and yet {texts}"
            assert not [name for name in os.listdir(directory) if name.startswith(OURS)]
            perform(backend, ("write", "a/note", "next"))

        trace = refusal(monkeypatch, step, locks)
        found = survey(trace, verify)
    assert not found.failures, found.failures[0]
    assert found.counts.complete
    assert [op.label for op in trace.ops if isinstance(op, Mark)] == ["rival", "refused"]


@pytest.mark.parametrize("step", REFUSED)
def test_a_crash_while_clearing_up_after_a_crash_loses_nothing(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    """The start after a crash moves a rival's text into a copy, and may be cut short itself."""
    moved = 0

    with scratch() as locks, scratch() as directory:

        def verify(again: str, _: CrashState) -> None:
            open_vault(again, locks)
            assert "the rival's text" in seen_plainly(again).files.values()
            assert not [name for name in os.listdir(again) if name.startswith(OURS)]

        for state in states(refusal(monkeypatch, step, locks)):
            if state.marks:
                state.materialise(directory)
                trace = record(directory, lambda _: open_vault(directory, locks))
                found = survey(trace, verify)
                assert not found.failures, f"after {state}:\n{found.failures[0]}"
                moved += any(isinstance(op, Relink) and op.kind == "rename" for op in trace.ops)
    assert moved, "no crash left a rival's text to be moved"


# At random, in the lab: long sequences of legal steps.


def random_steps(seed: int, count: int) -> tuple[list[Step], list[Step]]:
    """Steps the reference backend accepts, one after another, among few enough names that they collide."""
    chance = random.Random(seed)
    keys = ["x", "d/x", "d/y", "d/e/x", "f/x"]
    places = [*keys, "d", "d/e", "f", "g/h"]
    steps: list[Step] = []
    while len(steps) < count:
        verb = chance.choice(["write", "write", "swap", "append", "remove", "rename", "replace", "mkdir"])
        step: Step = (verb, chance.choice(keys if verb in ("write", "swap", "append") else places))
        if verb in ("write", "swap", "append"):
            step = (*step, f"{len(steps)} " * chance.randint(1, 3))
        elif verb in ("rename", "replace"):
            step = (*step, chance.choice(places))
        if step[1:2] != step[2:3] and accepted([*steps, step]):
            steps.append(step)
    return steps[: count // 3], steps[count // 3 :]


def accepted(steps: Sequence[Step]) -> bool:
    try:
        milestones([], steps)
    except (AgentmError, OSError):
        return False
    return True


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("seed", range(3))
def test_random_sequences(store: str, seed: int) -> None:
    found = check(STORES[store], *random_steps(seed, 9), limit=400)
    assert not found.failures, found.failures[0]


@pytest.mark.lab
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("model", ["reorder", "ordered"])
def test_many_random_sequences(store: str, model: str) -> None:
    possible = seen = 0
    for seed in range(100, 400):
        before, steps = random_steps(seed, 18)
        found = check(STORES[store], before, steps, model=model, limit=1_000)
        assert not found.failures, f"seed {seed}: {steps}\n{found.failures[0]}"
        possible += found.counts.possible
        seen += found.counts.distinct
    print(f"{store}, {model}: {seen} distinct states looked at, of {possible} possible")
    assert seen > 15_000


def test_the_store_under_test_is_the_real_one() -> None:
    with scratch() as root, scratch() as locks:
        opened: dict[str, StorageBackend] = {name: STORES[name](f"{root}/{name}", locks) for name in STORES}
        assert {name: getattr(backend, "protocol", "") for name, backend in opened.items()} == {
            name: name for name in STORES
        }
