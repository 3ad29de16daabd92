"""`state_path`: always a path; a marker that leads nowhere is loud."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentm import ActivePlanError, AgentmError, state_path
from tests.process.places import build, configure, put
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("PROC-03")


@pytest.fixture
def project(home) -> str:
    """A project, and no memory."""
    root = os.path.join(home, "code", "loom")
    put(os.path.join(root, ".harness", "project.json"), '{"vault_project": "loom"}')
    return root


def marker(root: str, content: str | bytes) -> None:
    put(os.path.join(root, ".harness", "active-plan"), content)


@pytest.mark.parametrize(("which", "name"), [("plan", "PLAN.md"), ("progress", "progress.md")])
def test_in_a_vault_it_lies_with_the_project(vault, which, name):
    assert state_path(vault.context, which) == Path(vault.store, "projects", "loom", "_harness", name)


def test_in_the_older_layout_too(home):
    place = build(home, "vault", {"personal-projects/loom/_index.md": "x"})
    assert state_path(place.context, "plan") == Path(place.store, "personal-projects", "loom", "_harness", "PLAN.md")


@pytest.mark.parametrize("protocol", ["device-local", "sqlite"])
def test_a_store_that_does_not_sync_leaves_it_in_the_project(home, protocol):
    place = build(home, protocol)
    assert state_path(place.context, "plan") == Path(place.project, ".harness", "PLAN.md")


def test_without_a_memory_it_is_in_the_project(project):
    assert state_path({"cwd": project}, "progress") == Path(project, ".harness", "progress.md")


def test_from_a_folder_below_it_is_the_same(project):
    deep = os.path.join(project, "src", "deep")
    os.makedirs(deep)
    assert state_path({"cwd": deep}, "plan") == Path(project, ".harness", "PLAN.md")


def test_without_a_context_it_is_the_directory_of_the_process(project, monkeypatch):
    monkeypatch.chdir(project)
    assert state_path(None, "plan") == Path(project, ".harness", "PLAN.md")


def test_a_directory_that_is_no_project_has_a_path_too(home):
    assert state_path({"cwd": home}, "plan") == Path(home, ".harness", "PLAN.md")


def test_a_git_worktree_is_a_project_of_its_own(home):
    tree = os.path.join(home, "tree")
    put(os.path.join(tree, ".git"), "gitdir: ../main/.git/worktrees/tree\n")
    os.makedirs(os.path.join(tree, "src"))
    assert state_path({"cwd": os.path.join(tree, "src")}, "plan") == Path(tree, ".harness", "PLAN.md")


@pytest.mark.parametrize(
    "config",
    [
        "{ not json",
        {"storage.backend": "nobody"},
        {"storage.backend": "vault"},
        {"storage.backend": "vault", "plugins.obsidian-vault.vault_path": "/nowhere/at/all"},
    ],
)
def test_a_store_that_cannot_be_had_leaves_it_in_the_project(home, project, config):
    configure(home, config)
    assert state_path({"cwd": project}, "plan") == Path(project, ".harness", "PLAN.md")


def test_a_vault_that_does_not_know_the_project_leaves_it_there(home):
    place = build(home, "vault", {"personal/_always-load/a.md": "x"})
    assert state_path(place.context, "plan") == Path(place.project, ".harness", "PLAN.md")


def test_the_owner_may_want_it_in_the_project(vault):
    path = Path(vault.project, ".harness", "PLAN.md")
    configure(
        vault.home,
        {"storage.backend": "vault", "plugins.obsidian-vault.vault_path": vault.store, "state_mode": "local"},
    )
    assert state_path(vault.context, "plan") == path


@pytest.mark.parametrize("content", ["{ not json", "[]", b"\xff"])
def test_a_broken_project_file_leaves_it_beside_that(vault, content):
    put(os.path.join(vault.project, ".harness", "project.json"), content)
    deep = os.path.join(vault.project, "src")
    os.makedirs(deep)
    assert state_path({"cwd": deep}, "plan") == Path(vault.project, ".harness", "PLAN.md")


@pytest.mark.parametrize("which", ["", "Plan", "PLAN.md", "state", None, 3, ["plan"]])
def test_another_file_is_a_mistake_of_the_caller(home, which):
    with pytest.raises(ValueError, match="'plan' or 'progress'") as caught:
        state_path(None, which)
    assert isinstance(caught.value, AgentmError)
    assert caught.value.code == "state_file_invalid"


@pytest.mark.parametrize(("which", "name"), [("plan", "PLAN-foo.md"), ("progress", "progress-foo.md")])
def test_a_plan_may_have_a_name(vault, project, which, name):
    assert state_path({**vault.context, "plan": "foo"}, which).name == name
    assert state_path({**vault.context, "plan": "foo"}, which).parent.name == "_harness"


@pytest.mark.parametrize("plan", ["", None])
def test_no_name_is_the_plan_without_one(project, plan):
    assert state_path({"cwd": project, "plan": plan}, "plan").name == "PLAN.md"


UNSAFE = [
    "../up",
    "a/b",
    "a\\b",
    "/etc/passwd",
    ".",
    "..",
    ".hidden",
    "two words",
    "a\nb",
    "nul",
    "x" * 201,
    "a\0b",
    "-rf",
]


@pytest.mark.parametrize("plan", [*UNSAFE, 7, ["foo"], True])
def test_an_unsafe_name_is_refused(project, plan):
    with pytest.raises(ValueError, match="cannot name a plan"):
        state_path({"cwd": project, "plan": plan}, "plan")


@pytest.mark.parametrize("which", ["plan", "progress"])
def test_the_marker_names_the_active_plan(vault, which):
    marker(vault.project, "foo\n")
    put(os.path.join(vault.store, "projects", "loom", "_harness", "PLAN-foo.md"), "# Foo")
    stem = {"plan": "PLAN", "progress": "progress"}[which]
    assert state_path(vault.context, which).name == f"{stem}-foo.md"


def test_the_marker_counts_without_a_memory_too(project):
    marker(project, "foo")
    put(os.path.join(project, ".harness", "PLAN-foo.md"), "# Foo")
    assert state_path({"cwd": project}, "plan") == Path(project, ".harness", "PLAN-foo.md")


def test_the_callers_choice_goes_before_the_marker(project):
    marker(project, "ghost")
    assert state_path({"cwd": project, "plan": "bar"}, "plan").name == "PLAN-bar.md"


def test_a_marker_that_leads_nowhere_is_loud(vault):
    marker(vault.project, "ghost")
    put(os.path.join(vault.project, ".harness", "PLAN-ghost.md"), "not where this project keeps its plans")
    put(os.path.join(vault.store, "projects", "loom", "_harness", "PLAN.md"), "somebody else's plan")
    with pytest.raises(ActivePlanError, match="ghost") as caught:
        state_path(vault.context, "plan")
    assert caught.value.code == "active_plan_invalid"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("content", [*(name for name in UNSAFE), "", " \n", b"\xff\xfe", "x" * 2_000_000])
def test_a_marker_that_names_no_plan_is_loud(project, content):
    marker(project, content)
    with pytest.raises(ActivePlanError):
        state_path({"cwd": project}, "progress")


def test_a_marker_that_cannot_be_read_is_loud(project):
    path = os.path.join(project, ".harness", "active-plan")
    os.symlink("nowhere", path)
    with pytest.raises(ActivePlanError, match="link to nothing"):
        state_path({"cwd": project}, "plan")
    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(ActivePlanError):
        state_path({"cwd": project}, "plan")


def test_nothing_is_made(vault):
    before = snapshot(vault.home)
    state_path({**vault.context, "plan": "new"}, "plan")
    assert snapshot(vault.home) == before
