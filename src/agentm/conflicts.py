"""Conflict copies: what sync clients leave beside a file when two devices changed it at once.

They are shown to the owner and never taken for memories. Two kinds of spelling are told apart:

- those that say what they are, such as ``note (Ann's conflicted copy 2025-03-17).md``: always a copy
- those that a person might choose too, such as ``note (1).md`` or ``note 2.md``: a copy only when ``note.md`` lies
  beside it, so that a lone ``Chapter 2.md`` stays a memory

OneDrive's ``note-COMPUTER.md`` is of the second kind, and counts only when the last part is a name that Windows or
macOS gives to a new computer, or exactly the name of this one (unless that is all lower case, as any word might be).
"""

from __future__ import annotations

import os
import re
import socket
import unicodedata
from collections.abc import Collection, Iterator
from itertools import groupby

from agentm.records import record_class
from agentm.seam import ROOT, ChangeFeed, Locator, StorageBackend, require


@record_class(frozen=True)
class ConflictFile:
    """One conflict copy, the file it is a copy of, and whose spelling it has."""

    locator: Locator
    base: Locator
    client: str
    base_exists: bool


def detect_conflict_files(backend: StorageBackend) -> list[ConflictFile]:
    """Every conflict copy in a store, sorted by key. Reads names only."""
    return sorted(_walk(backend, ROOT), key=lambda conflict: conflict.locator.key)


def is_conflict_name(name: str, siblings: Collection[str], *, host: str = "") -> bool:
    """Whether a file name is that of a conflict copy, given the names beside it."""
    return read_conflict_name(name, siblings, host=host) is not None


def read_conflict_name(name: str, siblings: Collection[str], *, host: str = "") -> tuple[str, str] | None:
    """The name of the file that this is a conflict copy of, and the client that spells copies so; None if it is none.

    ``host`` is the name of this computer, for OneDrive's spelling. A copy of a copy leads to the first original.
    """
    client = None
    while True:
        found = _spelt_out(name) or _numbered(name, siblings) or _computer_named(name, siblings, host)
        if found is None:
            return (_standing(name, siblings), client) if client else None
        # The spelling that comes off first was put on last, by the client that made this copy.
        name, client = found[0], client or found[1]


# What Dropbox calls a copy, in the languages it was seen to use.
_COPY = (
    "(?:conflicted copy|copie en conflit|in konflikt stehende kopie|konfliktkopie|copia en conflicto|"
    "copia conflictiva|copia in conflitto|cópia em conflito|конфликтующая копия|冲突副本|衝突複本|競合コピー|"
    "問題のあるコピー)"
)
_BRACKETED = re.compile(r"(?P<stem>.+) \((?P<mark>(?:[^()]|\([^()]*\))+)\)(?P<ext>(?:\.[^\s.()]+)*)", re.DOTALL)
_MARKS = (
    ("agentm", re.compile(r"agentm conflict [0-9a-f]{8}")),
    ("obsidian-sync", re.compile(r"Conflicted copy (?:.+ )?\d{12}")),
    ("nextcloud", re.compile(r"conflicted copy (?:.+ )?\d{4}-\d{2}-\d{2} \d{6}")),
    ("seafile", re.compile(r"SFConflict .+")),
    # With a date, or with nothing but whose it is: "(what a conflicted copy is)" is a person's bracket.
    ("dropbox", re.compile(rf"(?:.*[\s'’の的])?{_COPY}(?:\W.*)?\W\d{{4}}-\d{{2}}-\d{{2}}.*", re.IGNORECASE)),
    ("dropbox", re.compile(rf"(?:.*['’]s )?{_COPY}(?: \d+| (?:from|of|de|di|von) .+)?", re.IGNORECASE)),
    (
        "dropbox",
        re.compile(r"(?:case|unicode encoding|white ?space|selective sync) conflict(?: \d+)?", re.IGNORECASE),
    ),
)
_EXTENSIONS = r"(?P<ext>(?:\.[^\s.]+)*)"
_SPELT_OUT = (
    ("syncthing", re.compile(r"(?P<stem>.*)\.sync-conflict-\d{8}-\d{6}(?:-[A-Z2-7]{7})?(?P<ext>\.[^.]*|)", re.DOTALL)),
    ("google-drive", re.compile(rf"(?P<stem>.+?)[ _]?\[Conflict(?: ?\d+)?\]{_EXTENSIONS}", re.DOTALL)),
)
_NUMBERED = (
    ("google-drive", re.compile(rf"(?P<stem>.+) \([1-9]\d?\){_EXTENSIONS}", re.DOTALL)),
    ("google-drive", re.compile(rf"(?P<stem>.+)_conf\([1-9]\d?\){_EXTENSIONS}", re.DOTALL)),
    ("icloud", re.compile(rf"(?P<stem>.+) (?:[2-9]|[1-9]\d){_EXTENSIONS}", re.DOTALL)),
)
_COMPUTER = re.compile(
    r"(?:DESKTOP-[A-Z0-9]{7}|LAPTOP-[A-Z0-9]{8}|WIN-[A-Z0-9]{11}"
    r"|[^\s-]+s[- ](?:MacBook(?:[- ](?:Pro|Air))?|iMac|Mac[- ](?:mini|Pro|Studio)))(?:-\d{1,2})?"
)
_SAFE_BACKUP = re.compile(r"(?P<stem>.+-.+)-safeBackup-\d{4}")

