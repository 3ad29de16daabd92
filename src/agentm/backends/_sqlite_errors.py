"""What SQLite refuses, in agentm's words: one sentence, one code, with backend, verb and locator."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentm.errors import LockTimeoutError, OutcomeUnknownError, StoreError, could_not, store_error

# SQLITE_ERROR is a missing table or column: our statements are fixed, so the file's layout is what changed.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_DENIED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_TOOBIG: errno.EFBIG,
}

# A commit happens when the journal is removed. These can only come before that and leave the old state, at once or
# when the journal is rolled back at the next opening. Any other I/O error of a commit leaves the question open.
_BEFORE_THE_COMMIT_POINT = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_FSTAT,
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_NOMEM,
)


class Refused(Exception):
    """The file is not one to be used."""

    def __init__(self, code: str, what: str, fix: str) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.fix = fix


class Waited(Exception):
    """Somebody else had the file for longer than we wait."""


class Unsettled(Exception):
    """A commit failed at or after its commit point."""


def is_busy(error: sqlite3.Error) -> bool:
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_unsettled(error: sqlite3.Error) -> bool:
    """Whether a COMMIT that failed with this may have happened all the same."""
    return _primary(error) == sqlite3.SQLITE_IOERR and _code(error) not in _BEFORE_THE_COMMIT_POINT


@contextmanager
def reporting(path: str, *, backend: str, verb: str, locator: str) -> Iterator[None]:
    """Turn what escapes the block into the errors of agentm."""
    context: dict[str, Any] = {"backend": backend, "verb": verb, "locator": locator}
    sentence = f"{could_not(backend, verb, locator)}: "
    try:
        yield
    except sqlite3.Error as cause:
        raise _translated(cause, path, sentence, context) from cause
    except OSError as cause:
        if isinstance(cause, StoreError):
            raise
        raise store_error(cause, **context) from cause
    except Refused as refusal:
        raise StoreError(f"{sentence}{refusal.what} ({path!r}); {refusal.fix}.", code=refusal.code, **context) from None
    except Waited as cause:
        raise LockTimeoutError(
            f"{sentence}another writer or reader kept {path!r} locked for {cause} s; end or resume that process, then "
            "try again.",
            errno=errno.ETIMEDOUT,
            **context,
        ) from cause
    except Unsettled as cause:
        raise OutcomeUnknownError(
            f"{backend} cannot tell whether the {verb} of {locator!r} happened: {cause} at the end of the commit; "
            "check the disk, then read before you repeat it.",
            errno=errno.EIO,
            **context,
        ) from cause


def _translated(cause: sqlite3.Error, path: str, sentence: str, context: dict[str, Any]) -> StoreError:
    primary = _primary(cause)
    if primary in _DAMAGED:
        return StoreError(
            f"{sentence}{path!r} is damaged or no database of agentm ({cause}); restore it from a backup, or choose "
            "another path.",
            code="store_corrupt",
            **context,
        )
    number = _denial(path) if primary in _DENIED else _ERRNO.get(primary)
    if number is None:
        return StoreError(f"{sentence}{cause} ({path!r}); check the file and its directory, then try again.", **context)
    return store_error(OSError(number, os.strerror(number)), **context)


def _denial(path: str) -> int | None:
    """Why a file cannot be opened or written, as far as can be told without opening it."""
    directory = os.path.dirname(path)
    if hasattr(os, "statvfs") and os.statvfs(directory).f_flag & os.ST_RDONLY:
        return errno.EROFS
    effective = os.access in os.supports_effective_ids
    places = [directory, path] if os.path.lexists(path) else [directory]
    allowed = all(os.access(place, os.R_OK | os.W_OK, effective_ids=effective) for place in places)
    return None if allowed else errno.EACCES


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0)


def _primary(error: sqlite3.Error) -> int:
    return _code(error) & 0xFF
