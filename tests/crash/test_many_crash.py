"""A power cut at every instant of write_many: each text is whole old or whole new, and acknowledged ones are there."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from agentm.backends import _batch, _durable, _tree
from agentm.conformance.crashsim import CrashState, Recorder, Survey, record, scratch, survey
from agentm.conformance.crashsim_states import Alter, Sync
from agentm.seam import Locator
from tests.conftest import missing
from tests.crash.stores import OURS, STORES, seen_plainly, seen_through

pytestmark = pytest.mark.spec("SEAM-06", "SEAM-09", "SEAM-13", "SEAM-14")

Text = tuple[str, str]

OLD: list[Text] = [("a/one", "the old text\r\n"), ("two", "another old one")]
CALLS: dict[str, tuple[list[Text], list[Text]]] = {
    "new": ([], [("one", "text ü"), ("two", "more"), ("three", "")]),
    "into new directories": ([], [("a/b/one", "1"), ("a/c/two", "2"), ("d/three", "3")]),
    "over old ones": (OLD, [("a/one", "the new text"), ("two", "")]),
    "old and new": (OLD, [("a/one", "the new text"), ("a/b/three", "3"), ("two", "2")]),
    "one place twice": (OLD, [("a/one", "first"), ("two", "2"), ("a/one", "last")]),
    "two batches": (OLD, [("a/one", "1"), ("b/two", "2"), ("b/three", "3"), ("two", "4"), ("c", "alone")]),
}


@pytest.fixture(autouse=True, params=["flushed as a whole", "flushed one by one"])
def small_batches(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Batches of a size that can be looked at in every state."""
    monkeypatch.setattr(_batch, "SMALLEST_BATCH", 2 if request.param == "flushed as a whole" else 100)
    monkeypatch.setattr(_tree, "LARGEST_BATCH", 3)
    with scratch() as directory:
        fd = os.open(directory, os.O_RDONLY)
        try:
            if not _batch._flushes_as_a_whole(fd):
                missing("no file system here can be flushed as a whole")
        finally:
            os.close(fd)
    return str(request.param)


def check(store: str, before: Sequence[Text], texts: Sequence[Text], *, model: str = "reorder") -> Survey:
    """Every crash state of one call, looked at plainly and through the reopened store."""
    with scratch() as root, scratch() as locks:
        backend = STORES[store](root, locks)
        for key, text in before:
            backend.write(Locator(key), text)

        def action(recorder: Recorder) -> None:
            backend.write_many([(Locator(key), text) for key, text in texts])  # type: ignore[attr-defined]
            recorder.mark("ack")

        trace = record(root, action)
        may_be = {key: {text for at, text in (*before, *texts) if at == key} for key, _ in (*before, *texts)}
        absent = {key for key, _ in texts} - {key for key, _ in before}

        def verify(directory: str, state: CrashState) -> None:
            plain = seen_plainly(directory)
            for key, some in may_be.items():
                found = plain.files.get(key)
                assert found in some or (found is None and key in absent), f"{key} is {found!r}, not one of {some}"
            assert plain.files.keys() <= may_be.keys()
            if state.marks:
                assert plain.files == {**dict(before), **dict(texts)}, f"acknowledged, and yet {plain.files}"
            reopened = STORES[store](directory, locks)
            assert seen_through(reopened) == plain
            assert not [name for name in os.listdir(directory) if name.startswith(OURS)]
            reopened.write(Locator("a/after the crash"), "works")

        return survey(trace, verify, model=model)


