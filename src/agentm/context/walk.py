"""Every node of a store, one after the other, without holding more than one folder in memory."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from agentm.context.uri import ACCOUNTS, ContextUri, Folder, child_of
from agentm.errors import InvalidUriError
from agentm.seam import Locator, StorageBackend


def nodes(backend: StorageBackend, account: str | None = None) -> Iterator[ContextUri]:
    """The addresses at which a node is, or was begun: every folder in the shape of one."""
    for place in backend.list(Locator(ACCOUNTS)):
        # Also one that is asked for is taken from the list: a store that folds names would answer to another spelling.
        name = unicodedata.normalize("NFC", place.name)
        if not name.startswith(".") and account in (None, name):
            yield from _below(backend, Folder(name, None, ()))


def _below(backend: StorageBackend, folder: Folder) -> Iterator[ContextUri]:
    for place in backend.list(folder.locator):
        try:
            found = child_of(folder, place.name)
        except InvalidUriError:
            continue  # somebody else's file
        if isinstance(found, ContextUri):
            yield found
        else:
            yield from _below(backend, found)
