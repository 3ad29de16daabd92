"""What is true of a synced folder alone: locks outside, rivals inside, nothing of theirs lost."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import agentm
from agentm import ConcurrentModificationError, Locator, VaultBackend
from agentm.backends import _durable
from agentm.errors import ConfigError, LockLostError, StoreError

NOTE = Locator("notes/a.md")

HOLD_THE_LOCK = """
import pickle, sys
from agentm.backends import _durable
vault = pickle.loads(sys.stdin.buffer.read())
with vault._mutex.hold(), _durable.Temp(vault.root) as temp:
    print(temp.path, flush=True)
    open(sys.argv[1]).read()
"""


@pytest.fixture
def vault(tmp_path: Path) -> VaultBackend:
    return VaultBackend(tmp_path / "vault", lock_root=tmp_path / "locks")


def on_disk(vault: VaultBackend, key: str = "notes/a.md") -> Path:
    return Path(vault.root, key)


def everything(vault: VaultBackend) -> dict[str, str]:
    return {
        str(path.relative_to(vault.root)): path.read_text() for path in Path(vault.root).rglob("*") if path.is_file()
    }


@pytest.mark.spec("SEAM-14")
def test_the_profile_of_a_synced_folder_with_many_writers(vault: VaultBackend) -> None:
    can = vault.capabilities
    assert (can.concurrent_writers, can.conflict_files, can.encryption, can.sync) == (True, True, False, True)
    assert vault.conflict_strategy == "whole-file"


@pytest.mark.spec("SEAM-14")
@pytest.mark.parametrize("xdg", [False, True])
def test_locks_live_in_the_cache_and_never_in_the_vault(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch, xdg: bool
) -> None:
    cache = os.path.join(home, ".cache")
    if xdg:
        cache = str(tmp_path / "xdg")
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    vault = VaultBackend(tmp_path / "vault")
    vault.write(NOTE, "x")
    assert os.listdir(os.path.join(cache, "agentm", "locks"))
    assert everything(vault) == {"notes/a.md": "x"}


@pytest.mark.spec("SEAM-14")
def test_a_lock_folder_inside_the_vault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        VaultBackend(tmp_path / "vault", lock_root=tmp_path / "vault" / "locks")
    assert caught.value.code == "lock_root_in_vault"
    assert not (tmp_path / "vault").exists()


@pytest.mark.spec("SEAM-15")
def test_the_folder_and_the_seam_show_the_same_bytes_at_the_same_path(vault: VaultBackend) -> None:
    path = on_disk(vault)
    path.parent.mkdir()
    path.write_bytes("von Hand\r\nä".encode())
    assert vault.read(NOTE) == "von Hand\r\nä"
    vault.write(NOTE, "through the seam\n")
    assert path.read_bytes() == b"through the seam\n"


def rival_before(monkeypatch: pytest.MonkeyPatch, call: str, act: Callable[[], object]) -> list[str]:
    """Let a rival act at the last instant before one of the steps of a write."""
    real = getattr(_durable, call)
    acted: list[str] = []

    def with_rival(*args: str) -> object:
        if not acted:
            acted.append(call)
            act()
        return real(*args)

    monkeypatch.setattr(_durable, call, with_rival)
    return acted


@pytest.mark.spec("SEAM-14")
@pytest.mark.parametrize("plain", [True, False])
def test_a_rivals_text_stays_when_it_lands_in_the_last_instant(
    vault: VaultBackend, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    vault.write(NOTE, "base")
    version = vault.read_versioned(NOTE).version
    acted = rival_before(monkeypatch, "exchange", lambda: on_disk(vault).write_text("the rival's"))
    write = vault.write if plain else partial(vault.write_versioned, if_version=version)
    with pytest.raises(ConcurrentModificationError) as caught:
        write(NOTE, "ours")
    assert acted
    assert everything(vault) == {"notes/a.md": "the rival's"}
    assert caught.value.current == vault.read_versioned(NOTE).version


@pytest.mark.spec("SEAM-14")
def test_a_rival_that_creates_the_file_first_keeps_it(vault: VaultBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.mkdir(Locator("notes"))
    acted = rival_before(monkeypatch, "rename_new", lambda: on_disk(vault).write_text("the rival's"))
    with pytest.raises(ConcurrentModificationError):
        vault.write(NOTE, "ours")
    assert acted
    assert everything(vault) == {"notes/a.md": "the rival's"}


@pytest.mark.spec("SEAM-14")
def test_a_rival_that_deletes_the_file_is_noticed(vault: VaultBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.write(NOTE, "base")
    acted = rival_before(monkeypatch, "exchange", lambda: on_disk(vault).unlink())
    with pytest.raises(ConcurrentModificationError) as caught:
        vault.write(NOTE, "ours")
    assert acted
    assert caught.value.current == "absent"
    assert everything(vault) == {}


@pytest.mark.spec("SEAM-14")
def test_a_conditional_remove_spares_a_rivals_text(vault: VaultBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.write(NOTE, "base")
    version = vault.read_versioned(NOTE).version
    acted = rival_before(monkeypatch, "replace", lambda: on_disk(vault).write_text("the rival's"))
    with pytest.raises(ConcurrentModificationError):
        vault.remove(NOTE, if_version=version)
    assert acted
    assert everything(vault) == {"notes/a.md": "the rival's"}


@pytest.mark.spec("SEAM-14")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open for writing")
def test_an_editor_in_the_middle_of_saving_is_not_cut_off(vault: VaultBackend) -> None:
    vault.write(NOTE, "")
    with on_disk(vault).open("r+") as editor:  # truncated, not yet written: looks just like the base
        with pytest.raises(ConcurrentModificationError):
            vault.write(NOTE, "ours")
        editor.write("the editor's")
    assert vault.read(NOTE) == "the editor's"


@pytest.mark.spec("SEAM-14")
def test_a_rivals_text_displaced_in_a_crash_becomes_a_conflict_copy(
    vault: VaultBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vault.write(NOTE, "base")

    class PowerCut(BaseException):
        pass

    real = _durable.exchange

    def exchange(first: str, second: str) -> bool:
        on_disk(vault).write_text("the rival's")
        real(first, second)
        raise PowerCut

    monkeypatch.setattr(_durable, "exchange", exchange)
    with pytest.raises(PowerCut):
        vault.write(NOTE, "ours")
    monkeypatch.undo()
    again = VaultBackend(vault.root, lock_root=tmp_path / "locks")
    assert sorted(everything(again).values()) == ["ours", "the rival's"]
    [copy] = agentm.detect_conflict_files(again)
    assert (copy.base, again.read(copy.locator)) == (NOTE, "the rival's")


@pytest.mark.spec("SEAM-14")
def test_a_crash_after_the_swap_leaves_no_trace_when_nobody_interfered(
    vault: VaultBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vault.write(NOTE, "base")
    real = _durable.exchange

    class PowerCut(BaseException):
        pass

    def exchange(first: str, second: str) -> bool:
        real(first, second)
        raise PowerCut

    monkeypatch.setattr(_durable, "exchange", exchange)
    with pytest.raises(PowerCut):
        vault.write(NOTE, "ours")
    monkeypatch.undo()
    assert len(everything(vault)) == 2
    again = VaultBackend(vault.root, lock_root=tmp_path / "locks")
    assert everything(again) == {"notes/a.md": "ours"}


@pytest.mark.spec("SEAM-14")
def test_a_file_system_that_cannot_exchange_still_compares(
    vault: VaultBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.write(NOTE, "base")
    asked: list[str] = []
    monkeypatch.setattr(_durable, "exchange", lambda first, second: bool(asked.append(first)))
    vault.write(NOTE, "two")
    assert asked
    assert everything(vault) == {"notes/a.md": "two"}
    acted = rival_before(monkeypatch, "exchange", lambda: on_disk(vault).write_text("the rival's"))
    with pytest.raises(ConcurrentModificationError):
        vault.write(NOTE, "three")
    assert acted
    assert everything(vault) == {"notes/a.md": "the rival's"}


@pytest.mark.spec("SEAM-14")
@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lock_that_was_lost_on_the_way_undoes_the_write(
    vault: VaultBackend, monkeypatch: pytest.MonkeyPatch, existing: bool, moment: str
) -> None:
    if existing:
        vault.write(NOTE, "base")
    before = everything(vault)
    call = "exchange" if existing else "rename_new"
    real = getattr(_durable, call)
    lost: list[str] = []

    def lose() -> None:
        for name in os.listdir(vault.lock_root):
            os.unlink(os.path.join(vault.lock_root, name))
            lost.append(name)

    def slow(first: str, second: str) -> object:
        if lost:
            return real(first, second)
        if moment == "before":
            lose()
        result = real(first, second)
        if moment == "after":
            lose()
        return result

    monkeypatch.setattr(_durable, call, slow)
    with pytest.raises(LockLostError):
        vault.write(NOTE, "late")
    assert lost
    assert everything(vault) == before


@pytest.mark.spec("SEAM-14")
def test_one_vault_has_one_lock_by_whatever_path(tmp_path: Path, vault: VaultBackend) -> None:
    os.symlink(vault.root, tmp_path / "other-way")
    VaultBackend(tmp_path / "other-way", lock_root=tmp_path / "locks").write(NOTE, "x")
    vault.write(NOTE, "y")
    assert len([name for name in os.listdir(tmp_path / "locks") if name.endswith(".lock")]) == 1


@pytest.mark.spec("SEAM-14")
def test_opening_a_vault_beside_a_working_writer_disturbs_nothing(vault: VaultBackend, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLD_THE_LOCK,
            str(tmp_path / "gate"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    os.mkfifo(tmp_path / "gate")
    assert holder.stdin
    assert holder.stdout
    holder.stdin.write(pickle.dumps(vault))
    holder.stdin.close()
    path = holder.stdout.readline().decode().strip()
    VaultBackend(vault.root, lock_root=tmp_path / "locks")
    assert os.path.exists(path)
    (tmp_path / "gate").write_text("go")
    assert holder.wait(30) == 0
    holder.stdout.close()


def planted(vault: VaultBackend, key: str, text: str) -> None:
    """A file as a dead writer might have left it, but named by somebody with other plans."""
    coded = base64.urlsafe_b64encode(key.encode()).decode()
    Path(vault.root, f".agentm-tmp-0123456789ab.{'0' * 16}.{'1' * 16}.{coded}.swap").write_text(text)


@pytest.mark.spec("SEAM-14")
@pytest.mark.parametrize("key", ["../../evil.md", "{tmp}/evil.md", "linked/evil.md", ".agentm-tmp-x", ""])
def test_a_file_that_a_sync_partner_planted_stays_inside(vault: VaultBackend, tmp_path: Path, key: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, Path(vault.root, "linked"))
    planted(vault, key.format(tmp=tmp_path), "from afar")
    before = {path for path in tmp_path.rglob("*") if Path(vault.root) not in path.parents}
    VaultBackend(vault.root, lock_root=tmp_path / "locks")
    after = {path for path in tmp_path.rglob("*") if Path(vault.root) not in path.parents}
    assert {path for path in after - before if tmp_path / "locks" not in (path, *path.parents)} == set()
    assert "from afar" in everything(vault).values()


@pytest.mark.spec("SEAM-14")
def test_a_remove_spares_a_rivals_text_it_has_not_seen(vault: VaultBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.write(NOTE, "base")
    acted = rival_before(monkeypatch, "replace", lambda: on_disk(vault).write_text("the rival's"))
    with pytest.raises(ConcurrentModificationError):
        vault.remove(NOTE)
    assert acted
    assert everything(vault) == {"notes/a.md": "the rival's"}


@pytest.mark.spec("SEAM-14")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has leases")
def test_a_rival_that_opens_the_file_under_our_eyes_does_no_harm(vault: VaultBackend) -> None:
    vault.write(NOTE, "base")
    path = str(on_disk(vault))
    looker = (
        "import sys\nfrom agentm.backends import _durable\nprint(flush=True)\n"
        "for _ in range(20000): _durable.being_written(sys.argv[1])"
    )
    child = subprocess.Popen([sys.executable, "-c", looker, path], stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    while child.poll() is None:
        _open_for_writing(path)
    child.stdout.close()
    assert child.returncode == 0


def _open_for_writing(path: str) -> None:
    with contextlib.suppress(BlockingIOError):  # a lease stands on it, and is broken by this
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


@pytest.mark.spec("SEAM-14")
def test_a_slow_disk_takes_no_lock_from_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes take longer than the patience of those who wait."""

    class Impatient(VaultBackend):
        lock_patience = 0.05

    vault = Impatient(tmp_path / "vault", lock_root=tmp_path / "locks")
    slow: list[int] = []

    def fsync(fd: int) -> None:
        slow.append(fd)
        time.sleep(0.1)

    monkeypatch.setattr(os, "fsync", fsync)
    failed: list[Exception] = []

    def write(name: str) -> None:
        try:
            vault.write(Locator(name), "x")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(f"{n}.md",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow
    assert failed == []


@pytest.mark.spec("SEAM-14")
def test_a_child_forked_during_a_write_is_no_rival(vault: VaultBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    read, write = os.pipe()
    begun, begin = os.pipe()
    children: list[int] = []
    real = _durable.sync_file

    def fork_first(fd: int) -> None:
        if not children:
            child = os.fork()
            if child == 0:
                os.close(write)
                os.write(begin, b"!")
                os.read(read, 1)
                os._exit(0)
            children.append(child)
            os.read(begun, 1)  # until it runs it has not let go of anything
        real(fd)

    monkeypatch.setattr(_durable, "sync_file", fork_first)
    vault.write(NOTE, "one")
    vault.write(NOTE, "two")
    assert children
    assert everything(vault) == {"notes/a.md": "two"}
    os.close(write)
    os.waitpid(children[0], 0)
    for fd in (read, begun, begin):
        os.close(fd)


@pytest.mark.spec("SEAM-14")
@pytest.mark.parametrize("there", ["file", "nowhere"])
def test_a_lock_folder_that_cannot_be_used_is_named(tmp_path: Path, there: str) -> None:
    locks = tmp_path / "locks"
    if there == "file":
        locks.write_text("in the way")
    else:
        os.symlink(tmp_path / "gone" / "far", locks)
    vault = VaultBackend(tmp_path / "vault", lock_root=locks)
    with pytest.raises(OSError, match="lock file") as caught:
        vault.write(NOTE, "x")
    assert caught.value.code == "lock_unavailable"  # type: ignore[attr-defined]
    assert everything(vault) == {}


@pytest.mark.spec("SEAM-14")
def test_a_vault_that_is_gone_is_not_begun_anew(tmp_path):
    """An unmounted drive, or a folder that was renamed: it was written to, and is not there."""
    root, locks = tmp_path / "vault", tmp_path / "locks"
    VaultBackend(root, lock_root=locks).write(Locator("note.md"), "precious")
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as refused:
        VaultBackend(root, lock_root=locks)
    assert refused.value.code == "store_missing"
    assert not root.exists()
    (tmp_path / "elsewhere").rename(root)
    assert VaultBackend(root, lock_root=locks).read(Locator("note.md")) == "precious"
