"""A store at its limits: full, read-only, too many files, short writes. The old text stays, the error has a code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentm.errors import AgentmError, StoreError
from agentm.seam import Locator
from tests.crash.stores import OURS, STORES, seen_plainly
from tests.crash.straced import OLD, Lab, environment, lab, left_over

pytestmark = pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14")

ALL = ("device-local", "vault", "sqlite")
NOTE = Locator("a/note")


def child(made: Lab, text: str, *options: str) -> dict[str, object]:
    """What a process says that writes with its hands tied."""
    command = made.command(*options)
    command[command.index(made.key) + 1] = text
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True, timeout=120)
    return dict(json.loads(done.stdout))


def assert_unharmed(made: Lab) -> None:
    backend = made.open()
    assert backend.read(NOTE) == OLD
    assert not left_over(made)
    backend.write(NOTE, "next")
    assert backend.read(NOTE) == "next"


@pytest.mark.slow
@pytest.mark.parametrize("store", ALL)
def test_a_file_that_may_not_grow(store: str) -> None:
    """The first write of many comes back short, the next one fails: neither is taken for the whole text."""
    with lab(store, "overwrite") as made:
        result = child(made, "x" * 100_000, "--biggest=40000")
        assert (result["ok"], result["code"]) == (
            False,
            "io_error" if store == "sqlite" else "too_big",
        )  # SQLite says no more
        assert_unharmed(made)


@pytest.mark.slow
@pytest.mark.parametrize("store", ALL)
def test_no_more_descriptors(store: str) -> None:
    """However many descriptors are left, the write is done whole or refused with a code."""
    said = set()
    for more in range(7):
        with lab(store, "overwrite") as made:
            result = child(made, "new", f"--files={more}")
            said.add(result.get("code", "ok"))
            if result["ok"]:
                assert made.open().read(NOTE) == "new"
            else:
                assert result["code"], f"{more} more: {result}"
                assert_unharmed(made)
    assert "ok" in said
    assert "too_many_open_files" in said or store == "sqlite"
    assert len(said) > 1


@contextmanager
def mounted(directory: str, options: str) -> Iterator[None]:
    """A small file system of our own, where that is allowed."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    os.makedirs(directory)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "agentm-test", directory], capture_output=True)
    if done.returncode:
        pytest.skip(f"no mounting here: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.mark.parametrize("store", ALL)
def test_a_full_disk(tmp_path_factory: pytest.TempPathFactory, store: str) -> None:
    base = str(tmp_path_factory.mktemp("full"))
    made = Lab(store, "a/note", base)
    with mounted(made.root, "size=400k"):
        backend = made.open()
        backend.write(NOTE, OLD)
        fill(f"{made.root}/ballast", 4096)
        with pytest.raises(StoreError) as caught:
            backend.write(NOTE, "x" * 50_000)
        assert caught.value.code == "no_space"
        assert backend.read(NOTE) == OLD
        assert not [name for name in os.listdir(made.root) if name.startswith(OURS)]
        os.unlink(f"{made.root}/ballast")
        backend.write(NOTE, "x" * 50_000)
        assert backend.read(NOTE) == "x" * 50_000


def fill(path: str, step: int) -> None:
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(bytes(step)):
                pass
        except OSError:
            return


@pytest.mark.parametrize("store", ALL)
def test_no_more_inodes(tmp_path_factory: pytest.TempPathFactory, store: str) -> None:
    base = str(tmp_path_factory.mktemp("inodes"))
    made = Lab(store, "a/note", base)
    with mounted(made.root, "nr_inodes=12"):
        backend = made.open()
        backend.write(NOTE, OLD)
        taken = use_up_names(made.root)
        with pytest.raises(StoreError) as caught:
            backend.write(NOTE, "new")
        assert caught.value.code == ("store_failed" if store == "sqlite" else "no_space")  # SQLite says no more
        assert backend.read(NOTE) == OLD
        os.unlink(taken[0])
        backend.write(NOTE, "new")
        assert backend.read(NOTE) == "new"


def use_up_names(root: str) -> list[str]:
    taken: list[str] = []
    for n in range(100):
        try:
            os.close(os.open(f"{root}/taken-{n}", os.O_CREAT | os.O_WRONLY))
        except OSError:
            return taken
        taken.append(f"{root}/taken-{n}")
    raise AssertionError("the inodes did not run out")


@pytest.mark.parametrize("store", ALL)
def test_a_read_only_file_system(tmp_path_factory: pytest.TempPathFactory, store: str) -> None:
    base = str(tmp_path_factory.mktemp("read-only"))
    made = Lab(store, "a/note", base)
    with mounted(made.root, "size=1m"):
        backend = made.open()
        backend.write(NOTE, OLD)
        getattr(backend, "close", lambda: None)()  # an open database keeps the mount writable
        subprocess.run(["mount", "-o", "remount,ro", made.root], check=True)
        with pytest.raises(AgentmError) as caught:
            backend.write(NOTE, "new")
        assert caught.value.code == "read_only_store"
        assert backend.read(NOTE) == OLD
        assert made.open().read(NOTE) == OLD


@pytest.mark.parametrize("store", STORES)
def test_writes_that_come_back_short(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    root = str(tmp_path_factory.mktemp("short"))
    backend = STORES[store](f"{root}/store", f"{root}/locks")
    real, calls = os.write, []

    def short(fd: int, data: bytes) -> int:
        calls.append(len(data))
        return real(fd, bytes(data)[:3])

    monkeypatch.setattr(os, "write", short)
    backend.write(NOTE, "twenty-one characters")
    assert calls[-7:] == [21, 18, 15, 12, 9, 6, 3]
    assert seen_plainly(f"{root}/store").files == {"a/note": "twenty-one characters"}


@pytest.mark.parametrize("store", ALL)
def test_signals_that_interrupt_everything(tmp_path_factory: pytest.TempPathFactory, store: str) -> None:
    made = Lab(store, "a/note", str(tmp_path_factory.mktemp("signals")))
    backend = made.open()
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        for n in range(60):
            backend.write(NOTE, f"{n} " * 5000)
            assert backend.read(NOTE) == f"{n} " * 5000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(rung) > 20
