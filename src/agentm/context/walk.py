"""Every node of a store, one after the other, without holding more than one folder in memory."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from agentm.context.node import CONTENT
from agentm.context.uri import ACCOUNTS, ContextUri, Folder, child_of
from agentm.errors import InvalidUriError
from agentm.seam import Locator, StorageBackend

Stray = Callable[[Locator, InvalidUriError], None]


def nodes(backend: StorageBackend, account: str | None = None, *, stray: Stray | None = None) -> Iterator[ContextUri]:
    """The addresses at which a node is, or was begun: every folder in the shape of one.

    ``stray`` hears of a memory in a folder whose name cannot be part of an address.
    """
    for place in backend.list(Locator(ACCOUNTS)):
        # Also one that is asked for is taken from the list: a store that folds names would answer to another spelling.
        name = unicodedata.normalize("NFC", place.name)
        if not name.startswith(".") and account in (None, name):
            yield from _below(backend, Folder(name, None, ()), stray)


def _below(backend: StorageBackend, folder: Folder, stray: Stray | None) -> Iterator[ContextUri]:
    for place in backend.list(folder.locator):
        try:
            found = child_of(folder, place.name)
        except InvalidUriError as error:
            if stray is not None and not place.name.startswith(".") and backend.exists(place.child(CONTENT)):
                stray(place, error)
            continue  # else somebody else's file
        if isinstance(found, ContextUri):
            yield found
        else:
            yield from _below(backend, found, stray)
