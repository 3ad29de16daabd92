"""The repair job: each thing that can be left behind, what is done about it, and that it is done once."""

from __future__ import annotations

import json
import logging

import pytest

from agentm.context.decision import Action
from agentm.context.node import CONTENT, PARTS
from agentm.context.outbox import OutboxWorker
from agentm.context.repair import repair
from agentm.errors import NodeBrokenError, NodeNotFoundError
from tests.backends.stores import PLAIN_FILES, make_store, tree
from tests.context.nodes import (
    ALICE,
    OTHER,
    SHOP,
    VISIT,
    contents,
    edge,
    files_of,
    memory,
    mended,
    meta_of,
    place,
    set_meta,
    settled,
    told,
)
from tests.context.recording import Died, Recording, dies_at

pytestmark = pytest.mark.spec("CTX-06")


def die(store: Recording, number: int, action) -> bool:
    """Whether the action died at its change with this number, instead of getting through."""
    store.before = dies_at(number)
    try:
        action()
    except Died:
        return True
    finally:
        store.before = lambda verb, key: None
    return False


def test_nothing_to_do_writes_nothing(fs, store):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one", relations=(edge(),)), ALICE)
    fs.write_node(memory("two"), ALICE)
    fs.write_node(memory("gone", OTHER), ALICE)
    fs.delete_node(OTHER, ALICE)
    settled(store)


def test_an_empty_directory_is_skipped(store):
    store.mkdir(place(VISIT))
    settled(store)


def test_orphan_content_is_completed_and_registered(fs, store):
    store.write(place(VISIT, CONTENT), "# Orphan\n\nNobody finished it.")
    assert mended(store) == {VISIT: [Action.COMPLETE]}
    node = fs.read_node(VISIT, ALICE)
    assert (node.content, node.version, node.actor) == ("# Orphan\n\nNobody finished it.", 1, "process:agentm-repair")
    assert node.abstract
    assert told(store) == [("UPSERT_CONTEXT", 1)]
    settled(store)


def test_relations_without_content_or_meta_are_discarded(fs, store):
    store.write(place(VISIT, ".relations.json"), "[]")
    assert mended(store) == {VISIT: [Action.DISCARD]}
    assert files_of(store) == {}
    settled(store)


@pytest.mark.parametrize("number", range(8))
def test_a_first_write_cut_short_becomes_whole_or_nothing(fs, store, number):
    fs.write_node(memory("a shop", SHOP), ALICE)
    written = memory("# Whole\n\nText.", relations=(edge(),), tags=("t",), abstract="mine")
    died = die(store, number + 1, lambda: fs.write_node(written, ALICE))  # the first change names it at the other end
    assert died
    done = mended(store)
    if number == 0:
        assert done.get(VISIT, []) == []
        assert not fs.exists(VISIT, ALICE)
    elif number == 1:
        assert done == {VISIT: [Action.DISCARD]}
        assert not fs.exists(VISIT, ALICE)
    else:
        assert done == {VISIT: [Action.COMPLETE if number < 6 else Action.TELL]}
        node = fs.read_node(VISIT, ALICE)
        assert (node.content, node.tags, node.abstract, node.actor) == (written.content, ("t",), "mine", "human:alice")
        assert node.relations == (edge(),)
        assert [one for one in told(store) if one[0] == "UPSERT_CONTEXT"] == [("UPSERT_CONTEXT", 1)]
    settled(store)


@pytest.mark.parametrize("number", range(6))
def test_an_update_cut_short_is_as_if_it_had_not_been_or_is_told(fs, store, number):
    fs.write_node(memory("one", abstract="a", overview="o"), ALICE)
    update = memory("two", abstract="b", overview="p", tags=("t",))
    assert die(store, number, lambda: fs.write_node(update, ALICE))
    committed = number == 5
    shown = fs.read_node(VISIT, ALICE)
    assert shown.content == ("two" if committed else "one")
    expected = {0: [], 1: [Action.DISCARD], 5: [Action.TELL]}.get(number, [Action.RESTORE])
    assert mended(store).get(VISIT, []) == expected
    assert fs.read_node(VISIT, ALICE) == shown
    assert told(store) == [("UPSERT_CONTEXT", version) for version in range(1, shown.version + 1)]
    assert files_of(store)[CONTENT] == shown.content
    settled(store)
    assert fs.write_node(update, ALICE).version == shown.version + 1


