from __future__ import annotations

import json
import os

import pytest

import agentm
from agentm.backends.memory import MemoryBackend
from agentm.errors import ProjectFileError
from agentm.projects import is_slug, origin_url, repo_name, resolve_project
from agentm.seam import Locator
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("SEAM-26")


@pytest.fixture
def place(home) -> str:
    """A working directory below the home."""
    path = os.path.join(home, "code", "thing")
    os.makedirs(path)
    return path


@pytest.fixture
def store() -> MemoryBackend:
    return MemoryBackend()


def put(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def project_file(root: str, content: object) -> None:
    put(os.path.join(root, ".harness", "project.json"), content if isinstance(content, str) else json.dumps(content))


def git(root: str, url: str) -> None:
    put(os.path.join(root, ".git", "config"), f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n')


def slug_of(cwd: str) -> str | None:
    return resolve_project(cwd, MemoryBackend())["slug"]


def test_a_directory_that_is_no_project(place, store):
    assert resolve_project(place, store) == {
        "slug": None,
        "project_locator": None,
        "backend": store,
        "project_root": place,
        "layout": "none",
    }


@pytest.mark.parametrize(
    ("made", "layout", "key"),
    [
        ((), "none", None),
        (("projects/thing/_index.md",), "new", "projects/thing"),
        (("personal-projects/thing/_index.md",), "legacy", "personal-projects/thing"),
        (("personal-projects/thing/a.md", "projects/thing/a.md"), "new", "projects/thing"),
        (("projects/thing-2/a.md", "projects/other/thing/a.md"), "none", None),
    ],
)
def test_the_layout_is_where_the_store_has_the_project(place, store, made, layout, key):
    project_file(place, {"vault_project": "thing"})
    for each in made:
        store.write(Locator(each), "x")
    before = list(store.changes({}))
    found = resolve_project(place, store)
    assert type(found) is dict
    assert found["layout"] == layout
    assert found["project_locator"] == (Locator(key) if key else None)
    assert list(store.changes({})) == before
    assert found["backend"] is store


def test_the_project_file_goes_before_git_and_its_own_name_before_the_repository(place):
    git(place, "https://example.org/ann/from-git.git")
    assert slug_of(place) == "from-git"
    project_file(place, {"github_repo": "ann/from-repo"})
    assert slug_of(place) == "from-repo"
    project_file(place, {"github_repo": "ann/from-repo", "vault_project": "named"})
    assert slug_of(place) == "named"


def test_a_project_file_without_a_name_leaves_it_to_git(place):
    git(place, "https://example.org/ann/from-git.git")
    contents: list[object] = [{}, {"vault_project": None}, {"vault_project": "", "repo": ""}, {"github": {}}]
    for content in contents:
        project_file(place, content)
        assert slug_of(place) == "from-git"


@pytest.mark.parametrize(
    "content",
    [
        {"github_repo": "ann/thing"},
        {"github_repo": "thing"},
        {"github": {"repo": "ann/thing"}},
        {"github": {"repo": "thing", "owner": "ann"}},
        {"github": "ann/thing"},
        {"repository": "https://github.com/ann/thing"},
        {"repository": "https://github.com/ann/thing/tree/main/docs"},
        {"repository": {"type": "git", "url": "git+https://github.com/ann/thing.git"}},
        {"repo": "git@github.com:ann/thing.git"},
    ],
)
def test_the_usual_ways_to_name_a_repository(place, content):
    project_file(place, content)
    assert slug_of(place) == "thing"


def test_it_is_found_from_below_up_to_the_root_of_git(place):
    inner = os.path.join(place, "src", "deep")
    os.makedirs(inner)
    git(place, "https://example.org/ann/outer.git")
    project_file(place, {"vault_project": "outer"})
    found = resolve_project(inner, MemoryBackend())
    assert (found["slug"], found["project_root"]) == ("outer", place)
    git(os.path.join(place, "src"), "https://example.org/ann/inner.git")
    found = resolve_project(inner, MemoryBackend())
    assert (found["slug"], found["project_root"]) == ("inner", os.path.join(place, "src"))


def test_the_nearest_project_file_counts(place):
    inner = os.path.join(place, "part")
    project_file(place, {"vault_project": "whole"})
    project_file(inner, {"vault_project": "part"})
    found = resolve_project(inner, MemoryBackend())
    assert (found["slug"], found["project_root"]) == ("part", inner)


def test_a_project_file_in_the_home_is_not_everybodys(home, place):
    project_file(home, {"vault_project": "dotfiles"})
    assert slug_of(place) is None
    assert slug_of(home) == "dotfiles"
    git(home, "https://example.org/ann/home.git")
    assert slug_of(place) == "dotfiles"


def test_a_path_object_and_a_relative_path_do(place, monkeypatch, tmp_path):
    project_file(place, {"vault_project": "thing"})
    monkeypatch.chdir(place)
    assert resolve_project(".", MemoryBackend())["project_root"] == place
    assert resolve_project(tmp_path, MemoryBackend())["project_root"] == str(tmp_path)


def test_a_directory_that_is_not_there_is_no_project(place):
    assert slug_of(os.path.join(place, "no", "such")) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"vault_project": 5}', '{"vault_project": ["a"]}', '{"github_repo": 5}', '{"repo": "/"}'],
)
def test_a_project_file_that_cannot_be_used_is_an_error_not_an_absent_one(place, content):
    git(place, "https://example.org/ann/from-git.git")
    project_file(place, content)
    with pytest.raises(ProjectFileError) as caught:
        resolve_project(place, MemoryBackend())
    assert caught.value.code == "project_file_invalid"
    assert os.path.join(place, ".harness", "project.json") in str(caught.value)


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: os.symlink("gone", path)], ids=["dir", "fifo", "link"]
)
def test_something_else_in_its_place_is_an_error_too(place, make):
    os.mkdir(os.path.join(place, ".harness"))
    make(os.path.join(place, ".harness", "project.json"))
    with pytest.raises(ProjectFileError):
        resolve_project(place, MemoryBackend())


