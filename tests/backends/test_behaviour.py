"""One behaviour for all built-in stores: the seven verbs, clause by clause."""

from __future__ import annotations

import time

import pytest

from agentm import Capabilities, Info, InvalidLocatorError, Locator
from agentm.seam import ROOT
from tests.backends.stores import at, refused, tree

TEXTS = {
    "lf": "one\ntwo\n",
    "crlf": "one\r\ntwo\r\n",
    "bare cr": "one\rtwo\r",
    "mixed": "a\r\nb\nc\rd\n\r",
    "no final newline": "one\ntwo",
    "empty": "",
    "only newlines": "\n\n\n",
    "non-ascii": "grüße, 世界, 🧠🏽‍🔬, e\u0301",
    "byte order mark": "\ufeffmarked",
    "nul and controls": "a\0b\x1b[0m\x7f\x85\u2028",
}


@pytest.mark.spec("SEAM-05", "SEAM-17")
def test_a_new_store_is_an_empty_root(backend):
    assert tree(backend) == {}
    assert backend.exists(ROOT)
    assert backend.info(ROOT).is_dir


@pytest.mark.spec("SEAM-04", "SEAM-09")
def test_what_each_store_promises(backend, protocol):
    abilities = ("remove", "rename", "append", "compare_and_swap", "change_feed", "lock", "write_many")
    able = dict.fromkeys(abilities, True)
    expected = {
        "memory": Capabilities(**able, watch=True),
        "device-local": Capabilities(**able),
        "vault": Capabilities(**able, concurrent_writers=True, conflict_files=True, sync=True),
        "sqlite": Capabilities(**able, concurrent_writers=True, watch=True),
    }
    assert backend.capabilities == expected[protocol]
    assert backend.conflict_strategy == ("whole-file" if protocol == "vault" else "none")


# resolve


@pytest.mark.spec("SEAM-02", "SEAM-05")
def test_resolve_names_a_place_and_touches_nothing(backend):
    assert backend.resolve() == ROOT
    assert backend.resolve("notes", "2026/today.md") == Locator("notes/2026/today.md")
    assert backend.resolve("/notes/", "./x") == Locator("notes/x")
    assert tree(backend) == {}


@pytest.mark.spec("SEAM-01", "SEAM-05")
@pytest.mark.parametrize("parts", [("..",), ("a", "../b"), ("a\\b",), ("a\0b",)])
def test_resolve_refuses_a_key_that_leaves_the_store(backend, parts):
    with pytest.raises(InvalidLocatorError):
        backend.resolve(*parts)


# write and read


@pytest.mark.spec("SEAM-06", "SEAM-07")
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_comes_back_exactly(backend, text):
    place = at("notes/today.md")
    assert backend.write(place, text) == place
    assert backend.read(place) == text
    assert backend.info(place).size == len(text.encode())


@pytest.mark.spec("SEAM-06", "SEAM-07")
def test_five_megabytes_come_back_exactly(backend):
    text = "".join(f"line {n}: ünïcode\r\n" for n in range(250_000))
    assert len(text.encode()) > 5_000_000
    backend.write(at("big.md"), text)
    assert backend.read(at("big.md")) == text
    backend.write(at("big.md"), "small")
    assert backend.read(at("big.md")) == "small"


@pytest.mark.spec("SEAM-06")
def test_write_replaces_the_whole_text(backend):
    backend.write(at("a"), "a long first text")
    backend.write(at("a"), "short")
    assert tree(backend) == {"a": "short"}


@pytest.mark.spec("SEAM-06")
def test_write_makes_parents(backend):
    backend.write(at("a/b/c/d.md"), "x")
    assert tree(backend) == {"a": None, "a/b": None, "a/b/c": None, "a/b/c/d.md": "x"}


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["nothing", "no/such/place", "file/below"])
def test_read_of_nothing(backend, key):
    backend.write(at("file"), "x")
    with refused(backend, FileNotFoundError, "not_found", "read", key):
        backend.read(at(key))


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["", "dir"])
def test_read_of_a_directory(backend, key):
    backend.mkdir(at("dir"))
    with refused(backend, IsADirectoryError, "is_directory", "read", key):
        backend.read(at(key))


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["", "dir", "full"])
def test_write_over_a_directory(backend, key):
    backend.mkdir(at("dir"))
    backend.write(at("full/inside"), "x")
    with refused(backend, IsADirectoryError, "is_directory", "write", key):
        backend.write(at(key), "text")


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["file/below", "file/far/below"])
def test_write_through_a_file(backend, key):
    backend.write(at("file"), "x")
    with refused(backend, NotADirectoryError, "not_directory", "write", key):
        backend.write(at(key), "text")


