"""What it means that something goes wrong with an index: that it is damaged, or that the disk says no.

A damaged one is built anew, because it is derived from the store; a disk that is full or locked is no reason for that.
"""

from __future__ import annotations

import os
import sqlite3

from agentm.errors import AgentmError
from agentm.index.catalogue import NAME as CATALOGUE
from agentm.index.fulltext import NAME as FULLTEXT
from agentm.index.seal import META, Seal

_REFUSALS = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    )
)
"""What a database says that may be sound."""
_PRIMARY = 0xFF
"""The part of a code that is not a detail."""


def is_damage(error: BaseException, directory: str) -> bool:
    """Whether an error says that the index in a directory cannot be used as it is."""
    if isinstance(error, AgentmError):
        return False
    if isinstance(error, OSError) or _is_refusal(error):
        return is_misshapen(directory)
    # What goes wrong inside tantivy may be a panic, which is no Exception; bytes that are others may be anything.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _is_refusal(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.Error) and code is not None and code & _PRIMARY in _REFUSALS


def is_sound(directory: str) -> bool:
    """Whether nothing is seen to be wrong with the index in a directory, without touching it."""
    fulltext = os.path.join(directory, FULLTEXT)
    if is_misshapen(directory):
        return False
    try:
        if os.path.exists(os.path.join(fulltext, META)):
            Seal(fulltext).check()
    except ValueError:
        return False
    return True


def is_misshapen(directory: str) -> bool:
    """Whether there is a file where a folder should be, or a folder where a file should be."""
    fulltext, catalogue = os.path.join(directory, FULLTEXT), os.path.join(directory, CATALOGUE)
    if any(os.path.lexists(folder) and not os.path.isdir(folder) for folder in (directory, fulltext)):
        return True
    return os.path.lexists(catalogue) and not os.path.isfile(catalogue)
