"""What is true of the one-file store alone."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from agentm import Locator, SqliteBackend, StoreError
from agentm.errors import LockTimeoutError
from tests.backends.stores import at, tree

APPLICATION_ID = 0x6167746D


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


def plain(path: str) -> closing[sqlite3.Connection]:
    """The file as anybody else would open it."""
    return closing(sqlite3.connect(path, isolation_level=None, timeout=0))


def contents(path: str) -> bytes:
    """The file's bytes, read by another process: see the module on locks."""
    return subprocess.run(["cat", path], check=True, capture_output=True).stdout


# the file


@pytest.mark.spec("SEAM-06")
def test_the_file_and_its_directories_are_made(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "deep" / "memory.db")
    backend = SqliteBackend(path)
    assert backend.path == path
    assert backend.protocol == "sqlite"
    assert os.path.isfile(path)


def test_the_path_is_made_absolute_and_the_home_is_known(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert SqliteBackend("here.db").path == str(tmp_path / "here.db")
    assert SqliteBackend("~/there.db").path == os.path.join(home, "there.db")


def test_there_is_one_file_at_rest(path: str) -> None:
    backend = SqliteBackend(path)
    backend.write(at("a/b"), "x")
    backend.write(at("a/b"), "y")
    backend.read(at("a/b"))
    assert os.listdir(os.path.dirname(path)) == ["memory.db"]


def test_anybody_can_read_the_table_as_documented(path: str) -> None:
    backend = SqliteBackend(path)
    version = backend.write_versioned(at("notes/täg.md"), "zwei\r\n", if_version="absent")
    with plain(path) as there:
        rows = there.execute("SELECT key, parent, is_dir, version, content FROM entries ORDER BY key").fetchall()
        assert there.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert there.execute("PRAGMA user_version").fetchone() == (1,)
        assert there.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert rows == [
        ("", None, 1, None, None),
        ("notes", "", 1, None, None),
        ("notes/täg.md", "notes", 0, version, b"zwei\r\n"),
    ]


def test_the_table_refuses_what_would_not_be_a_tree(path: str) -> None:
    SqliteBackend(path).write(at("a"), "x")
    with plain(path) as there:
        for wrong in ("content = 'text, not bytes'", "content = NULL", "is_dir = 1", "version = NULL", "parent = NULL"):
            with pytest.raises(sqlite3.IntegrityError):
                there.execute(f"UPDATE entries SET {wrong} WHERE key = 'a'")


def test_bytes_from_outside_that_are_no_text_are_not_guessed_at(path: str) -> None:
    backend = SqliteBackend(path)
    backend.write(at("a"), "x")
    with plain(path) as there:
        there.execute("UPDATE entries SET content = x'fffe', version = 'outside' WHERE key = 'a'")
    with pytest.raises(StoreError) as raised:
        backend.read(at("a"))
    assert (raised.value.code, raised.value.locator) == ("not_text", "a")


def test_versions_do_not_come_again_after_a_backup_is_restored(path: str) -> None:
    backend = SqliteBackend(path)
    backend.write(at("a"), "one")
    backend.close()
    shutil.copy(path, f"{path}.backup")
    backend.write(at("a"), "two")
    seen = {change.locator.key: change.stamp or "" for change in backend.changes({})}
    backend.close()
    os.replace(f"{path}.backup", path)
    backend.write(at("a"), "three")
    assert [change.locator.key for change in backend.changes(seen)] == ["a"]


# files that are not ours


def test_an_empty_file_is_an_empty_store(path: str) -> None:
    Path(path).touch()
    backend = SqliteBackend(path)
    backend.write(at("a"), "x")
    assert tree(SqliteBackend(path)) == {"a": "x"}


def _foreign(path: str) -> None:
    with plain(path) as there:
        there.execute("CREATE TABLE bookmarks (url TEXT)")


def _foreign_without_tables(path: str) -> None:
    with plain(path) as there:
        there.execute("PRAGMA user_version = 7")


def _newer(path: str) -> None:
    SqliteBackend(path).close()
    with plain(path) as there:
        there.execute("PRAGMA user_version = 2")


def _text(path: str) -> None:
    Path(path).write_text("# not a database\n" * 100)


def _torn(path: str) -> None:
    backend = SqliteBackend(path)
    for n in range(50):
        backend.write(at(f"d/{n}"), "x" * 500)
    backend.close()
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_foreign, "store_foreign"),
        (_foreign_without_tables, "store_foreign"),
        (_newer, "store_layout"),
        (_text, "store_corrupt"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_alone(path: str, make, code: str) -> None:
    make(path)
    before = contents(path)
    with pytest.raises(StoreError) as raised:
        SqliteBackend(path)
    error = raised.value
    assert (error.code, error.backend, error.verb, error.locator) == (code, "sqlite", "open", path)
    assert str(error).endswith(".")
    assert repr(path) in str(error)
    assert contents(path) == before
    assert os.listdir(os.path.dirname(path)) == ["memory.db"]


def test_a_damaged_file_is_no_empty_one(path: str) -> None:
    _torn(path)
    with pytest.raises(StoreError) as raised:
        tree(SqliteBackend(path))
    assert raised.value.code == "store_corrupt"
    assert raised.value.backend == "sqlite"


def test_a_table_that_somebody_dropped(path: str) -> None:
    backend = SqliteBackend(path)
    with plain(path) as there:
        there.execute("DROP TABLE entries")
    with pytest.raises(StoreError) as raised:
        backend.exists(at("a"))
    assert raised.value.code == "store_corrupt"


def test_a_directory_at_the_path_or_a_file_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IsADirectoryError):
        SqliteBackend(str(tmp_path))
    with pytest.raises(NotADirectoryError):
        SqliteBackend(str(tmp_path / "file" / "memory.db"))
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("how", ["removed", "emptied", "directory moved"])
@pytest.mark.parametrize("verb", ["read", "write", "exists"])
def test_a_store_that_vanished_is_not_an_empty_one(tmp_path: Path, how: str, verb: str) -> None:
    path = str(tmp_path / "dir" / "memory.db")
    backend = SqliteBackend(path)
    backend.write(at("a"), "x")
    backend.close()
    if how == "directory moved":
        os.rename(tmp_path / "dir", tmp_path / "moved")
    else:
        os.unlink(path)
        if how == "emptied":
            Path(path).touch()
    with pytest.raises(StoreError) as raised:
        backend.write(at("a"), "y") if verb == "write" else getattr(backend, verb)(at("a"))
    assert (raised.value.code, raised.value.verb, raised.value.locator) == ("store_missing", verb, "a")
    assert not isinstance(raised.value, FileNotFoundError), "it would be taken for an absent key"
    assert os.path.exists(path) == (how == "emptied")


