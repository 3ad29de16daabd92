"""Writing, reading, ending and moving memories, and what happens when the store fails in the middle."""

from __future__ import annotations

import errno

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.decision import Action
from agentm.context.node import NodeStatus
from agentm.context.tenancy import RequestContext
from agentm.errors import InvalidUriError, NodeBrokenError, NodeConflictError, NodeNotFoundError, StoreError
from tests.backends.stores import tree
from tests.context.nodes import (
    ALICE,
    OTHER,
    SHOP,
    SKILL,
    VISIT,
    contents,
    edge,
    files_of,
    memory,
    mended,
    meta_of,
    place,
    set_meta,
    told,
)

EVENTS = "ctx://acme/users/alice/memories/events"


@pytest.mark.spec("CTX-08")
def test_what_was_written_is_read_by_anybody_who_opens_the_store(fs, store):
    fs.write_node(memory("# One\n\n\ttext\r\n ünïcode 👩‍🚀 no newline", tags=("a", "b")), ALICE)
    node = ContextFS(store).read_node(VISIT, ALICE)
    assert node.content == "# One\n\n\ttext\r\n ünïcode 👩‍🚀 no newline"
    assert (node.tags, node.version, node.status, node.actor) == (("a", "b"), 1, NodeStatus.ACTIVE, "human:alice")
    assert node.sources == ("chat:42",)


@pytest.mark.spec("CTX-08")
def test_an_update_is_the_next_version_and_keeps_when_it_was_created(store):
    ticks = iter([f"2025-03-17T10:00:0{n}Z" for n in range(5)])
    fs = ContextFS(store, clock=lambda: next(ticks))
    assert [fs.write_node(memory(text), ALICE).version for text in ("one", "two", "three")] == [1, 2, 3]
    node = fs.read_node(VISIT, ALICE)
    assert (node.content, node.version) == ("three", 3)
    assert (node.created_at, node.updated_at) == ("2025-03-17T10:00:00Z", "2025-03-17T10:00:02Z")
    assert told(store) == [("UPSERT_CONTEXT", 1), ("UPSERT_CONTEXT", 2), ("UPSERT_CONTEXT", 3)]


@pytest.mark.spec("CTX-08")
def test_what_is_not_there_is_not_found(fs):
    assert not fs.exists(VISIT, ALICE)
    for attempt in (
        lambda: fs.read_node(VISIT, ALICE),
        lambda: fs.delete_node(VISIT, ALICE),
        lambda: fs.archive_node(VISIT, ALICE),
        lambda: fs.move_node(VISIT, OTHER, ALICE),
        lambda: fs.undo(VISIT, ALICE),
        lambda: fs.diff(VISIT, ALICE, 1, 2),
        lambda: fs.relations(VISIT, ALICE),
    ):
        with pytest.raises(NodeNotFoundError) as raised:
            attempt()
        assert VISIT in str(raised.value)
    assert fs.history(VISIT, ALICE) == []


@pytest.mark.spec("CTX-08")
def test_children_are_listed_level_by_level(fs, store):
    for uri in (VISIT, SHOP, SKILL):
        fs.write_node(memory("x", uri), ALICE)
    store.write(place(VISIT).parent.child("README.txt"), "somebody else's")
    store.write(place(VISIT).parent.parent.child("notes", "a.md"), "somebody else's")
    listed = {
        "ctx://acme": ["ctx://acme/agents", "ctx://acme/users"],
        "ctx://acme/users": ["ctx://acme/users/alice"],
        "ctx://acme/users/alice": ["ctx://acme/users/alice/memories"],
        "ctx://acme/users/alice/memories": [
            "ctx://acme/users/alice/memories/entities",
            "ctx://acme/users/alice/memories/events",
        ],
        EVENTS: [VISIT],
        "ctx://acme/agents/scout/skills": [SKILL],
        VISIT: [],
        "ctx://acme/users/alice/memories/cases": [],
    }
    assert {uri: fs.list_children(uri, ALICE) for uri in listed} == listed


@pytest.mark.spec("CTX-04", "CTX-08")
def test_a_damaged_neighbour_does_not_hide_the_others(fs, store):
    fs.write_node(memory("x", f"{EVENTS}/a"), ALICE)
    fs.write_node(memory("x", f"{EVENTS}/b"), ALICE)
    store.write(place(f"{EVENTS}/a", ".meta.json"), "{")
    assert fs.list_children(EVENTS, ALICE) == [f"{EVENTS}/b"]
    assert not fs.exists(f"{EVENTS}/a", ALICE)


