"""The opt-in routing check: the repository registry works on this backend."""

from __future__ import annotations

import os
from contextlib import suppress

from agentm import repo_registry
from agentm.conformance.expect import expect, same
from agentm.conformance.trial import Trial
from agentm.seam import Locator, Remove, StorageBackend, require


def routing(trial: Trial) -> None:
    """Register, list and unregister under a name of our own; what was registered before stays."""
    backend = trial.backend
    place = repo_registry.registry_locator(backend)
    same("type of registry_locator's result", type(place), Locator)
    old = _text(backend, place)
    try:
        _cycle(backend)
    finally:
        _restore(backend, place, old)


def _cycle(backend: StorageBackend) -> None:
    before = _repos(backend)
    mine, other = (f"conformance-{os.urandom(6).hex()}-{name}" for name in ("one", "two"))
    repo_registry.register_repo(backend, mine, "/conformance/root", "/conformance/wiki")
    repo_registry.register_repo(backend, other, "/conformance/other")
    same("repositories after two were registered", _repos(backend) - before, {mine, other})
    entry = next(repo for repo in repo_registry.list_repos(backend) if repo["slug"] == mine)
    same("the root path of a registered repository", entry["root_path"], "/conformance/root")
    repo_registry.register_repo(backend, mine, "/conformance/moved")
    same("repositories after one was registered again", _repos(backend) - before, {mine, other})
    repo_registry.unregister_repo(backend, mine)
    same("repositories after one was unregistered", _repos(backend) - before, {other})
    repo_registry.unregister_repo(backend, other)
    same("repositories in the end", _repos(backend), before)


def _repos(backend: StorageBackend) -> set[str]:
    slugs = [str(repo["slug"]) for repo in repo_registry.list_repos(backend)]
    expect(len(slugs) == len(set(slugs)), "a repository is listed twice")
    return set(slugs)


def _text(backend: StorageBackend, place: Locator) -> str | None:
    try:
        return backend.read(place)
    except FileNotFoundError:
        return None


def _restore(backend: StorageBackend, place: Locator, old: str | None) -> None:
    if _text(backend, place) == old:
        return
    if old is not None:
        backend.write(place, old)
    elif backend.capabilities.remove:
        require(backend, Remove).remove(place)
        with suppress(OSError):  # others may keep something there
            require(backend, Remove).remove(place.parent)