def test_a_file_that_was_put_in_place_of_ours_is_used(path: str) -> None:
    backend, other = SqliteBackend(path), SqliteBackend(f"{path}.other")
    backend.write(at("a"), "old")
    other.write(at("a"), "restored")
    other.close()
    os.replace(f"{path}.other", path)
    assert backend.read(at("a")) == "restored"
    backend.write(at("b"), "x")
    assert tree(SqliteBackend(path)) == {"a": "restored", "b": "x"}


DENIED = """
import os, sys
from agentm import Locator, SqliteBackend, StoreError
path = sys.argv[1]
SqliteBackend(path + ".warm").exists(Locator("x"))  # everything is imported while we still may
for denied in sys.argv[2:]:
    os.chmod(denied, 0o555 if os.path.isdir(denied) else 0o444)
if os.geteuid() == 0:
    os.setuid(65534)
backend = SqliteBackend(path)
print(backend.read(Locator("a")))
try:
    backend.write(Locator("a"), "new")
except PermissionError as error:
    print(error.code, error.verb, error.locator)
print(backend.read(Locator("a")))
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="this system has other permissions")
@pytest.mark.parametrize("denied", ["the file", "the directory"])
def test_a_store_that_may_only_be_read_is_read(denied: str) -> None:
    # Not below pytest's own directory, which nobody else may enter.
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        path = os.path.join(directory, "memory.db")
        with SqliteBackend(path) as backend:
            backend.write(at("a"), "old")
        os.chmod(path, 0o666)
        command = [sys.executable, "-c", DENIED, path, path if denied == "the file" else directory]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout.splitlines(), done.stderr) == (["old", "permission_denied write a", "old"], "")


# others at the same time


def test_a_writer_waits_for_another_and_goes_on(path: str) -> None:
    backend = SqliteBackend(path)
    with plain(path) as rival:
        rival.execute("BEGIN EXCLUSIVE")
        thread = threading.Thread(target=backend.write, args=(at("a"), "x"))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        rival.execute("ROLLBACK")
        thread.join(20)
    assert backend.read(at("a")) == "x"


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_waiting_ends_with_a_typed_error(path: str, lock: str) -> None:
    SqliteBackend(path).write(at("a"), "old")
    backend = SqliteBackend(path, patience=0.05)
    with plain(path) as rival:
        rival.execute(f"BEGIN {lock}")
        with pytest.raises(LockTimeoutError) as raised:
            backend.write(at("a"), "new")
        assert (raised.value.code, raised.value.verb, raised.value.locator) == ("lock_timeout", "write", "a")
        if lock == "EXCLUSIVE":
            with pytest.raises(LockTimeoutError):
                backend.read(at("a"))
        else:
            assert backend.read(at("a")) == "old", "readers need not wait for a writer that has not committed"
        rival.execute("ROLLBACK")
    backend.write(at("a"), "new")
    assert backend.read(at("a")) == "new"


def test_a_reader_that_never_ends_cannot_make_a_write_half_happen(path: str) -> None:
    backend = SqliteBackend(path, patience=0.05)
    backend.write(at("a"), "old")
    with plain(path) as rival:
        rival.execute("BEGIN")
        rival.execute("SELECT count(*) FROM entries").fetchall()
        with pytest.raises(LockTimeoutError):
            backend.write(at("a"), "new")
        rival.execute("ROLLBACK")
    assert backend.read(at("a")) == "old"
    backend.write(at("a"), "new")
    assert backend.read(at("a")) == "new"


def test_two_instances_and_many_threads_lose_nothing(path: str) -> None:
    backends = [SqliteBackend(path), SqliteBackend(path)]

    def run(n: int) -> None:
        for m in range(10):
            backends[n % 2].write(at(f"{n}/{m}"), f"{n} {m}")

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(text is not None for text in tree(backends[0]).values()) == 60


COUNT = """
import pickle, sys
from agentm import Locator, update
backend = pickle.loads(bytes.fromhex(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    update(backend, Locator("count"), lambda old: str(int(old or 0) + 1))
"""


@pytest.mark.slow
def test_processes_that_count_together_count_right(path: str) -> None:
    backend = SqliteBackend(path)
    command = [sys.executable, "-c", COUNT, pickle.dumps(backend).hex(), "100"]
    processes = [subprocess.Popen(command) for _ in range(6)]
    assert [process.wait() for process in processes] == [0] * 6
    assert backend.read(at("count")) == "600"


# processes and lifetimes


def test_it_crosses_a_process_border_as_its_arguments(path: str) -> None:
    backend = SqliteBackend(path, patience=0.25)
    backend.write(at("a"), "x")
    copy = pickle.loads(pickle.dumps(backend))
    assert copy.path == path
    assert copy.read(at("a")) == "x"
    started = time.monotonic()
    with plain(path) as rival:
        rival.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LockTimeoutError):
            copy.write(at("a"), "y")
    assert time.monotonic() - started < 20


def test_closing_lets_go_of_the_file_and_the_next_verb_opens_it(path: str) -> None:
    with SqliteBackend(path) as backend:
        backend.write(at("a"), "x")
        assert path in _open_files()
    assert path not in _open_files()
    assert backend.read(at("a")) == "x"
    backend.close()
    backend.close()


def test_an_abandoned_store_lets_go_of_the_file(path: str) -> None:
    SqliteBackend(path).write(at("a"), "x")
    assert path not in _open_files()


def _open_files() -> set[str]:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not tell which files are open")
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


FORK = """
import os, sys, threading
from agentm import Locator, SqliteBackend

backend = SqliteBackend(sys.argv[1])
stop = threading.Event()

def busy(name):
    n = 0
    while not stop.is_set():
        backend.write(Locator(f"{name}/{n % 5}"), str(n))
        backend.list(Locator(name))
        n += 1

threads = [threading.Thread(target=busy, args=(name,)) for name in "ab"]
for thread in threads:
    thread.start()
children = []
for n in range(20):
    child = os.fork()
    if not child:
        status = 1
        try:
            for m in range(3):
                backend.write(Locator(f"child/{n}/{m}"), "x")
            status = 0 if len(backend.list(Locator(f"child/{n}"))) == 3 else 2
        finally:
            os._exit(status)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
written = sum(len(backend.list(place)) for place in backend.list(Locator("child")))
print(codes == [0] * 20, written)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_children_forked_in_the_middle_of_everything_write_their_own(path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["True", "60"], "")
    with plain(path) as there:
        assert there.execute("PRAGMA integrity_check").fetchone() == ("ok",)


INHERITED = """
import os, sys
from agentm import Locator, SqliteBackend

backend = SqliteBackend(sys.argv[1])
session = backend._file._session
backend.write(Locator("a"), "before")
session.connection.execute("BEGIN IMMEDIATE")
session.connection.execute("UPDATE entries SET content = x'00' WHERE key = 'a'")
if not os.fork():
    del session
    backend.__dict__.clear()
    sys.exit(0)
os.wait()
session.connection.execute("COMMIT")
print(repr(backend.read(Locator("a"))))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_never_closes_what_its_parent_has_open(path: str) -> None:
    # Closing would roll the parent's transaction back under its feet.
    done = subprocess.run(
        [sys.executable, "-c", INHERITED, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("'\\x00'\n", "")


# watching


def test_a_watcher_survives_the_file_being_replaced(path: str) -> None:
    backend, other = SqliteBackend(path), SqliteBackend(f"{path}.other")
    backend.write(at("a"), "x")
    other.write(at("b"), "y")
    other.close()
    with backend.watch() as watcher:
        os.replace(f"{path}.other", path)
        assert set(watcher.wait(10)) == {Locator("a"), Locator("b")}
