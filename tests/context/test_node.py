"""What a memory looks like on a store, and what is refused as one."""

from __future__ import annotations

import json

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.node import LARGEST_CONTENT, LONGEST_ABSTRACT, PARTS, ContextNode, NodeStatus
from agentm.context.tenancy import RequestContext
from agentm.context.writer import COMMIT, ORDER
from agentm.errors import (
    InvalidNodeError,
    InvalidUriError,
    NodeBrokenError,
    NodeNotFoundError,
    NotTextError,
    StoreError,
)
from tests.backends.stores import PLAIN_FILES, make_store, tree
from tests.context.nodes import ALICE, OTHER, PROFILE, SHOP, SKILL, VISIT, edge, files_of, memory, meta_of, place, told
from tests.context.recording import Recording

TEN_FIELDS = [
    "uri",
    "context_type",
    "category",
    "level",
    "owner_space",
    "status",
    "created_at",
    "updated_at",
    "version",
    "tags",
]


@pytest.mark.spec("CTX-02")
def test_a_memory_is_the_files_of_the_layout(fs, store):
    fs.write_node(memory("A shop.", SHOP), ALICE)
    fs.write_node(memory("# Visit\n\nCoffee.", relations=(edge(weight=0.85, reason="was there"),)), ALICE)
    inside = [child.name for child in store.list(place())]
    assert inside == [
        ".abstract.md",
        ".history",
        ".meta.json",
        ".outbox",
        ".overview.md",
        ".relations.json",
        "content.md",
    ]
    assert store.read(place(VISIT, "content.md")) == "# Visit\n\nCoffee."
    assert 0 < len(store.read(place(VISIT, ".abstract.md")).rstrip("\n")) <= LONGEST_ABSTRACT
    assert json.loads(store.read(place(VISIT, ".relations.json"))) == [
        {"from_uri": VISIT, "to_uri": SHOP, "relation_type": "related_to", "weight": 0.85, "reason": "was there"}
    ]
    (event,) = [child for child in store.list(place(VISIT, ".outbox")) if "UPSERT_CONTEXT" in store.read(child)]
    found = json.loads(store.read(event))
    assert event.name == f"{found['event_id']}.json"
    assert (found["event_type"], found["uri"], found["status"], found["retry_count"]) == (
        "UPSERT_CONTEXT",
        VISIT,
        "PENDING",
        0,
    )
    assert [record["level"] for record in found["payload"]["records"]] == [0, 1, 2]
    assert found["payload"]["records"][0]["filters"] == {"account_id": "acme", "owner_space": "user:alice"}
    assert found["payload"]["records"][2]["text"] == "# Visit\n\nCoffee."


@pytest.mark.spec("CTX-02")
@pytest.mark.parametrize(
    ("uri", "context_type", "category", "owner"),
    [
        (PROFILE, "MEMORY", "profile", "user:alice"),
        (SKILL, "SKILL", "skills", "agent:scout"),
    ],
)
def test_meta_carries_the_ten_fields(fs, store, uri, context_type, category, owner):
    ticks = iter(["2025-03-17T10:00:00Z", "2025-03-17T11:30:00Z"])
    fs = ContextFS(store, clock=lambda: next(ticks))
    fs.write_node(memory("one", uri), ALICE)
    fs.write_node(memory("two", uri, tags=("user-profile", "verified")), ALICE)
    meta = meta_of(store, uri)
    assert {name: meta[name] for name in TEN_FIELDS} == {
        "uri": uri,
        "context_type": context_type,
        "category": category,
        "level": 3,
        "owner_space": owner,
        "status": "ACTIVE",
        "created_at": "2025-03-17T10:00:00Z",
        "updated_at": "2025-03-17T11:30:00Z",
        "version": 2,
        "tags": ["user-profile", "verified"],
    }
    assert list(meta)[:10] == TEN_FIELDS


@pytest.mark.spec("CTX-02")
def test_keys_that_somebody_else_put_into_meta_stay(fs, store):
    fs.write_node(memory("one"), ALICE)
    store.write(place(VISIT, ".meta.json"), json.dumps({**meta_of(store), "mine": [1]}))
    fs.write_node(memory("two"), ALICE)
    assert (meta_of(store)["mine"], meta_of(store)["version"]) == ([1], 2)


