"""One behaviour for all built-in stores: the change feed misses nothing, and a watcher wakes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from agentm.seam import ROOT
from tests.backends.stores import PLAIN_FILES, at, make_store

pytestmark = pytest.mark.spec("SEAM-09")


class Reader:
    """Somebody who follows a store and keeps the stamps."""

    def __init__(self, backend):
        self.backend = backend
        self.seen: dict[str, str] = {}

    def look(self, below=ROOT):
        """What is new or changed, and what is gone."""
        changed, gone = set(), set()
        for change in self.backend.changes(self.seen, below):
            key = change.locator.key
            if change.stamp is None:
                gone.add(key)
                del self.seen[key]
            else:
                changed.add(key)
                self.seen[key] = change.stamp
        return changed, gone


@pytest.fixture
def reader(backend):
    return Reader(backend)


NOTHING: tuple[set[str], set[str]] = (set(), set())


def test_an_empty_store_has_nothing_to_tell(reader):
    assert reader.look() == NOTHING
    reader.backend.mkdir(at("only/directories"))
    assert reader.look() == NOTHING


def test_new_changed_and_removed_files(backend, reader):
    for key in ("a", "b/c", "b/d/e"):
        backend.write(at(key), "one")
    assert reader.look() == ({"a", "b/c", "b/d/e"}, set())
    backend.write(at("b/c"), "two, longer")
    backend.append(at("a"), "!")
    backend.remove(at("b/d/e"))
    assert reader.look() == ({"a", "b/c"}, {"b/d/e"})
    assert reader.look()[1] == set()


def test_the_same_size_is_no_excuse(backend, reader):
    backend.write(at("a"), "0000")
    reader.look()
    for n in range(1, 30):
        backend.write(at("a"), f"{n:04}")
        assert reader.look() == ({"a"}, set()), n


def test_a_quiet_store_falls_silent(backend, reader):
    backend.write(at("a"), "x")
    reader.look()
    # A file that is still fresh may be named once more; then it must be quiet for good.
    deadline = time.monotonic() + 10
    while reader.look() != NOTHING:
        assert time.monotonic() < deadline
    assert reader.look() == NOTHING


def test_renamed_files_are_gone_here_and_new_there(backend, reader):
    for key in ("a/1", "a/b/2", "c"):
        backend.write(at(key), key)
    reader.look()
    backend.rename(at("a"), at("x"))
    changed, gone = reader.look()
    assert changed >= {"x/1", "x/b/2"}
    assert gone == {"a/1", "a/b/2"}
    backend.rename(at("c"), at("x/1"), overwrite=True)
    changed, gone = reader.look()
    assert "x/1" in changed
    assert gone == {"c"}


def test_removed_and_made_again_is_a_change(backend, reader):
    backend.write(at("a"), "one")
    reader.look()
    backend.remove(at("a"))
    backend.write(at("a"), "two")
    assert reader.look() == ({"a"}, set())


def test_a_file_that_became_a_directory_and_the_reverse(backend, reader):
    backend.write(at("a"), "file")
    backend.write(at("b/c"), "file")
    reader.look()
    backend.remove(at("a"))
    backend.write(at("a/x"), "now below")
    backend.remove(at("b/c"))
    backend.remove(at("b"))
    backend.write(at("b"), "now a file")
    assert reader.look() == ({"a/x", "b"}, {"a", "b/c"})


def test_below_tells_of_one_place_alone(backend, reader):
    for key in ("a/1", "ab/2", "a0", "c/3"):
        backend.write(at(key), "one")
    assert reader.look(at("a")) == ({"a/1"}, set())
    reader.look()
    for key in ("a/1", "ab/2", "a0"):
        backend.remove(at(key))
    assert reader.look(at("a")) == (set(), {"a/1"})
    assert reader.look(at("nothing/here")) == NOTHING
    assert reader.look() == (set(), {"ab/2", "a0"})


def test_below_a_place_that_is_gone_everything_is_gone(backend, reader):
    backend.write(at("a/b/1"), "x")
    reader.look()
    backend.rename(at("a"), at("z"))
    assert reader.look(at("a/b")) == (set(), {"a/b/1"})


def test_stamps_of_another_store_or_of_nobody_are_no_stamps(backend, reader):
    backend.write(at("a"), "x")
    reader.seen = {"a": "made up", "never/was": ""}
    assert reader.look() == ({"a"}, {"never/was"})


def test_a_reader_that_died_half_way_misses_nothing(backend, reader):
    for n in range(20):
        backend.write(at(f"d/{n:02}"), "one")
    feed = backend.changes(reader.seen)
    for change in [next(feed) for _ in range(7)]:
        reader.seen[change.locator.key] = change.stamp
    feed.close()
    backend.write(at("d/03"), "two")
    changed, gone = reader.look()
    assert changed >= {f"d/{n:02}" for n in range(20)} - set(reader.seen) | {"d/03"}
    assert set(reader.seen) == {f"d/{n:02}" for n in range(20)}
    assert gone == set()


def test_the_store_can_be_changed_while_the_feed_is_read(backend, reader):
    for n in range(10):
        backend.write(at(f"d/{n}"), "one")
    for change in backend.changes({}):
        backend.write(change.locator, "two")
        reader.seen[change.locator.key] = change.stamp
    changed, gone = reader.look()
    assert changed == {f"d/{n}" for n in range(10)}
    assert gone == set()


@pytest.mark.slow
def test_many_files(backend, reader):
    keys = {f"{n % 7}/{n % 31}/{n}" for n in range(700)}
    for key in keys:
        backend.write(at(key), key)
    assert reader.look() == (keys, set())
    some = set(sorted(keys)[::13])
    for key in some:
        backend.write(at(key), "other")
    changed, gone = reader.look()
    assert (changed & some, gone) == (some, set())


@pytest.mark.parametrize("protocol", PLAIN_FILES)
@pytest.mark.parametrize("how", ["in place", "by rename"])
def test_an_edit_from_outside_that_hides_its_time_and_size(protocol, how, tmp_path: Path):
    backend = make_store(protocol, str(tmp_path))
    reader = Reader(backend)
    backend.write(at("d/note.md"), "0000")
    path = os.path.join(backend.root, "d", "note.md")
    past = time.time_ns() - 86_400_000_000_000
    os.utime(path, ns=(past, past))
    reader.look()
    for n in range(1, 30):
        edited = path if how == "in place" else f"{path}.new"
        with open(edited, "w", encoding="utf-8") as file:
            file.write(f"{n:04}")
        os.utime(edited, ns=(past, past))
        os.replace(edited, path)
        assert reader.look() == ({"d/note.md"}, set()), n


# watch


@pytest.fixture(params=["memory", "sqlite"])
def watched(request, tmp_path: Path):
    return make_store(request.param, str(tmp_path))


def test_a_watcher_is_quiet_until_something_happens(watched):
    watched.write(at("before"), "x")
    with watched.watch() as watcher:
        assert watcher.wait(0) == ()
        watched.write(at("a/b"), "x")
        assert at("a/b") in watcher.wait(10)
        assert watcher.wait(0) == ()


@pytest.mark.parametrize("change", ["write", "append", "mkdir", "remove", "rename"])
def test_every_change_wakes(watched, change):
    watched.write(at("d/a"), "x")
    with watched.watch(at("d")) as watcher:
        changes = {
            "write": lambda: watched.write(at("d/a"), "y"),
            "append": lambda: watched.append(at("d/a"), "y"),
            "mkdir": lambda: watched.mkdir(at("d/new")),
            "remove": lambda: watched.remove(at("d/a")),
            "rename": lambda: watched.rename(at("d/a"), at("d/b")),
        }
        changes[change]()
        assert watcher.wait(10)


def test_a_watcher_hears_of_its_own_place_alone(watched):
    watched.mkdir(at("d"))
    with watched.watch(at("d")) as watcher:
        watched.write(at("dd/x"), "x")
        watched.write(at("e"), "x")
        assert watcher.wait(0.1) == ()
        watched.write(at("d/x"), "x")
        assert watcher.wait(10) == (at("d/x"),)


def test_a_waiting_watcher_is_woken(watched):
    with watched.watch() as watcher:
        heard: list[tuple[object, ...]] = []
        thread = threading.Thread(target=lambda: heard.append(watcher.wait(30)))
        thread.start()
        watched.write(at("a"), "x")
        thread.join(20)
        assert heard == [(at("a"),)]


def test_a_watcher_hears_of_a_change_through_another_instance(tmp_path: Path):
    here, there = make_store("sqlite", str(tmp_path)), make_store("sqlite", str(tmp_path))
    with here.watch() as watcher:
        there.write(at("a"), "x")
        assert watcher.wait(10) == (at("a"),)