MUTATIONS = {
    "write": lambda fs, n: fs.write_node(memory("mine"), ALICE, if_version=n),
    "delete": lambda fs, n: fs.delete_node(VISIT, ALICE, if_version=n),
    "purge": lambda fs, n: fs.delete_node(VISIT, ALICE, if_version=n, purge=True),
    "archive": lambda fs, n: fs.archive_node(VISIT, ALICE, if_version=n),
    "move": lambda fs, n: fs.move_node(VISIT, OTHER, ALICE, if_version=n),
    "undo": lambda fs, n: fs.undo(VISIT, ALICE, if_version=n),
    "relate": lambda fs, n: fs.relate(edge(), ALICE, if_version=n),
}


@pytest.mark.spec("CTX-09")
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
@pytest.mark.parametrize("stale", [0, 1, 3, 99])
def test_a_stale_version_is_refused_with_what_is_there_and_a_diff(fs, store, mutation, stale):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("theirs"), ALICE)
    before = {key: text for key, text in tree(store).items() if "backlinks" not in key}
    with pytest.raises(NodeConflictError) as raised:
        mutation(fs, stale)
    assert (raised.value.version, raised.value.code) == (2, "version_conflict")
    assert raised.value.expected == str(stale)
    assert {key: text for key, text in tree(store).items() if "backlinks" not in key} == before


@pytest.mark.spec("CTX-09")
def test_the_diff_of_a_clash_leads_from_theirs_to_yours(fs):
    fs.write_node(memory("theirs"), ALICE)
    with pytest.raises(NodeConflictError) as raised:
        fs.write_node(memory("mine"), ALICE, if_version=0)
    assert raised.value.diff.splitlines() == ["--- version 1", "+++ yours", "@@ -1 +1 @@", "-theirs", "+mine"]


@pytest.mark.spec("CTX-09")
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_the_right_version_is_accepted(fs, mutation):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    assert mutation(fs, 2).version == 3


@pytest.mark.spec("CTX-09")
def test_zero_means_only_if_there_is_none(fs):
    assert fs.write_node(memory("one"), ALICE, if_version=0).version == 1
    fs.delete_node(VISIT, ALICE)
    assert fs.write_node(memory("again"), ALICE, if_version=0).version == 3
    with pytest.raises(NodeConflictError):
        fs.write_node(memory("late"), ALICE, if_version=0)


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("purge", [False, True])
def test_a_deleted_memory_is_gone_and_its_event_stays(fs, store, purge):
    fs.write_node(memory("secret"), ALICE)
    fs.delete_node(VISIT, ALICE, purge=purge)
    assert not fs.exists(VISIT, ALICE)
    assert fs.list_children(EVENTS, ALICE) == []
    with pytest.raises(NodeNotFoundError):
        fs.read_node(VISIT, ALICE)
    with pytest.raises(NodeNotFoundError):
        fs.delete_node(VISIT, ALICE)
    assert files_of(store) == {}
    assert ("DELETE_CONTEXT", 2) in told(store)
    kept = [store.read(one) for one in store.list(place(VISIT, ".history"))]
    assert bool(kept) is not purge


@pytest.mark.spec("CTX-08")
def test_an_archived_memory_is_not_shown_and_keeps_its_files(fs, store):
    fs.write_node(memory("old"), ALICE)
    fs.archive_node(VISIT, ALICE)
    assert not fs.exists(VISIT, ALICE)
    with pytest.raises(NodeNotFoundError):
        fs.read_node(VISIT, ALICE)
    assert files_of(store)["content.md"] == "old"
    assert meta_of(store)["status"] == "ARCHIVED"
    assert told(store)[-1] == ("DELETE_CONTEXT", 2)


@pytest.mark.spec("CTX-08")
def test_a_moved_memory_is_in_the_other_place_with_all_it_has(fs, store):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two", tags=("t",)), ALICE)
    created = fs.read_node(VISIT, ALICE).created_at
    receipt = fs.move_node(VISIT, SKILL, ALICE)
    assert (receipt.uri, receipt.version, receipt.indexed) == (SKILL, 3, "pending")
    assert not fs.exists(VISIT, ALICE)
    with pytest.raises(NodeNotFoundError):
        fs.read_node(VISIT, ALICE)
    node = fs.read_node(SKILL, ALICE)
    assert (node.content, node.tags, node.created_at, node.version) == ("two", ("t",), created, 3)
    assert contents(fs, SKILL) == ["one", "two", "two"]
    meta = meta_of(store, SKILL)
    assert (meta["context_type"], meta["category"], meta["owner_space"]) == ("SKILL", "skills", "agent:scout")
    assert told(store)[-1] == ("MOVE_CONTEXT", 3)
    assert told(store, SKILL) == [("UPSERT_CONTEXT", 3)]
    assert files_of(store) == {}
    assert store.list(place(VISIT, ".history")) == []