@pytest.mark.spec("CTX-02")
def test_a_meta_with_the_ten_fields_alone_is_a_memory(fs, store):
    for name, text in {
        "content.md": "by hand",
        ".relations.json": "[]",
        ".abstract.md": "a",
        ".overview.md": "o",
    }.items():
        store.write(place(VISIT, name), text)
    bare = {
        "uri": VISIT,
        "context_type": "MEMORY",
        "category": "events",
        "level": 3,
        "owner_space": "user:alice",
        "status": "ACTIVE",
        "created_at": "2025-03-17T10:00:00Z",
        "updated_at": "2025-03-17T10:00:00Z",
        "version": 3,
        "tags": [],
    }
    store.write(place(VISIT, ".meta.json"), json.dumps(bare))
    node = fs.read_node(VISIT, ALICE)
    assert (node.content, node.version) == ("by hand", 3)
    assert fs.write_node(memory("next"), ALICE, if_version=3).version == 4


@pytest.mark.spec("CTX-03")
def test_the_order_is_content_relations_tiers_meta_event(fs, store):
    fs.write_node(memory("A shop.", SHOP), ALICE)
    store.changes.clear()
    fs.write_node(memory(relations=(edge(),)), ALICE)
    written = [key.removeprefix(place().key + "/") for verb, key in store.changes if key.startswith(place().key + "/")]
    assert written[0].startswith(".history/")
    assert written[1:6] == ["content.md", ".relations.json", ".abstract.md", ".overview.md", ".meta.json"]
    assert [name.rpartition("/")[0] for name in written[6:]] == [".outbox"] * 2
    assert [step[0] for step in ORDER] == [
        ".history",
        "content.md",
        ".relations.json",
        ".abstract.md",
        ".meta.json",
        "other events",
        "event",
    ]
    assert ORDER[COMMIT] == (".meta.json",)


@pytest.mark.spec("CTX-03")
def test_each_step_is_on_the_store_before_the_next_begins(fs, store):
    fs.write_node(memory("one"), ALICE)
    seen: list[tuple[str, dict[str, str]]] = []
    store.before = lambda verb, key: seen.append(
        (key, files_of(store) | {"meta": store.read(place(VISIT, ".meta.json"))})
    )
    fs.write_node(memory("two, which is longer"), ALICE)
    at = {key.rpartition("/")[2]: files for key, files in seen}
    assert at["content.md"]["content.md"] == "one"
    assert at[".abstract.md"]["content.md"] == "two, which is longer"
    assert json.loads(at[".meta.json"]["meta"])["version"] == 1
    (event,) = [files for key, files in seen if "/.outbox/" in key]
    assert json.loads(event["meta"])["version"] == 2


@pytest.mark.spec("CTX-03")
def test_many_go_through_each_step_together(fs, store):
    nodes = [memory(f"text {n}", f"ctx://acme/users/alice/memories/cases/n{n}") for n in range(5)]
    seen: list[tuple[int, int]] = []
    receipts = fs.write_nodes(nodes, ALICE, progress=lambda done, total: seen.append((done, total)))
    assert [receipt.version for receipt in receipts] == [1] * 5
    assert seen[-1] == (5, 5)
    steps = [
        name if name in (*PARTS, ".meta.json") else key.split("/")[-2]
        for name, (_, key) in zip(store.names(), store.changes, strict=True)
    ]
    assert steps == [
        *[".history"] * 5,
        *["content.md"] * 5,
        *[".relations.json"] * 5,
        *[".abstract.md", ".overview.md"] * 5,
        *[".meta.json"] * 5,
        *[".outbox"] * 5,
    ]
    assert [fs.read_node(node.uri, ALICE).content for node in nodes] == [f"text {n}" for n in range(5)]


@pytest.mark.spec("CTX-03")
def test_the_same_memory_twice_in_one_batch_is_refused(fs, store):
    with pytest.raises(InvalidNodeError, match="one memory"):
        fs.write_nodes([memory("a"), memory("b")], ALICE)
    assert tree(store) == {}


@pytest.mark.spec("CTX-04")
def test_a_caller_cannot_set_status_version_or_times(fs, store):
    sly = memory("x", status=NodeStatus.BROKEN, version=77, created_at="1999-01-01T00:00:00Z", actor="human:mallory")
    fs.write_node(sly, ALICE)
    node = fs.read_node(VISIT, ALICE)
    assert (node.status, node.version, node.actor) == (NodeStatus.ACTIVE, 1, "human:alice")
    assert not node.created_at.startswith("1999")


