from __future__ import annotations

import json
import os

import pytest

from agentm.cli import main
from agentm.config import CONFIG_NAME
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("SEAM-20")


@pytest.fixture
def stored(home):
    """What the config file of the home holds now."""

    def read(prefix: str = "") -> dict[str, object]:
        with open(os.path.join(prefix or os.path.join(home, ".agentm"), CONFIG_NAME), encoding="utf-8") as file:
            return json.load(file)

    return read


def test_set_get_list_and_unset(capsys, stored):
    assert main(["config", "set", "storage.backend", "sqlite"]) == 0
    assert capsys.readouterr() == ("storage.backend = sqlite\n", "")
    assert stored() == {"storage.backend": "sqlite"}
    assert main(["config", "get", "storage.backend"]) == 0
    assert capsys.readouterr().out == "sqlite\n"
    main(["config", "set", "theme", "dark"])
    capsys.readouterr()
    for args in (["config", "list"], ["config"]):
        assert main(args) == 0
        assert capsys.readouterr().out == "storage.backend = sqlite\ntheme = dark\n"
    assert main(["config", "unset", "theme"]) == 0
    assert capsys.readouterr() == ("", "")
    assert stored() == {"storage.backend": "sqlite"}
    assert main(["config", "unset", "theme"]) == 0
    assert capsys.readouterr() == ("", "agentm: hint: 'theme' was not set.\n")


def test_json_of_each(capsys):
    def answer(*args: str) -> object:
        assert main(["config", *args]) == 0
        return json.loads(capsys.readouterr().out)

    assert answer("list", "--json") == {}
    assert answer("set", "a", "b", "--json") == {"a": "b"}
    assert answer("--json", "get", "a") == {"key": "a", "value": "b"}
    assert answer("--json") == {"a": "b"}
    assert answer("unset", "a", "--json") == {"key": "a", "removed": True}
    assert answer("unset", "a", "--json") == {"key": "a", "removed": False}


def test_the_prefix_may_stand_before_or_after_the_action(capsys, stored, home, tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert main(["config", "--install-prefix", one, "set", "a", "1"]) == 0
    assert main(["config", "set", "a", "2", "--install-prefix", two]) == 0
    assert (stored(one), stored(two)) == ({"a": "1"}, {"a": "2"})
    assert not os.path.exists(os.path.join(home, ".agentm"))


def test_a_vault_path_is_made_absolute_and_chooses_the_vault(capsys, stored, home):
    os.mkdir(os.path.join(home, "Notes"))
    assert main(["config", "set", "kept", "yes"]) == 0
    assert main(["config", "--vault-path", "~/Notes"]) == 0
    assert stored() == {
        "kept": "yes",
        "plugins.obsidian-vault.vault_path": os.path.join(home, "Notes"),
        "storage.backend": "vault",
    }
    assert main(["config", "--vault-path", "~/Notes", "--storage-backend", "vault"]) == 0


def test_a_vault_path_without_a_parent_is_refused_with_what_to_type(capsys, home):
    before = snapshot(home)
    assert main(["config", "--vault-path", os.path.join(home, "My Nots", "Mine")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("agentm: vault_path_missing: ")
    assert f"mkdir -p '{home}/My Nots/Mine'" in err
    assert snapshot(home) == before


@pytest.mark.spec("SEAM-27")
def test_the_other_options(capsys, stored):
    assert main(["config", "--storage-backend", "memory", "--state-mode", "vault"]) == 0
    assert stored() == {"storage.backend": "memory", "state_mode": "backend"}
    assert main(["config", "get", "state_mode"]) == 0
    assert capsys.readouterr().out.endswith("backend\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--vault-path", ".", "--storage-backend", "sqlite"],
        ["--storage-backend", "memory", "set", "a", "b"],
        ["set", "a"],
        ["frobnicate"],
    ],
)
def test_what_makes_no_sense_together_is_a_usage_error(capsys, home, args):
    before = snapshot(home)
    assert main(["config", *args]) == 2
    assert capsys.readouterr().err.startswith("agentm: usage: ")
    assert snapshot(home) == before


@pytest.mark.parametrize("args", [["set", "storage.backend", ""], ["--storage-backend", " "], ["--state-mode", ""]])
def test_an_empty_value_is_refused(capsys, home, args):
    before = snapshot(home)
    assert main(["config", *args]) == 1
    assert capsys.readouterr().err.startswith("agentm: config_invalid: ")
    assert snapshot(home) == before


def test_hints_go_to_stderr_and_the_value_is_kept(capsys, stored):
    assert main(["config", "set", "storge.backend", "vault"]) == 0
    assert capsys.readouterr().err == "agentm: hint: nobody reads 'storge.backend'; did you mean storage.backend?\n"
    assert main(["config", "set", "storage.backend", "acme"]) == 0
    assert "no installed plugin registers 'acme' yet" in capsys.readouterr().err
    assert stored() == {"storge.backend": "vault", "storage.backend": "acme"}


@pytest.mark.parametrize(
    ("key", "sentence"),
    [("no.such", "agentm config list prints what is."), ("storage_backend", "did you mean storage.backend?")],
)
def test_a_key_that_is_not_set_is_an_error(capsys, key, sentence):
    assert main(["config", "get", key]) == 1
    assert capsys.readouterr().err == f"agentm: config_key_unset: the key {key!r} is not set; {sentence}\n"


def test_values_that_are_no_text_are_shown_as_json(capsys, home):
    os.mkdir(os.path.join(home, ".agentm"))
    with open(os.path.join(home, ".agentm", CONFIG_NAME), "w") as file:
        file.write('{"a": [1, null], "b": {"c": true}}')
    assert main(["config", "list"]) == 0
    assert capsys.readouterr().out == 'a = [1, null]\nb = {"c": true}\n'


def test_a_broken_file_is_one_line_and_stays(capsys, home):
    os.mkdir(os.path.join(home, ".agentm"))
    with open(os.path.join(home, ".agentm", CONFIG_NAME), "w") as file:
        file.write("{")
    before = snapshot(os.path.join(home, ".agentm"))
    for args in (["list"], ["get", "a"], ["set", "a", "b"], ["unset", "a"], ["--state-mode", "x"]):
        assert main(["config", *args]) == 1
        err = capsys.readouterr().err
        assert err.startswith("agentm: config_unreadable: ")
        assert err.count("\n") == 1
    assert snapshot(os.path.join(home, ".agentm")) == before