@pytest.mark.spec("CTX-08")
def test_the_place_that_was_left_can_be_used_again(fs):
    fs.write_node(memory("one"), ALICE)
    fs.move_node(VISIT, OTHER, ALICE)
    assert fs.write_node(memory("another"), ALICE).version == 3
    assert (contents(fs, VISIT), contents(fs, OTHER)) == (["another"], ["one", "one"])
    fs.delete_node(VISIT, ALICE, purge=True)
    fs.move_node(OTHER, VISIT, ALICE)
    assert fs.read_node(VISIT, ALICE).content == "one"


@pytest.mark.spec("CTX-08", "CTX-09")
@pytest.mark.parametrize("end", ["delete_node", "archive_node"])
def test_a_move_does_not_bury_what_can_be_brought_back(fs, end):
    fs.write_node(memory("put away", OTHER), ALICE)
    getattr(fs, end)(OTHER, ALICE)
    fs.write_node(memory("one"), ALICE)
    with pytest.raises(InvalidUriError, match="undo") as refused:
        fs.move_node(VISIT, OTHER, ALICE)
    assert refused.value.code == "uri_taken"
    fs.undo(OTHER, ALICE)
    assert (fs.read_node(OTHER, ALICE).content, fs.read_node(VISIT, ALICE).content) == ("put away", "one")


@pytest.mark.spec("CTX-08")
def test_a_move_onto_itself_or_onto_another_is_refused(fs):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two", OTHER), ALICE)
    with pytest.raises(InvalidUriError, match="onto itself"):
        fs.move_node(VISIT, VISIT, ALICE)
    with pytest.raises(InvalidUriError, match="taken") as raised:
        fs.move_node(VISIT, OTHER, ALICE)
    assert raised.value.code == "uri_taken"
    assert (fs.read_node(VISIT, ALICE).content, fs.read_node(OTHER, ALICE).content) == ("one", "two")


@pytest.mark.spec("CTX-06")
def test_what_is_broken_is_not_written_over_but_can_be_undone(fs, store):
    fs.write_node(memory("one"), ALICE)
    fs.write_node(memory("two"), ALICE)
    set_meta(store, status="BROKEN")
    store.write(place(VISIT, "content.md"), "evidence")
    for attempt in (
        lambda: fs.write_node(memory("three"), ALICE),
        lambda: fs.write_nodes([memory("three")], ALICE),
    ):
        with pytest.raises(NodeBrokenError):
            attempt()
    assert store.read(place(VISIT, "content.md")) == "evidence"
    fs.undo(VISIT, ALICE)
    assert fs.read_node(VISIT, ALICE).content == "one"


@pytest.mark.spec("CTX-02")
def test_an_edit_by_hand_is_kept_before_it_is_written_over(fs, store):
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, "content.md"), "one, and by hand")
    with pytest.raises(NodeConflictError) as raised:
        fs.write_node(memory("two"), ALICE, if_version=1)
    assert raised.value.version == 2
    assert fs.write_node(memory("two"), ALICE).version == 3
    assert contents(fs) == ["one", "one, and by hand", "two"]


@pytest.mark.spec("CTX-02")
@pytest.mark.parametrize("mutation", ["delete", "archive", "move"])
def test_an_edit_by_hand_is_kept_by_every_change(fs, store, mutation):
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, "content.md"), "by hand")
    MUTATIONS[mutation](fs, None)
    kept = contents(fs, OTHER if mutation == "move" else VISIT)
    assert kept[:2] == ["one", "by hand"]


def failing_at(name: str):
    def before(verb: str, key: str) -> None:
        if verb == "write" and (key.endswith(f"/{name}") or f"/{name}/" in key):
            raise StoreError("the disk is full; free some.", errno=errno.ENOSPC)

    return before