@pytest.mark.spec("CTX-04")
@pytest.mark.parametrize("status", [status for status in NodeStatus if status is not NodeStatus.ACTIVE])
def test_only_active_is_visible(fs, store, status):
    fs.write_node(memory(), ALICE)
    fs.write_node(memory("beside", "ctx://acme/users/alice/memories/events/beside"), ALICE)
    store.write(place(VISIT, ".meta.json"), json.dumps({**meta_of(store), "status": status.value}))
    assert not fs.exists(VISIT, ALICE)
    assert fs.list_children("ctx://acme/users/alice/memories/events", ALICE) == [
        "ctx://acme/users/alice/memories/events/beside"
    ]
    with pytest.raises(NodeNotFoundError):
        fs.read_node(VISIT, ALICE)


@pytest.mark.spec("CTX-05")
@pytest.mark.parametrize("damaged", PARTS)
def test_a_part_that_is_not_the_metas_is_read_from_the_kept_version(fs, store, damaged):
    fs.write_node(memory("one"), ALICE)
    whole = fs.read_node(VISIT, ALICE)

    store.write(place(VISIT, damaged), "[ ]")
    assert fs.read_node(VISIT, ALICE) == whole


@pytest.mark.spec("CTX-05")
def test_a_mix_without_a_kept_version_is_damage_and_said_so(fs, store):
    fs.write_node(memory("one"), ALICE)
    for kept in store.list(place(VISIT, ".history")):
        store.remove(kept)
    store.write(place(VISIT, "content.md"), "two")
    with pytest.raises(NodeBrokenError, match="agentm repair"):
        fs.read_node(VISIT, ALICE)


BAD_NODES = {
    "no text": (ContextNode(VISIT, None), "not text"),  # type: ignore[arg-type]
    "lone surrogate": (memory("a\ud800b"), "UTF-8"),
    "overlong abstract": (memory(abstract="x" * (LONGEST_ABSTRACT + 1)), "at most 100"),
    "abstract of two lines": (memory(abstract="a\nb"), "one line"),
    "empty tag": (memory(tags=("",)), "tag"),
    "edge from elsewhere": (memory(relations=(edge(OTHER, SHOP),)), "begins at"),
    "edge to another account": (memory(relations=(edge(VISIT, SHOP.replace("acme", "evil")),)), "another account"),
    "edge without a type": (memory(relations=(edge(relation_type=""),)), "needs a type"),
    "edge with a weight of 2": (memory(relations=(edge(weight=2.0),)), "weight"),
}


@pytest.mark.spec("CTX-02")
@pytest.mark.parametrize(("node", "complaint"), BAD_NODES.values(), ids=BAD_NODES.keys())
def test_what_is_no_memory_is_refused_before_anything_is_written(fs, store, node, complaint):
    with pytest.raises(InvalidNodeError, match=complaint) as raised:
        fs.write_node(node, ALICE)
    assert len(str(raised.value).splitlines()) == 1
    assert store.changes == []


@pytest.mark.spec("CTX-02")
def test_a_hundred_megabytes_are_refused(tmp_path):
    store = Recording(make_store("memory", str(tmp_path)))
    fs = ContextFS(store)
    with pytest.raises(InvalidNodeError, match="104,857,600 bytes") as raised:
        fs.write_node(memory("x" * 100 * 1024 * 1024), ALICE)
    assert (raised.value.code, store.changes) == ("content_too_big", [])
    assert LARGEST_CONTENT < 100 * 1024 * 1024


@pytest.mark.spec("CTX-02")
@pytest.mark.parametrize("text", ["[]", "[1]", "3", "null", "{", "", '{"uri": 1}', '{"version": "x"}', "\u0000"])
def test_a_meta_that_is_none_is_damage_and_nothing_is_lost(fs, store, text):
    fs.write_node(memory("precious"), ALICE)
    store.write(place(VISIT, ".meta.json"), text)
    for attempt in (
        lambda: fs.read_node(VISIT, ALICE),
        lambda: fs.write_node(memory("over it"), ALICE),
        lambda: fs.delete_node(VISIT, ALICE),
        lambda: fs.move_node(VISIT, OTHER, ALICE),
    ):
        with pytest.raises(NodeBrokenError, match="damaged") as raised:
            attempt()
        assert len(str(raised.value).splitlines()) == 1
    assert not fs.exists(VISIT, ALICE)
    assert store.read(place(VISIT, "content.md")) == "precious"