def test_pending_with_all_parts_becomes_active(fs, store):
    fs.write_node(memory("one"), ALICE)
    for event in store.list(place(VISIT, ".outbox")):
        store.remove(event)
    set_meta(store, status="PENDING")
    assert mended(store) == {VISIT: [Action.ACTIVATE]}
    assert fs.read_node(VISIT, ALICE).content == "one"
    assert told(store) == [("UPSERT_CONTEXT", 1)]
    settled(store)


def test_pending_as_the_seed_writes_it_becomes_active(fs, store):
    for name, text in zip(PARTS, ("text", "[]", "short", "long"), strict=True):
        store.write(place(VISIT, name), text)
    meta = {
        "uri": VISIT,
        "context_type": "MEMORY",
        "category": "events",
        "level": 3,
        "owner_space": "user:alice",
        "status": "PENDING",
        "created_at": "2025-03-17T10:00:00Z",
        "updated_at": "2025-03-17T10:00:00Z",
        "version": 1,
        "tags": [],
    }
    store.write(place(VISIT, ".meta.json"), json.dumps(meta))
    assert not fs.exists(VISIT, ALICE)
    assert mended(store) == {VISIT: [Action.ACTIVATE]}
    assert fs.read_node(VISIT, ALICE).content == "text"
    settled(store)


@pytest.mark.parametrize("missing", PARTS)
def test_pending_without_a_part_becomes_broken_with_an_alert(fs, store, missing, caplog):
    fs.write_node(memory("one"), ALICE)
    set_meta(store, status="PENDING")
    store.remove(place(VISIT, missing))
    left = files_of(store)
    with caplog.at_level(logging.WARNING, logger="agentm"):
        report = repair(store)
    assert [(alert.uri, alert.action) for alert in report.alerts] == [(VISIT, Action.BREAK)]
    assert VISIT in caplog.text
    assert meta_of(store)["status"] == "BROKEN"
    assert files_of(store) == left
    assert not fs.exists(VISIT, ALICE)
    settled(store)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00\x00"])
def test_unreadable_meta_becomes_broken_and_is_kept_as_evidence(fs, store, text):
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, ".meta.json"), text)
    assert mended(store) == {VISIT: [Action.BREAK]}
    assert (meta_of(store)["status"], meta_of(store)["uri"]) == ("BROKEN", VISIT)
    assert store.read(place(VISIT, ".meta.json.damaged")) == text
    assert files_of(store)[CONTENT] == "one"
    settled(store)


def test_a_meta_cut_at_any_byte_is_never_active(tmp_path):
    store = Recording(make_store("memory", str(tmp_path)))
    from agentm.context.contextfs import ContextFS

    fs = ContextFS(store)
    fs.write_node(memory("one"), ALICE)
    whole = store.read(place(VISIT, ".meta.json"))
    for length in range(len(whole.rstrip())):
        store.write(place(VISIT, ".meta.json"), whole[:length])
        assert not fs.exists(VISIT, ALICE)
        assert mended(store) == {VISIT: [Action.BREAK]}
        store.remove(place(VISIT, ".meta.json.damaged"))


def test_broken_stays_until_a_person_looks(fs, store):
    fs.write_node(memory("one"), ALICE)
    set_meta(store, status="BROKEN")
    settled(store)
    for _ in range(2):
        report = repair(store)
        assert [(alert.uri, alert.action) for alert in report.alerts] == [(VISIT, Action.REPORT)]
    with pytest.raises(NodeNotFoundError) as refused:
        fs.read_node(VISIT, ALICE)
    assert refused.value.code == "node_broken"


@pytest.mark.parametrize("end", ["write_node", "delete_node", "archive_node"])
def test_a_lost_event_is_registered_exactly_once(fs, store, end):
    fs.write_node(memory("one"), ALICE)
    if end != "write_node":
        getattr(fs, end)(VISIT, ALICE)
    before = told(store)
    for event in store.list(place(VISIT, ".outbox")):
        store.remove(event)
    assert mended(store) == {VISIT: [Action.TELL]}
    assert told(store) == before[-1:]
    settled(store)


def test_an_event_that_was_applied_is_not_lost(fs, store):
    class Deaf:
        def apply(self, event) -> None: ...

    fs.write_node(memory("one"), ALICE)
    OutboxWorker(store, Deaf()).run_once()
    assert told(store) == []
    settled(store)


