"""One behaviour for all built-in stores: remove, rename, append and compare-and-swap, clause by clause."""

from __future__ import annotations

import threading

import pytest

from agentm import ABSENT, ConcurrentModificationError, UnsupportedAbilityError, require, update
from agentm.seam import (
    ABILITIES,
    ROOT,
    Append,
    ChangeFeed,
    CompareAndSwap,
    Lock,
    Remove,
    Rename,
    StorageBackend,
    Versioned,
    Watch,
    WriteMany,
)
from tests.backends.stores import at, refused, tree

pytestmark = pytest.mark.spec("SEAM-09")


@pytest.mark.parametrize("ability", [Remove, Rename, Append, CompareAndSwap, ChangeFeed, Watch, Lock, WriteMany])
def test_an_ability_is_given_exactly_when_it_is_declared(backend, ability):
    [flag] = [name for name, (protocol, _) in ABILITIES.items() if protocol is ability]
    if getattr(backend.capabilities, flag):
        assert require(backend, ability) is backend
    else:
        with pytest.raises(UnsupportedAbilityError) as raised:
            require(backend, ability)
        assert (raised.value.code, raised.value.verb) == ("ability_unsupported", flag)
        assert str(raised.value).endswith(".")


# remove


def test_remove_takes_a_file_or_an_empty_directory_and_leaves_the_parents(backend):
    backend.write(at("a/b/file"), "x")
    backend.write(at("a/bb"), "neighbour")
    backend.remove(at("a/b/file"))
    assert tree(backend) == {"a": None, "a/b": None, "a/bb": "neighbour"}
    backend.remove(at("a/b"))
    assert tree(backend) == {"a": None, "a/bb": "neighbour"}


@pytest.mark.parametrize("key", ["nothing", "no/such/place", "file/below"])
def test_remove_of_nothing(backend, key):
    backend.write(at("file"), "x")
    with refused(backend, FileNotFoundError, "not_found", "remove", key):
        backend.remove(at(key))


def test_remove_of_a_directory_that_holds_something(backend):
    backend.write(at("a/b/file"), "x")
    for key in ("a", "a/b"):
        with refused(backend, OSError, "not_empty", "remove", key):
            backend.remove(at(key))


@pytest.mark.parametrize("fill", [False, True])
def test_remove_of_the_root(backend, fill):
    if fill:
        backend.write(at("file"), "x")
    with refused(backend, OSError, "is_root", "remove", ""):
        backend.remove(ROOT)
    assert backend.exists(ROOT)


def test_remove_against_a_version(backend):
    backend.write(at("file"), "old")
    old = backend.read_versioned(at("file")).version
    backend.write(at("file"), "new")
    with refused(backend, RuntimeError, "concurrent_modification", "remove", "file") as raised:
        backend.remove(at("file"), if_version=old)
    assert raised.value.expected == old
    backend.remove(at("file"), if_version=raised.value.current)
    assert tree(backend) == {}


def test_remove_against_a_version_where_nothing_is(backend):
    backend.write(at("file"), "x")
    version = backend.read_versioned(at("file")).version
    backend.remove(at("file"))
    with refused(backend, RuntimeError, "concurrent_modification", "remove", "file") as raised:
        backend.remove(at("file"), if_version=version)
    assert raised.value.current == ABSENT
    with refused(backend, FileNotFoundError, "not_found", "remove", "file"):
        backend.remove(at("file"), if_version=ABSENT)


def test_remove_of_a_directory_against_a_version(backend):
    backend.mkdir(at("dir"))
    for version in ("any", ABSENT):
        with refused(backend, IsADirectoryError, "is_directory", "remove", "dir"):
            backend.remove(at("dir"), if_version=version)


# rename


def test_rename_moves_a_file_and_makes_parents(backend):
    backend.write(at("a/file"), "text")
    assert backend.rename(at("a/file"), at("b/c/new")) == at("b/c/new")
    assert tree(backend) == {"a": None, "b": None, "b/c": None, "b/c/new": "text"}


def test_rename_moves_a_whole_directory_and_nothing_beside_it(backend):
    for key in ("a/1", "a/b/2", "a0", "a!/3", "a.md", "aa/4"):
        backend.write(at(key), key)
    backend.mkdir(at("a/empty"))
    backend.rename(at("a"), at("x/y"))
    assert tree(backend) == {
        "x": None, "x/y": None, "x/y/1": "a/1", "x/y/b": None, "x/y/b/2": "a/b/2", "x/y/empty": None,
        "a0": "a0", "a!": None, "a!/3": "a!/3", "a.md": "a.md", "aa": None, "aa/4": "aa/4",
    }  # fmt: skip


@pytest.mark.parametrize("key", ["nothing", "no/such/place", "file/below"])
def test_rename_of_nothing(backend, key):
    backend.write(at("file"), "x")
    for target in ("new/place", "file"):
        with refused(backend, FileNotFoundError, "not_found", "rename", key):
            backend.rename(at(key), at(target), overwrite=True)


