"""Folders as a whole, over any store: what one holds, and taking one away with all of it."""

from __future__ import annotations

from contextlib import suppress

from agentm.errors import BoundaryError
from agentm.seam.abilities import Remove, require
from agentm.seam.backend import StorageBackend
from agentm.seam.links import check_whole, is_link
from agentm.seam.locator import ROOT, Locator
from agentm.seam.types import Info


def entries(backend: StorageBackend, place: Locator) -> list[Info]:
    """What a folder holds, sorted by key; ``[]`` where none is.

    - a link is a leaf, whatever it leads to: ``is_dir`` is False
    - what a scope does not let be looked at, and what is gone since it was listed, is left out
    """
    found = []
    for child in backend.list(place):
        with suppress(FileNotFoundError, BoundaryError):
            found.append(_leaf(backend, child) if is_link(backend, child) else backend.info(child))
    return found


def remove_tree(backend: StorageBackend, place: Locator) -> None:
    """Take away a file, or a folder with all it holds; a link goes, and what it leads to stays.

    - nothing there: raises FileNotFoundError; what is gone before its turn has come is fine
    - whatever a scope refuses is refused before the first file goes
    - the root: raises OSError, and nothing goes
    - what others put there meanwhile stays, and so does the folder that holds it: OSError (ENOTEMPTY)
    """
    remove = require(backend, Remove).remove
    check_whole(backend, place)
    every = [place] if place == ROOT else _whole(backend, place)
    for below in reversed(every[1:]):
        with suppress(FileNotFoundError):
            remove(below)
    remove(place)


def empty(backend: StorageBackend, folder: Locator) -> None:
    """Take away all that a folder holds; the folder stays."""
    for child in backend.list(folder):
        with suppress(FileNotFoundError):
            remove_tree(backend, child)


def _whole(backend: StorageBackend, place: Locator) -> list[Locator]:
    """A place and everything below it, each folder before what it holds."""
    every = [place]
    folders = [place] if _is_folder(backend, place) else []
    while folders:
        for child in backend.list(folders.pop()):
            every.append(child)
            with suppress(FileNotFoundError):
                if _is_folder(backend, child):
                    folders.append(child)
    return every


def _is_folder(backend: StorageBackend, place: Locator) -> bool:
    return not is_link(backend, place) and backend.info(place).is_dir


def _leaf(backend: StorageBackend, link: Locator) -> Info:
    """A link as what can be said of it without going on from there; it may lead nowhere, or round in a circle."""
    try:
        info = backend.info(link)
    except BoundaryError:
        raise
    except OSError:
        return Info(link, False, 0, 0.0)
    return Info(link, False, info.size, info.mtime)
