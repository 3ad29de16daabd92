"""The crash simulator: it lets a right protocol pass, and catches the ones that are wrong."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from agentm.conformance.crashsim import ORDERED, CrashState, Recorder, Trace, record, scratch, states, survey
from agentm.conformance.crashsim_states import ROOT_INODE, Alter, Mark, Relink, Sync
from agentm.errors import AgentmError

pytestmark = pytest.mark.spec("SEAM-06")

OLD, NEW = b"old text", b"the new text"


def put(path: str, data: bytes, *, flush: bool = True, flags: int = os.O_CREAT | os.O_EXCL) -> None:
    fd = os.open(path, os.O_WRONLY | flags)
    os.write(fd, data)
    if flush:
        os.fsync(fd)
    os.close(fd)


def flush_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def right(root: str) -> None:
    put(f"{root}/temp", NEW)
    os.replace(f"{root}/temp", f"{root}/note")
    flush_directory(root)


def truncates_in_place(root: str) -> None:
    put(f"{root}/note", NEW, flags=os.O_CREAT | os.O_TRUNC)
    flush_directory(root)


def forgets_the_file(root: str) -> None:
    put(f"{root}/temp", NEW, flush=False)
    os.replace(f"{root}/temp", f"{root}/note")
    flush_directory(root)


def forgets_the_directory(root: str) -> None:
    put(f"{root}/temp", NEW)
    os.replace(f"{root}/temp", f"{root}/note")


def flushes_the_file_too_late(root: str) -> None:
    put(f"{root}/temp", NEW, flush=False)
    os.replace(f"{root}/temp", f"{root}/note")
    fd = os.open(f"{root}/note", os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    flush_directory(root)


def removes_before_it_renames(root: str) -> None:
    put(f"{root}/temp", NEW)
    if os.path.exists(f"{root}/note"):
        os.unlink(f"{root}/note")
    os.rename(f"{root}/temp", f"{root}/note")
    flush_directory(root)


def run(root: str, protocol: Callable[[str], None]) -> Trace:
    def action(recorder: Recorder) -> None:
        protocol(root)
        recorder.mark("ack")

    return record(root, action)


def old_or_new(before: bytes | None) -> Callable[[str, CrashState], None]:
    """Before the acknowledgement the old or the new text, after it the new one, and nothing else ever."""

    def verify(directory: str, state: CrashState) -> None:
        path = f"{directory}/note"
        found = None
        if os.path.exists(path):
            with open(path, "rb") as file:
                found = file.read()
        assert found == NEW or (found == before and not state.marks), f"found {found!r}"

    return verify


@pytest.mark.parametrize("before", [None, OLD], ids=["create", "overwrite"])
@pytest.mark.parametrize("model", ["reorder", "ordered"])
def test_the_right_protocol_passes(tmp_path_factory: pytest.TempPathFactory, before: bytes | None, model: str) -> None:
    root = start(tmp_path_factory, before)
    found = survey(run(root, right), old_or_new(before), model=model)
    assert not found.failures
    assert found.counts.complete
    assert found.counts.distinct > 4


@pytest.mark.parametrize("before", [None, OLD], ids=["create", "overwrite"])
@pytest.mark.parametrize(
    ("protocol", "what_is_seen"),
    [
        (truncates_in_place, b""),
        (forgets_the_file, b""),
        (forgets_the_directory, None),
        (flushes_the_file_too_late, b""),
    ],
)
def test_a_wrong_protocol_is_caught(
    tmp_path_factory: pytest.TempPathFactory,
    before: bytes | None,
    protocol: Callable[[str], None],
    what_is_seen: bytes | None,
) -> None:
    root = start(tmp_path_factory, before)
    found = survey(run(root, protocol), old_or_new(before), keep=1000)
    seen = before if what_is_seen is None else what_is_seen
    assert any(f"found {seen!r}" in failure for failure in found.failures)


def test_a_moment_without_the_file_is_caught(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, OLD)
    found = survey(run(root, removes_before_it_renames), old_or_new(OLD))
    assert any("found None" in failure for failure in found.failures)


@pytest.mark.parametrize("flush_parents", [True, False])
def test_new_parents_that_were_not_flushed_are_lost(
    tmp_path_factory: pytest.TempPathFactory, flush_parents: bool
) -> None:
    root = start(tmp_path_factory, None)

    def deep(_: str) -> None:
        for parent, name in ((root, "a"), (f"{root}/a", "b")):
            os.mkdir(f"{parent}/{name}")
            if flush_parents:
                flush_directory(parent)
        put(f"{root}/temp", NEW)
        os.replace(f"{root}/temp", f"{root}/a/b/note")
        flush_directory(f"{root}/a/b")

    def verify(_: str, state: CrashState) -> None:
        assert not state.marks or state.files.get("a/b/note", (b"", 0))[0] == NEW, "lost"

    found = survey(run(root, deep), verify)
    assert bool(found.failed) is not flush_parents
    if not flush_parents:
        # With its directory the whole rename is lost, so the text is still under its first name.
        assert any("temp (12 bytes)" in failure for failure in found.failures)


def test_a_write_may_be_lost_halved_or_zeros(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, None)
    trace = record(root, lambda _: put(f"{root}/note", b"abcdef", flush=False))
    seen = {state.files["note"][0] if "note" in state.files else None for state in states(trace)}
    assert seen == {None, b"", b"abc", bytes(6), b"abcdef"}


def test_writes_survive_as_a_prefix(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, b"0")

    def action(_: Recorder) -> None:
        fd = os.open(f"{root}/note", os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"11")
        os.fsync(fd)
        os.write(fd, b"22")
        os.write(fd, b"33")
        os.close(fd)

    seen = {state.files["note"][0] for state in states(record(root, action))}
    before = {b"0", b"01", b"0\0\0", b"011"}
    assert seen == before | {b"0112", b"011\0\0", b"01122", b"011223", b"01122\0\0", b"0112233"}


def test_unflushed_names_are_lost_in_any_combination(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, None)

    def action(_: Recorder) -> None:
        os.mkdir(f"{root}/a")
        os.mkdir(f"{root}/b")

    trace = record(root, action)
    assert {tuple(sorted(state.dirs)) for state in states(trace)} == {(), ("a",), ("b",), ("a", "b")}
    assert {tuple(sorted(state.dirs)) for state in states(trace, model=ORDERED)} == {(), ("a",), ("a", "b")}


def test_changes_of_one_name_keep_their_order(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, OLD)

    def action(_: Recorder) -> None:
        os.rename(f"{root}/note", f"{root}/second")
        os.rename(f"{root}/second", f"{root}/third")
        os.unlink(f"{root}/third")

    seen = {tuple(state.files) for state in states(record(root, action))}
    assert seen == {("note",), ("second",), ("third",), ()}


def test_a_directory_goes_only_after_what_was_moved_out_of_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, None)
    os.mkdir(f"{root}/d")
    put(f"{root}/d/note", OLD)

    def action(_: Recorder) -> None:
        os.rename(f"{root}/d/note", f"{root}/note")
        os.rmdir(f"{root}/d")

    assert {(*state.dirs, *state.files) for state in states(record(root, action))} == {
        ("d", "d/note"),
        ("d", "note"),
        ("note",),
    }


def test_an_exchange_is_one_step(tmp_path_factory: pytest.TempPathFactory) -> None:
    from agentm.backends import _durable

    root = start(tmp_path_factory, OLD)
    put(f"{root}/temp", NEW)
    trace = record(root, lambda _: _durable.exchange(f"{root}/temp", f"{root}/note"))
    seen = {(state.files["note"][0], state.files["temp"][0]) for state in states(trace)}
    assert seen == {(OLD, NEW), (NEW, OLD)}


def test_states_are_laid_out_as_they_are(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, OLD)

    def action(recorder: Recorder) -> None:
        os.makedirs(f"{root}/a/b")
        put(f"{root}/a/b/note", NEW)
        fd = os.open(f"{root}/a/b/note", os.O_RDONLY)
        os.fchmod(fd, 0o600)
        os.close(fd)
        recorder.mark("done", 7)

    last = list(states(record(root, action), model=ORDERED))[-1]
    with scratch() as directory:
        os.makedirs(f"{directory}/left/from/before")
        marks = last.materialise(directory)
        assert [(mark.label, mark.payload) for mark in marks] == [("done", 7)]
        found = {
            os.path.relpath(os.path.join(where, name), directory)
            for where, dirs, files in os.walk(directory)
            for name in (*dirs, *files)
        }
        assert found == {"note", "a", "a/b", "a/b/note"}
        assert os.stat(f"{directory}/a/b/note").st_mode & 0o777 == 0o600


def test_what_was_not_recorded_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, OLD)

    def action(_: Recorder) -> None:
        with open(f"{root}/note", "wb") as file:
            file.write(NEW)

    with pytest.raises(AgentmError) as caught:
        record(root, action)
    assert caught.value.code == "trace_incomplete"


def test_the_functions_of_os_come_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, OLD)
    before = {name: value for name, value in vars(os).items() if callable(value)}

    def action(_: Recorder) -> None:
        os.unlink(f"{root}/absent")

    with pytest.raises(FileNotFoundError):
        record(root, action)
    assert {name: value for name, value in vars(os).items() if callable(value)} == before


def test_files_elsewhere_are_left_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    root, elsewhere = start(tmp_path_factory, OLD), str(tmp_path_factory.mktemp("elsewhere"))
    trace = record(root, lambda _: put(f"{elsewhere}/note", NEW))
    assert trace.ops == []


def many_loose_ends(root: str) -> None:
    for n in range(6):
        put(f"{root}/{n}", NEW, flush=False)


def test_a_large_space_is_sampled_evenly_and_said_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = run(start(tmp_path_factory, None), many_loose_ends)
    everything = states(trace)
    assert len(list(everything)) == 2 * 5**6 == everything.counts.distinct  # once before the mark, once after
    assert everything.counts.complete
    few = states(trace, limit=500)
    sample = [str(state) for state in few]
    assert few.counts.possible == everything.counts.possible
    assert few.counts.sampled == 500 >= few.counts.distinct == len(sample) > 400
    assert not few.counts.complete
    assert sample == [str(state) for state in states(trace, limit=500)]
    # Even: most of the 2 x 64 combinations of names are met.
    shapes = {(len(state.marks), frozenset(state.files)) for state in states(trace, limit=500)}
    assert len(shapes) > 80


def test_too_many_combinations_of_names_are_thinned_and_said_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = start(tmp_path_factory, None)
    trace = record(root, lambda _: [os.mkdir(f"{root}/{n}") for n in range(40)] and None)
    found = states(trace)
    shapes = [len(state.dirs) for state in found]
    assert found.counts.thinned
    assert not found.counts.complete
    assert {0, 40} <= set(shapes)
    assert len(shapes) > 1000


def start(factory: pytest.TempPathFactory, before: bytes | None) -> str:
    root = str(factory.mktemp("store"))
    if before is not None:
        put(f"{root}/note", before)
    return root


# Against brute force: small random runs, every subset of the changes of names tried at every instant, and kept when
# it obeys the rules as the module states them.

NAMES = ("a", "b", "d/a", "d/b", "n/a")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["create", "write", "sync", "unlink"]), st.sampled_from(NAMES)),
    st.tuples(st.just("rename"), st.sampled_from([*NAMES, "d", "n"]), st.sampled_from([*NAMES, "d/m", "m"])),
    st.tuples(st.just("exchange"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["mkdir", "rmdir", "syncdir"]), st.sampled_from(["n", "d", "d/m", "m", "."])),
    st.tuples(st.just("mark")),
)


@given(st.lists(STEPS, min_size=1, max_size=14))
def test_brute_force_finds_the_same_states(steps: list[tuple[str, ...]]) -> None:
    with scratch() as root:
        os.mkdir(f"{root}/d")
        put(f"{root}/a", OLD)
        put(f"{root}/d/b", OLD)
        trace = record(root, lambda recorder: [attempt(root, recorder, step) for step in steps] and None)
        found = [(len(state.marks), frozenset(state.dirs), frozenset(state.files.items())) for state in states(trace)]
        assert set(found) == brute_force(trace)
        assert len(set(found)) == len(found)


def attempt(root: str, recorder: Recorder, step: tuple[str, ...]) -> None:
    from agentm.backends import _durable

    what, *names = step
    paths = [f"{root}/{name}" for name in names]
    try:
        if what == "mark":
            recorder.mark("said")
        elif what == "create":
            put(paths[0], b"", flush=False)
        elif what == "write":
            put(paths[0], NEW, flush=False, flags=os.O_APPEND)
        elif what == "sync":
            fd = os.open(paths[0], os.O_WRONLY)
            os.fsync(fd)
            os.close(fd)
        elif what == "syncdir":
            flush_directory(paths[0])
        elif what == "exchange":
            _durable.exchange(*paths)
        else:
            getattr(os, what)(*paths)
    except OSError:
        pass  # not possible just now: then it did not happen


def brute_force(trace: Trace) -> set[object]:
    found: set[object] = set()
    for point in range(len(trace.ops) + 1):
        done = trace.ops[:point]
        moves = [at for at, op in enumerate(done) if isinstance(op, Relink)]
        forced = must_survive(trace, moves, point)
        for kept in itertools.chain.from_iterable(itertools.combinations(moves, n) for n in range(len(moves) + 1)):
            if legal(trace, moves, set(kept), forced):
                found.update(trees(trace, kept, point))
    return found


def relink(trace: Trace, at: int) -> Relink:
    op = trace.ops[at]
    assert isinstance(op, Relink)
    return op


def follows(earlier: Relink, later: Relink) -> bool:
    same_name = {slot for slot, _ in earlier.changes} & {slot for slot, _ in later.changes}
    empties = later.kind == "rmdir" and {slot[0] for slot, _ in earlier.changes} & later.inodes
    both_move = earlier.kind == later.kind == "move directory"
    return bool(same_name or earlier.inodes & later.inodes or empties or both_move)


def lies_in(earlier: Relink, later: Relink) -> bool:
    return earlier.kind == "mkdir" and bool({slot[0] for slot, _ in later.changes} & earlier.inodes)


def must_survive(trace: Trace, moves: list[int], point: int) -> set[int]:
    forced: set[int] = set()
    for at in reversed(moves):
        op = relink(trace, at)
        flushed = {later.inode for later in trace.ops[at:point] if isinstance(later, Sync)}
        touched = {slot[0] for slot, _ in op.changes}
        if flushed & touched or any(follows(op, relink(trace, n)) for n in forced if n > at):
            forced.add(at)
    return forced


def legal(trace: Trace, moves: list[int], kept: set[int], forced: set[int]) -> bool:
    for at in moves:
        op = relink(trace, at)
        earlier = [(n, relink(trace, n)) for n in moves if n < at]
        needs = {n for n, before in earlier if follows(before, op) or lies_in(before, op)}
        if at in kept and not needs <= kept:
            return False
        if at in forced and at not in kept and needs <= kept:
            return False
    return True


def trees(trace: Trace, kept: tuple[int, ...], point: int) -> set[object]:
    names = dict(trace.names)
    for at in kept:
        op = relink(trace, at)
        names.update({slot: inode for slot, inode in op.changes if inode is not None})
        for slot, inode in op.changes:
            if inode is None:
                names.pop(slot, None)
    paths = {ROOT_INODE: ""}
    reached: dict[str, int] = {}
    for _ in range(len(names) + 1):
        for (directory, name), inode in names.items():
            if directory in paths:
                reached[paths[directory] + name] = inode
                if inode in trace.dirs:
                    paths[inode] = f"{paths[directory]}{name}/"
    marks = sum(isinstance(op, Mark) for op in trace.ops[:point])
    dirs = frozenset(path for path, inode in reached.items() if inode in trace.dirs)
    files = [(path, contents(trace, inode, point)) for path, inode in reached.items() if inode not in trace.dirs]
    return {
        (marks, dirs, frozenset(zip([path for path, _ in files], choice, strict=True)))
        for choice in itertools.product(*(blobs for _, blobs in files))
    }


def contents(trace: Trace, inode: int, point: int) -> set[tuple[bytes, int]]:
    blob, possible = trace.files[inode], {trace.files[inode]}
    for op in trace.ops[:point]:
        if isinstance(op, Alter) and op.inode == inode:
            data, half = blob[0], len(op.data) // 2
            for part in (op.data[:half], bytes(len(op.data)), op.data):
                possible.add((data + part, blob[1]))  # every write of these runs is at the end
            blob = (data + op.data, blob[1])
        elif isinstance(op, Sync) and op.inode == inode:
            possible = {blob}
    return possible
