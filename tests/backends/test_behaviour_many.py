"""One behaviour for all built-in stores: many texts in one call."""

from __future__ import annotations

import os
import stat

import pytest

from agentm import (
    ABSENT,
    ROOT,
    ConcurrentModificationError,
    IsDirectoryError,
    Locator,
    NotDirectoryError,
    NotTextError,
    WriteMany,
    require,
)
from agentm.backends import _batch
from tests.backends.stores import PLAIN_FILES, at, make_store, refused, tree

pytestmark = pytest.mark.spec("SEAM-09")

SIZES = [1, 2, _batch.SMALLEST_BATCH, 40, _batch.LARGEST_BATCH + 44]
"""Below and above what the stores of plain files take for a batch."""


def put(backend, texts):
    return require(backend, WriteMany).write_many([(at(key), text) for key, text in texts])


def some(count, text="text"):
    return [(f"d{n % 5}/e{n % 3}/{n}.md", f"{text} {n}\r\n" * (n % 7)) for n in range(count)]


def files(backend):
    return {key: text for key, text in tree(backend).items() if text is not None}


def test_nothing(backend):
    assert put(backend, []) is None
    assert tree(backend) == {}


@pytest.mark.parametrize("count", SIZES)
def test_new_texts_into_new_directories(backend, count):
    assert put(backend, some(count)) is None
    assert files(backend) == dict(some(count))


@pytest.mark.parametrize("count", SIZES)
def test_other_texts_over_them_and_beside_them(backend, count):
    backend.write(at("bystander"), "untouched")
    put(backend, some(count))
    put(backend, [*some(count, "another text"), *[(f"more/{n}", str(n)) for n in range(count)]])
    expected = {**dict(some(count, "another text")), **{f"more/{n}": str(n) for n in range(count)}}
    assert files(backend) == {**expected, "bystander": "untouched"}


@pytest.mark.spec("SEAM-07", "SEAM-09")
def test_every_text_is_exact(backend):
    texts = ["a\nb", "a\r\nb\r\n", "a\rb", "", "\n", "\ufeffx", "a\0b", "grüße 🧠", "e\u0301", "x" * 300_000]
    put(backend, [(f"exact/{n}", text) for n, text in enumerate(texts)])
    assert [backend.read(at(f"exact/{n}")) for n in range(len(texts))] == texts


@pytest.mark.parametrize("beside", [0, 20])
def test_of_two_texts_for_one_place_the_last_one_wins(backend, beside):
    backend.write(at("a/twice"), "old")
    put(backend, [("a/twice", "first"), *some(beside), ("a/twice", "second"), ("a/twice", "last")])
    assert files(backend) == {**dict(some(beside)), "a/twice": "last"}


def test_the_order_of_a_sequence_is_all_that_is_asked_of_it(backend):
    require(backend, WriteMany).write_many(tuple((at(key), text) for key, text in some(12)))
    assert files(backend) == dict(some(12))


@pytest.mark.parametrize("beside", [1, 20])
@pytest.mark.parametrize(
    ("key", "text", "builtin", "code"),
    [
        ("taken", "x", IsADirectoryError, "is_directory"),
        ("", "x", IsADirectoryError, "is_directory"),
        ("half", "\ud83d", ValueError, "not_text"),
        ("bytes", b"x", ValueError, "not_text"),
        ("a" * 256, "x", OSError, "name_too_long"),
    ],
)
@pytest.mark.parametrize("protocol", [*PLAIN_FILES, "sqlite"])
def test_a_bad_one_among_them_is_refused_by_name_and_nothing_is_written(backend, key, text, builtin, code, beside):
    backend.write(at("taken/file"), "x")
    texts = [*some(beside), (key, text), *[(f"after/{n}", "x") for n in range(beside)]]
    with refused(backend, builtin, code, "write", key):
        put(backend, texts)