@pytest.mark.spec("SEAM-06", "SEAM-07")
@pytest.mark.parametrize("content", [b"bytes", None, 7, "half of a pair: \ud800"])
@pytest.mark.parametrize("verb", ["write", "append"])
def test_what_is_no_text_is_refused(backend, verb, content):
    backend.write(at("a/old"), "old")
    for key in ("a/old", "b/new"):
        with refused(backend, ValueError, "not_text", verb, key):
            getattr(backend, verb)(at(key), content)


# list


@pytest.mark.spec("SEAM-06")
def test_list_gives_immediate_children_sorted_by_key(backend):
    for key in ("d/b", "d/a/deep", "d/C", "d/a.md", "d/é", "d/a-b", "dd", "c/x"):
        backend.write(at(key), "x")
    backend.mkdir(at("d/empty"))
    expected = sorted(["d/b", "d/a", "d/C", "d/a.md", "d/é", "d/a-b", "d/empty"])
    assert [child.key for child in backend.list(at("d"))] == expected
    assert [child.key for child in backend.list(ROOT)] == ["c", "d", "dd"]


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["nothing", "no/such/place", "file", "file/below", "empty", "x" * 300])
def test_list_of_nothing_a_file_or_an_empty_directory(backend, key):
    backend.write(at("file"), "x")
    backend.mkdir(at("empty"))
    assert backend.list(at(key)) == []


@pytest.mark.spec("SEAM-06")
def test_many_children(backend):
    for n in range(250):
        backend.mkdir(at(f"many/{n}"))
    assert [child.key for child in backend.list(at("many"))] == sorted(f"many/{n}" for n in range(250))


# exists


@pytest.mark.spec("SEAM-06")
def test_exists_is_true_for_files_and_directories_alone(backend):
    backend.write(at("dir/file"), "")
    there = {key: backend.exists(at(key)) for key in ("", "dir", "dir/file", "di", "dir/fil", "dir/file/x", "x/y")}
    assert there == {
        "": True, "dir": True, "dir/file": True, "di": False, "dir/fil": False, "dir/file/x": False, "x/y": False,
    }  # fmt: skip


@pytest.mark.spec("SEAM-06")
def test_exists_flips(backend):
    place = at("a/b")
    assert not backend.exists(place)
    backend.write(place, "x")
    assert backend.exists(place)
    backend.remove(place)
    assert not backend.exists(place)
    assert backend.exists(at("a"))


# info


@pytest.mark.spec("SEAM-03", "SEAM-06")
def test_info_of_a_file_and_a_directory(backend):
    # A file system may stamp with a clock that ticks a little behind.
    before = time.time() - 1
    backend.write(at("dir/file"), "ü\n")
    file, directory = backend.info(at("dir/file")), backend.info(at("dir"))
    assert isinstance(file, Info)
    assert (file.locator, file.is_dir, file.size) == (at("dir/file"), False, 3)
    assert (directory.locator, directory.is_dir, directory.size) == (at("dir"), True, 0)
    for info in (file, directory):
        assert isinstance(info.mtime, float)
        assert before <= info.mtime <= time.time() + 1


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["nothing", "no/such/place", "file/below"])
def test_info_of_nothing(backend, key):
    backend.write(at("file"), "x")
    with refused(backend, FileNotFoundError, "not_found", "info", key):
        backend.info(at(key))


# mkdir


@pytest.mark.spec("SEAM-06")
def test_mkdir_makes_parents_and_may_be_repeated(backend):
    for _ in range(2):
        assert backend.mkdir(at("a/b/c")) == at("a/b/c")
        assert tree(backend) == {"a": None, "a/b": None, "a/b/c": None}
    backend.write(at("a/b/c/x"), "kept")
    backend.mkdir(at("a/b/c"))
    backend.mkdir(at("a"))
    assert backend.mkdir(ROOT) == ROOT
    assert backend.read(at("a/b/c/x")) == "kept"


@pytest.mark.spec("SEAM-06")
def test_mkdir_at_a_file(backend):
    backend.write(at("a/file"), "x")
    with refused(backend, FileExistsError, "already_exists", "mkdir", "a/file"):
        backend.mkdir(at("a/file"))


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", ["file/below", "file/far/below"])
def test_mkdir_through_a_file(backend, key):
    backend.write(at("file"), "x")
    with refused(backend, NotADirectoryError, "not_directory", "mkdir", key):
        backend.mkdir(at(key))