@pytest.mark.parametrize("source", ["file", "dir"])
@pytest.mark.parametrize("target", ["taken", "empty", "full", ""])
def test_rename_onto_something(backend, source, target):
    backend.write(at("file"), "x")
    backend.write(at("dir/inside"), "x")
    backend.write(at("taken"), "kept")
    backend.mkdir(at("empty"))
    backend.write(at("full/inside"), "kept")
    with refused(backend, FileExistsError, "already_exists", "rename", target):
        backend.rename(at(source), at(target))
    if (source, target) != ("file", "taken"):
        with refused(backend, FileExistsError, "already_exists", "rename", target):
            backend.rename(at(source), at(target), overwrite=True)


def test_rename_with_overwrite_replaces_a_file(backend):
    backend.write(at("a"), "new")
    backend.write(at("d/b"), "old")
    assert backend.rename(at("a"), at("d/b"), overwrite=True) == at("d/b")
    assert tree(backend) == {"d": None, "d/b": "new"}


def test_rename_onto_itself(backend):
    backend.write(at("dir/file"), "x")
    for key in ("dir", "dir/file"):
        with refused(backend, FileExistsError, "already_exists", "rename", key):
            backend.rename(at(key), at(key))
    with refused(backend, FileExistsError, "already_exists", "rename", "dir"):
        backend.rename(at("dir"), at("dir"), overwrite=True)
    assert backend.rename(at("dir/file"), at("dir/file"), overwrite=True) == at("dir/file")
    assert tree(backend) == {"dir": None, "dir/file": "x"}


def test_rename_onto_an_ancestor(backend):
    backend.write(at("a/b/c"), "x")
    for source in ("a/b", "a/b/c"):
        with refused(backend, FileExistsError, "already_exists", "rename", "a"):
            backend.rename(at(source), at("a"), overwrite=True)


@pytest.mark.parametrize("target", ["dir/new", "dir/deep/new", "dir/file/new"])
def test_rename_of_a_directory_into_itself(backend, target):
    backend.write(at("dir/file"), "x")
    with refused(backend, OSError, "into_itself", "rename", "dir"):
        backend.rename(at("dir"), at(target))


def test_rename_of_the_root(backend):
    backend.write(at("file"), "x")
    for target in ("new", "file"):
        with refused(backend, OSError, "is_root", "rename", ""):
            backend.rename(ROOT, at(target))


@pytest.mark.parametrize("source", ["file", "dir", "other"])
@pytest.mark.parametrize("target", ["file/new", "file/far/new"])
def test_rename_through_a_file(backend, source, target):
    backend.write(at("file"), "x")
    backend.write(at("other"), "x")
    backend.write(at("dir/inside"), "x")
    with refused(backend, NotADirectoryError, "not_directory", "rename", target):
        backend.rename(at(source), at(target))


def test_a_refused_rename_makes_no_parents(backend):
    with refused(backend, FileNotFoundError, "not_found", "rename", "nothing"):
        backend.rename(at("nothing"), at("new/parents/x"))
    backend.write(at("dir/inside"), "x")
    with refused(backend, OSError, "into_itself", "rename", "dir"):
        backend.rename(at("dir"), at("dir/new/parents/x"))


# append


def test_append_adds_at_the_end_exactly(backend):
    place = at("log/today.md")
    for text in ("first\r\n", "", "zweite 🧠", "\n"):
        assert backend.append(place, text) == place
    assert tree(backend) == {"log": None, "log/today.md": "first\r\nzweite 🧠\n"}


def test_append_of_nothing_makes_the_file(backend):
    backend.append(at("a/b"), "")
    assert tree(backend) == {"a": None, "a/b": ""}


@pytest.mark.parametrize("key", ["", "dir"])
def test_append_to_a_directory(backend, key):
    backend.mkdir(at("dir"))
    with refused(backend, IsADirectoryError, "is_directory", "append", key):
        backend.append(at(key), "x")


def test_append_through_a_file(backend):
    backend.write(at("file"), "x")
    with refused(backend, NotADirectoryError, "not_directory", "append", "file/below"):
        backend.append(at("file/below"), "x")


def test_appenders_at_once_all_land(backend):
    def run(name: str) -> None:
        for n in range(15):
            backend.append(at("log"), f"{name}{n}\n")

    _all_at_once([lambda name=name: run(name) for name in "abcd"])
    lines = backend.read(at("log")).splitlines()
    assert sorted(lines) == sorted(f"{name}{n}" for name in "abcd" for n in range(15))


# compare and swap


def test_read_versioned_gives_text_and_token(backend):
    backend.write(at("a"), "täxt\r\n")
    found = backend.read_versioned(at("a"))
    assert isinstance(found, Versioned)
    assert found.content == "täxt\r\n"
    assert found.version
    assert found.version != ABSENT
    assert backend.read_versioned(at("a")) == found


def test_read_versioned_otherwise_as_read(backend):
    backend.write(at("dir/file"), "x")
    for key in ("nothing", "dir/file/below"):
        with refused(backend, FileNotFoundError, "not_found", "read", key):
            backend.read_versioned(at(key))
    for key in ("", "dir"):
        with refused(backend, IsADirectoryError, "is_directory", "read", key):
            backend.read_versioned(at(key))


