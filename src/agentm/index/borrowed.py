"""An index that lies where nothing may be written, made usable without building it anew.

Searching takes locks, and what is new has to go somewhere: both need a directory. So the small parts are copied into
one, and the large ones, which are never changed once they are written, are only pointed at.
"""

from __future__ import annotations

import os
import shutil

from agentm.index.catalogue import CURRENT, NAME
from agentm.index.fulltext import NAME as FULLTEXT

_LISTS = ("meta.json", ".managed.json")
"""Replaced with every commit: a copy stays what it was, with the segments that it names."""


def is_read_only(home: str) -> bool:
    """Whether there is an index that this process may read but not change."""
    current = os.path.join(home, CURRENT)
    there = os.path.isfile(os.path.join(current, NAME)) and os.path.isdir(os.path.join(current, FULLTEXT))
    return there and not all(os.access(folder, os.W_OK) for folder in (home, current, os.path.join(current, FULLTEXT)))


def borrow(home: str, new: str, *, vectors: bool) -> None:
    """Make an index in the folder ``new`` that is the one at ``home``, with its ``vectors`` if they are wanted."""
    source, target = os.path.join(home, CURRENT), os.path.join(new, CURRENT)
    os.makedirs(os.path.join(target, FULLTEXT))
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name.startswith(NAME) and not name.endswith("-shm"):
            shutil.copyfile(path, os.path.join(target, name))
        elif vectors and os.path.isdir(path) and name != FULLTEXT:
            shutil.copytree(path, os.path.join(target, name), copy_function=shutil.copyfile)
    for name in os.listdir(os.path.join(source, FULLTEXT)):
        path, place = os.path.join(source, FULLTEXT, name), os.path.join(target, FULLTEXT, name)
        if name in _LISTS:
            shutil.copyfile(path, place)
        elif not name.endswith(".lock"):
            os.symlink(path, place)
