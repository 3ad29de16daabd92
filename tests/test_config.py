from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from agentm import config
from agentm.backends import _durable
from agentm.errors import ConfigError, LockLostError
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("SEAM-20")


def write(prefix, data: str | bytes) -> str:
    os.makedirs(prefix, exist_ok=True)
    path = os.path.join(prefix, config.CONFIG_NAME)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def read_back(prefix) -> str:
    with open(os.path.join(prefix, config.CONFIG_NAME), encoding="utf-8") as file:
        return file.read()


def test_prefix_is_the_argument_then_the_variable_then_the_home(home, tmp_path, monkeypatch):
    assert config.config_path() == os.path.join(home, ".agentm", ".agentm-config.json")
    monkeypatch.setenv("AGENTM_INSTALL_PREFIX", str(tmp_path / "variable"))
    assert config.install_prefix() == str(tmp_path / "variable")
    assert config.install_prefix(tmp_path / "argument") == str(tmp_path / "argument")


def test_an_empty_variable_is_no_prefix(home, monkeypatch):
    monkeypatch.setenv("AGENTM_INSTALL_PREFIX", "")
    assert config.install_prefix() == os.path.join(home, ".agentm")


def test_a_prefix_with_a_tilde_is_below_the_home(home):
    assert config.install_prefix("~/elsewhere") == os.path.join(home, "elsewhere")


def test_a_home_that_nobody_has_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="write the path out in full"):
        config.install_prefix("~no-such-user-here/x")


def test_no_file_is_an_empty_config_and_reading_makes_nothing(home):
    before = snapshot(home)
    assert config.read_config() == {}
    assert config.get_value("storage.backend") is None
    assert config.unset_value("storage.backend") is False
    assert snapshot(home) == before


UNREADABLE = {
    "empty": b"",
    "cut off": b'{"storage.backend": "va',
    "no object": b'["vault"]',
    "a number": b"7",
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": "b"}'.encode("utf-16"),
    "a key twice": b'{"storage.backend": "vault", "storage.backend": "memory"}',
    "too deep": b"[" * 100_000,
    "an endless number": b'{"a": ' + b"9" * 5000 + b"}",
    "too large": b'{"a": "' + b"x" * (1 << 20) + b'"}',
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_that_cannot_be_understood_is_an_error_and_stays_as_it_is(tmp_path, data):
    path = write(tmp_path, data)
    for attempt in (
        lambda: config.read_config(tmp_path),
        lambda: config.set_values({"a": "b"}, tmp_path),
        lambda: config.unset_value("a", tmp_path),
    ):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert caught.value.code == "config_unreadable"
        assert repr(path) in str(caught.value)
    with open(path, "rb") as file:
        assert file.read() == data


def in_the_way(kind: str, prefix: str) -> None:
    path = os.path.join(prefix, config.CONFIG_NAME)
    if kind == "prefix is a file":
        os.rmdir(prefix)
        with open(prefix, "w"):
            return
    {
        "directory": os.mkdir,
        "fifo": os.mkfifo,
        "dangling link": lambda path: os.symlink(path + ".gone", path),
        "link to itself": lambda path: os.symlink(path, path),
    }[kind](path)


@pytest.mark.parametrize("kind", ["directory", "fifo", "dangling link", "link to itself", "prefix is a file"])
def test_something_else_in_its_place_is_an_error_not_an_absent_file(tmp_path, kind):
    prefix = str(tmp_path / "prefix")
    os.mkdir(prefix)
    in_the_way(kind, prefix)
    before = snapshot(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        config.read_config(prefix)
    assert caught.value.code == "config_unreadable"
    assert snapshot(str(tmp_path)) == before


def test_a_file_without_permission_is_an_error_not_an_absent_file(tmp_path, monkeypatch):
    write(tmp_path, "{}")

    def refuse(path, *_args, **_more):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConfigError, match="Permission denied") as caught:
        config.read_config(tmp_path)
    assert caught.value.code == "config_unreadable"


def test_a_byte_order_mark_is_not_held_against_it(tmp_path):
    write(tmp_path, b"\xef\xbb\xbf" + b'{"storage.backend": "memory"}')
    assert config.read_config(tmp_path) == {"storage.backend": "memory"}


def test_writing_keeps_keys_it_does_not_know_and_their_order(tmp_path):
    write(tmp_path, '{"zeta": [1, {"deep": null}], "storage.backend": "vault", "überschrift": "ä", "alpha": 0.5}')
    config.set_values({"storage.backend": "memory", "new.key": "x"}, tmp_path)
    assert list(json.loads(read_back(tmp_path)).items()) == [
        ("zeta", [1, {"deep": None}]),
        ("storage.backend", "memory"),
        ("überschrift", "ä"),
        ("alpha", 0.5),
        ("new.key", "x"),
    ]
    assert '"überschrift": "ä"' in read_back(tmp_path)
    assert read_back(tmp_path).endswith("}\n")
    assert config.unset_value("zeta", tmp_path) is True
    assert list(config.read_config(tmp_path)) == ["storage.backend", "überschrift", "alpha", "new.key"]


def test_the_file_and_its_directory_are_made_on_the_first_write(tmp_path):
    prefix = tmp_path / "a" / "b"
    config.set_values({"storage.backend": "memory"}, prefix)
    assert json.loads(read_back(prefix)) == {"storage.backend": "memory"}
    assert os.listdir(prefix) == [config.CONFIG_NAME]


def test_a_config_that_is_a_link_stays_one(tmp_path):
    target = write(tmp_path / "dotfiles", '{"kept": "yes"}')
    os.mkdir(tmp_path / "prefix")
    link = tmp_path / "prefix" / config.CONFIG_NAME
    os.symlink(target, link)
    config.set_values({"storage.backend": "memory"}, tmp_path / "prefix")
    assert os.path.islink(link)
    assert config.read_config(tmp_path / "dotfiles") == {"kept": "yes", "storage.backend": "memory"}


def test_permission_bits_survive_a_write(tmp_path):
    path = write(tmp_path, "{}")
    os.chmod(path, 0o600)
    config.set_values({"a": "b"}, tmp_path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_path_that_is_not_utf_8_comes_back(tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.mkdir(folder)
    config.set_values({config.VAULT_PATH: os.fsdecode(folder)}, tmp_path)
    assert os.fsencode(config.get_value(config.VAULT_PATH, tmp_path)) == folder


def test_a_vault_path_is_made_absolute_and_its_parent_must_be_there(home, tmp_path, monkeypatch):
    os.mkdir(os.path.join(home, "Notes"))
    written = config.set_values({config.VAULT_PATH: "~/Notes"}, tmp_path)
    assert written == {config.VAULT_PATH: os.path.join(home, "Notes")}
    monkeypatch.chdir(home)
    assert config.check_value(config.LEGACY_VAULT_PATH, "Notes") == os.path.join(home, "Notes")
    before = snapshot(str(tmp_path)), snapshot(home)
    with pytest.raises(ConfigError, match="mkdir -p") as caught:
        config.set_values({config.VAULT_PATH: "~/Nots/Mine", "storage.backend": "vault"}, tmp_path)
    assert caught.value.code == "vault_path_missing"
    assert (snapshot(str(tmp_path)), snapshot(home)) == before


@pytest.mark.parametrize("key", sorted(config.KNOWN_KEYS))
def test_a_known_key_is_never_empty(tmp_path, key):
    for value in ("", "  "):
        with pytest.raises(ConfigError, match=f"agentm config unset {key}"):
            config.set_values({key: value}, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_value_or_key_of_another_type_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="pass a str"):
        config.set_values({"a": 5}, tmp_path)  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="non-empty text"):
        config.set_values({"": "x"}, tmp_path)


def test_any_backend_name_may_be_written_because_selection_judges_it(tmp_path):
    config.set_values({"storage.backend": "not-installed-yet"}, tmp_path)
    assert config.get_value("storage.backend", tmp_path) == "not-installed-yet"


@pytest.mark.spec("SEAM-27")
def test_state_mode_vault_reads_and_writes_as_backend(tmp_path):
    write(tmp_path, '{"state_mode": "vault"}')
    assert config.get_value("state_mode", tmp_path) == "backend"
    assert config.read_config(tmp_path) == {"state_mode": "backend"}
    assert config.set_values({"state_mode": "vault"}, tmp_path) == {"state_mode": "backend"}
    assert json.loads(read_back(tmp_path)) == {"state_mode": "backend"}
    config.set_values({"state_mode": "local"}, tmp_path)
    assert config.get_value("state_mode", tmp_path) == "local"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("storge.backend", "storage.backend"),
        ("storage_backend", "storage.backend"),
        ("Storage.Backend", "storage.backend"),
        ("storage.backends", "storage.backend"),
        ("plugins.obsidian_vault.vault_path", "plugins.obsidian-vault.vault_path"),
        ("vault-path", "vault_path"),
        ("statemode", "state_mode"),
        ("storage.backend", None),
        ("vault_path", None),
        ("plugins.weather.city", None),
        ("plugins.other-store.path", None),
        ("theme", None),
    ],
)
def test_a_slip_of_the_pen_is_told_from_a_key_of_its_own(key, near):
    assert config.nearest_key(key) == near


