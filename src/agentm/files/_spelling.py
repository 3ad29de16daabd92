"""The very name: on a disk that folds case or accents, ``ACME`` must not find ``acme``.

Most folders tell names apart, and one look finds out: an entry is asked for in another case. That is remembered for
the folder itself. In a folder that does not tell them apart, or that cannot say, the names are listed.
"""

from __future__ import annotations

import os
import unicodedata
from string import ascii_letters

Identity = tuple[int, int]

_MOST = 10_000
_OTHER_CASE = str.maketrans(ascii_letters, ascii_letters.swapcase())
_LISTING = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)


class Spellings:
    """What is known of the folders that were met."""

    def __init__(self) -> None:
        self._exact: set[Identity] = set()

    def has(self, folder: int, name: str, which: Identity | None = None) -> bool:
        """Whether what can be opened as ``name`` is really called so; True if nothing can."""
        if self.tells_apart(folder, which) and (name.isascii() or not _is_there_as_well(folder, name)):
            return True
        return name in _listed(folder) or not _is_there(folder, name)

    def tells_apart(self, folder: int, which: Identity | None = None) -> bool:
        """Whether no other spelling finds an entry of this folder."""
        known = which or identity(folder)
        if known in self._exact:
            return True
        if not _tells_case_apart(folder):
            return False
        if len(self._exact) >= _MOST:
            self._exact.clear()
        self._exact.add(known)
        return True


def identity(folder: int) -> Identity:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def _tells_case_apart(folder: int) -> bool:
    """Whether the first entry with plain letters is not found in another case. A folder without one cannot say.

    Plain ones, because disks differ in what the other case of ``ß`` is.
    """
    listing = os.open(".", _LISTING, dir_fd=folder)
    try:
        with os.scandir(listing) as entries:
            for entry in entries:
                other = entry.name.translate(_OTHER_CASE)
                if other == entry.name:
                    continue
                if _is_same(folder, other, entry.name):
                    return False
                if _is_there(folder, entry.name):  # what is gone by now was no trial
                    return True
    finally:
        os.close(listing)
    return False


def _is_same(folder: int, first: str, second: str) -> bool:
    try:
        return os.path.samestat(*(os.stat(name, dir_fd=folder, follow_symlinks=False) for name in (first, second)))
    except (OSError, ValueError):
        return False


def _is_there_as_well(folder: int, name: str) -> bool:
    """Whether the name is found in another normal form too."""
    forms = {unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
    return any(_is_there(folder, form) for form in forms)


def _is_there(folder: int, name: str) -> bool:
    return _is_same(folder, name, name)


def _listed(folder: int) -> set[str]:
    listing = os.open(".", _LISTING, dir_fd=folder)
    try:
        return set(os.listdir(listing))
    finally:
        os.close(listing)
