"""An export brings everything back: on every store, for every owner, also when it is cut short or tampered with."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    AccessDeniedError,
    ContextFS,
    ContextNode,
    DeviceLocalBackend,
    InvalidNodeError,
    MemoryBackend,
    RelationEdge,
    RequestContext,
)
from agentm.context.node import LARGEST_CONTENT, NodeStatus
from agentm.context.outbox import events_of
from agentm.context.repair import repair
from agentm.context.uri import parse_uri
from agentm.exporting import MANIFEST, export
from agentm.importing.report import Action
from agentm.importing.restore import restore
from tests.backends.stores import PROTOCOLS, make_store, tree
from tests.importing.sources import ALICE, MINE, Importer, bomb, counts, left_out, zipped

ADA, BOB, GONE, PUT_AWAY, MOVED = (f"{MINE}/entities/{name}" for name in ("Ada", "bob", "gone", "away", "moved"))
PROFILE, SKILL = f"{MINE}/profile", "ctx://acme/agents/scout/skills/weave"
ALL = (ADA, BOB, GONE, PUT_AWAY, MOVED, PROFILE)


def lived_in(fs: ContextFS) -> None:
    """Versions, edges, tags, odd texts, a move, and ends."""
    other = replace(ALICE, actor="model/1.0", sources=("chat:42",))
    fs.write_node(ContextNode(ADA, "Ada\r\nbuilds looms.", tags=("people", "Größe"), abstract="Ada!"), ALICE)
    fs.write_node(ContextNode(BOB, "Bob. \u2028 \x01 🧵", overview="# B\n"), other)
    for uri in (GONE, PUT_AWAY, f"{MINE}/cases/old"):
        fs.write_node(ContextNode(uri, f"Text of {uri.rpartition('/')[2]}."), ALICE)
    fs.write_node(ContextNode(PROFILE, "Likes tea.\n"), other)
    fs.relate(RelationEdge(ADA, BOB, "taught", 0.5, "in May"), ALICE)
    fs.relate(RelationEdge(BOB, ADA), ALICE)
    fs.relate(RelationEdge(BOB, f"{MINE}/cases/old", "about"), other)
    fs.write_node(replace(fs.read_node(ADA, ALICE), content="Ada builds more looms."), other)
    fs.move_node(f"{MINE}/cases/old", MOVED, ALICE)
    fs.delete_node(GONE, ALICE)
    fs.archive_node(PUT_AWAY, ALICE)
    fs.write_node(ContextNode(f"{MINE}/cases/purged", "Never was."), ALICE)
    fs.delete_node(f"{MINE}/cases/purged", ALICE, purge=True)


def exported(fs: ContextFS, path: Path, place: str = "ctx://acme/users/alice", ctx: RequestContext = ALICE) -> Path:
    with open(path, "wb") as file:
        assert export(fs.backend, ctx, place, file).left_out == []
    return path


def everything(fs: ContextFS, uris: tuple[str, ...] = ALL, ctx: RequestContext = ALICE) -> dict[str, Any]:
    """All that can be asked about memories."""
    found: dict[str, Any] = {}
    for uri in uris:
        found[uri] = [fs.exists(uri, ctx), fs.history(uri, ctx)]
        if fs.exists(uri, ctx):
            edges = sorted(fs.relations(uri, ctx), key=lambda edge: edge.name)
            found[uri] += [fs.read_node(uri, ctx), edges]
    return found


def node_files(fs: ContextFS) -> dict[str, str | None]:
    """The files of all nodes, without what is derived, and without what is left where something was."""
    kept = tree(fs.backend)
    derived = ("/.outbox", "/.backlinks.json", "/.names")
    gone = ("cases/old", "cases/purged")
    return {
        key: text
        for key, text in kept.items()
        if text is not None
        and not any(part in key for part in derived)
        and not any(f"/{name}/" in key for name in gone)
    }


@pytest.fixture(params=PROTOCOLS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    folder = tmp_path / "target"
    folder.mkdir()
    store = make_store(request.param, str(folder))
    yield Importer(ContextFS(store, quiet=0.0), tmp_path / "source")
    if hasattr(store, "close"):
        store.close()


@pytest.mark.spec("CTX-09", "CTX-11", "CTX-05")
def test_an_export_brings_everything_back_on_every_store(everywhere, target, tmp_path):
    lived_in(everywhere.fs)
    report = target(exported(everywhere.fs, tmp_path / "x.zip"))
    assert counts(report) == {"new": 6}
    assert everything(target.fs) == everything(everywhere.fs)
    assert node_files(target.fs) == node_files(everywhere.fs)
    assert repair(target.fs.backend, quiet=0.0).findings == []
    before = tree(target.fs.backend)
    assert counts(target(tmp_path / "x.zip")) == {"same": 6}
    assert tree(target.fs.backend) == before
    for fs in (everywhere.fs, target.fs):
        fs.undo(GONE, ALICE)
        fs.undo(PUT_AWAY, ALICE)
        fs.undo(ADA, ALICE)
        fs.move_node(BOB, f"{MINE}/cases/robert", ALICE)
    assert target.fs.read_node(GONE, ALICE).content == "Text of gone."
    assert target.edges("entities/Ada") == [("taught", "cases/robert")] == everywhere.edges("entities/Ada")


def test_the_index_is_told_of_what_came_back(into, tmp_path):
    lived_in(into.fs)
    heard: list[str] = []
    fs = ContextFS(MemoryBackend(), changed=heard.extend)
    restore(fs, ALICE, str(exported(into.fs, tmp_path / "x.zip")))
    assert sorted(heard) == sorted(ALL)
    told = {uri: {one.event.event_type for one in events_of(fs.backend, parse_uri(uri))} for uri in ALL}
    assert told[BOB] == {"UPSERT_CONTEXT", "UPSERT_RELATION"}
    assert told[GONE] == told[PUT_AWAY] == {"DELETE_CONTEXT"}


def test_the_same_memories_give_the_same_bytes_wherever_they_are(everywhere, target, tmp_path):
    lived_in(everywhere.fs)
    first = exported(everywhere.fs, tmp_path / "x.zip").read_bytes()
    target(tmp_path / "x.zip")
    assert exported(target.fs, tmp_path / "y.zip").read_bytes() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = archive.namelist()
        assert names[0] == MANIFEST
        assert archive.read("accounts/acme/users/alice/memories/profile/content.md") == b"Likes tea.\n"
        own = [name for name in names if "/profile/" in name]
        assert own[-1].endswith("/.meta.json")
        assert "Never was" not in "".join(archive.read(name).decode() for name in names)


@pytest.mark.spec("CTX-08")
def test_it_goes_to_whoever_imports_it_with_all_its_edges(into, tmp_path):
    lived_in(into.fs)
    into.fs.write_node(ContextNode(SKILL, "Weave.", relations=(RelationEdge(SKILL, ADA),)), ALICE)
    whole = exported(into.fs, tmp_path / "x.zip", "ctx://acme")
    eve = RequestContext("evil", user_id="eve", agent_id="spy")
    fs = ContextFS(MemoryBackend(), quiet=0.0)
    assert counts(restore(fs, eve, str(whole))) == {"new": 7}
    assert counts(restore(fs, eve, str(whole))) == {"same": 7}

    def led(value: Any) -> Any:
        text = repr(value).replace("ctx://acme/users/alice", "ctx://evil/users/eve")
        return text.replace("ctx://acme/agents/scout", "ctx://evil/agents/spy")

    hers = tuple(led(uri)[1:-1] for uri in (*ALL, SKILL))
    assert repr(everything(fs, hers, eve)) == led(everything(into.fs, (*ALL, SKILL)))
    assert repair(fs.backend, quiet=0.0).findings == []
    assert all("acme" not in key + (text or "") for key, text in tree(fs.backend).items())
    fs.undo(hers[2], eve)


@pytest.mark.spec("CTX-08")
def test_what_is_not_the_callers_is_neither_exported_nor_imported(into, tmp_path):
    bob = RequestContext("acme", user_id="bob")
    theirs = "ctx://acme/users/bob/memories/profile"
    into.fs.write_node(ContextNode(theirs, "Secret."), bob)
    into.fs.write_node(ContextNode(PROFILE, "Mine."), ALICE)
    with pytest.raises(AccessDeniedError):
        exported(into.fs, tmp_path / "x.zip", "ctx://acme/users/bob")
    path = exported(into.fs, tmp_path / "x.zip", "ctx://acme")
    assert b"Secret" not in b"".join(zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist())
    seen = replace(ALICE, visible=("user:bob",))
    both = exported(into.fs, tmp_path / "both.zip", "ctx://acme", seen)
    fs = ContextFS(MemoryBackend())
    report = restore(fs, ALICE, str(both))
    assert counts(report) == {"new": 1, "left_out": 1}
    assert report.of(Action.LEFT_OUT)[0].code == "access_denied"
    agents = RequestContext("acme", agent_id="spy")
    assert counts(restore(fs, agents, str(path))) == {"left_out": 1}


def test_a_part_of_the_memories_and_the_edges_that_lead_out_of_it(into, target, tmp_path):
    lived_in(into.fs)
    into.fs.relate(RelationEdge(BOB, PROFILE, "of"), ALICE)
    path = exported(into.fs, tmp_path / "x.zip", f"{MINE}/entities")
    report = target(path)
    assert (counts(report), report.edges_lost) == ({"new": 5}, 1)
    assert [edge.to_uri for edge in target.read("entities/bob").relations] == [ADA, MOVED]
    assert repair(target.fs.backend, quiet=0.0).findings == []
    assert counts(target(path)) == {"same": 4, "kept": 1}
    one = exported(into.fs, tmp_path / "one.zip", PROFILE)
    assert counts(target(one)) == {"new": 1}


def test_nothing_is_written_over_unless_forced_and_then_on_top(into, target, tmp_path):
    lived_in(into.fs)
    path = exported(into.fs, tmp_path / "x.zip")
    target(path)
    target.fs.write_node(ContextNode(ADA, "Newer."), ALICE)
    target.fs.delete_node(BOB, ALICE)
    target.fs.delete_node(PROFILE, ALICE, purge=True)
    target.fs.write_node(ContextNode(PROFILE, "Another."), ALICE)
    before = tree(target.fs.backend)
    for dry in (True, False):
        report = target(path, dry_run=dry)
        assert counts(report) == {"same": 3, "kept": 2, "left_out": 1}
        assert left_out(report) == {"profile": "node_differs"}
        assert tree(target.fs.backend) == before
    report = target(path, force=True)
    assert counts(report) == {"same": 3, "changed": 3}
    for uri in (ADA, BOB, PROFILE):
        assert target.fs.read_node(uri, ALICE).content == into.fs.read_node(uri, ALICE).content
        assert target.fs.read_node(uri, ALICE).actor == "process:import"
    assert [one.content for one in target.fs.history(PROFILE, ALICE)][-2:] == ["Another.", "Likes tea.\n"]
    assert counts(target(path, force=True)) == {"same": 6}


def test_a_name_that_some_store_could_not_tell_from_one_that_is_there_is_refused(into, target, tmp_path):
    lived_in(into.fs)
    target.fs.write_node(ContextNode(f"{MINE}/entities/ada", "Another, in small letters."), ALICE)
    report = target(exported(into.fs, tmp_path / "x.zip"))
    assert (counts(report), left_out(report)) == ({"new": 5, "left_out": 1}, {"Ada": "uri_taken"})
    assert target.read("entities/ada").content == "Another, in small letters."


def test_a_dry_run_writes_nothing(into, target, tmp_path):
    lived_in(into.fs)
    before = tree(target.fs.backend)
    assert counts(target(exported(into.fs, tmp_path / "x.zip"), dry_run=True)) == {"new": 6}
    assert tree(target.fs.backend) == before


def test_versions_that_a_cut_short_run_did_not_come_to_are_made_up_for(into, tmp_path):
    lived_in(into.fs)
    path = exported(into.fs, tmp_path / "x.zip")
    fs = ContextFS(MemoryBackend(), quiet=0.0)
    restore(fs, ALICE, str(path))
    store = fs.backend
    oldest = store.list(parse_uri(ADA).locator.child(".history"))[0]
    store.remove(oldest)  # type: ignore[attr-defined]  # one store, which has it
    assert len(fs.history(ADA, ALICE)) < len(into.fs.history(ADA, ALICE))
    assert counts(restore(fs, ALICE, str(path))) == {"same": 5, "changed": 1}
    assert everything(fs) == everything(into.fs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed in the middle")
def test_a_restore_that_is_killed_at_any_write_is_ended_by_the_next_one(into, tmp_path):
    lived_in(into.fs)
    path = exported(into.fs, tmp_path / "x.zip")
    wanted = everything(into.fs)
    killed = 0
    for at in range(1, 1000):
        store = DeviceLocalBackend(tmp_path / f"memory{at}")
        child = os.fork()
        if not child:
            dies_at(store, at)
            restore(ContextFS(store, quiet=0.0), ALICE, str(path))
            os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1:
            break
        killed += 1
        fs = ContextFS(store, quiet=0.0)
        for uri in ALL:
            if fs.exists(uri, ALICE):
                assert fs.read_node(uri, ALICE) == into.fs.read_node(uri, ALICE)
        if at % 2:
            assert repair(store, quiet=0.0).alerts == []
        restore(fs, ALICE, str(path))
        repair(store, quiet=0.0)
        assert {uri: one[:3] for uri, one in everything(fs).items()} == {uri: one[:3] for uri, one in wanted.items()}
    assert killed > 10


def dies_at(store: Any, at: int) -> None:
    """From now on the process ends in the ``at``-th write, or step of many."""
    writes = iter(range(1, 100_000))

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            inner = options.get("before")

            def before(number: int) -> None:
                if next(writes) == at:
                    os._exit(9)
                if inner is not None:
                    inner(number)

            if write.__name__ == "write_many":
                return write(*args, **{**options, "before": before})
            before(0)
            return write(*args, **options)

        return step

    for name in ("write", "write_many", "write_versioned"):
        setattr(store, name, dying(getattr(store, name)))


def rezipped(
    path: Path, change: Callable[[str, bytes], bytes | None], more: dict[str, str | bytes] | None = None
) -> Path:
    """The same archive, with what ``change`` makes of its members."""
    with zipfile.ZipFile(path) as archive:
        changed = {name: change(name, archive.read(name)) for name in archive.namelist()}
    kept: dict[str, str | bytes] = {name: data for name, data in changed.items() if data is not None}
    return zipped(path.with_name("changed.zip"), {**kept, **(more or {})})


def within(name: str, part: str) -> bool:
    return f"/entities/Ada/{part}" in name


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda name, data: b"Other." if within(name, "content.md") else data, id="another content"),
        pytest.param(lambda name, data: None if within(name, ".overview.md") else data, id="a part is missing"),
        pytest.param(lambda name, data: None if within(name, ".meta.json") else data, id="no meta"),
        pytest.param(lambda name, data: b"[]" if within(name, ".meta.json") else data, id="no meta at all"),
        pytest.param(lambda name, data: b"\xff" if within(name, "content.md") else data, id="no text"),
        pytest.param(
            lambda name, data: data.replace(b"entities/Ada", b"entities/bob") if within(name, ".meta") else data,
            id="of another",
        ),
        pytest.param(
            lambda name, data: data.replace(b"ACTIVE", b"PENDING") if within(name, ".meta") else data, id="no status"
        ),
        pytest.param(
            lambda name, data: data.replace(b"builds", b"breaks") if within(name, ".history/00000001") else data,
            id="another past",
        ),
        pytest.param(
            lambda name, data: b"x" * (8 * LARGEST_CONTENT + 1) if within(name, "content.md") else data, id="too long"
        ),
    ],
)
def test_a_memory_that_was_tampered_with_is_left_out_and_the_rest_goes_on(into, tmp_path, change):
    lived_in(into.fs)
    path = rezipped(exported(into.fs, tmp_path / "x.zip"), change)
    fs = ContextFS(MemoryBackend(), quiet=0.0)
    report = restore(fs, ALICE, str(path))
    assert counts(report)["left_out"] == 1
    assert left_out(report)["Ada"] in ("export_damaged", "archive_damaged", "content_too_big")
    assert not fs.exists(ADA, ALICE)
    assert fs.exists(BOB, ALICE)


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.md",
        "accounts/acme/users/alice/memories/entities/../../../../../evil/content.md",
        "/accounts/acme/users/alice/memories/entities/evil/content.md",
        "C:/evil/content.md",
        "accounts\\acme\\users\\alice\\memories\\profile\\content.md",
        "accounts/acme/users/alice/memories/entities/x/.outbox/e.json",
        "accounts/acme/users/alice/memories/nonsense/x/content.md",
        "accounts/acme/content.md",
        "notes.md",
    ],
)
def test_a_file_that_belongs_to_no_memory_is_not_written_anywhere(into, tmp_path, name):
    lived_in(into.fs)
    path = rezipped(exported(into.fs, tmp_path / "x.zip"), lambda _, data: data, {name: "evil"})
    folder = tmp_path / "store"
    fs = ContextFS(DeviceLocalBackend(folder), quiet=0.0)
    report = restore(fs, ALICE, str(path))
    assert counts(report) == {"new": 6, "left_out": 1}
    assert left_out(report) == {name.rpartition("/")[2]: "unexpected_file"}
    assert not any("evil" in key + (text or "") for key, text in tree(fs.backend).items())
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize(
    ("manifest", "code"),
    [("[]", "import_unrecognised"), ("{", "import_unrecognised"), (json.dumps({"format": 2}), "export_too_new")],
)
def test_an_export_of_another_kind_is_refused(tmp_path, manifest, code):
    path = zipped(tmp_path / "x.zip", {MANIFEST: manifest})
    with pytest.raises(InvalidNodeError) as refused:
        restore(ContextFS(MemoryBackend()), ALICE, str(path))
    assert refused.value.code == code


def test_a_bomb_is_refused_before_anything_is_unpacked(tmp_path):
    path = bomb(tmp_path / "x.zip", {MANIFEST: '{"format": 1}', "x": ""})
    with pytest.raises(InvalidNodeError) as refused:
        restore(ContextFS(MemoryBackend()), ALICE, str(path))
    assert refused.value.code == "archive_bomb"


def test_a_memory_that_repeats_itself_is_no_bomb(into, tmp_path):
    into.fs.write_node(ContextNode(PROFILE, "0" * (8 << 20)), ALICE)
    fs = ContextFS(MemoryBackend())
    assert counts(restore(fs, ALICE, str(exported(into.fs, tmp_path / "x.zip")))) == {"new": 1}


def test_what_cannot_be_exported_whole_is_said(into):
    lived_in(into.fs)
    store = into.fs.backend
    store.write(parse_uri(ADA).locator.child("content.md"), "An edit by hand.")
    store.write(parse_uri(BOB).locator.child(".meta.json"), "[]")
    store.write(parse_uri(f"{MINE}/cases/by-hand").locator.child("content.md"), "Put there.")
    file = io.BytesIO()
    report = export(store, ALICE, "ctx://acme/users/alice", file)
    assert {one.source: one.code for one in report.left_out} == {
        ADA: "edit_not_adopted",
        BOB: "node_broken",
        f"{MINE}/cases/by-hand": "edit_not_adopted",
    }
    assert report.exported == 5
    assert repair(store, quiet=0.0).alerts
    assert NodeStatus.BROKEN in json.loads(store.read(parse_uri(BOB).locator.child(".meta.json")))["status"]
    again = export(store, ALICE, "ctx://acme/users/alice", io.BytesIO())
    assert [(one.source, one.code) for one in again.left_out] == [(BOB, "node_broken")]


def test_an_import_knows_its_memories_again_after_a_restore(into, tmp_path):
    into.notes({"a.md": "A [[b]].", "b.md": "B."})
    path = exported(into.fs, tmp_path / "x.zip")
    other = Importer(ContextFS(MemoryBackend(), quiet=0.0), into.source)
    other(path)
    assert counts(other.notes({})) == {"same": 2}
    other.fs.delete_node(f"{MINE}/entities/b", ALICE)
    other(path, force=True)
    assert other.edges("entities/a") == [("links_to", "entities/b")]
    assert counts(other.notes({"b.md": "B anew."})) == {"changed": 1, "same": 1}
    assert other.names() == ["entities/a", "entities/b"]