@pytest.mark.parametrize("missing", PARTS)
def test_a_part_that_is_gone_comes_back_from_the_history(fs, store, missing):
    fs.write_node(memory("one"), ALICE)
    node = fs.read_node(VISIT, ALICE)
    before = files_of(store)
    store.remove(place(VISIT, missing))
    assert fs.read_node(VISIT, ALICE) == node
    mended(store)
    assert files_of(store)[CONTENT] == before[CONTENT]
    assert set(files_of(store)) == set(before)
    settled(store)


@pytest.mark.parametrize("protocol", PLAIN_FILES)
@pytest.mark.parametrize("name", PARTS)
def test_a_flipped_bit_is_detected_and_the_version_stays(fs, store, tmp_path, protocol, name):
    fs.write_node(memory("one, and more"), ALICE)
    node = fs.read_node(VISIT, ALICE)
    path = tmp_path / ("memory" if protocol == "device-local" else "vault") / place(VISIT, name).key
    data = bytearray(path.read_bytes())
    data[0] ^= 0x80
    path.write_bytes(bytes(data))
    assert fs.read_node(VISIT, ALICE) == node
    assert mended(store) == {VISIT: [Action.RESTORE]}
    assert fs.read_node(VISIT, ALICE) == node
    assert path.with_name(f"{name}.damaged").read_bytes() == bytes(data)
    settled(store)


@pytest.mark.spec("CTX-02")
def test_an_edit_by_hand_becomes_a_version(fs, store):
    fs.write_node(memory("one", tags=("t",)), ALICE)
    store.write(place(VISIT, CONTENT), "# Edited\n\nBy hand.")
    assert fs.read_node(VISIT, ALICE).content == "one"
    assert mended(store) == {VISIT: [Action.ADOPT]}
    node = fs.read_node(VISIT, ALICE)
    assert (node.content, node.version, node.actor, node.tags) == ("# Edited\n\nBy hand.", 2, "human:alice", ("t",))
    assert node.abstract
    assert "Edited" in node.abstract
    assert contents(fs) == ["one", "# Edited\n\nBy hand."]
    assert told(store)[-1] == ("UPSERT_CONTEXT", 2)
    settled(store)


@pytest.mark.spec("CTX-02")
def test_tiers_and_edges_edited_by_hand_are_kept(fs, store):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, ".abstract.md"), "in my words\n")
    store.write(place(VISIT, ".overview.md"), "# My outline\n")
    store.write(place(VISIT, ".relations.json"), json.dumps([{"from_uri": VISIT, "to_uri": SHOP}]))
    assert mended(store) == {VISIT: [Action.ADOPT]}
    node = fs.read_node(VISIT, ALICE)
    assert (node.abstract, node.overview, node.content) == ("in my words", "# My outline\n", "one")
    assert node.relations == fs.relations(SHOP, ALICE, direction="in") == [edge()] or node.relations == (edge(),)
    assert fs.relations(SHOP, ALICE, direction="in") == [edge()]
    settled(store)


@pytest.mark.spec("CTX-02")
@pytest.mark.parametrize("text", ["[", "3", '[{"to": 1}]', '[{"from_uri": "x", "to_uri": "y"}]'])
def test_edges_spoilt_by_hand_are_put_aside(fs, store, text):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one", relations=(edge(),)), ALICE)
    store.write(place(VISIT, ".relations.json"), text)
    assert mended(store) == {VISIT: [Action.ADOPT]}
    assert fs.read_node(VISIT, ALICE).relations == (edge(),)
    assert store.read(place(VISIT, ".relations.json.damaged")) == text
    settled(store)


@pytest.mark.spec("CTX-02")
def test_a_file_that_is_being_saved_does_not_become_a_version(fs, store):
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, CONTENT), "half a sen")
    store.changes.clear()
    assert mended(store, quiet=60.0) == {}
    assert store.changes == []
    assert contents(fs) == ["one"]
    store.write(place(VISIT, CONTENT), "half a sentence is not enough")
    assert mended(store) == {VISIT: [Action.ADOPT]}
    assert contents(fs) == ["one", "half a sentence is not enough"]


