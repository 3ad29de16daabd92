"""The process door reads only: proved by tripwires, by the interpreter's own audit, and by a hash of the whole home."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import agentm
from agentm import ActivePlanError, DeviceLocalBackend, offer_save_here, recall_here, select_backend, state_path
from agentm.context.uri import parse_uri
from agentm.process.reading import Database, reading
from agentm.recall.phases import BUDGETS
from agentm.seam import Locator
from tests.process import audited
from tests.process.places import STORES, Place, build, configure, put
from tests.process.tripwires import Tripped, fingerprint, tripwires

pytestmark = pytest.mark.spec("PROC-06")

_SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))


def use_everything(project: str) -> None:
    """Every function, with everything it takes. Only the marker of a plan may be complained about."""
    for phase in (*BUDGETS, "unknown"):
        recall_here({"cwd": project, "phase": phase}, query="looms?", limit=2_000)
    recall_here({"cwd": project}, limit=0)
    recall_here(None)
    offer_save_here({"cwd": project, "phase": "plan"}, {"kind": "decision", "slug": "x", "body": "y"})
    offer_save_here(None, "text")
    for which in ("plan", "progress"):
        with suppress(ActivePlanError):
            state_path({"cwd": project}, which)
        state_path({"cwd": project, "plan": "named"}, which)


def prove(home: str, project: str) -> None:
    before = fingerprint(home)
    with tripwires() as wires:
        use_everything(project)
    assert wires.stepped_on == []
    assert fingerprint(home) == before


def test_an_absent_home(home, monkeypatch):
    gone = os.path.join(home, "gone")
    monkeypatch.setenv("HOME", gone)
    monkeypatch.setenv("USERPROFILE", gone)
    prove(home, os.path.join(gone, "code"))
    assert os.listdir(home) == []


def test_an_empty_home(home):
    prove(home, home)
    assert os.listdir(home) == []


@pytest.mark.parametrize("protocol", STORES)
def test_an_absent_store(home, protocol):
    place = build(home, protocol)
    shutil.rmtree(place.store) if os.path.isdir(place.store) else os.unlink(place.store)
    prove(home, place.project)
    assert not os.path.exists(place.store)


@pytest.mark.parametrize("protocol", STORES)
def test_an_empty_store(home, protocol):
    prove(home, build(home, protocol, {}).project)


def test_a_store_with_notes(place):
    assert recall_here(place.context) != ""
    prove(place.home, place.project)


def test_a_store_with_an_index(place):
    with agentm.Memory.open() as memory:
        memory.remember("Warping the loom takes two hours.", tags=["project:loom"])
        memory.catch_up()
    assert "two hours" in recall_here(place.context, query="warping looms?")
    prove(place.home, place.project)


def test_a_memory_that_somebody_edited_by_hand_is_not_adopted(place):
    with agentm.Memory.open() as memory:
        uri = memory.remember("Warping the loom takes two hours.", slug="warping", tags=["project:loom"]).uri
        memory.catch_up()
        content = parse_uri(uri).locator.child("content.md")
        memory.fs.backend.write(content, "Warping the loom takes three hours.")
    for folder, _, names in os.walk(place.store):
        for name in names:
            os.utime(os.path.join(folder, name), (1, 1))  # nobody is at it any more
    prove(place.home, place.project)


def _bad_config(place: Place) -> None:
    configure(place.home, "{ not json")


def _config_list(place: Place) -> None:
    configure(place.home, "[1, 2]")


def _config_folder(place: Place) -> None:
    config = os.path.join(place.home, ".agentm", ".agentm-config.json")
    os.unlink(config)
    os.mkdir(config)


def _meta_list(place: Place) -> None:
    backend = select_backend()
    node = "accounts/local/users/me/memories/events/x"
    for name in ("_meta/repos.json", f"{node}/.meta.json", f"{node}/content.md"):
        backend.write(backend.resolve(name), "[1, 2]")
    if hasattr(backend, "close"):
        backend.close()


def _not_text(place: Place) -> None:
    if os.path.isdir(place.store):
        for name in ("personal/_always-load/bad.md", "projects/loom/decisions/bad.md", "projects/loom/_index.md"):
            put(os.path.join(place.store, name), b"\xff\xfe\x00")
    else:
        with sqlite3.connect(place.store) as connection:
            connection.execute("UPDATE entries SET content = x'fffe00' WHERE is_dir = 0")
        connection.close()


def _damaged(place: Place) -> None:
    if os.path.isdir(place.store):
        shutil.rmtree(os.path.join(place.store, "projects"))
        put(os.path.join(place.store, "projects"), "a file where a folder was")
    else:
        with open(place.store, "r+b") as file:
            file.seek(50)
            file.write(b"\xff" * 5_000)


def _crashed(place: Place) -> None:
    """What a writer that died leaves behind, and the next one to open the store clears up."""
    if os.path.isdir(place.store):
        put(os.path.join(place.store, ".agentm-tmp-0123456789abcdef.part"), "half a no")
    else:
        put(f"{place.store}-journal", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))


def _write_ahead(place: Place) -> None:
    if not os.path.isdir(place.store):
        connection = sqlite3.connect(place.store)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()


def _bad_project(place: Place) -> None:
    put(os.path.join(place.project, ".harness", "project.json"), "[]")


def _bad_marker(place: Place) -> None:
    put(os.path.join(place.project, ".harness", "active-plan"), "../../up")


CORRUPTIONS = [
    _bad_config,
    _config_list,
    _config_folder,
    _meta_list,
    _not_text,
    _damaged,
    _crashed,
    _write_ahead,
    _bad_project,
    _bad_marker,
]


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__.strip("_"))
def test_a_corrupt_home(place, corrupt, monkeypatch):
    monkeypatch.setattr(Database, "patience", 0.05)
    corrupt(place)
    prove(place.home, place.project)


@contextmanager
def _nobody(home: str) -> Iterator[None]:
    """A user for whom the home is read-only; root could write whatever the modes say."""
    for directory, folders, files in os.walk(home):
        for path in (directory, *(os.path.join(directory, name) for name in (*folders, *files))):
            os.chmod(path, 0o555 if os.path.isdir(path) else 0o444)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for directory, _, _ in os.walk(home):
            os.chmod(directory, 0o755)


def test_a_read_only_home(place):
    expected = recall_here(place.context)
    with _nobody(place.home):
        with pytest.raises(PermissionError), open(os.path.join(place.home, "x"), "w"):
            pass
        assert recall_here(place.context) == expected != ""
        prove(place.home, place.project)


def run_audited(place: Place, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": _SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, audited.__file__, *args]
    return subprocess.run(command, cwd=place.project, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "args",
    [
        ["recall-here", "--phase", "plan", "--query", "looms"],
        ["state-path", "plan"],
        ["offer-save-here", "--kind", "decision", "--slug", "x"],
    ],
    ids=lambda args: args[0],
)
def test_the_interpreter_sees_no_change_either(place, args):
    before = fingerprint(place.home)
    done = run_audited(place, *args)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout != ""
    assert fingerprint(place.home) == before


def test_the_audit_bites(vault):
    done = run_audited(vault, "remember", "Something.")
    assert "AUDIT open" in done.stderr
    assert "AUDIT os.mkdir" in done.stderr


def _writes(root: str) -> dict[str, Callable[[], object]]:
    path = os.path.join(root, "x")
    return {
        "os.mkdir": lambda: os.mkdir(path),
        "os.makedirs": lambda: os.makedirs(path),
        "os.open": lambda: os.open(path, os.O_WRONLY | os.O_CREAT),
        "os.unlink": lambda: os.unlink(path),
        "os.utime": lambda: os.utime(root),
        "open": lambda: open(path, "w"),
        "Path.touch": lambda: pathlib.Path(path).touch(),
        "shutil.rmtree": lambda: shutil.rmtree(path),
        "sqlite3.connect": lambda: sqlite3.connect(path),
        "subprocess.Popen": lambda: subprocess.run(["true"]),
        "a store": lambda: DeviceLocalBackend(path),
    }


@pytest.mark.parametrize("name", _writes(""))
def test_the_wires_bite(home, name):
    with tripwires() as wires, pytest.raises(Tripped):
        _writes(home)[name]()
    assert len(wires.stepped_on) == 1
    assert os.listdir(home) == []


def test_the_hash_bites(vault):
    before = fingerprint(vault.home)
    note = os.path.join(vault.store, "personal", "_always-load", "style.md")
    os.utime(note)
    assert fingerprint(vault.home) != before


def test_opening_the_store_to_write_would_have_shown(home):
    """The state that a crash leaves is one in which a store that is opened as usual does change something."""
    place = build(home, "device-local")
    _crashed(place)
    before = fingerprint(home)
    select_backend()
    assert fingerprint(home) != before


def test_a_reader_refuses_to_write(place):
    with reading() as store:
        assert store is not None
        with pytest.raises(PermissionError):
            store.write(Locator("x"), "text")
        with pytest.raises(PermissionError):
            store.mkdir(Locator("x"))


@pytest.mark.parametrize("protocol", STORES)
def test_a_reader_says_what_the_store_says(home, protocol):
    build(home, protocol)
    store = select_backend()
    with reading() as reader:
        assert reader is not None
        for key in ("", "projects", "projects/loom", "projects/loom/_index.md", "nowhere", "projects/loom/_index.md/x"):
            place = Locator(key)
            assert reader.exists(place) == store.exists(place)
            assert reader.list(place) == store.list(place)
        note = Locator("projects/loom/_index.md")
        assert reader.read(note) == store.read(note)
        assert reader.info(note) == store.info(note)
        assert reader.info(Locator("projects")).is_dir
        for absent in (Locator("nowhere"), Locator("projects/nowhere.md")):
            with pytest.raises(FileNotFoundError):
                reader.read(absent)
            with pytest.raises(FileNotFoundError):
                reader.info(absent)
        with pytest.raises(IsADirectoryError if protocol == "sqlite" else OSError):
            reader.read(Locator("projects"))
    if hasattr(store, "close"):
        store.close()


def test_the_engine_never_imports_the_door():
    """What remembers and recalls works without the door being loaded; the linter proves it for every module."""
    code = (
        "import sys, agentm; agentm.ContextFS; agentm.select_backend; agentm.resolve_project; agentm.repair;"
        "import agentm.doctor, agentm.plans, agentm.recall.phases; print('agentm.process' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
