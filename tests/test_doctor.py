from __future__ import annotations

import json
import os
import sqlite3
import time
from importlib import metadata

import pytest

from agentm import doctor
from agentm.backends.memory import MemoryBackend
from agentm.cli import main
from agentm.config import CONFIG_NAME
from agentm.doctor import Finding, confirm, diagnose
from agentm.errors import CapabilityMismatchError, StorageSelectionError
from agentm.selection import storage_preview
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("SEAM-25")


@pytest.fixture
def configure(home):
    def write(content: object) -> None:
        os.makedirs(os.path.join(home, ".agentm"), exist_ok=True)
        with open(os.path.join(home, ".agentm", CONFIG_NAME), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    return write


@pytest.fixture
def vault(tmp_path, configure) -> str:
    folder = tmp_path / "Vault"
    folder.mkdir()
    configure({"storage.backend": "vault", "plugins.obsidian-vault.vault_path": str(folder)})
    return str(folder)


def found(name: str) -> list[Finding]:
    return [finding for finding in diagnose() if finding.name == name]


def one(name: str) -> Finding:
    findings = found(name)
    assert len(findings) == 1
    return findings[0]


def put(*parts: str) -> str:
    path = os.path.join(*parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("text")
    return path


def test_the_storage_line_comes_first_and_is_the_previews(vault):
    first = diagnose()[0]
    assert (first.name, first.status, first.line) == ("storage", "ok", storage_preview().line)


def test_a_fresh_install_is_well_and_stays_untouched(home):
    before = snapshot(home)
    findings = diagnose()
    assert {finding.status for finding in findings} == {"ok"}
    assert [finding.name for finding in findings] == ["storage", "config", "python", "sqlite"]
    assert snapshot(home) == before


def test_a_vault_that_is_gone_is_told(vault):
    os.rmdir(vault)
    storage = diagnose()[0]
    assert (storage.name, storage.status) == ("storage", "warn")
    assert vault in storage.text
    assert not os.path.exists(vault)


def test_a_store_that_is_there_is_looked_at_and_stays_as_it_is(home, vault):
    put(vault, "note.md")
    put(home, ".agentm", "memory", "note.md")
    before = snapshot(vault), snapshot(home)
    assert {finding.status for finding in diagnose()} == {"ok"}
    assert (snapshot(vault), snapshot(home)) == before


def test_a_store_that_is_not_there_is_not_opened(configure, home, monkeypatch):
    def opened(**_):
        raise AssertionError("opened")

    monkeypatch.setattr(doctor, "select_backend", opened)
    for name in ("device-local", "sqlite", "memory"):
        configure({"storage.backend": name})
        expected = {"ok", "warn"} if name == "memory" else {"ok"}  # which forgets
        assert {finding.status for finding in diagnose()} == expected


@pytest.mark.spec("SEAM-25")
def test_a_store_that_is_there_and_cannot_be_opened_fails(configure, home):
    configure({"storage.backend": "sqlite"})
    with open(os.path.join(home, ".agentm", "memory.db"), "wb") as file:
        file.write(os.urandom(3000))
    assert diagnose()[0].status == "fail"
    assert main(["doctor"]) == 1


@pytest.mark.parametrize(
    "content", ["{", {"storage.backend": "acme"}, {"storage.backend": "vault"}, {"storage.backend": 5}]
)
def test_a_store_that_would_be_refused_fails_and_the_rest_is_still_checked(configure, home, content):
    configure(content)
    before = snapshot(home)
    findings = diagnose()
    assert [finding.name for finding in findings if finding.status == "fail"] == ["storage"]
    assert {"python", "sqlite"} <= {finding.name for finding in findings}
    assert snapshot(home) == before


def test_conflict_copies_are_counted_and_the_first_three_named(vault):
    assert one("conflicts").line == "conflicts [OK] no conflict copies"
    for number in range(5):
        put(vault, f"note{number} (Ann's conflicted copy 2025-03-17).md")
    finding = one("conflicts")
    assert finding.status == "warn"
    assert finding.text.startswith('5 conflict copies in the store: "note0 (Ann\'s conflicted copy 2025-03-17).md", ')
    assert "note2" in finding.text
    assert "note3" not in finding.text
    assert " and 2 more; compare each with its original" in finding.text


def test_one_conflict_copy_is_one(vault):
    put(vault, "deep", "note.sync-conflict-20250317-101500-ABCDEFG.md")
    assert one("conflicts").text.startswith("1 conflict copy in the store: 'deep/note.sync-conflict-")
    assert " more" not in one("conflicts").text


def test_locks_inside_the_vault_fail(vault, monkeypatch):
    assert one("local-files").status == "ok"
    os.symlink(vault, f"{vault}-link")
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join(f"{vault}-link", "cache"))
    finding = one("local-files")
    assert finding.status == "fail"
    assert "XDG_CACHE_HOME" in finding.text
    assert os.listdir(vault) == []


def test_a_folder_whose_name_merely_begins_like_the_vaults_is_outside(vault, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{vault}-cache")
    assert one("local-files").status == "ok"


def test_a_database_inside_the_vault_fails(tmp_path, configure):
    (tmp_path / "Vault").mkdir()
    path = tmp_path / "Vault" / "memory.db"
    path.write_bytes(b"")
    configure({"storage.backend": "sqlite", "plugins.sqlite.path": str(path), "vault_path": str(tmp_path / "Vault")})
    finding = one("local-files")
    assert finding.status == "fail"
    assert "agentm config set plugins.sqlite.path" in finding.text


def test_times_ahead_of_the_clock_are_a_warning(vault):
    assert found("clock") == []
    path = put(vault, "note.md")
    ahead = time.time() + 7200
    os.utime(path, (ahead, ahead))
    assert one("clock").line.startswith(
        "clock [WARN] the store has times up to 120 min ahead of this clock (entries: 1); "
    )


def test_leftovers_of_dead_writers_are_counted(vault):
    put(vault, ".agentm-tmp-0011223344556677.part")
    assert one("temporary-files").line.startswith("temporary-files [OK] 1 left by writers that died")


def test_slips_and_nested_keys_in_the_config_are_a_warning(configure):
    configure({"storge.backend": "vault", "plugins": {"sqlite": {"path": "/x"}}, "theme": "dark"})
    findings = found("config")
    assert [finding.status for finding in findings] == ["warn", "warn"]
    assert "'storge.backend'; if you meant storage.backend, type: agentm config set storage.backend" in findings[0].text
    assert findings[1].text.startswith("plugins.sqlite.path stands inside an object")


def test_keys_that_nobody_knows_are_fine(configure):
    configure({"theme": "dark", "plugins.weather.city": "Bern"})
    assert one("config").line.endswith("keys: 2")


def test_plugins_that_claim_one_name_or_a_built_in_are_a_warning(monkeypatch):
    points = [
        metadata.EntryPoint("acme", "one:Store", "agentm.backends"),
        metadata.EntryPoint("acme", "two:Store", "agentm.backends"),
        metadata.EntryPoint("vault", "three:Store", "agentm.backends"),
        metadata.EntryPoint("fine", "four:Store", "agentm.backends"),
        metadata.EntryPoint("fine", "four:Store", "agentm.backends"),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda **_: points)
    assert [(finding.status, finding.text.partition(";")[0]) for finding in found("plugins")] == [
        ("warn", "2 plugins call themselves acme: one:Store, two:Store"),
        ("warn", "vault of three:Store is never used, because agentm has one of that name itself"),
    ]


@pytest.mark.parametrize(
    ("version", "faulty"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_an_sqlite_with_the_known_fault_is_named_without_alarm(monkeypatch, version, faulty):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    finding = one("sqlite")
    assert finding.status == "ok"
    assert ("rollback journals" in finding.text) is faulty


def test_our_database_does_use_the_journal_that_makes_the_fault_harmless(configure, home):
    from agentm.selection import select_backend

    configure({"storage.backend": "sqlite"})
    store = select_backend()
    store.write(store.resolve("note.md"), "text")
    store.close()  # type: ignore[attr-defined]
    connection = sqlite3.connect(os.path.join(home, ".agentm", "memory.db"))
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_a_check_that_fails_itself_is_a_warning_on_one_line(vault, monkeypatch):
    def broken(_):
        raise RuntimeError("line one\nline two")

    monkeypatch.setattr(doctor, "detect_conflict_files", broken)
    finding = one("conflicts")
    assert (finding.status, finding.text) == ("warn", "could not be checked: line one\\nline two")


def test_what_is_required_is_confirmed_without_making_a_store(home):
    before = snapshot(home)
    assert confirm(["remove", "compare_and_swap"]) == "device-local"
    with pytest.raises(CapabilityMismatchError):
        confirm(["remove", "encryption"])
    assert snapshot(home) == before


@pytest.mark.parametrize("names", [["speed"], ["remove", "speed"], []])
def test_an_unknown_capability_is_refused_before_any_store_is_looked_at(configure, monkeypatch, names):
    configure("{")
    with pytest.raises(StorageSelectionError, match="choose from concurrent_writers, ") as caught:
        confirm(names)
    assert caught.value.code == "capability_unknown"


def test_a_third_party_is_asked_by_making_it(configure, monkeypatch):
    from agentm import selection
    from agentm.seam import BackendRegistry

    class Acme(MemoryBackend):
        pass

    mine = BackendRegistry()
    mine.register("acme", Acme)
    monkeypatch.setattr(selection, "registry", mine)
    configure({"storage.backend": "acme"})
    assert confirm(["watch"]) == "acme"
