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
_BORROWING = "borrowing"
_ATTEMPTS = 5
"""How often whoever may write there may be at it while it is copied."""

Stamps = dict[str, tuple[int, int, int]]


def is_read_only(home: str) -> bool:
    """Whether there is an index that this process may read but not change."""
    current = os.path.join(home, CURRENT)
    there = os.path.isfile(os.path.join(current, NAME)) and os.path.isdir(os.path.join(current, FULLTEXT))
    return there and not all(os.access(folder, os.W_OK) for folder in (home, current, os.path.join(current, FULLTEXT)))


def borrow(home: str, new: str, *, vectors: bool) -> None:
    """Make an index in the folder ``new`` that is the one at ``home``, with its ``vectors`` if they are wanted.

    All of it as it was at one moment, or OSError and nothing; what was borrowed before, and added to, stays.
    """
    source, target, half = os.path.join(home, CURRENT), os.path.join(new, CURRENT), os.path.join(new, _BORROWING)
    if os.path.isdir(target):
        return
    try:
        for _ in range(_ATTEMPTS):
            shutil.rmtree(half, ignore_errors=True)
            before = _stamps(source)
            _copy(source, half, vectors=vectors)
            if _stamps(source) == before:
                os.rename(half, target)
                return
        raise OSError(f"{source} does not stay the same for as long as it takes to copy it")
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _stamps(source: str) -> Stamps:
    """What changes with every file there."""
    found = {}
    for folder, _, names in os.walk(source):
        for name in names:
            if not name.endswith((".lock", "-shm")):
                path = os.path.join(folder, name)
                stat = os.stat(path)
                found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found


def _copy(source: str, target: str, *, vectors: bool) -> None:
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