def test_bytes_that_are_not_utf_8_are_an_error(place):
    os.mkdir(os.path.join(place, ".harness"))
    with open(os.path.join(place, ".harness", "project.json"), "wb") as file:
        file.write(b'{"vault_project": "\xff"}')
    with pytest.raises(ProjectFileError, match="not UTF-8"):
        resolve_project(place, MemoryBackend())


def test_a_folder_that_may_not_be_looked_into_is_an_error(place, monkeypatch):
    real = os.lstat

    def refuse(path, **more):
        if str(path).endswith("project.json"):
            raise PermissionError(13, "Permission denied")
        return real(path, **more)

    monkeypatch.setattr(os, "lstat", refuse)
    with pytest.raises(ProjectFileError, match="Permission denied"):
        resolve_project(place, MemoryBackend())


UNSAFE = [
    "..", ".", "a/b", "a\\b", "/etc", "a\0b", "a\nb", " a", "a ", "a.", "x" * 256, "é" * 128, "nul", "COM1.md", "a:b",
    "\u202egnp",
]  # fmt: skip


@pytest.mark.parametrize("slug", UNSAFE)
def test_a_slug_is_one_safe_segment(place, slug):
    assert not is_slug(slug)
    project_file(place, {"vault_project": slug})
    with pytest.raises(ProjectFileError, match="cannot name a project"):
        resolve_project(place, MemoryBackend())


@pytest.mark.parametrize("slug", ["thing", ".github", "a.b", "Ünï-code_1", "日本", "x" * 255, "nullable", "a b"])
def test_any_other_name_may_be_a_slug(slug):
    assert is_slug(slug)


