"""What a store says of places that are not only what they are called.

A store of files can hold links, and follows them when it reads. Whoever keeps others within bounds, or takes a tree
away, has to know. A store offers `Linked` for that; one that does not has no links. A layer passes on what the store
inside it says.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from agentm.seam.backend import StorageBackend
from agentm.seam.locator import Locator


@runtime_checkable
class Linked(Protocol):
    """A store whose places are files of this machine."""

    @property
    def folder(self) -> str | None:
        """The folder that they lie in: the place ``a/b`` is the file ``a/b`` below it. None: they are no files."""

    def is_link(self, locator: Locator) -> bool:
        """Whether the place itself leads elsewhere. Nothing there: False."""


@runtime_checkable
class Guarded(Protocol):
    """A store that refuses some of its places to whoever uses it."""

    def check_whole(self, locator: Locator) -> None:
        """BoundaryError if a place, or something below it, may not be moved or removed."""


def folder_of(backend: StorageBackend) -> str | None:
    """The folder of files that a store is; None if it is none."""
    return backend.folder if isinstance(backend, Linked) else None


def is_link(backend: StorageBackend, place: Locator) -> bool:
    """Whether a place leads elsewhere."""
    return isinstance(backend, Linked) and backend.is_link(place)


def check_whole(backend: StorageBackend, place: Locator) -> None:
    """BoundaryError if a store says beforehand that it will not have a tree moved or removed."""
    if isinstance(backend, Guarded):
        backend.check_whole(place)
