"""One check for each optional ability, for backends that declare it."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable

from agentm.conformance.expect import Failed, describe, expect, refuses, same, short
from agentm.conformance.peers import second_address
from agentm.conformance.trial import Trial, close_backend, snapshot
from agentm.errors import ConcurrentModificationError
from agentm.seam import (
    ABSENT,
    ROOT,
    Append,
    Change,
    ChangeFeed,
    CompareAndSwap,
    Locator,
    Remove,
    Rename,
    StorageBackend,
    Versioned,
    Watch,
    Watcher,
    require,
    update,
)

SETTLE_SECONDS = 10.0
"""How long a change feed may go on naming files that nobody touches, and a watcher may take to wake."""


def remove(trial: Trial) -> None:
    backend, take = trial.backend, require(trial.backend, Remove).remove
    note, other = trial.put("dir/note.md", "gone\n"), trial.put("dir/other.md", "kept\n")
    backend.mkdir(trial.at("empty"))
    _is_not_empty(refuses("removing a directory that holds something", OSError, lambda: take(trial.at("dir"))))
    same("read after that refusal", backend.read(note), "gone\n")
    same("remove", take(note), None)
    expect(not backend.exists(note), "exists says that a removed file is there")
    refuses("reading a removed file", FileNotFoundError, lambda: backend.read(note))
    refuses("removing a file twice", FileNotFoundError, lambda: take(note))
    take(trial.at("empty"))
    same("what is left", snapshot(backend, trial.scratch), {"dir": None, "dir/other.md": "kept\n"})
    refuses("removing nothing", FileNotFoundError, lambda: take(trial.at("absent/er")))
    trial.put("dir/note.md", "back\n")
    same("read of a file written again after its removal", backend.read(note), "back\n")
    _root_stays(trial, take)
    _remove_by_version(trial, other)


def _is_not_empty(refusal: Exception) -> None:
    number = refusal.errno if isinstance(refusal, OSError) else None
    expect(number == errno.ENOTEMPTY, f"removing a directory that holds something gave errno {number}, not ENOTEMPTY")


def _root_stays(trial: Trial, take: Callable[[Locator], None]) -> None:
    # A backend that gets this wrong destroys the store, so it is tried only where all of it is ours.
    if trial.backend.list(ROOT) == [trial.scratch.parent]:
        refuses("removing the root", OSError, lambda: take(ROOT))
        expect(trial.backend.exists(trial.at("dir/other.md")), "removing the root was refused, but files are gone")


def _remove_by_version(trial: Trial, place: Locator) -> None:
    take = require(trial.backend, Remove).remove
    if not trial.capabilities.compare_and_swap:
        # To take the condition and not look at it would lose somebody's text.
        refuses("remove with if_version", (NotImplementedError, TypeError), lambda: take(place, if_version="v"))
        same("read after that refusal", trial.backend.read(place), "kept\n")
        return
    store = require(trial.backend, CompareAndSwap)
    old = store.read_versioned(place).version
    new = store.write_versioned(place, "newer\n", if_version=old)
    clash = refuses("remove against an old version", ConcurrentModificationError, lambda: take(place, if_version=old))
    same("the refusal's current version", getattr(clash, "current", None), new)
    same("read after that refusal", trial.backend.read(place), "newer\n")
    take(place, if_version=new)
    expect(not trial.backend.exists(place), "remove against the right version left the file there")


def rename(trial: Trial) -> None:
    backend, move = trial.backend, require(trial.backend, Rename).rename
    trial.put("a.md", "a\r\n")
    same("rename", move(trial.at("a.md"), trial.at("new/er/b.md")), trial.at("new/er/b.md"))
    trial.put("tree/one.md", "1")
    trial.put("tree/sub/two.md", "2")
    trial.put("treehouse.md", "kept")
    backend.mkdir(trial.at("tree/empty"))
    move(trial.at("tree"), trial.at("moved/tree"))
    _holds(trial, "renaming a file and a directory", {
        "moved/tree/one.md": "1", "moved/tree/sub/two.md": "2", "new/er/b.md": "a\r\n", "treehouse.md": "kept"
    })  # fmt: skip
    expect(not backend.exists(trial.at("tree")), "a renamed directory is still at its old place")
    expect(backend.exists(trial.at("moved/tree/empty")), "an empty directory was lost when its parent was renamed")
    refuses("renaming nothing", FileNotFoundError, lambda: move(trial.at("absent"), trial.at("x.md")))
    _rename_refusals(trial)
    move(trial.at("treehouse.md"), trial.at("moved/tree/one.md"), overwrite=True)
    same("read after a rename with overwrite", backend.read(trial.at("moved/tree/one.md")), "kept")
    expect(not backend.exists(trial.at("treehouse.md")), "a rename with overwrite left its source behind")


def _rename_refusals(trial: Trial) -> None:
    move, before = require(trial.backend, Rename).rename, snapshot(trial.backend, trial.scratch)
    file, other, tree = trial.at("new/er/b.md"), trial.at("treehouse.md"), trial.at("moved/tree")
    for what, kind, source, target, overwrite in (
        ("a file onto a file", FileExistsError, file, other, False),
        ("a file onto a directory", FileExistsError, file, tree, False),
        ("a file onto a directory, overwriting", FileExistsError, file, tree, True),
        ("a directory onto a file", FileExistsError, tree, file, False),
        ("a directory onto a file, overwriting", FileExistsError, tree, file, True),
        ("a directory onto a directory", FileExistsError, trial.at("new"), tree, False),
        ("a directory onto a directory, overwriting", FileExistsError, trial.at("new"), tree.child("empty"), True),
        ("a directory into itself", OSError, tree, tree.child("sub/inner"), False),
        ("a file to below a file", OSError, file, other.child("x.md"), False),
    ):

        def attempt(source: Locator = source, target: Locator = target, overwrite: bool = overwrite) -> Locator:
            return move(source, target, overwrite=overwrite)

        refuses(f"renaming {what}", kind, attempt)
        same(f"the tree after renaming {what}", snapshot(trial.backend, trial.scratch), before)


def _holds(trial: Trial, when: str, wanted: dict[str, str]) -> None:
    files = {key: text for key, text in snapshot(trial.backend, trial.scratch).items() if text is not None}
    same(f"the files after {when}", files, wanted)


def append(trial: Trial) -> None:
    backend, add = trial.backend, require(trial.backend, Append).append
    place, text = trial.at("log/day.md"), ""
    for piece in ("first\n", "second\r\n", "", "é🜁", "\n", "long " * 20_000):
        same("append", add(place, piece), place)
        text += piece
        same("read after append", backend.read(place), text)
    refuses("appending to a directory", OSError, lambda: add(trial.at("log"), "x"))
    refuses("appending below a file", OSError, lambda: add(place.child("x"), "x"))
    same("read after refused appends", backend.read(place), text)
    _appenders_both_land(trial)


def _appenders_both_land(trial: Trial) -> None:
    place, count = trial.at("shared.md"), 20

    def work(backend: StorageBackend, who: int) -> None:
        for number in range(count):
            require(backend, Append).append(place, f"{who}:{number}\n")

    _at_once(trial, 2, work)
    lines = trial.backend.read(place).splitlines(keepends=True)
    for who in range(2):
        mine = [line for line in lines if line.startswith(f"{who}:")]
        same(f"lines of appender {who}, of two at once", mine, [f"{who}:{number}\n" for number in range(count)])
    same("lines of two appenders at once", len(lines), 2 * count)


def _at_once(trial: Trial, workers: int, work: Callable[[StorageBackend, int], None]) -> None:
    """Run in threads, each with an instance of its own where the store can be opened again."""
    address = second_address(trial)
    problems: list[str] = []

    def run(who: int) -> None:
        backend = trial.backend if address is None else address.open()
        try:
            work(backend, who)
        except Exception as error:
            problems.append(describe(error))
        finally:
            if address is not None:
                close_backend(backend)

    threads = [threading.Thread(target=run, args=(who,), daemon=True) for who in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise Failed(f"with {workers} at once, one was refused: {problems[0]}")


def compare_and_swap(trial: Trial) -> None:
    backend, store, place = trial.backend, require(trial.backend, CompareAndSwap), trial.at("deep/note.md")
    refuses("read_versioned of nothing", FileNotFoundError, lambda: store.read_versioned(place))
    _clashes(trial, place, "a version that never was", ABSENT)
    expect(not backend.exists(place), "a refused write_versioned made the file")
    first = store.write_versioned(place, "one\r\n", if_version=ABSENT)
    expect(isinstance(first, str) and first not in ("", ABSENT), f"write_versioned gave the token {short(first)}")
    same("read_versioned", store.read_versioned(place), Versioned("one\r\n", first))
    _clashes(trial, place, ABSENT, first)
    refuses("write_versioned without a token", (ValueError, TypeError, ConcurrentModificationError),
            lambda: store.write_versioned(place, "unread\n", if_version=None))  # type: ignore[arg-type]  # fmt: skip
    second = store.write_versioned(place, "two\n", if_version=first)
    expect(second != first, "another text has the same version token")
    _clashes(trial, place, first, second)
    same("read_versioned after a swap", store.read_versioned(place), Versioned("two\n", second))
    backend.write(place, "three, plainly\n")
    third = store.read_versioned(place).version
    _clashes(trial, place, second, third)
    same("read after refused swaps", backend.read(place), "three, plainly\n")
    refuses("write_versioned over a directory", (OSError, ConcurrentModificationError),
            lambda: store.write_versioned(trial.at("deep"), "x", if_version=ABSENT))  # fmt: skip
    if trial.capabilities.remove:
        require(backend, Remove).remove(place)
        _clashes(trial, place, third, ABSENT)
    _increments_are_exact(trial)


def _clashes(trial: Trial, place: Locator, token: str, current: str) -> None:
    store = require(trial.backend, CompareAndSwap)
    clash = refuses(
        f"write_versioned against {short(token)} where {short(current)} stands",
        ConcurrentModificationError,
        lambda: store.write_versioned(place, "rival\n", if_version=token),
    )
    same("the refusal's current version", getattr(clash, "current", None), current)


def _increments_are_exact(trial: Trial) -> None:
    place, workers, count = trial.at("counter"), 3, 10

    def work(backend: StorageBackend, _: int) -> None:
        for _ in range(count):
            update(backend, place, lambda text: str(int(text or "0") + 1))

    _at_once(trial, workers, work)
    same(f"{workers} × {count} increments at once", trial.backend.read(place), str(workers * count))


def change_feed(trial: Trial) -> None:
    feed = _Feed(trial)
    for key in ("a/one.md", "a/two.md", "a/sub/three.md", "ab/sibling.md"):
        trial.put(key, "x")
    feed.names("new files", "a", {"a/one.md", "a/two.md", "a/sub/three.md"})
    feed.names("a file outside of the place asked for", "", {"ab/sibling.md"})
    feed.settles()
    for turn in range(20):
        trial.put("a/one.md", f"{turn:04}")
        feed.names(f"rewrite {turn + 1} of the same length", "a", {"a/one.md"})
    trial.put("a/two.md", "y")
    feed.names("a second reader's change", "a", {"a/two.md"})
    feed.settles()
    if trial.capabilities.remove:
        require(trial.backend, Remove).remove(trial.at("a/two.md"))
        require(trial.backend, Remove).remove(trial.at("ab/sibling.md"))
        feed.loses("a", {"a/two.md"})
        feed.loses("", {"ab/sibling.md"})
        trial.put("a/two.md", "y")
        feed.names("a file that came back", "a", {"a/two.md"})
    if trial.capabilities.rename:
        require(trial.backend, Rename).rename(trial.at("a/sub"), trial.at("a/other"))
        feed.loses("a", {"a/sub/three.md"})
    for key in ("skipped/kept.md", "skipped/.aside/one.md", "skipped/deep/.aside/two.md", "skipped/.aside.md"):
        trial.put(key, "x")
    seen = require(trial.backend, ChangeFeed).changes({}, trial.at("skipped"), skip={".aside"})
    same(
        "what is named when the folders .aside are skipped",
        {change.locator for change in seen},
        {trial.at("skipped/kept.md"), trial.at("skipped/.aside.md")},
    )


class _Feed:
    """A reader of the change feed that keeps stamps as the contract tells callers to."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._store = require(trial.backend, ChangeFeed)
        self._seen: dict[str, str] = {}

    def pull(self, below: str) -> tuple[set[str], set[str]]:
        """The keys named as written and as gone since the last time."""
        start = len(self._trial.scratch.key) + 1
        written, gone = set(), set()
        for change in self._store.changes(dict(self._seen), self._trial.at(below)):
            expect(type(change) is Change, f"changes gave {short(change)}, which is no Change")
            key = change.locator.key
            if change.stamp is None:
                gone.add(key[start:])
                self._seen.pop(key, None)
            else:
                same("the type of a stamp", type(change.stamp), str)
                written.add(key[start:])
                self._seen[key] = change.stamp
        return written, gone

    def names(self, what: str, below: str, wanted: set[str]) -> None:
        before = {key[len(self._trial.scratch.key) + 1 :] for key in self._seen}
        written, gone = self.pull(below)
        expect(wanted <= written, f"the change feed missed {what}: {short(sorted(wanted - written))}")
        same(f"files named as gone with {what}", gone, set())
        expect(
            written <= wanted | before, f"the change feed named {short(sorted(written - wanted - before))} for {what}"
        )

    def loses(self, below: str, wanted: set[str]) -> None:
        _, gone = self.pull(below)
        same("files named as gone", gone, wanted)

    def settles(self) -> None:
        """An unchanged file may be named too often, but not for ever."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.pull("") != (set(), set()):
            expect(
                time.monotonic() < deadline, f"the change feed still names unchanged files after {SETTLE_SECONDS:.0f} s"
            )
            time.sleep(0.02)


def watch(trial: Trial) -> str:
    backend, below = trial.backend, trial.at("watched")
    backend.mkdir(below)
    trial.put("watched/old.md", "x")
    with require(backend, Watch).watch(below) as watcher:
        _is_quiet(watcher)
        _wakes(watcher, "a new file", trial.put("watched/new.md", "x"), below)
        _wakes(watcher, "a rewrite", trial.put("watched/old.md", "y"), below)
        _wakes(watcher, "a file in a new directory", trial.put("watched/deep/er/new.md", "x"), below)
        _wakes(watcher, "a file in a directory made while watching", trial.put("watched/deep/er/next.md", "x"), below)
        if trial.capabilities.remove:
            require(backend, Remove).remove(trial.at("watched/old.md"))
            _wakes(watcher, "a removal", trial.at("watched/old.md"), below)
        if trial.capabilities.rename:
            require(backend, Rename).rename(trial.at("watched/new.md"), trial.at("watched/moved.md"))
            _wakes(watcher, "a rename", trial.at("watched/moved.md"), below)
        seen = _wakes_for_another_instance(trial, watcher, below)
    watcher.close()
    return seen


def _is_quiet(watcher: Watcher) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        started = time.monotonic()
        places = watcher.wait(0.05)
        took = time.monotonic() - started
        expect(took < 5, f"wait(0.05) took {took:.1f} s")
        if places == ():
            return
        expect(time.monotonic() < deadline, f"the watcher keeps waking for {short(places)} though nothing changes")


def _wakes(watcher: Watcher, what: str, changed: Locator, below: Locator) -> None:
    """Wait until the watcher points at the place, at a directory above it, or at the root."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        places = watcher.wait(max(0.0, deadline - time.monotonic()))
        expect(places, f"the watcher did not wake for {what} within {SETTLE_SECONDS:.0f} s")
        for place in places:
            expect(type(place) is Locator, f"wait gave {short(place)}, which is no Locator")
            expect(place == ROOT or _covers(below, place), f"the watcher points at {place.key!r}, outside of its place")
        if any(_covers(place, changed) for place in places):
            return


def _covers(place: Locator, other: Locator) -> bool:
    return not place.key or f"{other.key}/".startswith(f"{place.key}/")


def _wakes_for_another_instance(trial: Trial, watcher: Watcher, below: Locator) -> str:
    address = second_address(trial)
    if address is None:
        return "changes of this instance only: the store cannot be opened twice"
    rival, place = address.open(), trial.at("watched/rival.md")
    try:
        rival.write(place, "x")
        _wakes(watcher, "a write by another instance", place, below)
    finally:
        close_backend(rival)
    return "changes of this and of another instance"
