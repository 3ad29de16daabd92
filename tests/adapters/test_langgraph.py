"""Items of LangGraph's store as notes: what its interface promises, and what lying in a store adds to that."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import re
import time
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from agentm import AgentmError, Capabilities, DeviceLocalBackend, Memory, MemoryBackend
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.seam import ROOT, Locator
from agentm.seam.layer import Layer
from tests.adapters.meanwhile import Meanwhile
from tests.adapters.needs import library
from tests.backends.stores import make_store, tree

base = library("langgraph.store.base")

from agentm.adapters.langgraph import AgentmStore  # noqa: E402  # needs what the line above looks for

pytestmark = pytest.mark.spec("FILES-06")


@pytest.fixture(params=["memory", "device-local", "sqlite", "vault"])
def backend(request, tmp_path):
    made = make_store(request.param, str(tmp_path / "store"))
    yield made
    if hasattr(made, "close"):
        made.close()


@pytest.fixture
def store(backend):
    with AgentmStore(backend) as opened:
        yield opened


@pytest.fixture
def quick():
    """On a store in memory, for what has nothing to do with where it lies."""
    with AgentmStore(MemoryBackend()) as opened:
        yield opened


def got(store, namespace, key):
    item = store.get(namespace, key)
    assert item is not None
    return item


def keys(items):
    return [item.key for item in items]


def scores_of(items):
    return {item.key: item.score for item in items}


# One item.


def test_what_is_put_is_got(store):
    value = {
        "text": "Likes tea.\nAnd coffee: ---",
        "n": 1.5,
        "deep": {"list": [1, None, True, "ä 日本 \u2028"]},
        "e": {},
    }
    store.put(("users", "ada"), "prefs", value)
    item = store.get(("users", "ada"), "prefs")
    assert (item.value, item.key, item.namespace) == (value, "prefs", ("users", "ada"))
    assert abs(item.created_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert store.get(("users", "ada"), "other") is None
    assert store.get(("users",), "prefs") is None
    assert store.get(("users", "ada", "prefs"), "x") is None


def test_putting_again_keeps_when_it_came_to_be(store):
    store.put(("a",), "k", {"n": 1})
    first = store.get(("a",), "k")
    store.put(("a",), "k", {"n": 2})
    second = store.get(("a",), "k")
    assert second.value == {"n": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


def test_deleting(store):
    store.put(("a",), "k", {"n": 1})
    store.delete(("a",), "k")
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.search(("a",)) == []
    assert store.list_namespaces() == []


def test_an_item_is_a_note_that_a_person_can_read_and_edit(store, backend):
    store.put(("users", "ada"), "prefs", {"drink": "Oat milk,\nno sugar"})
    place = Locator("langgraph/users/ada/prefs.md")
    text = backend.read(place)
    assert text.startswith("---\n")
    assert "drink: Oat milk,\nno sugar\n" in text
    backend.write(place, text.replace('"Oat milk', '"Soy milk'))
    assert got(store, ("users", "ada"), "prefs").value == {"drink": "Soy milk,\nno sugar"}


def test_notes_of_others_and_copies_are_no_items(store, backend):
    store.put(("a",), "k", {"n": 1})
    text = backend.read(Locator("langgraph/a/k.md"))
    backend.write(Locator("langgraph/a/readme.md"), "# What this is\n")
    backend.write(Locator("langgraph/a/k (1).md"), text)
    backend.write(Locator("langgraph/b/k.md"), text)
    backend.write(Locator("langgraph/a/data.txt"), text)
    backend.mkdir(Locator("langgraph/a/folder.md"))
    assert [(item.namespace, item.key) for item in store.search(())] == [(("a",), "k")]
    assert [(item.namespace, item.key) for item in store.search((), query="what this is")] == [(("a",), "k")]
    assert store.list_namespaces() == [("a",)]
    assert store.get(("a",), "readme") is None
    assert store.get(("b",), "k") is None


def test_a_broken_file_is_named_and_the_others_are_found(store, backend, caplog):
    store.put(("a",), "k", {"text": "tea"}, ttl=10)
    store.put(("a",), "broken", {"text": "tea"}, ttl=10)
    assert len(store.search(("a",), query="tea")) == 2
    place = Locator("langgraph/a/broken.md")
    backend.write(place, backend.read(place).replace('{"text": "tea"}', '{"text": '))
    with pytest.raises(AgentmError, match=r"langgraph/a/broken\.md") as broken:
        store.get(("a",), "broken")
    assert broken.value.code == "node_broken"
    for ask in (lambda: keys(store.search(())), lambda: keys(store.search(("a",), query="tea"))):
        caplog.clear()
        assert ask() == ["k"]
        assert "langgraph/a/broken.md" in caplog.text
    assert store.list_namespaces() == [("a",)]
    expiring(backend, -1)
    assert store.sweep_ttl() == 1
    store.put(("a",), "broken", {"n": 2})
    assert got(store, ("a",), "broken").value == {"n": 2}


KEPT = Locator("langgraph/a/k.md")


@pytest.mark.parametrize(
    "saved",
    [
        lambda text: f"\ufeff{text}",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text.replace("\n", "\r\n"),
        lambda text: text.partition("\n\n")[0],
        lambda text: text.replace(": ", ":", 4),
    ],
    ids=["byte order mark", "crlf", "both", "no text and no last line break", "no spaces"],
)
def test_as_an_editor_saves_it_it_is_the_same_item(store, backend, saved):
    value = {"text": "tea\nand more", "n": 1}
    store.put(("a",), "k", value, ttl=10)
    first = got(store, ("a",), "k")
    backend.write(KEPT, saved(backend.read(KEPT)))
    assert got(store, ("a",), "k").value == value
    assert [item.value for item in store.search(("a",))] == [value]
    assert [item.value for item in store.search(("a",), query="tea")] == [value]
    backend.write(KEPT, saved(backend.read(KEPT)))
    store.put(("a",), "k", {"n": 2})
    assert (got(store, ("a",), "k").value, got(store, ("a",), "k").created_at) == ({"n": 2}, first.created_at)
    backend.write(KEPT, saved(backend.read(KEPT)))
    store.delete(("a",), "k")
    assert not backend.exists(KEPT)


def with_field(name, said):
    return lambda text: re.sub(f"(?m)^{name}: .*$", f"{name}: {said}", text)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda _: "",
        lambda _: " \n",
        lambda text: text[:2],
        lambda text: text[:9],
        lambda text: text[:20],
        lambda text: text[: text.index("created")],
        lambda text: text[: text.index("tags")],
        lambda text: text.replace("\n", "\r\n")[:30],
        lambda text: re.sub("(?m)^value: .*\n", "", text),
        lambda text: re.sub("(?m)^namespace: .*\n", "", text),
        with_field("value", "[1]"),
        with_field("value", "null"),
        with_field("namespace", '"a"'),
        with_field("namespace", "[1]"),
        with_field("key", "7"),
        with_field("ttl", '"ten"'),
        with_field("expires", '"2030-01-01"'),
        with_field("updated", "7"),
        lambda text: text.replace("ttl: ", "index: 5\nttl: "),
    ],
)
def test_a_damaged_item_is_an_error_that_names_it_and_never_nothing(store, backend, damaged, caplog):
    store.put(("a",), "k", {"text": "tea"}, ttl=10)
    store.put(("a",), "other", {"text": "tea"})
    backend.write(KEPT, damaged(backend.read(KEPT)))
    with pytest.raises(AgentmError, match=r"langgraph/a/k\.md") as broken:
        store.get(("a",), "k")
    assert broken.value.code == "node_broken"
    assert keys(store.search(())) == ["other"]
    assert "langgraph/a/k.md" in caplog.text
    assert store.sweep_ttl() == 0
    assert backend.exists(KEPT)
    store.put(("a",), "k", {"n": 2})
    assert got(store, ("a",), "k").value == {"n": 2}
    backend.write(KEPT, damaged(backend.read(KEPT)) or " ")
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None


def test_putting_over_a_damaged_item_keeps_when_it_came_to_be_where_that_can_be_read(store, backend, caplog):
    store.put(("a",), "k", {"n": 1})
    first = got(store, ("a",), "k")
    backend.write(KEPT, with_field("value", "{")(backend.read(KEPT)))
    store.put(("a",), "k", {"n": 2})
    assert got(store, ("a",), "k").created_at == first.created_at
    assert "langgraph/a/k.md" in caplog.text


@pytest.mark.parametrize(
    "note",
    ["# My plan\n", "---\ntags: [mine]\n---\n\nText\n", "---\n\nA line above\n", "---\nkey: C major\n---\nSong\n"],
)
def test_a_note_of_somebodys_own_is_neither_written_over_nor_removed(store, backend, note):
    backend.write(KEPT, note)
    assert store.get(("a",), "k") is None
    with pytest.raises(FileExistsError, match=r"langgraph/a/k\.md"):
        store.put(("a",), "k", {"n": 1})
    store.delete(("a",), "k")
    assert backend.read(KEPT) == note
    assert store.search(()) == []


def test_a_copy_of_another_item_is_neither_written_over_nor_removed(store, backend):
    store.put(("a",), "k", {"n": 1})
    copy = backend.read(KEPT)
    backend.write(Locator("langgraph/b/k.md"), copy)
    backend.mkdir(Locator("langgraph/b/folder.md"))
    with pytest.raises(FileExistsError):
        store.put(("b",), "k", {"n": 2})
    store.delete(("b",), "k")
    store.delete(("b",), "folder")
    assert backend.read(Locator("langgraph/b/k.md")) == copy
    assert backend.exists(Locator("langgraph/b/folder.md"))


def test_a_note_that_comes_while_an_item_is_deleted_stays(backend):
    shared = Meanwhile(backend)
    with AgentmStore(shared) as store:
        store.put(("a",), "k", {"n": 1})
        shared.happens = lambda: backend.write(KEPT, "# My plan\n")
        store.delete(("a",), "k")
    assert backend.read(KEPT) == "# My plan\n"


def test_what_is_put_while_it_is_deleted_goes_as_well(backend):
    shared = Meanwhile(backend)
    with AgentmStore(shared) as store, AgentmStore(backend) as other:
        store.put(("a",), "k", {"n": 1})
        shared.happens = lambda: other.put(("a",), "k", {"n": 2})
        store.delete(("a",), "k")
        assert store.get(("a",), "k") is None


def test_what_cannot_be_read_or_leads_out_leaves_the_others_as_they_are(tmp_path):
    (tmp_path / "outside").mkdir()
    backend = DeviceLocalBackend(tmp_path / "store")
    with AgentmStore(backend) as store:
        store.put(("a",), "k", {"text": "tea"}, ttl=10)
        store.put(("outside",), "k", {"text": "tea of others"})
        folder = tmp_path / "store/langgraph"
        (folder / "outside/k.md").rename(tmp_path / "outside/k.md")
        (folder / "outside").rmdir()
        (folder / "outside").symlink_to(tmp_path / "outside")
        (folder / "a/round").symlink_to(folder / "a/round")
        (folder / "a/round.md").symlink_to(folder / "a/round.md")
        (folder / "a/up").symlink_to(folder)
        (folder / "a/bytes.md").write_bytes(b"---\nnamespace: \xff\n---\n")
        (folder / "a/shut").mkdir(mode=0o000)
        assert keys(store.search(())) == keys(store.search((), query="tea")) == ["k"]
        assert store.list_namespaces() == [("a",)]
        assert store.sweep_ttl() == 0
        for ask in (
            lambda: store.get(("outside",), "k"),
            lambda: store.put(("outside",), "k", {}),
            lambda: store.search(("outside",)),
        ):
            with pytest.raises(base.InvalidNamespaceError):
                ask()
    assert "tea of others" in (tmp_path / "outside/k.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("value", [{"x": object()}, {"x": {1, 2}}, {"x": b"bytes"}])
def test_what_is_no_json_is_refused(quick, value):
    with pytest.raises(ValueError, match="JSON"):
        quick.put(("a",), "k", value)
    assert quick.get(("a",), "k") is None


# Names.

ODD = [
    *(
        "prefs",
        "Prefs",
        "PREFS",
        "prefs.md",
        "prefs/",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        " ",
        "-",
        "~",
        "con",
        "COM1",
        "a\nb",
    ),
    *(
        "ä",
        unicodedata.normalize("NFD", "ä"),
        "Ä",
        "日本",
        "日本 ",
        "ſ",
        "s",
        "K",
        "k",
        "x" * 500,
        "x" * 499 + "X",
        "a:b",
        "*",
    ),
    *("prefs~0", "\0", "%2e%2e", "👩\u200d💻", ".hidden", "note (1)", "k (Ann's conflicted copy 2025-03-17)"),
]


def test_odd_keys_are_all_different(store, backend):
    for number, key in enumerate(ODD):
        store.put(("odd",), key, {"n": number})
    assert [got(store, ("odd",), key).value["n"] for key in ODD] == list(range(len(ODD)))
    assert {item.key: item.value["n"] for item in store.search((), limit=100)} == {k: n for n, k in enumerate(ODD)}
    names = [place.name for place in backend.list(Locator("langgraph/odd"))]
    assert len({unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold()) for name in names}) == len(
        ODD
    )
    assert all(re.fullmatch(r"[a-z0-9_~-]{1,200}\.md", name) for name in names)
    for key in ODD:
        store.delete(("odd",), key)
    assert store.search(()) == []


def test_odd_namespaces_are_all_different(store):
    labels = [label for label in ODD if label and "." not in label and "\0" not in label]
    for number, label in enumerate(labels):
        store.put(("odd", label), "k", {"n": number})
    assert [got(store, ("odd", label), "k").value["n"] for label in labels] == list(range(len(labels)))
    assert store.list_namespaces() == sorted(("odd", label) for label in labels)
    assert [len(store.search(("odd", label))) for label in labels] == [1] * len(labels)


LABELS = st.text(st.characters(exclude_characters=".\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=60)
@given(st.dictionaries(st.tuples(LABELS, st.text(max_size=12)), st.integers(), max_size=6))
def test_no_key_gets_another_ones_item(wanted):
    store = AgentmStore(MemoryBackend())
    for (label, key), value in wanted.items():
        store.put(("odd", label), key, {"v": value})
    for (label, key), value in wanted.items():
        item = got(store, ("odd", label), key)
        assert (item.value, item.key, item.namespace) == ({"v": value}, key, ("odd", label))
    assert len(store.search((), limit=100)) == len(wanted)


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("a", ""), ("langgraph",), (1,)])
def test_namespaces_that_langgraph_refuses(quick, namespace):
    with pytest.raises(base.InvalidNamespaceError):
        quick.put(namespace, "k", {})
    assert tree(quick._backend) == {}


def test_a_namespace_that_a_batch_may_hold_is_no_other_one(quick):
    quick.batch([base.PutOp(namespace, "k", {"n": namespace}) for namespace in (("a.b",), ("a", "b"), ("a/b",), ())])
    for namespace in (("a.b",), ("a", "b"), ("a/b",), ()):
        [item] = quick.batch([base.GetOp(namespace, "k")])
        assert (item.namespace, item.value) == (namespace, {"n": list(namespace)})


# Searching.


def test_without_a_query_what_changed_last_comes_first(quick):
    for key in "abc":
        quick.put(("n",), key, {"kind": key})
    quick.put(("n",), "a", {"kind": "a", "again": True})
    quick.put(("nn",), "z", {})
    assert keys(quick.search(("n",))) == ["a", "c", "b"]
    assert keys(quick.search(("n",), limit=1, offset=1)) == ["c"]
    assert keys(quick.search(())) == ["z", "a", "c", "b"]
    assert [item.score for item in quick.search(("n",))] == [None] * 3


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"color": "red"}, "ab"),
        ({"color": "red", "score": {"$gt": 3}}, "a"),
        ({"score": {"$gte": 3.0, "$lt": 4.5}}, "bc"),
        ({"score": {"$lte": 3}}, "b"),
        ({"score": {"$ne": 3}}, "acd"),
        ({"color": {"$eq": "green"}}, "c"),
        ({"deep": {"x": 1}}, "c"),
        ({"deep": {"x": {"$gt": 0}}}, "c"),
        ({"tags": ["p", "q"]}, "d"),
        ({"tags": ["p"]}, ""),
        ({"color": {"$gt": 3}}, ""),
        ({"day": {"$gt": "2026-01-01"}}, "d"),
        ({"none": None}, "abcd"),
    ],
)
def test_filters(quick, wanted, found):
    values = {
        "a": {"color": "red", "score": 4.5},
        "b": {"color": "red", "score": 3},
        "c": {"color": "green", "score": 4, "deep": {"x": 1, "y": 2}},
        "d": {"tags": ["p", "q"], "day": "2026-03-15"},
    }
    for key, value in values.items():
        quick.put(("n",), key, value)
    assert sorted(keys(quick.search(("n",), filter=wanted))) == list(found)


def test_an_operator_that_is_none(quick):
    quick.put(("n",), "a", {"x": 1})
    with pytest.raises(ValueError, match="operator"):
        quick.search(("n",), filter={"x": {"$like": 1}})


def test_a_query_is_answered_in_the_order_of_the_recall(store):
    store.put(("users", "ada"), "tea", {"text": "Ada drinks green tea in the morning."})
    store.put(("users", "ada"), "loom", {"text": "Ada builds looms in Malmö."})
    store.put(("users", "bob"), "tea", {"text": "Bob drinks black tea."})
    found = store.search(("users", "ada"), query="what tea does she drink?")
    assert keys(found) == ["tea", "loom"]
    assert found[0].score > found[1].score
    assert {item.namespace for item in found} == {("users", "ada")}
    assert keys(store.search(("users",), query="looms", limit=1)) == ["loom"]
    assert {item.namespace[1] for item in store.search(("users",), query="tea", limit=2)} == {"ada", "bob"}
    store.put(("users", "ada"), "loom", {"text": "Ada has sold her bicycle."})
    store.delete(("users", "ada"), "tea")
    [found] = store.search(("users",), query="bicycle", limit=1)
    assert found.key == "loom"
    assert found.score > 0
    assert keys(store.search(("users", "ada"), query="tea")) == ["loom"]


def test_words_after_a_line_break_are_found(quick):
    quick.put(("n",), "a", {"text": "first line\nzebra crossing"})
    quick.put(("n",), "b", {"text": "first line\nnothing"})
    assert keys(quick.search(("n",), query="zebra"))[0] == "a"


def test_a_query_with_a_filter_and_pages(quick):
    for number in range(12):
        quick.put(("n",), f"k{number:02d}", {"text": f"tea number {number}", "even": number % 2 == 0})
    pages = [quick.search(("n",), query="tea", filter={"even": True}, limit=2, offset=at) for at in (0, 2, 4)]
    assert sorted(key for page in pages for key in keys(page)) == [f"k{number:02d}" for number in range(0, 12, 2)]


@pytest.mark.slow
def test_many_items_of_another_namespace_do_not_crowd_out(quick):
    """More than one recall gives at most."""
    quick.put(("mine",), "a", {"text": "a little about tea, and much about other things of the day"})
    quick.batch([base.PutOp(("theirs",), f"k{number}", {"text": "tea tea tea"}) for number in range(1100)])
    assert [(item.key, item.score > 0) for item in quick.search(("mine",), query="tea")] == [("a", True)]


def test_only_what_is_named_is_indexed(quick):
    quick.put(("n",), "whole", {"title": "zebra", "body": {"text": "tea"}})
    quick.put(("n",), "part", {"title": "zebra", "body": {"text": "tea"}}, index=["body.text"])
    quick.put(("n",), "none", {"title": "zebra", "body": {"text": "tea"}}, index=False)
    scores = scores_of(quick.search(("n",), query="zebra"))
    assert scores["whole"] > 0
    assert (scores["part"], scores["none"]) == (0.0, None)
    scores = scores_of(quick.search(("n",), query="tea"))
    assert scores["part"] > 0
    assert scores["none"] is None


def test_fields_of_the_store_are_what_items_are_found_by():
    with AgentmStore(MemoryBackend(), fields=["text"]) as store:
        store.put(("n",), "a", {"text": "tea", "other": "zebra"})
        store.put(("n",), "b", {"text": "zebra", "other": "tea"})
        store.put(("n",), "c", {"text": "x", "other": "zebra"}, index=["$"])
        scores = scores_of(store.search(("n",), query="zebra"))
    assert scores["a"] == 0
    assert scores["b"] > 0
    assert scores["c"] > 0


def test_recall_finds_items_too(store, backend):
    store.put(("users", "ada"), "prefs", {"text": "Ada takes oat milk in her coffee."})
    with Memory.open(backend, notes=True) as memory:
        memory.catch_up()
        assert [entry.uri for entry in memory.recall("oat milk")] == ["langgraph/users/ada/prefs.md"]


def test_searching_again_costs_what_was_put_and_not_a_look_at_the_whole_store(backend):
    class Looks(Layer):
        many = 0

        def changes(self, seen, below=ROOT, *, skip=()):
            self.many += 1
            return super().changes(seen, below, skip=skip)

    looks, started = Looks(backend), time.monotonic()
    with AgentmStore(looks) as store:
        for number in range(20):
            store.put(("n",), "same", {"text": f"zebra{number}"})
            store.put(("n",), f"k{number}", {"text": f"tea{number}"})
            for query, key in ((f"zebra{number}", "same"), (f"tea{number}", f"k{number}")):
                [(found, score)] = scores_of(store.search(("n",), query=query, limit=1)).items()
                assert found == key
                assert score > 0
            store.delete(("n",), f"k{number}")
            assert keys(store.search(("n",), query=f"tea{number}")) == ["same"]
    assert looks.many <= 2 + (time.monotonic() - started)


def test_nobody_waits_for_a_note_that_cannot_be_read(backend):
    class Failing(Layer):
        def read(self, locator):
            if locator.name == "bad.md":
                raise OSError(errno.EIO, "Input/output error")
            return super().read(locator)

    backend.write(Locator("notes/bad.md"), "tea")
    many, started = 8, time.monotonic()
    with AgentmStore(Failing(backend)) as store:
        for number in range(many):
            store.put(("n",), "k", {"text": f"tea{number}"})
            assert scores_of(store.search(("n",), query=f"tea{number}"))["k"] > 0
    assert time.monotonic() - started < many  # who waits, waits a second each time


def test_what_was_indexed_stays_indexed(store, backend, home):
    store.put(("n",), "a", {"text": "tea"})
    store.search(("n",), query="tea")
    if hasattr(backend, "root") or hasattr(backend, "path"):
        with Memory.open(backend, notes=True) as memory:
            assert memory.status()["index"]["sources"] == 1


def test_a_store_whose_notes_cannot_be_indexed_says_so():
    class Plain(MemoryBackend):
        @property
        def capabilities(self):
            return Capabilities(remove=True)

    store = AgentmStore(Plain())
    store.put(("n",), "a", {"text": "tea"})
    assert keys(store.search(("n",))) == ["a"]
    with pytest.raises(NotImplementedError, match="change_feed"):
        store.search(("n",), query="tea")


# Namespaces.


def test_listing_namespaces(quick):
    there = [
        *(
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "b", "d", "i"),
            ("a", "b", "f"),
            ("a", "c", "f"),
            ("b", "a", "f"),
        ),
        *(("users", "123"), ("users", "456", "settings")),
    ]
    for namespace in there:
        quick.put(namespace, "k", {})
    assert quick.list_namespaces() == sorted(there)
    assert quick.list_namespaces(prefix=("a", "b")) == there[:4]
    assert quick.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]
    assert quick.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert quick.list_namespaces(suffix=("*", "settings")) == [("users", "456", "settings")]
    assert quick.list_namespaces(prefix=("a",), suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert quick.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
    assert quick.list_namespaces(prefix=("a", "b"), limit=2, offset=1) == there[1:3]
    assert quick.list_namespaces(prefix=("users", "123", "x")) == []


# Batches.


def test_a_batch_answers_in_order_and_writes_last(quick):
    quick.put(("n",), "a", {"n": 1})
    one, nothing, found, listed, again = quick.batch(
        [
            base.GetOp(("n",), "a"),
            base.PutOp(("n",), "a", {"n": 2}),
            base.SearchOp(("n",)),
            base.ListNamespacesOp(),
            base.PutOp(("n",), "a", {"n": 3}),
        ]
    )
    assert (one.value, nothing, keys(found), listed, again) == ({"n": 1}, None, ["a"], [("n",)], None)
    assert got(quick, ("n",), "a").value == {"n": 3}


@pytest.mark.parametrize(
    "asked",
    [
        "x",
        None,
        base.SearchOp(("n",), limit=-1),
        base.SearchOp(("n",), offset=-1),
        base.SearchOp(("n",), query="tea", limit=-1),
        base.ListNamespacesOp(limit=-1),
        base.ListNamespacesOp(offset=-1),
    ],
    ids=repr,
)
def test_a_batch_with_what_cannot_be_answered_writes_nothing(quick, asked):
    with pytest.raises(ValueError, match=r"operation|limit|offset") as refused:
        quick.batch([base.PutOp(("n",), "a", {"n": 1}), asked])
    assert isinstance(refused.value, AgentmError)
    assert quick.get(("n",), "a") is None


def test_the_asynchronous_twins(store):
    async def both():
        await asyncio.gather(*(store.aput(("n",), f"k{n}", {"text": f"tea {n}"}) for n in range(10)))
        assert (await store.aget(("n",), "k3")).value == {"text": "tea 3"}
        assert len(await store.asearch(("n",), query="tea", limit=20)) == 10
        assert await store.alist_namespaces() == [("n",)]
        await store.adelete(("n",), "k3")
        assert await store.aget(("n",), "k3") is None

    asyncio.run(both())


def test_searches_that_come_first_all_at_once(store):
    store.put(("n",), "a", {"text": "tea"})

    async def all_at_once():
        return await asyncio.gather(*(store.asearch(("n",), query="tea") for _ in range(8)))

    assert [[item.score > 0 for item in found] for found in asyncio.run(all_at_once())] == [[True]] * 8


# Time to live.


def expiring(backend, minutes):
    """Let the item ``k`` of ``a`` expire so many minutes from now, as if time had passed."""
    place = Locator("langgraph/a/k.md")
    moment = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    backend.write(place, re.sub(r'(?m)^expires: ".*"$', f'expires: "{moment}"', backend.read(place)))


def minutes_left(backend):
    [said] = re.findall(r'(?m)^expires: "(.*)"$', backend.read(Locator("langgraph/a/k.md")))
    return (datetime.fromisoformat(said) - datetime.now(UTC)).total_seconds() / 60


def test_what_has_expired_is_not_shown_and_goes_with_the_sweep(store, backend):
    store.put(("a",), "k", {"text": "tea"}, ttl=10)
    store.put(("b",), "stays", {"text": "tea"})
    assert store.sweep_ttl() == 0
    assert got(store, ("a",), "k").value == {"text": "tea"}
    expiring(backend, -1)
    assert store.get(("a",), "k") is None
    assert keys(store.search(())) == ["stays"]
    assert keys(store.search((), query="tea")) == ["stays"]
    assert store.list_namespaces() == [("b",)]
    assert backend.exists(Locator("langgraph/a/k.md"))
    assert store.sweep_ttl() == 1
    assert not backend.exists(Locator("langgraph/a/k.md"))
    assert store.sweep_ttl() == 0


def test_a_put_brings_back_what_has_expired(quick):
    quick.put(("a",), "k", {"n": 1}, ttl=10)
    expiring(quick._backend, -1)
    quick.put(("a",), "k", {"n": 2})
    assert got(quick, ("a",), "k").value == {"n": 2}
    assert quick.sweep_ttl() == 0


def test_expired_items_are_shown_where_that_is_asked_for():
    backend = MemoryBackend()
    store = AgentmStore(backend, ttl={"omit_expired": False, "refresh_on_read": False})
    store.put(("a",), "k", {"n": 1}, ttl=10)
    expiring(backend, -1)
    assert got(store, ("a",), "k").value == {"n": 1}
    assert store.sweep_ttl() == 1


@pytest.mark.parametrize(
    "read", [lambda store, **how: store.get(("a",), "k", **how), lambda store, **how: store.search(("a",), **how)]
)
def test_reading_lets_an_item_live_on(read):
    backend = MemoryBackend()
    store = AgentmStore(backend)
    store.put(("a",), "k", {"n": 1}, ttl=100)
    updated = got(store, ("a",), "k").updated_at
    expiring(backend, 5)
    read(store, refresh_ttl=False)
    assert minutes_left(backend) < 6
    read(AgentmStore(backend, ttl={"refresh_on_read": False}))
    assert minutes_left(backend) < 6
    read(store)
    assert minutes_left(backend) > 99
    assert got(store, ("a",), "k").updated_at == updated


def test_the_default_of_the_store_and_its_sweep():
    backend = MemoryBackend()
    store = AgentmStore(backend, ttl={"default_ttl": 30, "sweep_interval_minutes": 60})
    store.put(("a",), "k", {"n": 1})
    assert 29 < minutes_left(backend) <= 30
    store.put(("b",), "for ever", {"n": 1}, ttl=None)
    expiring(backend, -1)
    later = AgentmStore(backend, ttl={"sweep_interval_minutes": 60})
    assert got(later, ("b",), "for ever").value == {"n": 1}
    assert not backend.exists(Locator("langgraph/a/k.md"))


def test_a_sweep_spares_what_somebody_read_or_put_meanwhile(backend):
    shared = Meanwhile(backend)
    store = AgentmStore(shared)
    for again in (lambda: AgentmStore(backend).put(("a",), "k", {"n": 2}, ttl=10), lambda: expiring(backend, 5)):
        store.put(("a",), "k", {"n": 1}, ttl=10)
        expiring(backend, -1)
        shared.happens = again
        assert store.sweep_ttl() == 0
        assert store.get(("a",), "k") is not None


def test_a_sweep_spares_what_is_put_at_the_last_moment(backend):
    shared = Meanwhile(backend)
    store = AgentmStore(shared)
    store.put(("a",), "k", {"n": 1}, ttl=10)
    expiring(backend, -1)

    def at_the_second_look():
        shared.happens = lambda: AgentmStore(backend).put(("a",), "k", {"n": 2}, ttl=10)

    shared.happens = at_the_second_look
    assert store.sweep_ttl() == 0
    assert got(store, ("a",), "k").value == {"n": 2}


def test_living_on_does_not_undo_what_somebody_put_meanwhile(backend):
    shared = Meanwhile(backend)
    store = AgentmStore(shared)
    store.put(("a",), "k", {"n": 1}, ttl=10)
    shared.happens = lambda: AgentmStore(backend).put(("a",), "k", {"n": 2}, ttl=10)
    assert got(store, ("a",), "k").value == {"n": 1}
    assert got(store, ("a",), "k").value == {"n": 2}
    shared.happens = lambda: AgentmStore(backend).delete(("a",), "k")
    assert got(store, ("a",), "k").value == {"n": 2}
    assert store.get(("a",), "k") is None


# Borders, and others at work.


def test_a_scope_is_a_border(backend):
    everything = AgentmStore(backend)
    everything.put(("mine",), "a", {"text": "tea of mine"})
    everything.put(("theirs",), "b", {"text": "tea of theirs"})
    scope = ScopedStorageScope(read=["/langgraph/mine"], write=["/langgraph/mine"])
    with AgentmStore(ScopedBackend(backend, scope)) as store:
        store.put(("mine",), "c", {"text": "more tea"})
        assert sorted(keys(store.search(()))) == ["a", "c"]
        assert sorted(keys(store.search((), query="tea"))) == ["a", "c"]
        assert store.list_namespaces() == [("mine",)]
        for ask in (
            lambda key: store.get(("theirs",), key),
            lambda key: store.put(("theirs",), key, {}),
            lambda key: store.delete(("theirs",), key),
            lambda key: store.search(("theirs",)),
        ):
            said = set()
            for key in ("b", "nothing"):
                with pytest.raises(base.InvalidNamespaceError) as refused:
                    ask(key)
                said.add(str(refused.value))
            assert len(said) == 1
            assert "mine" not in said.pop()
    assert got(everything, ("theirs",), "b").value == {"text": "tea of theirs"}


def test_who_may_only_read_reads_what_would_be_refreshed(backend):
    AgentmStore(backend).put(("a",), "k", {"n": 1}, ttl=10)
    store = AgentmStore(ScopedBackend(backend, ScopedStorageScope(read=["/langgraph"])))
    assert got(store, ("a",), "k").value == {"n": 1}


def test_without_a_backend_it_is_the_configured_store(home):
    AgentmStore().put(("a",), "k", {"n": 1})
    assert got(AgentmStore(DeviceLocalBackend(f"{home}/.agentm/memory")), ("a",), "k").value == {"n": 1}


def test_the_folder_can_be_another(backend):
    AgentmStore(backend, folder="stores/one").put(("a",), "k", {"n": 1})
    assert AgentmStore(backend, folder="stores/two").get(("a",), "k") is None
    assert backend.list(ROOT) == [Locator("stores")]


def _put_many(root, who, many, together):
    store = AgentmStore(DeviceLocalBackend(root))
    together.wait(60)
    for n in range(many):
        store.put(("shared",), f"{who}{n}", {"who": who})
        store.put(("shared",), "both", {"who": who, "n": n})


@pytest.mark.slow
def test_two_processes_put_and_nothing_is_lost(tmp_path):
    many = 30
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    workers = [context.Process(target=_put_many, args=(str(tmp_path), who, many, together)) for who in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    store = AgentmStore(DeviceLocalBackend(tmp_path))
    found = keys(store.search(("shared",), limit=1000))
    assert sorted(found) == sorted([f"{who}{n}" for who in "ab" for n in range(many)] + ["both"])
    assert got(store, ("shared",), "both").value["n"] == many - 1


@pytest.mark.slow
def test_what_another_process_put_is_searched(tmp_path):
    with AgentmStore(DeviceLocalBackend(tmp_path)) as store:
        store.put(("shared",), "mine", {"text": "tea"})
        assert keys(store.search(("shared",), query="tea")) == ["mine"]
        context = multiprocessing.get_context("spawn")
        alone = context.Barrier(1)
        worker = context.Process(target=_put_many, args=(str(tmp_path), "zebra", 1, alone))
        worker.start()
        worker.join(120)
        until, found = time.monotonic() + 60, ["mine"]
        while found == ["mine"] and time.monotonic() < until:
            found = keys(store.search(("shared",), query="zebra", limit=1))
        assert found != ["mine"]
