"""The repositories that a memory knows of, kept in the memory itself as `_meta/repos.json`.

Two machines may register at once: each change is a compare-and-swap of the whole file, tried again when somebody
else was faster. There is no lock around it. A file that cannot be understood is never written over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from agentm.errors import NotTextError, RepoRegistryError
from agentm.projects import is_slug
from agentm.seam import Locator, StorageBackend, update

VERSION = 1


def registry_locator(backend: StorageBackend) -> Locator:
    """Where the registry is in a store."""
    return backend.resolve("_meta", "repos.json")


def read_registry(backend: StorageBackend) -> dict[str, Any]:
    """The registry, ``{"version": 1, "repos": [...]}``; an empty one if there is none yet.

    Raises RepoRegistryError for a file that is malformed or of another version.
    """
    try:
        return _parse(backend.read(registry_locator(backend)))
    except FileNotFoundError:
        return _parse(None)
    except NotTextError as cause:
        raise _bad("it is not UTF-8") from cause


def write_registry(backend: StorageBackend, registry: dict[str, Any]) -> Locator:
    """Put a whole registry in place of the one that is there, unless that one cannot be understood."""
    _check(registry)
    return _mutate(backend, lambda _: registry)


def register_repo(backend: StorageBackend, slug: str, root_path: str, wiki_path: str | None = None) -> dict[str, Any]:
    """Add a repository, or change the one of that slug, and return its entry.

    Keys of an entry that this version does not know stay, and so does its ``wiki_path`` when none is given.
    """
    if not is_slug(slug):
        raise RepoRegistryError(f"{slug!r} cannot name a repository; use one plain name such as 'my-project'.")
    given = {"slug": slug, "root_path": os.fspath(root_path)}
    if wiki_path is not None:
        given["wiki_path"] = os.fspath(wiki_path)
    _check_entry(given)
    entry: dict[str, Any] = {}

    def upsert(registry: dict[str, Any]) -> dict[str, Any]:
        old: dict[str, Any] = next((repo for repo in registry["repos"] if repo["slug"] == slug), {})
        entry.clear()
        entry.update({**old, **given})
        others = [repo for repo in registry["repos"] if repo["slug"] != slug]
        return {**registry, "repos": [*others, entry]}

    _mutate(backend, upsert)
    return dict(entry)


def unregister_repo(backend: StorageBackend, slug: str) -> bool:
    """Take a repository out; False when it was not there, and then nothing is written."""
    if all(repo["slug"] != slug for repo in read_registry(backend)["repos"]):
        return False
    removed = False

    def drop(registry: dict[str, Any]) -> dict[str, Any]:
        nonlocal removed
        others = [repo for repo in registry["repos"] if repo["slug"] != slug]
        removed = len(others) < len(registry["repos"])
        return {**registry, "repos": others}

    _mutate(backend, drop)
    return removed


def list_repos(backend: StorageBackend) -> list[dict[str, Any]]:
    """The entries, sorted by slug."""
    return sorted(read_registry(backend)["repos"], key=lambda repo: str(repo["slug"]))


def _mutate(backend: StorageBackend, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Locator:
    locator = registry_locator(backend)
    try:
        update(backend, locator, lambda text: _encode(change(_parse(text))))
    except NotTextError as cause:
        raise _bad("it is not UTF-8") from cause
    return locator


def _encode(registry: dict[str, Any]) -> str:
    repos = [_ordered(repo, ("slug", "root_path", "wiki_path")) for repo in registry["repos"]]
    repos.sort(key=lambda repo: str(repo["slug"]))
    ordered = _ordered({**registry, "repos": repos}, ("version", "repos"))
    text = json.dumps(ordered, indent=2, ensure_ascii=False)
    if any("\ud800" <= char <= "\udfff" for char in text):
        # A path that is not UTF-8 has no other form in JSON than escapes.
        text = json.dumps(ordered, indent=2)
    return f"{text}\n"


def _ordered(mapping: dict[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    head = {key: mapping[key] for key in first if key in mapping}
    return {**head, **{key: mapping[key] for key in sorted(mapping.keys() - head.keys())}}


def _parse(text: str | None) -> dict[str, Any]:
    if text is None:
        return {"version": VERSION, "repos": []}
    try:
        registry = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as cause:
        raise _bad(f"it is not JSON ({cause})") from cause
    _check(registry)
    return registry  # type: ignore[no-any-return]


def _check(registry: object) -> None:
    if not isinstance(registry, dict):
        raise _bad("it holds no JSON object")
    version = registry.get("version")
    if version != VERSION or isinstance(version, bool):
        raise _bad(f"its version is {version!r}, and this agentm knows version {VERSION}")
    repos = registry.get("repos")
    if not isinstance(repos, list):
        raise _bad("its 'repos' is no list")
    for repo in repos:
        _check_entry(repo)
    if len({repo["slug"] for repo in repos}) != len(repos):
        raise _bad("it has two entries with one slug")


def _check_entry(repo: object) -> None:
    if not isinstance(repo, dict) or not isinstance(repo.get("slug"), str) or not repo["slug"]:
        raise _bad(f"the entry {repo!r} has no slug")
    if not isinstance(repo.get("root_path"), str) or not repo["root_path"]:
        raise _bad(f"the entry {repo['slug']!r} has no root_path")
    if "wiki_path" in repo and not isinstance(repo["wiki_path"], str | None):
        raise _bad(f"the wiki_path of {repo['slug']!r} is no text")


def _bad(why: str) -> RepoRegistryError:
    return RepoRegistryError(
        f"the repository registry (_meta/repos.json) cannot be used: {why}; correct it by hand, or upgrade agentm.",
        locator="_meta/repos.json",
    )