@pytest.mark.spec("CTX-02")
def test_an_edit_that_is_too_big_stops_nobody_else(fs, store, monkeypatch):
    monkeypatch.setattr("agentm.context.node.LARGEST_CONTENT", 100)
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two", OTHER), ALICE)
    for uri in (VISIT, OTHER):
        store.write(place(uri, CONTENT), "x" * (101 if uri == VISIT else 50))
    report = repair(store, quiet=0.0)
    assert {finding.uri: (finding.alert, bool(finding.why)) for finding in report.findings} == {
        VISIT: (True, True),
        OTHER: (False, False),
    }
    assert store.read(place(VISIT, CONTENT)) == "x" * 101
    assert fs.read_node(OTHER, ALICE).content == "x" * 50


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("history", [False, True], ids=["new target", "target had a life"])
def test_a_move_cut_short_at_any_change_is_in_one_place(fs, store, history):
    for number in range(40):
        source, target = f"{VISIT}-{number}", f"{OTHER}-{number}"
        if history:
            fs.write_node(memory("before", target), ALICE)
            fs.delete_node(target, ALICE, purge=True)
        fs.write_node(memory("one", source), ALICE)
        fs.write_node(memory("two", source), ALICE)
        if not die(store, number, lambda source=source, target=target: fs.move_node(source, target, ALICE)):
            break
        places = [uri for uri in (source, target) if fs.exists(uri, ALICE)]
        assert len(places) == 1, number
        assert fs.read_node(places[0], ALICE).content == "two"
        mended(store)
        assert [uri for uri in (source, target) if fs.exists(uri, ALICE)] == places
        assert contents(fs, places[0])[-2:] == (["one", "two"] if places == [source] else ["two", "two"])
        settled(store)
        if history and places == [source]:
            # The index was told of versions 1 and 2: their numbers are not given out again.
            again = fs.write_node(memory("after", target), ALICE)
            assert again.version > 2
            assert told(store, target)[-1] == ("UPSERT_CONTEXT", again.version)
        elif not history and places == [source]:
            assert tree(store, place(target)) == {} or files_of(store, target) == {}
            assert fs.move_node(source, target, ALICE).version >= 3
    assert 10 < number < 39


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("where", ["source", "target"])
def test_writing_where_a_move_was_cut_short_loses_neither(fs, store, where):
    for number in range(40):
        source, target = f"{VISIT}-{number}", f"{OTHER}-{number}"
        fs.write_node(memory("precious", source), ALICE)
        if not die(store, number, lambda source=source, target=target: fs.move_node(source, target, ALICE)):
            break
        (at,) = [uri for uri in (source, target) if fs.exists(uri, ALICE)]
        written = source if where == "source" else target
        fs.write_node(memory("new", written), ALICE)
        mended(store)
        assert fs.read_node(written, ALICE).content == "new"
        if written == at:
            assert contents(fs, at)[-2:] == ["precious", "new"]
        else:
            assert fs.read_node(at, ALICE).content == "precious", number
            assert contents(fs, written)[-1:] == ["new"]
        settled(store)
    assert number > 8


@pytest.mark.parametrize("end", ["delete_node", "archive_node", "undo"])
def test_an_end_cut_short_at_any_change_has_happened_or_not(fs, store, end):
    for number in range(20):
        uri = f"{VISIT}-{number}"
        fs.write_node(memory("one", uri), ALICE)
        fs.write_node(memory("two", uri), ALICE)
        if not die(store, number, lambda uri=uri: getattr(fs, end)(uri, ALICE)):
            break
        shown = fs.exists(uri, ALICE) and fs.read_node(uri, ALICE).content
        mended(store)
        assert (fs.exists(uri, ALICE) and fs.read_node(uri, ALICE).content) == shown
        assert shown in (("two", "one") if end == "undo" else ("two", False))
        settled(store)
        if not shown:
            assert files_of(store, uri) == {} or end == "archive_node"
            assert told(store, uri)[-1] == ("DELETE_CONTEXT", 3)
            fs.undo(uri, ALICE)
            assert fs.read_node(uri, ALICE).content == "two"
    assert number >= 3