@pytest.fixture
def file_fs(request, tmp_path):
    store = make_store(request.param, str(tmp_path))
    folder = tmp_path / ("memory" if request.param == "device-local" else "vault") / place().key
    return ContextFS(store), folder


on_files = pytest.mark.parametrize("file_fs", PLAIN_FILES, indirect=True)


@on_files
@pytest.mark.spec("CTX-02")
def test_bytes_that_are_no_text_are_not_shown_and_not_written_over(file_fs):
    fs, folder = file_fs
    fs.write_node(memory("one"), ALICE)
    (folder / "content.md").write_bytes(b"\xff\xfe broken")
    assert fs.read_node(VISIT, ALICE).content == "one"
    with pytest.raises(NotTextError):
        fs.write_node(memory("two"), ALICE)
    assert (folder / "content.md").read_bytes() == b"\xff\xfe broken"


@on_files
@pytest.mark.spec("CTX-02")
def test_a_link_to_somebody_elses_memory_leads_nowhere(file_fs):
    fs, folder = file_fs
    bob = RequestContext("acme", user_id="bob")
    theirs = VISIT.replace("alice", "bob")
    fs.write_node(memory("secret", theirs), bob)
    folder.parent.mkdir(parents=True)
    folder.symlink_to(folder.parents[3] / "bob/memories/events/visit")
    assert not fs.exists(VISIT, ALICE)
    assert fs.list_children("ctx://acme/users/alice/memories/events", ALICE) == []
    with pytest.raises(NodeNotFoundError):
        fs.read_node(VISIT, ALICE)
    with pytest.raises(InvalidUriError, match="holds another memory"):
        fs.write_node(memory("over it"), ALICE)
    with pytest.raises(NodeNotFoundError):
        fs.undo(VISIT, ALICE)
    assert fs.history(VISIT, ALICE) == []
    assert [version.content for version in fs.history(theirs, bob)] == ["secret"]


@pytest.mark.spec("CTX-02")
def test_a_file_where_a_memory_would_be_is_left_alone(fs, store):
    store.write(place(VISIT), "just a file")
    assert not fs.exists(VISIT, ALICE)
    assert fs.list_children("ctx://acme/users/alice/memories/events", ALICE) == []
    with pytest.raises(NodeNotFoundError):
        fs.read_node(VISIT, ALICE)
    with pytest.raises(StoreError):
        fs.write_node(memory(), ALICE)
    assert store.read(place(VISIT)) == "just a file"


@pytest.mark.spec("CTX-10")
def test_tiers_are_made_unless_they_are_given(fs):
    fs.write_node(memory("# Title\n\nFirst sentence."), ALICE)
    made = fs.read_node(VISIT, ALICE)
    assert made.abstract
    assert made.overview
    fs.write_node(memory("text", abstract="mine", overview="# Mine\n"), ALICE)
    given = fs.read_node(VISIT, ALICE)
    assert (given.abstract, given.overview) == ("mine", "# Mine\n")


@pytest.mark.spec("CTX-10")
def test_a_model_can_be_plugged_in(store):
    class Shouting:
        def abstract(self, content: str) -> str:
            return content.upper() * 50

        def overview(self, content: str) -> str:
            return f"# {content}"

    fs = ContextFS(store, summariser=Shouting())
    fs.write_node(memory("hi there "), ALICE)
    node = fs.read_node(VISIT, ALICE)
    assert node.abstract is not None
    assert node.abstract.startswith("HI THERE")
    assert len(node.abstract) <= LONGEST_ABSTRACT
    assert node.overview == "# hi there "


def test_writing_says_what_became_of_it(fs, store):
    receipt = fs.write_node(ContextNode(VISIT, "x"), ALICE)
    assert (receipt.uri, receipt.version, receipt.durable, receipt.indexed) == (VISIT, 1, True, "pending")
    assert told(store) == [("UPSERT_CONTEXT", 1)]
