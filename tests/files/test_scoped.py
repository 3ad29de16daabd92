"""A scoped storage reads and writes what its scope covers, and nothing else by any way."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from agentm import (
    BackendStorage,
    BoundaryError,
    DeviceLocalBackend,
    DirEntry,
    FsStorage,
    InMemoryStorage,
    InvalidPathError,
    MemoryBackend,
    ReachError,
    ScopedBackend,
    ScopedStorage,
    ScopedStorageScope,
    Storage,
)
from agentm.files import _way
from agentm.files.scope import DENIED
from tests.files.storages import run

pytestmark = pytest.mark.spec("FILES-03")

OUTSIDE = "what lies outside"


@pytest.fixture(params=["one call", "name by name"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own way to stay below a folder, and ours for systems that have none."""
    if request.param == "name by name":
        monkeypatch.setattr(_way, "_kernel_call", lambda: None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """``in/`` may be read, ``in/out/`` may be written, ``in/drop/`` only be written; ``secret`` lies beside them."""
    for folder in ("in/sub", "in/out/deep", "drop", "in2", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "in/a").write_text("inside")
    (tmp_path / "in/sub/b").write_text("deeper")
    (tmp_path / "in2/a").write_text(OUTSIDE)
    (tmp_path / "elsewhere/secret").write_text(OUTSIDE)
    return tmp_path


def scoped(tree: Path, inner: Storage | None = None, **more: Any) -> ScopedStorage:
    scope = ScopedStorageScope([f"{tree}/in"], [f"{tree}/in/out/", f"{tree}/drop"], **more)
    return ScopedStorage(inner or FsStorage(), scope)


def looks(storage: Storage, path: str) -> list[Coroutine[Any, Any, object]]:
    return [verb(path) for verb in (storage.read, storage.exists, storage.mtime, storage.list, storage.list_entries)]


def writes(storage: Storage, path: str) -> list[Coroutine[Any, Any, object]]:
    return [
        storage.write(path, "x"),
        storage.append(path, "x"),
        storage.write_atomic(path, "x"),
        storage.mkdir(path),
        storage.remove(path),
        storage.remove(path, recursive=True),
    ]


def refused(calls: list[Coroutine[Any, Any, object]], kind: str, path: str) -> set[str]:
    """That all of them are refused; returns what was said, with the path left out."""
    said = set()
    for call in calls:
        with pytest.raises(BoundaryError) as caught:
            run(call)
        error = caught.value
        assert (error.code, error.kind, error.path) == ("storage-boundary", kind, path)
        said.add(str(error).replace(path, "PATH", 1))
    return said


def everything(tree: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(tree.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("way")
class TestOnDisk:
    def test_what_is_covered_works_as_without_a_scope(self, tree: Path) -> None:
        storage = scoped(tree)
        assert run(storage.read(f"{tree}/in/a")) == "inside"
        assert run(storage.read(f"{tree}/in/sub/b")) == "deeper"
        assert run(storage.read(f"{tree}/in/missing")) is None
        assert run(storage.read(f"{tree}/in/missing/deeper")) is None
        assert run(storage.exists(f"{tree}/in")) is True
        assert run(storage.list(f"{tree}/in")) == ["a", "out", "sub"]
        assert run(storage.list_entries(f"{tree}/in/sub")) == [DirEntry("b", False)]
        assert run(storage.mtime(f"{tree}/in/a")) == run(FsStorage().mtime(f"{tree}/in/a"))
        run(storage.write(f"{tree}/in/out/x", "1"))
        run(storage.append(f"{tree}/in/out/x", "2"))
        assert run(storage.read(f"{tree}/in/out/x")) == "12"
        run(storage.mkdir(f"{tree}/in/out/new/deep"))
        run(storage.write_atomic(f"{tree}/in/out/new/deep/y", "3"))
        run(storage.rename(f"{tree}/in/out/new", f"{tree}/in/out/newer"))
        assert run(storage.read(f"{tree}/in/out/newer/deep/y")) == "3"
        run(storage.remove(f"{tree}/in/out/x"))
        run(storage.remove(f"{tree}/in/out/newer", recursive=True))
        assert run(storage.list(f"{tree}/in/out")) == ["deep"]

    @pytest.mark.parametrize("path", ["in2/a", "in2", "", "elsewhere/secret", "in/../in2/a", "i", "in/sub/../../in2/a"])
    def test_what_is_not_covered_is_refused_there_or_not(self, tree: Path, path: str) -> None:
        before = everything(tree)
        said = refused(looks(scoped(tree), f"{tree}/{path}"), "read", f"{tree}/{path}")
        said |= refused(looks(scoped(tree), f"{tree}/missing"), "read", f"{tree}/missing")
        assert len(said) == 1, "nothing tells what is there"
        refused(writes(scoped(tree), f"{tree}/{path}"), "write", f"{tree}/{path}")
        assert everything(tree) == before

    def test_reading_is_not_writing_and_writing_is_not_reading(self, tree: Path) -> None:
        storage = scoped(tree)
        refused(writes(storage, f"{tree}/in/a"), "write", f"{tree}/in/a")
        run(storage.write(f"{tree}/drop/box", "x"))
        refused(looks(storage, f"{tree}/drop/box"), "read", f"{tree}/drop/box")
        assert (tree / "drop/box").read_text() == "x"

    def test_dots_that_stay_inside_are_fine(self, tree: Path) -> None:
        assert run(scoped(tree).read(f"{tree}/in/./sub/..//a")) == "inside"

    @pytest.mark.parametrize(
        ("link", "target", "asked"),
        [
            ("in/link", "../elsewhere", "in/link/secret"),
            ("in/link", "../elsewhere", "in/link"),
            ("in/link", "../elsewhere/secret", "in/link"),
            ("in/sub/link", "../../elsewhere", "in/sub/link/secret"),
            ("in/link", "/", "in/link/etc/passwd"),
            ("in/link", "nowhere", "in/link"),
            ("in/link", "nowhere", "in/link/deeper"),
            ("in/link", "a", "in/link"),
            ("in/link", "link", "in/link"),
            ("in/link", ".", "in/link/a"),
        ],
    )
    def test_no_link_is_followed_wherever_it_leads(self, tree: Path, link: str, target: str, asked: str) -> None:
        (tree / link).symlink_to(target)
        said = refused(looks(scoped(tree), f"{tree}/{asked}"), "read", f"{tree}/{asked}")
        assert said == refused([scoped(tree).read(f"{tree}/in2")], "read", f"{tree}/in2"), "a link looks like any other"

    @pytest.mark.parametrize("target", ["elsewhere/secret", "elsewhere/new", "elsewhere", "in/a"])
    def test_nothing_is_written_through_a_link(self, tree: Path, target: str) -> None:
        (tree / "in/out/link").symlink_to(tree / target)
        before = everything(tree)
        storage = scoped(tree)
        for path in (f"{tree}/in/out/link", f"{tree}/in/out/link/secret"):
            refused(
                [storage.write(path, "x"), storage.append(path, "x"), storage.write_atomic(path, "x")], "write", path
            )
        below = f"{tree}/in/out/link/secret"
        refused(
            [storage.remove(below), storage.rename(below, f"{tree}/in/out/got"), storage.mkdir(below)], "write", below
        )
        assert everything(tree) == before
        assert os.listdir(tree / "elsewhere") == ["secret"]

    def test_a_link_itself_can_be_removed(self, tree: Path) -> None:
        (tree / "in/out/link").symlink_to(tree / "elsewhere")
        run(scoped(tree).remove(f"{tree}/in/out/link", recursive=True))
        assert (tree / "elsewhere/secret").read_text() == OUTSIDE
        assert not (tree / "in/out/link").is_symlink()

    def test_removing_a_folder_takes_links_not_what_they_lead_to(self, tree: Path) -> None:
        (tree / "in/out/deep/link").symlink_to(tree / "elsewhere")
        run(scoped(tree).remove(f"{tree}/in/out/deep", recursive=True))
        assert (tree / "elsewhere/secret").read_text() == OUTSIDE

    def test_a_file_with_a_second_name_is_refused(self, tree: Path) -> None:
        (tree / "in/hard").hardlink_to(tree / "elsewhere/secret")
        (tree / "in/out/hard").hardlink_to(tree / "elsewhere/secret")
        storage = scoped(tree)
        refused([storage.read(f"{tree}/in/hard"), storage.mtime(f"{tree}/in/hard")], "read", f"{tree}/in/hard")
        path = f"{tree}/in/out/hard"
        refused([storage.write(path, "x"), storage.append(path, "x"), storage.write_atomic(path, "x")], "write", path)
        assert (tree / "elsewhere/secret").read_text() == OUTSIDE

    def test_a_scope_that_is_one_file_covers_that_file(self, tree: Path) -> None:
        scope = ScopedStorageScope([f"{tree}/in/a"], [f"{tree}/in/a"])
        storage = ScopedStorage(FsStorage(), scope)
        assert run(storage.read(f"{tree}/in/a")) == "inside"
        run(storage.write(f"{tree}/in/a", "new"))
        assert (tree / "in/a").read_text() == "new"
        refused([storage.list(f"{tree}/in")], "read", f"{tree}/in")
        (tree / "in/a").unlink()
        (tree / "in/a").symlink_to(tree / "elsewhere/secret")
        refused([storage.read(f"{tree}/in/a")], "read", f"{tree}/in/a")
        refused([storage.write(f"{tree}/in/a", "x")], "write", f"{tree}/in/a")

    def test_the_folder_that_the_owner_named_may_be_a_link_itself(self, tree: Path) -> None:
        (tree / "named").symlink_to(tree / "in")
        storage = ScopedStorage(FsStorage(), ScopedStorageScope([f"{tree}/named"]))
        assert run(storage.read(f"{tree}/named/a")) == "inside"
        assert run(storage.list(f"{tree}/named")) == ["a", "out", "sub"]

    def test_a_root_that_is_not_there_yet_can_be_made(self, tree: Path) -> None:
        root = f"{tree}/later/work"
        storage = ScopedStorage(FsStorage(), ScopedStorageScope([root], [root]))
        assert run(storage.read(f"{root}/a")) is None
        assert run(storage.list(root)) == []
        run(storage.mkdir(root))
        run(storage.write(f"{root}/a", "x"))
        assert run(storage.read(f"{root}/a")) == "x"

    def test_a_denied_place_stays_denied_under_its_real_name(self, tree: Path) -> None:
        (tree / "keys").symlink_to(tree / "in/sub")
        refused(looks(scoped(tree, always_deny=[f"{tree}/keys"]), f"{tree}/in/sub/b"), "read", f"{tree}/in/sub/b")

    def test_a_root_that_leads_into_a_denied_place_does_not_open_it(self, tree: Path) -> None:
        (tree / "door").symlink_to(tree / "elsewhere")
        scope = ScopedStorageScope([f"{tree}/door"], always_deny=[f"{tree}/elsewhere"])
        storage = ScopedStorage(FsStorage(), scope)
        refused(looks(storage, f"{tree}/door/secret"), "read", f"{tree}/door/secret")

    def test_a_file_that_became_a_folder_is_said(self, tree: Path) -> None:
        storage = scoped(tree)
        run(storage.write(f"{tree}/in/out/x", "1"))
        os.unlink(tree / "in/out/x")
        os.mkdir(tree / "in/out/x")
        with pytest.raises(IsADirectoryError):
            run(storage.write(f"{tree}/in/out/x", "2"))
        with pytest.raises(IsADirectoryError):
            run(storage.read(f"{tree}/in/out/x"))


def storages(tree: Path) -> list[Storage]:
    memory, store = InMemoryStorage(), BackendStorage(DeviceLocalBackend(tree / "store"))
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            for storage in (memory, store):
                run(storage.write(str(path), path.read_text()))
    return [FsStorage(), memory, store]


def test_the_scope_is_the_same_over_every_storage(tree: Path) -> None:
    for inner in storages(tree):
        storage = scoped(tree, inner)
        assert run(storage.read(f"{tree}/in/a")) == "inside"
        run(storage.write(f"{tree}/in/out/x", "1"))
        run(storage.rename(f"{tree}/in/out/x", f"{tree}/in/out/y"))
        assert run(storage.read(f"{tree}/in/out/y")) == "1"
        for path in (f"{tree}/in2/a", f"{tree}/in/../in2/a", "/", f"{tree}"):
            refused(looks(storage, path), "read", path)
            refused(writes(storage, path), "write", path)
        assert run(inner.read(f"{tree}/in2/a")) == OUTSIDE


def test_both_ends_of_a_move_are_checked(tree: Path) -> None:
    for inner in storages(tree):
        storage = scoped(tree, inner)
        run(storage.write(f"{tree}/in/out/x", "1"))
        refused([storage.rename(f"{tree}/in/out/x", f"{tree}/in2/x")], "write", f"{tree}/in2/x")
        refused([storage.rename(f"{tree}/in2/a", f"{tree}/in/out/a")], "write", f"{tree}/in2/a")
        refused([storage.rename(f"{tree}/in/a", f"{tree}/in/out/a")], "write", f"{tree}/in/a")
        assert run(inner.read(f"{tree}/in/out/x")) == "1"


def test_a_move_does_not_make_readable_what_was_not(tree: Path) -> None:
    for inner in storages(tree):
        run(inner.write(f"{tree}/drop/mail", "for others"))
        path = f"{tree}/drop/mail"
        refused([scoped(tree, inner).rename(path, f"{tree}/in/out/mail")], "read", path)
        assert run(inner.read(path)) == "for others"


class TestFloor:
    def test_keys_and_settings_of_the_machine_are_denied_whatever_is_allowed(self, home: str) -> None:
        for inner in (FsStorage(), InMemoryStorage()):
            storage = ScopedStorage(inner, ScopedStorageScope(["/"], ["/"]))
            for name in ("~/.ssh/id_ed25519", "~/.aws", "~/.gnupg/x", "/etc", "/etc/passwd"):
                path = name.replace("~", home)
                for message in refused(looks(storage, path), "read", path):
                    assert "(always-deny floor)" in message
                refused(writes(storage, path), "write", path)

    def test_a_link_that_is_made_or_turned_later_denies_what_it_leads_to_then(
        self, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys/id").write_text("key")
        path, ssh, clock = f"{tmp_path}/keys/id", Path(home, ".ssh"), [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        storage = ScopedStorage(FsStorage(), ScopedStorageScope([str(tmp_path)]))
        assert run(storage.read(path)) == "key"
        ssh.symlink_to(tmp_path / "keys")
        clock[0] += 5
        refused(looks(storage, path), "read", path)
        ssh.unlink()
        ssh.symlink_to("elsewhere")
        clock[0] += 5
        assert run(storage.read(path)) == "key"

    def test_what_is_denied_adds_to_the_floor(self, home: str) -> None:
        scope = ScopedStorageScope([home], [home], always_deny=[f"{home}/private"])
        storage = ScopedStorage(FsStorage(), scope)
        refused(looks(storage, f"{home}/private/x"), "read", f"{home}/private/x")
        refused(looks(storage, f"{home}/.ssh/x"), "read", f"{home}/.ssh/x")
        assert run(storage.read(f"{home}/privately")) is None

    @pytest.mark.parametrize("name", [".SSH/id", ".ssh./id", ".ssh /id", ".ѕѕh/../.Ssh/id", "．ssh/id"])
    def test_no_spelling_that_some_disk_takes_for_a_denied_name_is_allowed(self, home: str, name: str) -> None:
        storage = ScopedStorage(FsStorage(), ScopedStorageScope([home], [home]))
        refused(looks(storage, f"{home}/{name}"), "read", f"{home}/{name}")

    def test_a_denied_place_is_not_moved_or_removed_with_its_folder(self, home: str) -> None:
        os.makedirs(f"{home}/.ssh")
        Path(f"{home}/.ssh/id").write_text("key")
        for inner in (FsStorage(), InMemoryStorage()):
            above = os.path.dirname(home)
            storage = ScopedStorage(inner, ScopedStorageScope([above], [above]))
            refused([storage.remove(home, recursive=True), storage.rename(home, f"{above}/moved")], "write", home)
        assert Path(f"{home}/.ssh/id").read_text() == "key"

    @pytest.mark.parametrize("said", ["", "relative", "/", "/somewhere/else", None])
    def test_it_covers_the_home_that_the_system_knows_whatever_the_environment_says(
        self, said: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pwd = pytest.importorskip("pwd")
        if said is None:
            monkeypatch.delenv("HOME")
        else:
            monkeypatch.setenv("HOME", said)
        storage = ScopedStorage(FsStorage(), ScopedStorageScope(["/"], ["/"]))
        path = f"{pwd.getpwuid(os.getuid()).pw_dir}/.ssh/id"
        refused(looks(storage, path), "read", path)
        if said == "/somewhere/else":
            refused(looks(storage, f"{said}/.ssh/id"), "read", f"{said}/.ssh/id")

    def test_the_floor_has_the_places_that_everybody_knows(self) -> None:
        assert {"~/.ssh", "~/.aws", "~/.gnupg", "/etc"} <= set(DENIED)


class TestErrors:
    @pytest.mark.spec("FILES-04")
    def test_the_message_is_as_promised(self) -> None:
        storage = ScopedStorage(InMemoryStorage(), ScopedStorageScope(["/a", "/b/c"], ["/d"]))
        with pytest.raises(BoundaryError) as caught:
            run(storage.read("/x"))
        assert str(caught.value) == "read not permitted: /x not in [/a, /b/c] (outside the scope)"
        with pytest.raises(BoundaryError) as caught:
            run(storage.write("/etc/x", ""))
        assert str(caught.value) == "write not permitted: /etc/x not in [/d] (always-deny floor)"
        assert isinstance(caught.value, PermissionError)
        assert (caught.value.code, caught.value.kind, caught.value.path) == ("storage-boundary", "write", "/etc/x")

    @pytest.mark.spec("FILES-04")
    def test_where_a_link_pointed_is_not_told_anywhere(self, tree: Path) -> None:
        (tree / "in/link").symlink_to(tree / "elsewhere/secret")
        with pytest.raises(BoundaryError) as caught:
            run(scoped(tree).read(f"{tree}/in/link"))
        error: BaseException | None = caught.value
        told = []
        while error is not None:
            told.append(f"{error!r} {error.__dict__}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        assert "elsewhere" not in "".join(told)

    @pytest.mark.parametrize("path", ["in/a", "", "~/a", 5, None])
    def test_a_path_that_is_not_absolute_is_said_to_be_none(self, tree: Path, path: str) -> None:
        for call in [*looks(scoped(tree), path), *writes(scoped(tree), path)]:
            with pytest.raises(InvalidPathError):
                run(call)

    @pytest.mark.parametrize(
        "given", ["/a", ["a"], [""], ["/a/../b"], ["/a/./b"], [5], [None], 5, ["~/x"], ["/a\0"], b"/a"]
    )
    def test_a_scope_that_cannot_be_meant_is_refused(self, given: Any) -> None:
        for more in ({"read": given}, {"write": given}, {"always_deny": given}):
            with pytest.raises(ReachError) as caught:
                ScopedStorageScope(**more)
            assert caught.value.code == "reach_invalid"

    @pytest.mark.parametrize("given", [{"read": ["/a"]}, None, ["/a"], "/a", ScopedStorageScope])
    def test_what_is_no_scope_is_refused(self, given: Any) -> None:
        for call in (lambda: ScopedStorage(FsStorage(), given), lambda: ScopedBackend(MemoryBackend(), given)):
            with pytest.raises(ReachError) as caught:
                call()
            assert caught.value.code == "reach_invalid"

    @pytest.mark.spec("FILES-04")
    @pytest.mark.parametrize(
        "name", ["a\nread permitted", "\x1b[2J", "\u202egnp", "\r", "\x85", "\u2028", "\x7f", "\udcff"]
    )
    def test_a_refusal_is_one_line_and_gives_no_commands(self, name: str) -> None:
        storage = ScopedStorage(InMemoryStorage(), ScopedStorageScope([f"/in/{name}"]))
        with pytest.raises(BoundaryError) as caught:
            run(storage.read(f"/out/{name}"))
        assert str(caught.value).isprintable()
        assert caught.value.path == f"/out/{name}"

    def test_an_empty_scope_covers_nothing(self, tree: Path) -> None:
        storage = ScopedStorage(FsStorage(), ScopedStorageScope())
        refused(looks(storage, "/"), "read", "/")
        refused(writes(storage, f"{tree}/x"), "write", f"{tree}/x")

    def test_a_read_only_disk_says_so(self, tree: Path) -> None:
        folder = tree / "in/out"
        if os.geteuid() == 0:
            command = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("nothing can be mounted here")
        else:
            folder.chmod(0o500)
        try:
            with pytest.raises(PermissionError) as caught:
                run(scoped(tree).write(f"{folder}/x", "1"))
            assert getattr(caught.value, "code", None) in ("permission_denied", "read_only_store")
            assert os.listdir(folder) == []
        finally:
            if os.geteuid() == 0:
                subprocess.run(["umount", str(folder)], check=True)
            else:
                folder.chmod(0o700)
