"""The values that cross the seam."""

from __future__ import annotations

from agentm.records import record_class
from agentm.seam.locator import Locator

ABSENT = "absent"
"""The version token of a place that holds nothing. Writing against it means: only if still absent."""


@record_class(frozen=True)
class Info:
    """What ``info`` knows of a place."""

    locator: Locator
    is_dir: bool
    size: int
    """Bytes; 0 for a directory."""
    mtime: float
    """Epoch seconds."""


@record_class(frozen=True)
class Capabilities:
    """What a backend promises. Everything is False until a backend says otherwise.

    The first four describe the store; the rest declare the optional abilities of
    `agentm.seam.abilities`, and a backend refuses each one that it does not declare.
    """

    concurrent_writers: bool = False
    """Safe under more than one writing process."""
    conflict_files: bool = False
    """A sync client may put conflict copies beside the files."""
    encryption: bool = False
    """Content is encrypted at rest by the backend."""
    sync: bool = False
    """The tree is replicated by something else, so no database may live in it."""

    remove: bool = False
    rename: bool = False
    append: bool = False
    compare_and_swap: bool = False
    change_feed: bool = False
    watch: bool = False
    lock: bool = False
    write_many: bool = False


@record_class(frozen=True)
class Versioned:
    """A text and the token of the version it was read at."""

    content: str
    version: str


@record_class(frozen=True)
class Change:
    """One entry of a change feed: a file with its new stamp, or, with None, a file that is gone."""

    locator: Locator
    stamp: str | None
