"""What is true of the default store alone."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import agentm
from agentm import Capabilities, DeviceLocalBackend, InvalidLocatorError, Locator, StoreError
from agentm.backends import device_local
from agentm.records import field_names

HOLD_A_TEMP = """
import sys
from agentm.backends import _durable
temp = _durable.Temp(sys.argv[1])
print(temp.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def backend(tmp_path: Path) -> DeviceLocalBackend:
    return DeviceLocalBackend(tmp_path / "memory")


@pytest.mark.spec("SEAM-13")
def test_the_default_root_is_in_the_home_and_made_on_construction(home: str) -> None:
    backend = DeviceLocalBackend()
    assert backend.root == os.path.join(home, ".agentm", "memory")
    assert os.path.isdir(backend.root)
    assert stat.S_IMODE(os.stat(backend.root).st_mode) & 0o077 == 0, "a memory is private"


@pytest.mark.spec("SEAM-13", "SEAM-04")
def test_the_four_promises_are_all_false(backend: DeviceLocalBackend) -> None:
    can = backend.capabilities
    assert (can.concurrent_writers, can.conflict_files, can.encryption, can.sync) == (False,) * 4
    assert backend.conflict_strategy == "none"


@pytest.mark.spec("SEAM-13")
def test_an_injected_root_keeps_the_home_untouched(home: str, backend: DeviceLocalBackend) -> None:
    backend.write(Locator("a/b.md"), "x")
    backend.append(Locator("a/b.md"), "y")
    assert os.listdir(home) == []


@pytest.mark.spec("SEAM-13")
def test_the_root_holds_the_owners_files_and_nothing_else(backend: DeviceLocalBackend) -> None:
    backend.write(Locator("notes/today.md"), "text")
    found = [os.path.join(at, name) for at, _, names in os.walk(backend.root) for name in names]
    assert found == [os.path.join(backend.root, "notes", "today.md")]


@pytest.mark.spec("SEAM-13")
def test_the_module_has_no_index_sync_or_merge_code() -> None:
    tree = ast.parse(Path(device_local.__file__).read_text(encoding="utf-8"))
    names = {node.name.lower() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    assert not [name for name in names if any(word in name for word in ("index", "merge", "conflict"))]
    assert not imported & {"sqlite3", "dbm", "shelve", "lancedb", "tantivy", "numpy"}


@pytest.mark.spec("SEAM-13", "SEAM-06")
def test_a_dead_writers_leftover_is_swept_and_a_living_ones_stays(backend: DeviceLocalBackend) -> None:
    backend.write(Locator("kept.md"), "x")
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLD_A_TEMP,
            backend.root,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    path = child.stdout.readline().strip()
    assert backend.list(Locator()) == [Locator("kept.md")], "a temporary file is nobody's memory"
    DeviceLocalBackend(backend.root)
    assert os.path.exists(path), "its writer lives"
    child.kill()
    child.communicate()
    DeviceLocalBackend(backend.root)
    assert not os.path.exists(path)
    assert os.listdir(backend.root) == ["kept.md"]


def test_names_of_agentms_own_are_refused(backend: DeviceLocalBackend) -> None:
    for verb in (
        lambda at: backend.write(at, "x"),
        lambda at: backend.mkdir(at),
        lambda at: backend.append(at, "x"),
    ):
        with pytest.raises(InvalidLocatorError, match="agentm's own"):
            verb(Locator("deep/.agentm-tmp-1/x.md"))
    assert backend.list(Locator()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits and links are POSIX")
class TestOwnersFiles:
    def test_permission_bits_survive_an_overwrite(self, backend: DeviceLocalBackend) -> None:
        place = backend.write(Locator("a.md"), "one")
        os.chmod(os.path.join(backend.root, "a.md"), 0o640)
        backend.write(place, "two")
        assert stat.S_IMODE(os.stat(os.path.join(backend.root, "a.md")).st_mode) == 0o640

    def test_a_write_never_goes_through_a_link(self, backend: DeviceLocalBackend, tmp_path: Path) -> None:
        outside = tmp_path / "outside.md"
        outside.write_text("mine")
        os.symlink(outside, os.path.join(backend.root, "link.md"))
        assert backend.read(Locator("link.md")) == "mine"
        with pytest.raises(StoreError, match="symbolic link"):
            backend.write_versioned(
                Locator("link.md"), "yours", if_version=backend.read_versioned(Locator("link.md")).version
            )
        with pytest.raises(StoreError) as caught:
            backend.write(Locator("link.md"), "yours")
        assert caught.value.code == "symlink_refused"
        assert outside.read_text() == "mine"
        assert os.path.islink(os.path.join(backend.root, "link.md"))

    def test_a_fifo_is_an_error_and_not_a_hang(self, backend: DeviceLocalBackend) -> None:
        os.mkfifo(os.path.join(backend.root, "pipe"))
        with pytest.raises(OSError, match="pipe"):
            backend.read(Locator("pipe"))

    def test_bytes_that_are_not_text_are_refused_and_kept(self, backend: DeviceLocalBackend) -> None:
        path = Path(backend.root, "latin.md")
        path.write_bytes(b"caf\xe9")
        with pytest.raises(ValueError, match=r"latin\.md.*not UTF-8") as caught:
            backend.read(Locator("latin.md"))
        assert caught.value.code == "not_text"  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="not UTF-8"):
            backend.append(Locator("latin.md"), "x")
        assert path.read_bytes() == b"caf\xe9"

    def test_a_root_that_went_away_is_not_an_empty_one(self, backend: DeviceLocalBackend) -> None:
        backend.write(Locator("a.md"), "x")
        seen = {change.locator.key: change.stamp or "" for change in backend.changes({})}
        os.rename(backend.root, f"{backend.root}-unmounted")
        with pytest.raises(StoreError, match="is not there"):
            list(backend.changes(seen))

    def test_a_folder_that_cannot_be_read_is_not_an_empty_one(
        self, backend: DeviceLocalBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend.write(Locator("secret/a.md"), "x")
        seen = {change.locator.key: change.stamp or "" for change in backend.changes({})}
        real, refused = os.scandir, []

        def scandir(path: str) -> object:
            if path.endswith("secret"):
                refused.append(path)
                raise PermissionError(13, "Permission denied")
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)
        with pytest.raises(PermissionError):
            list(backend.changes(seen))
        assert refused


def test_another_file_system_below_the_root_is_written_to_as_well(backend: DeviceLocalBackend) -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root on Linux")
    mount = os.path.join(backend.root, "mounted")
    os.mkdir(mount)
    if subprocess.run(["mount", "-t", "tmpfs", "none", mount], capture_output=True).returncode:
        pytest.skip("this machine does not let tests mount a tmpfs")
    try:
        place = Locator("mounted/deep/a.md")
        backend.write(place, "one")
        assert backend.read(place) == "one"
        assert os.listdir(os.path.join(mount, "deep")) == ["a.md"]
    finally:
        subprocess.run(["umount", mount], check=True)


@pytest.mark.spec("SEAM-04")
def test_all_flags_are_false_by_default() -> None:
    assert not any(getattr(Capabilities(), name) for name in field_names(Capabilities))
    assert agentm.Capabilities is Capabilities


@pytest.mark.spec("SEAM-13")
def test_a_store_where_only_writable_files_can_be_locked_works_too(
    backend: DeviceLocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS refuses an exclusive flock on a descriptor that cannot write, directories among them."""
    import fcntl

    real, refused = fcntl.flock, []

    def flock(fd: int, operation: int) -> None:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            refused.append(fd)
            raise OSError(9, "Bad file descriptor")
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    place = backend.write(Locator("a.md"), "one")
    backend.write_versioned(place, "two", if_version=backend.read_versioned(place).version)
    assert refused
    assert backend.read(place) == "two"
    assert backend.list(Locator()) == [place]


@pytest.mark.spec("SEAM-06")
def test_a_write_that_fails_leaves_no_folders_behind(
    backend: DeviceLocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(source: str, target: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace)
        with pytest.raises(StoreError, match="device reported an error"):
            backend.write(Locator("new/deep/a.md"), "x")
    assert os.listdir(backend.root) == []
    backend.write(Locator("new/deep/a.md"), "x")
    assert backend.read(Locator("new/deep/a.md")) == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="links are POSIX")
class TestLinkedFolders:
    @pytest.fixture
    def outside(self, backend: DeviceLocalBackend, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "note.md").write_text("mine")
        os.symlink(outside, os.path.join(backend.root, "linked"))
        return outside

    def test_what_is_behind_one_is_read_and_never_changed(self, backend: DeviceLocalBackend, outside: Path) -> None:
        note, new = Locator("linked/note.md"), Locator("linked/deep/new.md")
        assert backend.read(note) == "mine"
        for change in (
            lambda: backend.write(note, "yours"),
            lambda: backend.write(new, "yours"),
            lambda: backend.mkdir(Locator("linked/deep")),
            lambda: backend.remove(note),
            lambda: backend.rename(note, Locator("taken.md")),
            lambda: backend.append(note, "yours"),
        ):
            with pytest.raises(StoreError) as caught:
                change()
            assert caught.value.code == "symlink_refused"
        assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("note.md", "mine")]

    def test_links_that_lead_nowhere_do_not_disturb_the_feed(self, backend: DeviceLocalBackend) -> None:
        backend.write(Locator("a.md"), "x")
        backend.write(Locator("z/z.md"), "x")
        os.symlink("loop", os.path.join(backend.root, "loop"))
        os.symlink("a.md/x", os.path.join(backend.root, "b"))
        os.symlink(".", os.path.join(backend.root, "here"))
        os.symlink(".", os.path.join(backend.root, "there"))
        seen = {change.locator.key: change.stamp or "" for change in backend.changes({})}
        assert set(seen) == {"a.md", "z/z.md"}
        assert [change for change in backend.changes(seen) if change.stamp is None] == []
        assert agentm.detect_conflict_files(backend) == []


@pytest.mark.spec("SEAM-09")
def test_two_writes_within_one_tick_of_the_clock_are_told_apart(
    backend: DeviceLocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = backend.write(Locator("a.md"), "one")
    real = os.stat
    fixed = real(os.path.join(backend.root, "a.md"))
    monkeypatch.setattr(os, "stat", lambda path, **how: fixed if str(path).endswith("a.md") else real(path, **how))
    seen = {change.locator.key: change.stamp or "" for change in backend.changes({})}
    Path(backend.root, "a.md").write_text("two")  # in place: same inode, same size, and by our clock same time
    assert [change.locator for change in backend.changes(seen)] == [place]


def test_a_lock_is_not_kept_by_a_forked_child(backend: DeviceLocalBackend) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    from agentm.backends._mutex import lock_directory

    read, write = os.pipe()
    with lock_directory(backend.root):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    backend.write(Locator("a.md"), "x")  # would wait for the child, which waits for us
    os.close(write)
    os.waitpid(child, 0)
    os.close(read)


def test_a_root_that_is_gone_is_not_an_empty_store(backend: DeviceLocalBackend) -> None:
    os.rename(backend.root, f"{backend.root}-elsewhere")
    for verb in (
        lambda: backend.list(Locator()),
        lambda: backend.read(Locator("a")),
        lambda: backend.write(Locator("a"), "x"),
        lambda: backend.mkdir(Locator("a")),
        lambda: backend.append(Locator("a"), "x"),
        lambda: list(backend.changes({"a": "x"})),
    ):
        with pytest.raises(StoreError) as caught:
            verb()
        assert caught.value.code == "store_missing"
    assert not os.path.exists(backend.root)


def test_a_very_deep_tree_has_a_feed(backend: DeviceLocalBackend) -> None:
    deep = backend.write(Locator("/".join(["a"] * 1500)), "x")
    assert [change.locator for change in backend.changes({})] == [deep]
    # Too deep for whoever clears the temporary directory later: take it apart from the top.
    top, rest = os.path.join(backend.root, "a"), os.path.join(backend.root, "rest")
    while os.path.isdir(top):
        os.rename(os.path.join(top, "a"), rest)
        os.rmdir(top)
        os.rename(rest, top)