def spoil(fs, store) -> None:
    """One of everything."""
    base = "ctx://acme/users/alice/memories/cases/"
    store.write(place(base + "orphan", CONTENT), "orphan")
    for name in ("pending", "half-pending", "unreadable", "untold", "edited", "torn"):
        fs.write_node(memory(name, base + name), ALICE)
    set_meta(store, base + "pending", status="PENDING")
    set_meta(store, base + "half-pending", status="PENDING")
    store.remove(place(base + "half-pending", ".overview.md"))
    store.write(place(base + "unreadable", ".meta.json"), "{")
    for event in store.list(place(base + "untold", ".outbox")):
        store.remove(event)
    store.write(place(base + "edited", CONTENT), "by hand")
    assert die(store, 3, lambda: fs.write_node(memory("new", base + "torn", abstract="x"), ALICE))
    fs.write_node(memory("moves", base + "from"), ALICE)
    assert die(store, 10, lambda: fs.move_node(base + "from", base + "to", ALICE))


def test_a_dry_run_says_the_same_and_writes_nothing(fs, store):
    spoil(fs, store)
    store.changes.clear()
    before = tree(store)
    planned = mended(store, dry_run=True)
    assert store.changes == []
    assert tree(store) == before
    done = mended(store)
    assert {uri: actions[0] for uri, actions in done.items()} == {uri: actions[0] for uri, actions in planned.items()}
    assert len(planned) >= 8
    settled(store)


def test_a_repair_cut_short_at_any_change_can_be_run_again(tmp_path):
    from agentm.context.contextfs import ContextFS

    def spoilt() -> Recording:
        store = Recording(make_store("memory", str(tmp_path)))
        spoil(ContextFS(store), store)
        return store

    def shown(store: Recording) -> dict[str, tuple[str, int]]:
        fs = ContextFS(store)
        uris = fs.list_children("ctx://acme/users/alice/memories/cases", ALICE)
        return {uri: (fs.read_node(uri, ALICE).content, fs.read_node(uri, ALICE).version) for uri in uris}

    whole = spoilt()
    mended(whole)
    for number in range(200):
        store = spoilt()
        if not die(store, number, lambda store=store: mended(store)):
            break
        mended(store)
        assert shown(store) == shown(whole), number
        settled(store)
    assert 20 < number < 199


def test_a_write_in_flight_is_left_alone(fs, store):
    """The writer holds the lock; what it has laid out is not published by anybody else."""
    fs.write_node(memory("one"), ALICE)
    seen: list[str] = []

    def look(verb: str, key: str) -> None:
        planned = repair(store, dry_run=True)
        seen.extend(finding.action for finding in planned.findings)
        assert fs.read_node(VISIT, ALICE).content == ACTIVE_CONTENT

    ACTIVE_CONTENT = "one"
    store.before = lambda verb, key: look(verb, key) if key.endswith(("content.md", ".meta.json")) else None
    fs.write_node(memory("two"), ALICE)
    assert Action.TELL not in seen
    assert Action.ADOPT not in seen


def test_strange_things_in_the_tree_are_left_alone(fs, store):
    fs.write_node(memory("one"), ALICE)
    strange = ["accounts/acme/README", "accounts/acme/users/alice/memories/events/file", "accounts/acme/users/.x/y"]
    for key in strange:
        store.write(store.resolve(key), "mine")
    settled(store)
    assert all(store.read(store.resolve(key)) == "mine" for key in strange)


def test_one_account_is_mended_alone(fs, store):
    store.write(place(VISIT, CONTENT), "a")
    store.write(place(VISIT.replace("acme", "globex"), CONTENT), "b")
    assert list(mended(store, account="globex")) == [VISIT.replace("acme", "globex")]
    assert not fs.exists(VISIT, ALICE)


def test_what_cannot_be_read_is_reported_and_not_guessed(fs, store):
    fs.write_node(memory("one"), ALICE)
    for kept in store.list(place(VISIT, ".history")):
        store.remove(kept)
    store.remove(place(VISIT, CONTENT))
    with pytest.raises(NodeBrokenError):
        fs.read_node(VISIT, ALICE)
    assert mended(store) == {VISIT: [Action.BREAK]}
    settled(store)


def test_a_beginning_with_the_number_of_the_current_version_is_discarded(fs, store):
    fs.write_node(memory("one"), ALICE)
    (kept,) = store.list(place(VISIT, ".history"))
    other = json.loads(store.read(kept))
    other["meta"]["write_id"] = "000000000000"
    store.write(kept.parent.child("00000001-000000000000.json"), json.dumps(other))
    assert mended(store) == {VISIT: [Action.DISCARD]}
    assert store.list(place(VISIT, ".history")) == [kept]
    settled(store)