@pytest.mark.parametrize("model", ["reorder", "ordered"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", CALLS)
def test_every_state_after_a_crash_is_whole(store: str, name: str, model: str) -> None:
    found = check(store, *CALLS[name], model=model)
    assert not found.failures, found.failures[0]
    assert found.counts.complete
    assert found.counts.distinct > 2 * len(CALLS[name][1])


@pytest.mark.parametrize("store", STORES)
def test_nothing_of_a_step_is_seen_before_all_of_the_step_before_it_survives(store: str) -> None:
    steps = [[("a/one", "1"), ("a/two", "2")], [("b/three", "3")], [("a/one", "4"), ("five", "5")]]
    seen: set[int] = set()
    with scratch() as root, scratch() as locks:
        backend = STORES[store](root, locks)

        def action(recorder: Recorder) -> None:
            places = [[(Locator(key), text) for key, text in step] for step in steps]
            backend.write_many(*places, before=lambda number: recorder.mark(f"{number}"))  # type: ignore[attr-defined]

        def verify(directory: str, state: CrashState) -> None:
            found = seen_plainly(directory).files
            for number in range(len(steps)):
                later = {item for step in steps[number:] for item in step}
                if later & found.items():
                    assert all(found.get(key) in (text, "4") for step in steps[:number] for key, text in step)
                    seen.add(number)
                    assert f"{number}" in {mark.label for mark in state.marks}, "seen before it was announced"

        result = survey(record(root, action), verify)
    assert not result.failures, result.failures[0]
    assert seen == {0, 1, 2}


@pytest.mark.parametrize("store", STORES)
def test_what_is_raised_before_a_step_ends_it_there_and_leaves_nothing_behind(store: str) -> None:
    def stop(number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt

    with scratch() as root, scratch() as locks:
        backend = STORES[store](root, locks)
        steps = [[(Locator(f"{step}/{n}"), "x") for n in range(4)] for step in range(3)]
        with pytest.raises(KeyboardInterrupt):
            backend.write_many(*steps, before=stop)  # type: ignore[attr-defined]
        assert set(seen_plainly(root).files) == {f"0/{n}" for n in range(4)}
        assert not [name for name in os.listdir(root) if name.startswith(OURS)]


@pytest.mark.parametrize("store", STORES)
def test_flushes_are_shared(monkeypatch: pytest.MonkeyPatch, store: str, small_batches: str) -> None:
    """Else the states above would be those of single writes."""
    flushed: list[str] = []
    real = _durable.sync_file_system
    monkeypatch.setattr(_durable, "sync_file_system", lambda fd: (flushed.append("all"), real(fd)))
    monkeypatch.setattr(_durable, "sync_file", lambda fd: flushed.append("a file"))
    monkeypatch.setattr(_durable, "sync_dir", lambda path: flushed.append("a directory"))
    with scratch() as root, scratch() as locks:
        backend = STORES[store](root, locks)
        flushed.clear()
        backend.write_many([(Locator(f"d{n}/e/note"), f"{n}") for n in range(6)])  # type: ignore[attr-defined]
    if small_batches == "flushed as a whole":
        assert flushed == ["all"] * 3
    else:
        assert flushed[:6] == ["a file"] * 6
        assert set(flushed[6:]) == {"a directory"}


# Bugs planted on purpose: each must be seen.


def nothing(*_: object) -> None:
    return None


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", ["new", "into new directories", "over old ones"])
@pytest.mark.parametrize("forgotten", ["flush", "settle"])
def test_a_forgotten_flush_is_seen(monkeypatch: pytest.MonkeyPatch, store: str, name: str, forgotten: str) -> None:
    monkeypatch.setattr(_batch.Batch, forgotten, nothing)
    found = check(store, *CALLS[name])
    assert found.failed
    assert any(("acknowledged" in failure) == (forgotten == "settle") for failure in found.failures)


# The simulator's part of it.


def flush_all(root: str) -> None:
    fd = os.open(root, os.O_RDONLY)
    try:
        _durable.sync_file_system(fd)
    finally:
        os.close(fd)


def test_a_flush_of_everything_makes_all_names_and_bytes_durable_and_nothing_later() -> None:
    def put(path: str, data: bytes) -> None:
        fd = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.write(fd, data)
        os.close(fd)

    with scratch() as root:

        def action(recorder: Recorder) -> None:
            os.makedirs(f"{root}/a/b")
            put(f"{root}/a/b/kept", b"bytes")
            os.rename(f"{root}/a/b/kept", f"{root}/a/moved")
            flush_all(root)
            recorder.mark("flushed")
            put(f"{root}/later", b"more")

        trace = record(root, action)

    seen: set[tuple[bool, bool, bool]] = set()

    def verify(directory: str, state: CrashState) -> None:
        files = {path: data for path, (data, _) in state.files.items()}
        seen.add((bool(state.marks), files.get("a/moved") == b"bytes", files.get("later") == b"more"))

    survey(trace, verify)
    assert {moved for flushed, moved, _ in seen if flushed} == {True}
    assert {later for flushed, _, later in seen if flushed} == {True, False}
    assert {moved for flushed, moved, _ in seen if not flushed} == {True, False}
    assert sum(isinstance(op, Sync) for op in trace.ops) == 4  # the root, two directories, one file
    assert sum(isinstance(op, Alter) for op in trace.ops) == 2


def test_a_flush_that_fails_makes_nothing_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "broken")

    monkeypatch.setattr(_durable, "sync_file_system", fail)
    with scratch() as root:

        def action(_: Recorder) -> None:
            os.mkdir(f"{root}/a")
            with pytest.raises(OSError, match="broken"):
                flush_all(root)

        trace = record(root, action)
    assert not [op for op in trace.ops if isinstance(op, Sync)]