def test_known_keys_inside_objects_are_found():
    nested = {"storage": {"backend": "vault", "other": 1}, "plugins": {"sqlite": {"path": "/x"}}, "state_mode": "a"}
    assert config.nested_keys(nested) == ["storage.backend", "plugins.sqlite.path"]
    assert config.nested_keys({"storage.backend": "vault", "mine": {"anything": {}}}) == []


def test_a_directory_that_refuses_is_a_typed_error_and_the_old_config_stays(tmp_path, monkeypatch):
    write(tmp_path, '{"kept": "yes"}')

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_durable, "write_file", full)
    with pytest.raises(ConfigError, match="No space left") as caught:
        config.set_values({"a": "b"}, tmp_path)
    assert caught.value.code == "config_unwritable"
    assert config.read_config(tmp_path) == {"kept": "yes"}


def test_a_flush_that_failed_at_the_end_is_called_unknown(tmp_path, monkeypatch):
    def unsettled(*_):
        raise _durable.Unsettled(5, "Input/output error")

    monkeypatch.setattr(_durable, "write_file", unsettled)
    with pytest.raises(ConfigError, match="power cut") as caught:
        config.set_values({"a": "b"}, tmp_path)
    assert caught.value.code == "outcome_unknown"


def test_a_writer_that_lost_its_lock_while_asleep_does_not_write(tmp_path, monkeypatch):
    monkeypatch.setattr("agentm.backends._mutex.Held.ours", lambda self: False)
    with pytest.raises(LockLostError):
        config.set_values({"a": "b"}, tmp_path)
    assert os.listdir(tmp_path) == []


WRITER = """
import sys
from agentm.config import set_values
prefix, name = sys.argv[1:]
sys.stdin.readline()
for number in range(10):
    set_values({f"{name}.{number}": name}, prefix)
"""


@pytest.mark.slow
def test_processes_that_set_different_keys_at_once_all_get_their_way(tmp_path):
    write(tmp_path, '{"first": "kept"}')
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), f"w{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number in range(6)
    ]
    for writer in writers:
        assert writer.stdin
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    keys = {f"w{number}.{each}" for number in range(6) for each in range(10)}
    assert set(config.read_config(tmp_path)) == {"first", *keys}
