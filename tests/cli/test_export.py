"""`agentm export`, and back with `agentm import`."""

from __future__ import annotations

import os
import zipfile

import pytest

from tests.cli.nodes import MINE
from tests.snapshot import snapshot


@pytest.fixture
def zip_path(shell, home) -> str:
    """Where the export of two related memories, one of them with two versions, is to go."""
    shell.done("remember", "Weaves.", "--to", "entities/bob", "--tag", "people")
    shell.done("remember", "Knows Bob.", "--to", "entities/ada")
    shell.done("relate", "entities/ada", "entities/bob", "--type", "knows")
    return os.path.join(home, "backup.zip")


@pytest.mark.spec("SURF-01")
def test_an_export_and_its_way_back_to_another_place(shell, zip_path, home):
    assert shell.done("export", zip_path) == f"exported 2 memories of ctx://local/users/alice to {zip_path}\n"
    before = {name: shell.json("history", name) for name in ("entities/ada", "entities/bob")}
    shell.done("config", "set", "storage.backend", "sqlite")
    code, out, err = shell("import", zip_path)
    assert (code, out) == (0, "2 new, 0 changed, 0 unchanged, 0 kept as they are here, 0 empty, 0 left out\n")
    assert err == f"agentm: hint: {zip_path} is a zip that agentm export wrote (agentm).\n"
    assert {name: shell.json("history", name) for name in before} == before
    assert shell.done("relate", "entities/bob", "--list") == "← entities/ada  knows 1\n"
    assert shell.json("import", zip_path)["counts"]["same"] == 2


def test_only_a_place(shell, zip_path):
    shell.done("remember", "Likes tea.", "--to", "profile")
    done = shell.json("export", zip_path, "--place", "profile")
    assert done == {"file": zip_path, "place": f"{MINE}/profile", "exported": 1, "left_out": []}
    assert len(zipfile.ZipFile(zip_path).namelist()) == 7


def test_a_file_that_is_there_is_not_written_over_unless_forced(shell, zip_path):
    with open(zip_path, "w") as file:
        file.write("mine")
    assert "--force" in shell.refused("export", zip_path, code="already_exists")
    with open(zip_path) as file:
        assert file.read() == "mine"
    shell.done("export", zip_path, "--force")
    assert zipfile.is_zipfile(zip_path)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--place", "entities/eva"], "node_not_found"),
        (["--place", "nonsense"], "invalid_uri"),
        (["--place", "ctx://local/users/bob"], "access_denied"),
        (["--place", "ctx://other"], "access_denied"),
    ],
)
def test_what_cannot_be_exported_leaves_no_file(shell, zip_path, home, args, code):
    before = snapshot(home)
    shell.refused("export", zip_path, *args, code=code)
    assert snapshot(home) == before


def test_a_folder_that_is_not_there_is_said(shell, zip_path):
    shell.refused("export", os.path.join(zip_path, "x", "y.zip"), code="not_found")


def test_what_is_left_out_is_said_and_exits_1(shell, zip_path, home):
    ada = os.path.join(home, ".agentm", "memory", "accounts", "local", "users", "alice", "memories", "entities", "ada")
    with open(os.path.join(ada, ".meta.json"), "w") as file:
        file.write("[]")
    code, out, err = shell("export", zip_path)
    assert (code, out) == (1, f"exported 1 memory of ctx://local/users/alice to {zip_path}\n")
    assert err.startswith("agentm: node_broken: ")
    assert shell("export", zip_path, "--force", "--json")[0] == 1


def test_an_edge_to_what_was_not_exported_is_a_hint(shell, zip_path):
    shell.done("export", zip_path, "--place", "entities/ada")
    code, out, err = shell("import", zip_path, "--user", "carol")
    assert (code, out[:6]) == (0, "1 new,")
    assert err.endswith("agentm: hint: relations to memories that are not here were left out: 1.\n")