@pytest.mark.parametrize("other", [None, 5, ["a"], b"a", ""])
def test_what_is_no_text_is_no_slug(other):
    assert not is_slug(other)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/ann/thing", "thing"),
        ("https://github.com/ann/thing.git", "thing"),
        ("https://github.com/ann/thing.git/", "thing"),
        ("https://github.com/ann/thing//", "thing"),
        ("https://token@github.com/ann/thing.git?x=1#y", "thing"),
        ("https://www.github.com/ann/thing/issues/5", "thing"),
        ("https://gitlab.example.org/group/sub/thing.git", "thing"),
        ("https://example.org/ann/caf%C3%A9.git", "café"),
        ("ssh://git@github.com/ann/thing.git", "thing"),
        ("ssh://git@example.org:2222/ann/thing", "thing"),
        ("git://example.org/thing.git", "thing"),
        ("git@github.com:ann/thing.git", "thing"),
        ("github:ann/thing", "thing"),
        ("host:thing.git", "thing"),
        ("file:///srv/git/thing.git", "thing"),
        ("/srv/git/thing.git/", "thing"),
        ("/home/ann/thing/.git", "thing"),
        ("../thing", "thing"),
        ("C:\\repos\\thing", "thing"),
        ("ann/thing", "thing"),
        ("thing", "thing"),
        ("thing.github.io", "thing.github.io"),
        ("  ann/thing  ", "thing"),
        ("https://github.com", None),
        ("https://github.com/", None),
        ("https://example.org/ann/%2e%2e", None),
        ("https://example.org/ann/a%5Cb", None),
        ("..", None),
        ("/", None),
        ("", None),
        (".git", None),
    ],
)
def test_the_name_in_an_address(url, name):
    assert repo_name(url) == name


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ('[remote "origin"]\n\turl = a/b\n', "a/b"),
        ('[remote "origin"]\r\n\turl = a/b\r\n', "a/b"),
        ('[REMOTE "origin"]\nURL=a/b', "a/b"),
        ('[remote "origin"] url = a/b', "a/b"),
        ('[remote "upstream"]\nurl = x/y\n[remote "origin"]\nurl = a/b', "a/b"),
        ('[remote "origin"]\npushurl = x/y\nurl = a/b\nurl = c/d', "a/b"),
        ('[remote "origin"]\nurl = "a/b" ; home\n', "a/b"),
        ('[remote "origin"]\nurl = "a#b/c" # not a comment inside\n', "a#b/c"),
        ('[remote "origin"]\nurl = a/\\\nb\n', "a/b"),
        ('[remote "origin"]\nurl = "a\\\\b"\n', "a\\b"),
        ('# [remote "origin"]\n; url = x\n', None),
        ('[remote "Origin"]\nurl = a/b', None),
        ('[branch "origin"]\nurl = a/b', None),
        ("[remote]\nurl = a/b", None),
        ('[remote "origin"]\nfetch = +refs/heads/*', None),
        ("", None),
    ],
)
def test_the_origin_in_a_git_config(config, url):
    assert origin_url(config) == url


def test_a_worktree_leads_to_the_repository_it_came_from(home, place):
    main = os.path.join(home, "main")
    git(main, "git@example.org:ann/thing.git")
    admin = os.path.join(main, ".git", "worktrees", "wt")
    put(os.path.join(admin, "commondir"), "../..\n")
    for pointer in (admin, os.path.relpath(admin, place)):
        put(os.path.join(place, ".git"), f"gitdir: {pointer}\n")
        assert resolve_project(place, MemoryBackend())["project_root"] == place
        assert slug_of(place) == "thing"


def test_a_submodule_has_an_origin_of_its_own(home, place):
    git(home, "https://example.org/ann/outer.git")
    put(
        os.path.join(home, ".git", "modules", "part", "config"), '[remote "origin"]\nurl = https://example.org/x/part\n'
    )
    put(os.path.join(place, ".git"), "gitdir: ../../.git/modules/part\n")
    assert slug_of(place) == "part"


@pytest.mark.parametrize("damage", ["no config", "no origin", "config is a directory", "points nowhere", "unsafe name"])
def test_a_repository_without_a_usable_origin_has_no_slug(place, damage):
    if damage == "points nowhere":
        put(os.path.join(place, ".git"), "gitdir: /no/such/place\n")
    elif damage == "config is a directory":
        os.makedirs(os.path.join(place, ".git", "config"))
    elif damage == "no config":
        os.makedirs(os.path.join(place, ".git"))
    else:
        git(place, "https://example.org/ann/..%2f" if damage == "unsafe name" else "")
    found = resolve_project(place, MemoryBackend())
    assert (found["slug"], found["layout"], found["project_root"]) == (None, "none", place)


def test_git_is_never_run_and_nothing_is_written(home, place, monkeypatch):
    def run(*_args, **_more):
        raise AssertionError("a program was run")

    for name in ("posix_spawn", "system", "popen", "fork", "execv"):
        monkeypatch.setattr(os, name, run)
    git(place, "https://example.org/ann/thing.git")
    before = snapshot(home)
    assert slug_of(place) == "thing"
    assert snapshot(home) == before


def test_it_is_importable_from_the_front_door():
    assert agentm.resolve_project is resolve_project
