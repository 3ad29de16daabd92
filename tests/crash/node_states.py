"""What a reader may see of nodes after a power cut: before any repair, and after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agentm import ContextFS, NodeStatus, repair
from agentm.backends._durable import FOLDER
from agentm.conformance.crashsim import CrashState, Recorder, Survey, Trace, record, scratch, survey
from agentm.conformance.crashsim_states import Alter, Op, Relink, Sync
from agentm.context.events import UPSERT_RELATION
from agentm.context.node import ABSTRACT, CONTENT, HISTORY, META, OUTBOX, OVERVIEW, PARTS, RELATIONS
from agentm.context.outbox import applied_version, events_of
from agentm.context.reader import read_meta, read_text
from agentm.context.uri import parse_uri
from agentm.errors import AgentmError
from tests.context.nodes import ALICE, files_of, place
from tests.crash.node_changes import CUT_SHORT, SCENARIOS, SEVERAL_AT_ONCE, Scenario, program
from tests.crash.stores import STORES, seen_plainly

STEPS = ((HISTORY,), (CONTENT,), (RELATIONS,), (ABSTRACT, OVERVIEW), (META,), (OUTBOX,))
"""The order as it is specified: each step durable before the next begins."""

Shown = dict[str, Any]
"""By address: version and all parts of the node a reader gets, None where there is none."""


@dataclass(frozen=True)
class View:
    """All that a reader sees, and what lies in the folders. Times and random names are left out of the former."""

    shown: Shown
    versions: dict[str, list[Any]]
    edges: dict[str, list[Any]]
    """From both ends."""
    events: dict[str, set[tuple[int, str]]]
    """Version and type of each that waits."""
    committed: dict[str, tuple[str, int] | None]
    """Status and version by the meta."""
    folders: dict[tuple[str, str], Any]
    """By address and name: the text of a file, the names in a folder."""


def view(fs: ContextFS, uris: tuple[str, ...]) -> View:
    shown = {uri: _node(fs, uri) for uri in uris}
    return View(
        shown=shown,
        versions={uri: _versions(fs, uri) for uri in uris},
        edges={uri: sorted(fs.relations(uri, ALICE), key=str) if shown[uri] else [] for uri in uris},
        events={uri: _events(fs, uri) for uri in uris},
        committed={uri: _committed(fs, uri) for uri in uris},
        folders={(uri, name): _held(fs, uri, name) for uri in uris for name in (*PARTS, META, HISTORY, OUTBOX)},
    )


def _node(fs: ContextFS, uri: str) -> Any:
    if not fs.exists(uri, ALICE):
        return None
    node = fs.read_node(uri, ALICE)
    return node.version, node.content, node.abstract, node.overview, node.tags, node.relations


def _versions(fs: ContextFS, uri: str) -> list[Any]:
    meta = read_meta(fs.backend, place(uri))
    if meta is None or meta.status in (NodeStatus.PENDING, NodeStatus.MOVED):
        return []  # on its way: what it holds is the other place's
    return [(one.version, one.content, one.abstract, one.tags) for one in fs.history(uri, ALICE)]


def _events(fs: ContextFS, uri: str) -> set[tuple[int, str]]:
    return {(found.event.version, found.event.event_type) for found in events_of(fs.backend, parse_uri(uri))}


def _committed(fs: ContextFS, uri: str) -> tuple[str, int] | None:
    meta = read_meta(fs.backend, place(uri))
    return None if meta is None else (meta.status.value, meta.version)


def _held(fs: ContextFS, uri: str, name: str) -> Any:
    if name in (HISTORY, OUTBOX):
        return frozenset(child.name for child in fs.backend.list(place(uri, name)))
    return read_text(fs.backend, place(uri, name))


@dataclass(frozen=True)
class Rehearsal:
    """A run without a crash: what it did to the disk, and what a reader saw before the first step and after each."""

    store: str
    scenario: Scenario
    trace: Trace
    views: list[View]
    final: dict[str, str]
    """Every file at the end."""

    def around(self, state: CrashState) -> tuple[View, View]:
        said = len(state.marks)
        return self.views[said], self.views[min(said + 1, len(self.views) - 1)]


def rehearse(store: str, scenario: Scenario) -> Rehearsal:
    with scratch() as base, scratch() as locks:
        fs = ContextFS(STORES[store](base, locks), quiet=0.0)
        for act in scenario.before:
            act(fs)
        views = [view(fs, scenario.uris)]

        def action(recorder: Recorder) -> None:
            for act in scenario.steps:
                act(fs)
                recorder.mark("ack")
                views.append(view(fs, scenario.uris))

        trace = without_folders_of_temps(record(base, action))
        return Rehearsal(store, scenario, trace, views, seen_plainly(base).files)


def without_folders_of_temps(trace: Trace) -> Trace:
    """The same run as if files came into being where they are put in place.

    What waits in a folder of temporary files is seen by nobody and cleared by the next who opens the store, as
    test_many_crash.py shows; its states would drown all others.
    """
    relinks = [op for op in trace.ops if isinstance(op, Relink)]
    folders = {inode for op in relinks for (_, name), inode in op.changes if inode and name.endswith(FOLDER)}

    def seen(op: Relink) -> Relink:
        changes = ((slot, inode) for slot, inode in op.changes if slot[0] not in folders)
        return replace(op, changes=tuple(one for one in changes if not one[0][1].endswith(FOLDER)))

    ops = (seen(op) if isinstance(op, Relink) else op for op in trace.ops)
    return replace(trace, ops=[op for op in ops if not isinstance(op, Relink) or op.changes])


Verify = Callable[[str, CrashState], None]


def verifier(rehearsed: Rehearsal, locks: str) -> Verify:
    """Looks at a crash state of a run through a freshly opened store."""

    def verify(directory: str, state: CrashState) -> None:
        old, new = rehearsed.around(state)
        if len(state.marks) == len(rehearsed.scenario.steps):
            plain = seen_plainly(directory).files
            assert plain == rehearsed.final, f"all was acknowledged, and yet there is {plain}"
        fs = ContextFS(STORES[rehearsed.store](directory, locks), quiet=0.0)
        Glance(fs, rehearsed.scenario, old, new, acknowledged=bool(state.marks)).verify()

    return verify


def check(store: str, scenario: Scenario, *, limit: int, prompt: bool = False) -> Survey:
    """Every crash state of a scenario, or an even sample of so many; with ``prompt`` on a disk that hurries."""
    rehearsed = rehearse(store, scenario)
    trace = promptly(rehearsed.trace) if prompt else rehearsed.trace
    with scratch() as locks:
        return survey(trace, verifier(rehearsed, locks), limit=limit)


def promptly(trace: Trace) -> Trace:
    """The same run on a disk that keeps bytes and new files at once, so that only renames can be lost.

    Of many files together there are too many states to look at, and nearly all of them differ in temporary files.
    This leaves those that differ in which of them were put in place.
    """
    ops: list[Op] = []
    for op in trace.ops:
        ops.append(op)
        if isinstance(op, Alter):
            ops.append(Sync(op.inode))
        elif isinstance(op, Relink) and op.kind in ("create", "mkdir"):
            ops += [Sync(directory) for (directory, _), _ in op.changes]
    return replace(trace, ops=ops)


class _Seen(Exception):
    pass


def first_failure(rehearsed: Rehearsal, trace: Trace, *, limit: int) -> str | None:
    """The first thing that goes wrong in the crash states of a trace; None if nothing does."""
    with scratch() as locks:
        verify = verifier(rehearsed, locks)

        def look(directory: str, state: CrashState) -> None:
            try:
                verify(directory, state)
            except (AssertionError, AgentmError) as error:
                raise _Seen(f"{error}\n  {state}") from None

        try:
            survey(trace, look, limit=limit)
        except _Seen as seen:
            return str(seen)
    return None


@dataclass(frozen=True)
class Glance:
    """A store after a crash, between what was last acknowledged and what was under way."""

    fs: ContextFS
    scenario: Scenario
    old: View
    new: View
    acknowledged: bool

    def verify(self) -> bool:
        """AssertionError if something is not as it must be; says whether there was anything to repair."""
        reached = view(self.fs, self.scenario.uris)
        self._is_old_or_new(reached.shown, "before the repair")
        self._tells_no_lie(reached)
        if self.scenario.in_order:
            self._steps_came_in_order(reached)
        if self.acknowledged:
            self._acknowledged_is_told(reached)
        found = repair(self.fs.backend, quiet=0.0).findings
        mended = view(self.fs, self.scenario.uris)
        self._is_old_or_new(mended.shown, "after the repair")
        self._does_not_go_back(reached.shown, mended.shown)
        self._keeps_versions(mended)
        self._keeps_edges(mended)
        self._files_are_what_is_shown(mended.shown)
        self._tells_no_lie(mended)
        self._tells_all(mended)
        assert repair(self.fs.backend, quiet=0.0).findings == [], "a second repair found something"
        return bool(found)

    def _is_old_or_new(self, found: Shown, when: str) -> None:
        texts = {node[1] for node in found.values() if node is not None}
        if texts & set(self.scenario.between):
            return
        together = {uri: node for uri, node in found.items() if uri in self.scenario.together}
        sides = [{uri: side.shown[uri] for uri in together} for side in (self.old, self.new)]
        assert together in sides, f"{when} there is {together}"
        for uri in found.keys() - together.keys():
            assert found[uri] in (self.old.shown[uri], self.new.shown[uri]), f"{when} {uri} is {found[uri]}"

    def _steps_came_in_order(self, reached: View) -> None:
        changed = [name for name, held in self.new.folders.items() if held != self.old.folders[name]]
        late = None
        for step in STEPS:
            names = [name for name in changed if name[1] in step]
            begun = [name for name in names if reached.folders[name] != self.old.folders[name]]
            assert late is None or not begun, f"{begun} came before {late}"
            late = late or next((name for name in names if reached.folders[name] != self.new.folders[name]), None)

    def _does_not_go_back(self, reached: Shown, mended: Shown) -> None:
        for uri, node in reached.items():
            if node == self.new.shown[uri]:
                assert mended[uri] == node, f"the repair took back {node}"

    def _keeps_versions(self, found: View) -> None:
        """Where the same is shown as before, every version is there; what was shown is somewhere in any case."""
        texts = [version[1] for versions in found.versions.values() for version in versions]
        texts += [node[1] for node in found.shown.values() if node is not None]
        for uri, node in self.old.shown.items():
            versions = self.old.versions[uri]
            kept_elsewhere = node is None or node[1] in texts or self.scenario.purges
            assert kept_elsewhere, f"an acknowledged version of {uri} is lost"
            purged = self.scenario.purges and node is None
            if found.shown[uri] == node and found.committed[uri] == self.old.committed[uri] and not purged:
                kept = [one for one in found.versions[uri] if one in versions]
                assert kept == versions, f"history of {uri}: {found.versions[uri]}"

    def _keeps_edges(self, found: View) -> None:
        for side in (self.old, self.new):
            if found.shown == side.shown:
                assert found.edges == side.edges, f"edges: {found.edges}"

    def _files_are_what_is_shown(self, found: Shown) -> None:
        """Whoever opens the folder sees what a reader sees."""
        for uri, node in found.items():
            if node is not None:
                files = files_of(self.fs.backend, uri)
                plain = files.get(CONTENT), files.get(ABSTRACT), files.get(OVERVIEW)
                assert plain == (node[1], f"{node[2]}\n", node[3]), f"the files of {uri} are {files}"

    def _tells_no_lie(self, found: View) -> None:
        """At no time may an event speak of a version that is not committed: the index would show it."""
        for uri, events in found.events.items():
            committed = found.committed[uri]
            ahead = [event for event in events if committed is None or event[0] > committed[1]]
            assert not ahead, f"events of {uri} speak of {ahead}"

    def _acknowledged_is_told(self, found: View) -> None:
        for uri, committed in self.old.committed.items():
            if found.committed[uri] == committed:
                lost = self.old.events[uri] - found.events[uri]
                assert not lost, f"{uri} {committed} was acknowledged and events are lost: {lost}"

    def _tells_all(self, found: View) -> None:
        for uri, committed in found.committed.items():
            if committed is None:
                continue
            waiting = [kind for version, kind in found.events[uri] if version == committed[1]]
            applied = applied_version(self.fs.backend, place(uri)) >= committed[1]
            once = sum(kind != UPSERT_RELATION for kind in waiting) + applied
            assert once == 1, f"{uri} {committed} has the events {waiting}"
            for side in (self.old, self.new):
                if side.committed[uri] == committed:
                    wanted = {kind for version, kind in side.events[uri] if version == committed[1]}
                    assert wanted <= {*waiting}, f"{uri} {committed} has the events {waiting}, not {wanted}"


@dataclass
class Outcome:
    """What came out of many surveys."""

    states: int = 0
    failures: list[str] = field(default_factory=list)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.states + other.states, self.failures + other.failures)


def check_scenario(store: str, name: str, limit: int, prompt: bool = False) -> Outcome:
    """By its name, so that another process can be asked."""
    return _outcome(name, check(store, {**SCENARIOS, **CUT_SHORT, **SEVERAL_AT_ONCE}[name], limit=limit, prompt=prompt))


def check_program(store: str, seed: int, limit: int) -> Outcome:
    return _outcome(f"program {seed}", check(store, program(seed), limit=limit))


def _outcome(what: str, result: Survey) -> Outcome:
    return Outcome(result.counts.distinct, [f"{what}: {failure}" for failure in result.failures])