@pytest.mark.spec("CTX-05")
@pytest.mark.parametrize(
    "name", [".history", "content.md", ".relations.json", ".abstract.md", ".overview.md", ".meta.json"]
)
@pytest.mark.parametrize("many", [False, True])
def test_an_error_before_the_commit_takes_everything_back(fs, store, name, many):
    fs.write_node(memory("a shop", SHOP), ALICE)
    fs.write_node(memory("one"), ALICE)
    before = {key: text for key, text in tree(store).items() if "backlinks" not in key and text is not None}
    store.before = failing_at(name)
    changed = memory("two, altogether", abstract="new", overview="new", relations=(edge(),))
    with pytest.raises(StoreError):
        fs.write_nodes([changed, memory("more", OTHER)], ALICE) if many else fs.write_node(changed, ALICE)
    store.before = lambda verb, key: None
    assert {key: text for key, text in tree(store).items() if "backlinks" not in key and text is not None} == before
    assert mended(store) == {}


@pytest.mark.spec("CTX-06")
def test_an_error_behind_the_commit_is_no_failure_and_the_repair_tells(fs, store):
    store.before = failing_at(".outbox")
    receipt = fs.write_node(memory("one"), ALICE)
    store.before = lambda verb, key: None
    assert (receipt.version, receipt.indexed) == (1, "failed")
    assert fs.read_node(VISIT, ALICE).content == "one"
    assert mended(store) == {VISIT: [Action.TELL]}
    assert told(store) == [("UPSERT_CONTEXT", 1)]


@pytest.mark.spec("CTX-05")
def test_an_interruption_right_behind_the_commit_does_not_undo_it(fs, store, monkeypatch):
    fs.write_node(memory("one"), ALICE)
    real = type(store.inner).write_versioned

    def interrupted(self, locator, content, *, if_version):
        real(self, locator, content, if_version=if_version)
        if locator.name == ".meta.json":
            raise KeyboardInterrupt

    monkeypatch.setattr(type(store.inner), "write_versioned", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fs.write_node(memory("two"), ALICE)
    monkeypatch.undo()
    assert fs.read_node(VISIT, ALICE).content == "two"
    assert contents(fs) == ["one", "two"]
    assert mended(store) == {VISIT: [Action.TELL]}


@pytest.mark.spec("CTX-05")
def test_a_repair_that_fails_does_not_take_the_kept_version_with_it(fs, store):
    fs.write_node(memory("one"), ALICE)
    store.remove(place(VISIT, "content.md"))
    store.before = failing_at("content.md")
    with pytest.raises(AssertionError, match="disk is full"):
        mended(store)
    store.before = lambda verb, key: None
    assert fs.read_node(VISIT, ALICE).content == "one"
    assert mended(store) == {VISIT: [Action.RESTORE]}


@pytest.mark.spec("CTX-09")
@pytest.mark.parametrize(
    ("ctx", "actor"),
    [
        (RequestContext("acme", user_id="alice"), "human:alice"),
        (RequestContext("acme", agent_id="scout"), "process:scout"),
        (RequestContext("acme", user_id="alice", actor="model/1.0"), "model/1.0"),
    ],
)
def test_every_version_says_who_wrote_it_and_from_what(fs, ctx, actor):
    uri = VISIT if ctx.user_id else SKILL
    fs.write_node(memory("x", uri), ctx)
    (version,) = fs.history(uri, ctx)
    assert (version.actor, version.sources) == (actor, ())


@pytest.mark.spec("CTX-09")
def test_many_are_written_only_if_each_still_has_its_version(fs):
    nodes = [memory(f"text {n}", f"ctx://acme/users/alice/memories/cases/n{n}") for n in range(10)]
    fs.write_nodes(nodes, ALICE, if_versions={node.uri: 0 for node in nodes})
    fs.write_node(memory("another's", nodes[7].uri), ALICE)
    with pytest.raises(NodeConflictError) as refused:
        fs.write_nodes(nodes, ALICE, if_versions={node.uri: 1 for node in nodes})
    assert refused.value.version == 2
    assert [fs.read_node(node.uri, ALICE).version for node in nodes] == [1] * 7 + [2] + [1] * 2


@pytest.mark.spec("CTX-09")
def test_many_keep_no_more_versions_than_one(store):
    fs = ContextFS(store, keep_versions=2)
    nodes = [memory(f"text {n}", f"ctx://acme/users/alice/memories/cases/n{n}") for n in range(3)]
    for _ in range(4):
        fs.write_nodes(nodes, ALICE)
    assert [[one.version for one in fs.history(node.uri, ALICE)] for node in nodes] == [[3, 4]] * 3