def test_a_bad_one_among_them_is_refused_on_every_store(backend):
    backend.mkdir(at("taken"))
    for bad, error in ((("taken", "x"), IsDirectoryError), (("half", "\ud83d"), NotTextError)):
        with pytest.raises(error) as raised:
            put(backend, [*some(10), bad])
        assert raised.value.locator == bad[0]
        assert set(files(backend).items()) <= set(some(10))


@pytest.mark.parametrize("beside", [0, 20])
def test_a_file_in_the_way_is_named(backend, beside):
    backend.write(at("file"), "kept")
    with pytest.raises(NotDirectoryError) as raised:
        put(backend, [*some(beside), ("file/below", "x")])
    assert (raised.value.code, raised.value.locator) == ("not_directory", "file/below")
    assert backend.read(at("file")) == "kept"
    assert set(files(backend).items()) <= {*some(beside), ("file", "kept")}


@pytest.mark.parametrize("beside", [0, 20])
def test_a_file_and_a_place_below_it_cannot_both_be(backend, beside):
    with pytest.raises(NotDirectoryError) as raised:
        put(backend, [("both", "x"), *some(beside), ("both/below/it", "x")])
    assert raised.value.locator == "both/below/it"
    assert set(files(backend).items()) <= {*some(beside), ("both", "x")}


def test_the_root_is_no_place_for_a_text(backend):
    with pytest.raises(IsDirectoryError):
        require(backend, WriteMany).write_many([(at(key), text) for key, text in some(10)] + [(ROOT, "x")])


def test_versions_and_the_feed_know_of_them(backend):
    put(backend, some(10))
    seen = {change.locator.key: change.stamp for change in backend.changes({})}
    versions = {key: backend.read_versioned(at(key)).version for key, _ in some(10)}
    put(backend, some(10, "another text"))
    changed = {key for key, text in some(10) if text}  # the others are empty before and after
    assert {change.locator.key for change in backend.changes(seen)} >= changed
    assert all(backend.read_versioned(at(key)).version != versions[key] for key in changed)


@pytest.mark.parametrize("protocol", PLAIN_FILES)
class TestPlainFiles:
    def test_modes_are_kept(self, backend):
        put(backend, some(10))
        path = os.path.join(backend.root, "d1", "e1", "1.md")
        os.chmod(path, 0o640)
        put(backend, some(10, "new"))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o640

    def test_a_link_is_not_written_through(self, backend, tmp_path):
        (tmp_path / "outside").write_text("kept")
        os.symlink(tmp_path / "outside", os.path.join(backend.root, "link"))
        with refused(backend, OSError, "symlink_refused", "write", "link"):
            put(backend, [*some(20), ("link", "x")])
        assert (tmp_path / "outside").read_text() == "kept"

    def test_a_linked_directory_among_many(self, backend, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        os.symlink(outside, os.path.join(backend.root, "linked"))
        with pytest.raises(OSError, match=r"linked/note.*symbolic link"):
            put(backend, [*some(10), ("linked/note", "x")])
        assert os.listdir(outside) == []

    def test_nothing_of_its_own_stays_in_the_tree(self, backend):
        for text in ("old", "new"):
            put(backend, some(300, text))
            assert sorted(os.listdir(backend.root)) == [f"d{n}" for n in range(5)]


@pytest.mark.parametrize("protocol", ["device-local", "vault"])
def test_a_rival_between_the_look_and_the_placing_is_not_written_over(protocol, tmp_path, monkeypatch):
    store, rival = make_store(protocol, str(tmp_path)), make_store(protocol, str(tmp_path))
    texts = [(Locator(f"{n}.md"), "ours") for n in range(20)]
    real = _batch.Batch.flush

    def flush(batch):
        rival.write(Locator("7.md"), "theirs")
        real(batch)

    monkeypatch.setattr(_batch.Batch, "flush", flush)
    with pytest.raises(ConcurrentModificationError):
        store.write_many(texts, if_versions=dict.fromkeys((one for one, _ in texts), ABSENT))
    assert store.read(Locator("7.md")) == "theirs"
