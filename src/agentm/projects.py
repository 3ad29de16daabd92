"""Which project a working directory belongs to, and where its memories are in a store.

The answer comes from files only: `.harness/project.json` if there is one, else the name of git's origin. Git itself
is never run, because a repository's settings may name programs to run.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, TypedDict

from agentm.errors import ProjectFileError
from agentm.seam import Locator, StorageBackend
from agentm.small_files import read_small

PROJECT_FILE = os.path.join(".harness", "project.json")
LAYOUTS = {"new": "projects", "legacy": "personal-projects"}
"""Layout → the directory of a store that holds its projects, in the order they are looked for."""

_REPO_KEYS = ("github_repo", "github", "repository", "repo")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices."""


class Project(TypedDict):
    slug: str | None
    project_locator: Locator | None
    backend: StorageBackend
    project_root: str
    layout: str


def resolve_project(cwd: str, backend: StorageBackend) -> Project:
    """The project of a directory: its slug, its root, and its place in the store.

    - ``slug``: `vault_project` of the project file, else its GitHub repo's name, else the name of git's origin,
      else None
    - ``layout``: `new` (``projects/<slug>``), `legacy` (``personal-projects/<slug>``) or `none`;
      ``project_locator`` is None when it is `none`
    - ``project_root``: where the project file is, else git's root, else the directory itself

    Raises ProjectFileError for a project file that is there but cannot be used.
    """
    start = os.path.abspath(os.fspath(cwd))
    git_root = _git_root(start)
    root, slug = git_root or start, None
    file_root = _project_file_root(start, git_root)
    if file_root is not None:
        root, slug = file_root, _slug_from_file(os.path.join(file_root, PROJECT_FILE))
    if slug is None and git_root is not None:
        slug = _slug_from_origin(git_root)
    layout, locator = _place(backend, slug)
    return Project(slug=slug, project_locator=locator, backend=backend, project_root=root, layout=layout)


def is_slug(text: object) -> bool:
    """Whether a text can name a project: one segment that every store and file system takes."""
    return (
        isinstance(text, str)
        and text not in ("", ".", "..")
        and text == text.strip()
        and not text.endswith(".")
        and not _RESERVED.fullmatch(text)
        and not any(char in '/\\:*?"<>|' or unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in text)
        and len(text.encode()) <= 255
    )


def repo_name(url: str) -> str | None:
    """The last name in a repository's address: https, ssh, scp-like, a path, or plain ``owner/name``."""
    host, text = "", url.strip()
    if "://" in text:
        host, _, text = _unquote(re.split(r"[?#]", text.split("://", 1)[1], maxsplit=1)[0]).partition("/")
    else:
        text = re.sub(r"^[^/\\]*:", "", text).replace("\\", "/")
    names = [name for name in text.split("/") if name and name != ".git"]
    if host.lower().removeprefix("www.") == "github.com":
        names = names[:2]  # what follows is a page of the repository
    name = names[-1].removesuffix(".git") if names else ""
    return name if is_slug(name) else None


def _place(backend: StorageBackend, slug: str | None) -> tuple[str, Locator | None]:
    if slug is not None:
        for layout, parent in LAYOUTS.items():
            locator = backend.resolve(parent, slug)
            if backend.exists(locator):
                return layout, locator
    return "none", None


def _ancestors(start: str) -> Iterator[str]:
    while True:
        yield start
        parent = os.path.dirname(start)
        if parent == start:
            return
        start = parent


def _git_root(start: str) -> str | None:
    return next((place for place in _ancestors(start) if os.path.exists(os.path.join(place, ".git"))), None)


def _project_file_root(start: str, git_root: str | None) -> str | None:
    """The nearest directory with a project file, not looking above git's root, nor in or above the home directory."""
    home = os.path.abspath(os.path.expanduser("~"))
    for place in _ancestors(start):
        if place == home and place not in (start, git_root):
            return None
        if _is_there(os.path.join(place, PROJECT_FILE)):
            return place
        if place in (git_root, home):
            return None
    return None


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as cause:
        raise _bad(path, f"it cannot be read ({cause.strerror or cause}); check what stands there") from cause
    return True


def _slug_from_file(path: str) -> str | None:
    project = _read_project(path)
    named = project.get("vault_project")
    if named not in (None, ""):
        if not is_slug(named):
            raise _bad(path, f"vault_project is {named!r}, which cannot name a project; use one plain name")
        return str(named)
    for key in _REPO_KEYS:
        value = project.get(key)
        if isinstance(value, dict):
            value = next((value[name] for name in ("repo", "name", "url") if value.get(name)), None)
        if value not in (None, ""):
            name = repo_name(value) if isinstance(value, str) else None
            if name is None:
                raise _bad(path, f"{key} is {value!r}, which names no repository; write owner/name or its address")
            return name
    return None


def _read_project(path: str) -> dict[str, Any]:
    try:
        data = read_small(path)
        project = json.loads(data.decode("utf-8-sig"))
    except OSError as cause:
        raise _bad(path, f"it cannot be read ({cause.strerror or cause}); check what stands there") from cause
    except UnicodeDecodeError as cause:
        raise _bad(path, f"byte {cause.start} is not UTF-8; save it as UTF-8") from cause
    except (ValueError, RecursionError) as cause:
        raise _bad(path, f"it is not JSON ({cause}); correct it") from cause
    if not isinstance(project, dict):
        raise _bad(path, "it holds no JSON object; write one, such as {}")
    return project


def _bad(path: str, why: str) -> ProjectFileError:
    return ProjectFileError(f"the project file {path!r} is there but cannot be used: {why}, or remove the file.")


def _slug_from_origin(git_root: str) -> str | None:
    try:
        text = read_small(os.path.join(_common_dir(git_root), "config")).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    url = origin_url(text)
    return repo_name(url) if url else None


def _common_dir(git_root: str) -> str:
    """The directory with git's config, following the pointer files of worktrees and submodules."""
    git_dir = os.path.join(git_root, ".git")
    if os.path.isfile(git_dir):
        pointer = read_small(git_dir).decode("utf-8", "surrogateescape")
        git_dir = os.path.join(git_root, pointer.removeprefix("gitdir:").strip())
    common = os.path.join(git_dir, "commondir")
    if os.path.isfile(common):
        git_dir = os.path.join(git_dir, read_small(common).decode("utf-8", "surrogateescape").strip())
    return os.path.normpath(git_dir)


_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)", re.DOTALL)


def origin_url(config: str) -> str | None:
    """The first url of remote "origin" in the text of a git config."""
    section: tuple[str, str | None] = ("", None)
    for line in config.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        header = _SECTION.match(line)
        if header:
            section = (header[1].lower(), header[2])
            line = line[header.end() :]
        entry = _ENTRY.fullmatch(line)
        if entry and section == ("remote", "origin") and entry[1].lower() == "url":
            return _git_value(entry[2])
    return None


def _git_value(raw: str) -> str:
    """A value without its quotes, escapes and trailing comment."""
    text, quoted, chars = "", False, iter(raw.strip())
    for char in chars:
        if char == '"':
            quoted = not quoted
        elif char == "\\":
            text += next(chars, "")
        elif char in "#;" and not quoted:
            break
        else:
            text += char
    return text.strip()


def _unquote(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text, errors="replace")
