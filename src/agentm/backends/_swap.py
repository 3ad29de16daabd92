"""Replacing a file that others may change at the same moment, without ever destroying what they wrote.

Looking first and replacing afterwards loses whatever arrives in between. Here the new file and the old one change
places in a single step, and what came out is looked at afterwards: if it is not what the change was based on, or
somebody still has it open for writing, everything goes back and the caller is told.

Until it is looked at, the text that came out lies in a file of agentm's own, whose name says which contents are
worthless (the base of the change, and the new text itself). Anything else found in one after a crash is a rival's
text and becomes a conflict copy.
"""

from __future__ import annotations

import binascii
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress

from agentm.backends import _durable
from agentm.backends._files import NOFOLLOW, content, read_bytes, version_of
from agentm.backends._mutex import lost
from agentm.errors import ConcurrentModificationError, OutcomeUnknownError
from agentm.seam.locator import Locator

_SUFFIX = ".swap"
_LONGEST_NAME = 240


class Swap:
    """One change of one file: put in place, then accepted or undone."""

    def __init__(self, root: str, directory: str, path: str, base: bytes | None, data: bytes | None) -> None:
        self.path = path
        self.base = base
        self.data = data
        self.aside = os.path.join(directory, _aside_name(path[len(root) :].lstrip(os.sep), base, data))

    def put(self, temp: _durable.Ready, ours: Callable[[], bool]) -> None:
        """Put a filled temporary file in place, to stay only if nobody else was at work and the lock is still ours."""
        if self.base is None:
            self._create(temp)
            self._judge(ours)
        else:
            self._replace(temp, ours)

    def _replace(self, temp: _durable.Ready, ours: Callable[[], bool]) -> None:
        _durable.replace(temp.path, self.aside)
        temp.path = self.aside
        temp.placed = True  # from here on that name may hold a rival's text, which is not ours to remove
        try:
            swapped = _durable.exchange(self.aside, self.path)
        except FileNotFoundError:
            temp.placed = False
            raise self._clash() from None
        except OSError:
            temp.placed = False
            raise
        if swapped:
            self._judge(ours)
            return
        # This file system cannot exchange: look, then replace, and hope that nothing comes in between.
        temp.placed = False
        if content(self.path) != self.base:
            raise self._clash()
        _durable.replace(self.aside, self.path)
        temp.placed = True

    def take(self, ours: Callable[[], bool]) -> None:
        """Take the file out of its place, under the same conditions; it comes to lie aside."""
        _durable.replace(self.path, self.aside)  # onto a random name, where nothing is
        self._judge(ours)

    def accept(self) -> None:
        """Let go of what was displaced, or keep it if somebody wrote to it after all.

        A crash before this leaves it to the next start.
        """
        if self.base is not None:
            with suppress(OSError):
                if not self._dropped(self.base):
                    keep(self.aside, self.path)

    def _create(self, temp: _durable.Ready) -> None:
        try:
            _durable.rename_new(temp.path, self.path)
        except FileExistsError:
            raise self._clash() from None
        temp.placed = True

    def _judge(self, ours: Callable[[], bool]) -> None:
        """Undo everything unless what was displaced is what we knew and the lock was ours all along."""
        try:
            clash, robbed = not self._as_known(), not ours()
        except OSError:
            self._undo()
            raise
        if clash or robbed:
            self._undo()
            raise self._clash() if clash else lost()

    def _as_known(self) -> bool:
        if self.base is None:
            return True
        try:
            # In this order: once nobody can write to it any more, what it holds is final.
            return not _durable.being_written(self.aside) and read_bytes(self.aside, NOFOLLOW) == self.base
        except FileNotFoundError:
            return True  # only somebody who took our lock away could have cleared it: the lock tells

    def _undo(self) -> None:
        """Put things back as they were, as far as nobody has changed them again since."""
        try:
            self._go_back()
        except FileNotFoundError:
            raise OutcomeUnknownError(
                "the lock was lost while the change was being put in place, and it may or may not stand"
            ) from None
        except OSError as cause:
            raise _durable.Unsettled(cause.errno, cause.strerror or str(cause)) from cause
        with suppress(OSError):
            _durable.sync_dir(os.path.dirname(self.path))

    def _go_back(self) -> None:
        if self.base is None or self.data is None:
            self._go_back_from_one_place()
            return
        try:
            _durable.exchange(self.aside, self.path)
        except FileNotFoundError:
            keep(self.aside, self.path)  # what we put there is gone already
            return
        if self._dropped(self.data):
            return
        # Somebody has replaced ours by now, or is about to: theirs is the later text, and goes back into its place.
        with suppress(FileNotFoundError):
            _durable.exchange(self.aside, self.path)
        if not self._dropped(self.base):
            keep(self.aside, self.path)

    def _go_back_from_one_place(self) -> None:
        if self.data is None:
            keep(self.aside, self.path)
            return
        _durable.rename_new(self.path, self.aside)
        if not self._dropped(self.data):
            keep(self.aside, self.path)

    def _dropped(self, worthless: bytes) -> bool:
        """Remove what lies aside if it is worthless, and nobody is about to make something of it."""
        if _durable.being_written(self.aside) or read_bytes(self.aside, NOFOLLOW) != worthless:
            return False
        _durable.unlink(self.aside)
        return True

    def _clash(self) -> ConcurrentModificationError:
        return ConcurrentModificationError(
            "another program changed it at the same moment, or has it open for writing",
            current=version_of(content(self.path)),
            expected=version_of(self.base),
        )


