"""Every node of a store, one after the other, without holding more than one folder in memory."""

from __future__ import annotations

from collections.abc import Iterator

from agentm.context.uri import ACCOUNTS, ContextUri, Folder, place_of
from agentm.errors import InvalidUriError
from agentm.seam import Locator, StorageBackend

_DEEPEST = 5


def nodes(backend: StorageBackend, account: str | None = None) -> Iterator[ContextUri]:
    """The addresses at which a node is, or was begun: every folder in the shape of one."""
    accounts = [account] if account else [place.name for place in backend.list(Locator(ACCOUNTS))]
    for name in accounts:
        if not name.startswith("."):  # what is kept beside the accounts
            yield from _below(backend, name, ())


def _below(backend: StorageBackend, account: str, path: tuple[str, ...]) -> Iterator[ContextUri]:
    for place in backend.list(Locator("/".join((ACCOUNTS, account, *path)))):
        try:
            found = place_of(account, (*path, place.name))
        except InvalidUriError:
            continue  # somebody else's file
        if isinstance(found, ContextUri):
            yield found
        elif isinstance(found, Folder) and len(found.path) < _DEEPEST:
            yield from _below(backend, account, found.path)
