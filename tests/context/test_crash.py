"""A power cut at every instant of every change: one whole version is readable at once, and the repair ends it well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from agentm.backends import _durable
from agentm.conformance.crashsim import CrashState, Recorder, Survey, record, scratch, survey
from agentm.context import reader, transitions, writer
from agentm.context.contextfs import ContextFS
from agentm.context.events import UPSERT_RELATION
from agentm.context.node import HISTORY, META, PARTS, ContextNode, NodeStatus, Version
from agentm.context.outbox import applied_version, events_of
from agentm.context.reader import read_meta
from agentm.context.repair import repair
from agentm.context.uri import parse_uri
from agentm.errors import InvalidUriError, NodeNotFoundError
from tests.context.nodes import ALICE, OTHER, SHOP, VISIT, edge, memory, place
from tests.context.recording import Died, Recording, dies_at
from tests.crash.stores import STORES

pytestmark = pytest.mark.spec("CTX-03", "CTX-05", "CTX-06", "CTX-08")

URIS = (VISIT, OTHER, SHOP)
Act = Callable[[ContextFS], Any]

ONE = memory("the first text, whole", abstract="first", overview="# first\n", tags=("1",))
TWO = memory("the second text, as whole", abstract="second", overview="# second\n", tags=("2",))
THREE = memory("the last text", abstract="last")
RELATED = memory("the third text", abstract="third", overview="# third\n", relations=(edge(),))


def write(node: ContextNode) -> Act:
    return lambda fs: fs.write_node(node, ALICE)


def cut_short(act: Act, number: int) -> Act:
    """A change whose process died at one of its steps, the steps before it durable."""

    def attempt(fs: ContextFS) -> None:
        dying = Recording(fs.backend)
        dying.before = dies_at(number)
        with pytest.raises(Died):
            act(ContextFS(dying))

    return attempt


def mend(fs: ContextFS) -> None:
    repair(fs.backend, quiet=0.0)


def by_hand(fs: ContextFS) -> None:
    fs.backend.write(place(VISIT, "content.md"), "edited by hand")


def lose_event(fs: ContextFS) -> None:
    for event in fs.backend.list(place(VISIT, ".outbox")):
        fs.backend.remove(event)  # type: ignore[attr-defined]


def _delete(fs: ContextFS) -> None:
    fs.delete_node(VISIT, ALICE)


def _move(fs: ContextFS) -> None:
    fs.move_node(VISIT, OTHER, ALICE)


SCENARIOS: dict[str, tuple[list[Act], list[Act]]] = {
    "write": ([], [write(ONE)]),
    "update": ([write(ONE)], [write(TWO)]),
    "update with an edge": ([write(memory("shop", SHOP)), write(ONE)], [write(RELATED)]),
    "many": ([write(ONE)], [lambda fs: fs.write_nodes([TWO], ALICE)]),
    "delete": ([write(ONE), write(TWO)], [_delete]),
    "archive": ([write(ONE), write(TWO)], [lambda fs: fs.archive_node(VISIT, ALICE)]),
    "move": ([write(ONE), write(TWO)], [_move]),
    "move onto what was deleted": (
        [write(memory("old", OTHER)), lambda fs: fs.delete_node(OTHER, ALICE), write(ONE)],
        [_move],
    ),
    "undo": ([write(ONE), write(TWO)], [lambda fs: fs.undo(VISIT, ALICE)]),
    "undo of a delete": ([write(ONE), _delete], [lambda fs: fs.undo(VISIT, ALICE)]),
    "retention": (
        [write(ONE), write(TWO)],
        [lambda fs: ContextFS(fs.backend, keep_versions=2).write_node(THREE, ALICE)],
    ),
    "repair of a first write": ([cut_short(write(ONE), 3)], [mend]),
    "repair of an update": ([write(ONE), cut_short(write(TWO), 4)], [mend]),
    "repair of a lost event": ([write(ONE), lose_event], [mend]),
    "repair of a hand edit": ([write(ONE), by_hand], [mend]),
    "repair of a move that happened": ([write(ONE), cut_short(_move, 11)], [mend]),
    "repair of a move that did not": ([write(ONE), cut_short(_move, 7)], [mend]),
    "write over a hand edit": ([write(ONE), by_hand], [mend, write(TWO)]),
}

View = dict[str, Any]


def view(fs: ContextFS) -> View:
    """All that a reader sees: each node, whole, and its versions. Times and random names are left out."""
    return {uri: (_node(fs, uri), _versions(fs, uri)) for uri in URIS}


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


def shown(found: View) -> View:
    return {uri: one[0] for uri, one in found.items()}


@dataclass(frozen=True)
class Course:
    """What a reader saw before the first step and after each."""

    views: list[View]

    def around(self, state: CrashState) -> tuple[View, View]:
        said = len(state.marks)
        return self.views[said], self.views[min(said + 1, len(self.views) - 1)]


def check(store: str, before: Sequence[Act], steps: Sequence[Act], *, limit: int) -> Survey:
    """Every crash state of the steps, through a freshly opened store: before any repair, and after."""
    with scratch() as base, scratch() as locks:
        opened = ContextFS(STORES[store](base, locks))
        for act in before:
            act(opened)
        views = [view(opened)]

        def action(recorder: Recorder) -> None:
            for act in steps:
                act(opened)
                recorder.mark("ack")
                views.append(view(opened))

        trace = record(base, action)
        course = Course(views)

        def verify(directory: str, state: CrashState) -> None:
            old, new = course.around(state)
            fs = ContextFS(STORES[store](directory, locks))
            reached = view(fs)
            assert shown(reached) in (shown(old), shown(new)), f"readable: {shown(reached)}"
            repair(fs.backend, quiet=0.0)
            mended = view(fs)
            allowed = [shown(new)] if shown(reached) == shown(new) else [shown(old), shown(new)]
            assert shown(mended) in allowed, f"after the repair: {shown(mended)}"
            _versions_are_kept(mended, old)
            _all_is_told(fs)
            assert repair(fs.backend, quiet=0.0).findings == [], "a second repair found something"

        return survey(trace, verify, limit=limit)


def _versions_are_kept(found: View, old: View) -> None:
    """Where the same is shown as before, every version is there as before; what was shown is somewhere in any case."""
    texts = [version[1] for _, versions in found.values() for version in versions]
    texts += [node[1] for node, _ in found.values() if node is not None]
    for uri, (node, versions) in old.items():
        assert node is None or node[1] in texts, f"an acknowledged version of {uri} is lost"
        if found[uri][0] == node:
            assert [one for one in found[uri][1] if one in versions] == versions, f"history of {uri}: {found[uri][1]}"


def _all_is_told(fs: ContextFS) -> None:
    for uri in URIS:
        meta = read_meta(fs.backend, place(uri))
        if meta is None:
            continue
        waiting = [
            found
            for found in events_of(fs.backend, parse_uri(uri))
            if found.event.version == meta.version and found.event.event_type != UPSERT_RELATION
        ]
        applied = applied_version(fs.backend, place(uri)) >= meta.version
        assert len(waiting) + applied == 1, f"{uri} v{meta.version} {meta.status} has {len(waiting)} events"


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_state_of_every_change(store, name):
    result = check(store, *SCENARIOS[name], limit=500)
    assert not result.failed, f"{result.counts}\n" + "\n".join(result.failures)


def _changes(random: Random) -> list[Act]:
    """Changes of two nodes, each with one commit, so that a reader sees the one side of it or the other."""
    text = f"text {random.random()}"
    return [
        write(memory(text, VISIT, abstract=text[:20], tags=(text,))),
        write(memory(text, OTHER, abstract=text[:20], overview=text)),
        lambda fs: fs.write_nodes([memory(text)], ALICE),
        lambda fs: fs.delete_node(VISIT, ALICE),
        lambda fs: fs.delete_node(OTHER, ALICE),
        lambda fs: fs.archive_node(VISIT, ALICE),
        lambda fs: fs.move_node(VISIT, OTHER, ALICE),
        lambda fs: fs.move_node(OTHER, VISIT, ALICE),
        lambda fs: fs.undo(VISIT, ALICE),
        lambda fs: fs.undo(OTHER, ALICE),
    ]


def _lenient(act: Act) -> Act:
    """A change that may not be possible just now."""

    def attempt(fs: ContextFS) -> None:
        with suppress(NodeNotFoundError, InvalidUriError):
            act(fs)

    return attempt


def _died(act: Act, number: int) -> Act:
    def attempt(fs: ContextFS) -> None:
        dying = Recording(fs.backend)
        dying.before = dies_at(number)
        with suppress(NodeNotFoundError, InvalidUriError, Died):
            act(ContextFS(dying))

    return attempt


def programs(seed: int) -> tuple[list[Act], list[Act]]:
    """Some changes, the last of them perhaps cut short; then, being watched, a repair and more changes."""
    random = Random(seed)
    before = [_lenient(random.choice(_changes(random))) for _ in range(random.randrange(1, 5))]
    if random.random() < 0.7:
        before.append(_died(random.choice(_changes(random)), random.randrange(1, 16)))
    steps = [mend, *(_lenient(random.choice(_changes(random))) for _ in range(3))]
    return before, steps


def run_programs(store: str, first: int, wanted: int) -> int:
    states, seed = 0, first
    while states < wanted:
        result = check(store, *programs(seed), limit=2_000)
        assert not result.failed, f"program {seed}: {result.counts}\n" + "\n".join(result.failures)
        states, seed = states + result.counts.distinct, seed + 1
    return states


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_programs_of_changes(store):
    assert run_programs(store, 0, 400) >= 400


@pytest.mark.lab
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("batch", range(20))
def test_a_hundred_thousand_states_of_programs(store, batch):
    print(f"{store}: {run_programs(store, 1_000 * (batch + 1), 2_600)} states")


def _without_history(monkeypatch: pytest.MonkeyPatch) -> None:
    real = writer.Draft.texts
    monkeypatch.setattr(writer.Draft, "texts", lambda self, step: [] if step == (HISTORY,) else real(self, step))


def _without_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Version, "sound", lambda self: True)


def _commit_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ORDER", ((HISTORY,), (META,), *((name,) for name in PARTS), ("event",)))
    monkeypatch.setattr(writer, "COMMIT", 1)


def _history_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ORDER", (*writer.ORDER[1:], (HISTORY,)))
    monkeypatch.setattr(writer, "COMMIT", writer.COMMIT - 1)


def _target_shown_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "has_arrived", lambda backend, meta: meta.status == "PENDING")


def _target_shown_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "has_arrived", lambda backend, meta: False)


def _move_clears_first(monkeypatch: pytest.MonkeyPatch) -> None:
    real = transitions._lay_out

    def lay_out(backend, current, source, *rest):
        transitions.clear(backend, source.locator, purge=True)
        return real(backend, current, source, *rest)

    monkeypatch.setattr(transitions, "_lay_out", lay_out)


def _without_file_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_durable, "sync_file", lambda fd: None)


def _without_directory_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_durable, "sync_dir", lambda *args, **options: None)


PLANTED: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "the history step is skipped": ("update", _without_history),
    "the history comes last": ("update", _history_last),
    "no hash is looked at": ("update", _without_hashes),
    "the commit comes before the content": ("update", _commit_first),
    "a moved node is shown before it has moved": ("move", _target_shown_early),
    "a moved node is shown only once all is done": ("move", _target_shown_late),
    "a move takes away before it lays out": ("move", _move_clears_first),
    "files are not flushed": ("update", _without_file_flush),
    "directories are not flushed": ("write", _without_directory_flush),
}


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "plant"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_is_found(scenario, plant, monkeypatch):
    plant(monkeypatch)
    result = check("device-local", *SCENARIOS[scenario], limit=400)
    assert result.failed, result.counts