# An editor's own settings, and where editors and sync clients keep what was thrown away or replaced.
_NOT_SEARCHED = frozenset({".git", ".obsidian", ".trash", ".Trash", ".stversions", ".dropbox.cache"})


def _spelt_out(name: str) -> tuple[str, str] | None:
    for client, spelling in _SPELT_OUT:
        match = spelling.fullmatch(name)
        if match and match["stem"] + match["ext"]:
            return match["stem"] + match["ext"], client
    bracketed = _BRACKETED.fullmatch(name)
    if bracketed:
        for client, mark in _MARKS:
            if mark.fullmatch(bracketed["mark"]):
                return bracketed["stem"] + bracketed["ext"], client
    return None


def _numbered(name: str, siblings: Collection[str]) -> tuple[str, str] | None:
    for client, spelling in _NUMBERED:
        match = spelling.fullmatch(name)
        if match and match["stem"] + match["ext"] in siblings:
            return match["stem"] + match["ext"], client
    return None


def _computer_named(name: str, siblings: Collection[str], host: str) -> tuple[str, str] | None:
    stem, ext = os.path.splitext(name)
    backup = _SAFE_BACKUP.fullmatch(stem)
    if backup:
        # Computers have hyphens in their names, and so have notes: the longest note that is there.
        stem = backup["stem"]
        bases = [stem[: cut.start()] + ext for cut in re.finditer("-", stem) if cut.start()]
        return next((base for base in reversed(bases) if base in siblings), bases[-1]), "onedrive"
    for cut in re.finditer("-", stem):
        base, computer = stem[: cut.start()] + ext, stem[cut.end() :]
        own = computer == host and host != host.lower()
        if base in siblings and (own or _COMPUTER.fullmatch(computer)):
            return base, "onedrive"
    return None


def _standing(name: str, siblings: Collection[str]) -> str:
    """The name as it stands there: case and Unicode conflicts are copies of names that only look the same."""
    if name in siblings:
        return name
    folded = _fold(name)
    return next((sibling for sibling in sorted(siblings) if _fold(sibling) == folded), name)


def _fold(name: str) -> str:
    return "".join(unicodedata.normalize("NFC", name).casefold().split())


def _walk(backend: StorageBackend, place: Locator) -> Iterator[ConflictFile]:
    host = socket.gethostname().partition(".")[0]
    for files in _folders(backend, place):
        names = {file.name for file in files}
        for file in files:
            found = read_conflict_name(file.name, names, host=host)
            if found is not None:
                yield ConflictFile(file, file.parent.child(found[0]), found[1], found[0] in names)


def _folders(backend: StorageBackend, place: Locator) -> Iterator[list[Locator]]:
    """The files of each folder, folder by folder."""
    if backend.capabilities.change_feed:
        # The feed enters no links, of which two make a tree without end.
        feed = require(backend, ChangeFeed).changes({}, place)
        files = sorted((change.locator for change in feed), key=lambda file: (file.parent.key, file.key))
        for parent, group in groupby(files, key=lambda file: file.parent):
            if not _NOT_SEARCHED.intersection(parent.parts):
                yield list(group)
        return
    pending = [place]
    while pending:
        children = backend.list(pending.pop())
        folders = {child for child in children if _is_dir(backend, child)}
        pending += [folder for folder in folders if folder.name not in _NOT_SEARCHED]
        yield [child for child in children if child not in folders]


def _is_dir(backend: StorageBackend, place: Locator) -> bool:
    try:
        return backend.info(place).is_dir
    except OSError:
        return False  # gone since it was listed, or a link to nothing: its name still counts