def keep(aside: str, path: str) -> None:
    """Give a text back its place, or, if that is taken, a name beside it that says what it is."""
    try:
        _durable.rename_new(aside, path)
        return
    except FileExistsError:
        pass
    stem, extension = os.path.splitext(path)
    _durable.rename_new(aside, f"{stem} (agentm conflict {os.urandom(4).hex()}){extension}")


def recover(root: str, directory: str) -> None:
    """Clear what dead writers left in a directory; keep every text that is not known to be worthless.

    The caller holds the mutex of the store, so nobody alive is between putting and accepting.
    """
    _durable.sweep(directory)
    for aside in _durable.dead_temps(directory):
        if not aside.endswith(_SUFFIX):
            continue
        with suppress(OSError):
            fields = os.path.basename(aside)[len(_durable.TEMP_PREFIX) : -len(_SUFFIX)].split(".")
            if not _durable.being_written(aside) and _digest(read_bytes(aside, NOFOLLOW)) in fields[1:3]:
                _durable.unlink(aside)
            else:
                path = os.path.join(root, _key_of(root, fields))
                _durable.make_dirs(os.path.dirname(path))
                keep(aside, path)
                _durable.sync_dir(os.path.dirname(path))


def _aside_name(key: str, base: bytes | None, data: bytes | None) -> str:
    # The key goes in as URL-safe base64 if it fits, so that a kept text finds its way back.
    coded = binascii.b2a_base64(os.fsencode(key), newline=False).translate(bytes.maketrans(b"+/", b"-_")).decode()
    name = f"{_durable.TEMP_PREFIX}{os.urandom(6).hex()}.{_digest(base)}.{_digest(data)}."
    return name + (coded if len(name) + len(coded) < _LONGEST_NAME else "") + _SUFFIX


def _key_of(root: str, fields: list[str]) -> str:
    """Where a kept text belongs. Names come from anybody who can write to the folder: none may lead out of it."""
    coded = fields[3] if len(fields) > 3 else ""
    with suppress(ValueError, OSError):
        key = Locator(os.fsdecode(binascii.a2b_base64(coded.encode().translate(bytes.maketrans(b"-_", b"+/"))))).key
        _durable.Directories(root).refuse_links(os.path.dirname(os.path.join(root, key)))
        if key and _durable.TEMP_PREFIX not in key:
            return key
    return "recovered.md"


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()[:16]