def test_write_versioned_creates_and_replaces(backend):
    first = backend.write_versioned(at("a/b"), "one", if_version=ABSENT)
    assert backend.read_versioned(at("a/b")) == Versioned("one", first)
    second = backend.write_versioned(at("a/b"), "two", if_version=first)
    assert backend.read_versioned(at("a/b")) == Versioned("two", second)
    assert first != second


@pytest.mark.parametrize("token", ["old", ABSENT, "", "made up", "absent ", "v1"])
def test_write_versioned_against_another_version(backend, token):
    backend.write(at("a"), "first")
    if token == "old":
        token = backend.read_versioned(at("a")).version
    backend.write(at("a"), "theirs")
    with refused(backend, RuntimeError, "concurrent_modification", "write", "a") as raised:
        backend.write_versioned(at("a"), "mine", if_version=token)
    assert isinstance(raised.value, ConcurrentModificationError)
    assert raised.value.expected == token
    assert raised.value.current == backend.read_versioned(at("a")).version
    backend.write_versioned(at("a"), "mine after all", if_version=raised.value.current)
    assert backend.read(at("a")) == "mine after all"


@pytest.mark.parametrize("key", ["nothing", "no/such/place", "file/below"])
def test_write_versioned_where_nothing_is(backend, key):
    backend.write(at("file"), "x")
    version = backend.read_versioned(at("file")).version
    with refused(backend, RuntimeError, "concurrent_modification", "write", key) as raised:
        backend.write_versioned(at(key), "mine", if_version=version)
    assert raised.value.current == ABSENT


def test_write_versioned_against_a_file_that_was_removed_and_made_again(backend):
    version = backend.write_versioned(at("a"), "one", if_version=ABSENT)
    backend.remove(at("a"))
    backend.write(at("a"), "two")
    with refused(backend, RuntimeError, "concurrent_modification", "write", "a") as raised:
        backend.write_versioned(at("a"), "mine", if_version=version)
    backend.remove(at("a"), if_version=raised.value.current)
    with refused(backend, RuntimeError, "concurrent_modification", "write", "a"):
        backend.write_versioned(at("a"), "mine", if_version=raised.value.current)


@pytest.mark.parametrize("token", [ABSENT, "made up"])
@pytest.mark.parametrize("key", ["", "dir"])
def test_write_versioned_over_a_directory(backend, key, token):
    backend.mkdir(at("dir"))
    with refused(backend, IsADirectoryError, "is_directory", "write", key):
        backend.write_versioned(at(key), "x", if_version=token)


def test_write_versioned_through_a_file(backend):
    backend.write(at("file"), "x")
    with refused(backend, NotADirectoryError, "not_directory", "write", "file/below"):
        backend.write_versioned(at("file/below"), "x", if_version=ABSENT)


def test_a_token_outlives_writes_elsewhere_and_a_rename(backend):
    version = backend.write_versioned(at("a"), "one", if_version=ABSENT)
    backend.write(at("b"), "other")
    backend.rename(at("a"), at("c/d"))
    backend.write_versioned(at("c/d"), "two", if_version=version)
    assert backend.read(at("c/d")) == "two"


@pytest.mark.parametrize("change", ["append", "write", "rename"])
def test_every_way_to_change_a_file_changes_its_version(backend, change):
    backend.write(at("other"), "other")
    version = backend.write_versioned(at("a"), "one", if_version=ABSENT)
    if change == "append":
        backend.append(at("a"), "more")
    elif change == "write":
        backend.write(at("a"), "two")
    else:
        backend.rename(at("other"), at("a"), overwrite=True)
    with pytest.raises(ConcurrentModificationError):
        backend.write_versioned(at("a"), "mine", if_version=version)


def test_updates_at_once_are_all_counted(backend):
    def run() -> None:
        for _ in range(15):
            update(backend, at("count"), lambda old: str(int(old or 0) + 1))

    _all_at_once([run] * 4)
    assert backend.read(at("count")) == "60"


@pytest.mark.spec("SEAM-06")
def test_a_reader_sees_the_whole_old_text_or_the_whole_new_one(backend: StorageBackend):
    texts = {letter * 300_000 for letter in "abc"}
    backend.write(at("text"), "a" * 300_000)
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(backend.read(at("text")))

    def change() -> None:
        try:
            for text in sorted(texts) * 7:
                backend.write(at("text"), text)
        finally:
            done.set()

    _all_at_once([look, change])
    assert seen <= texts


def _all_at_once(runs):
    failures: list[BaseException] = []

    def guarded(run) -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.parametrize("token", [None, 3, b"v1"])
def test_write_versioned_without_a_token(backend, token):
    backend.write(at("a"), "unread")
    with refused(backend, ValueError, "invalid_version", "write", "a"):
        backend.write_versioned(at("a"), "clobbered", if_version=token)
