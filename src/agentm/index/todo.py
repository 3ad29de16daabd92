"""What was written a moment ago: a hint to the index where to look first.

One is appended without opening the index, so that writing stays quick. Nothing is lost with one that is lost: a look at
the whole store finds what the list does not name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

NAME = "todo"
_WORK = f"{NAME}.work"
_END = "\0"
"""Behind each; no name has it in it, and one may be of several lines."""


def note(directory: str, uris: Iterable[str]) -> None:
    """These were changed."""
    data = "".join(f"{uri}{_END}" for uri in uris).encode()
    with suppress(OSError):
        os.makedirs(directory, exist_ok=True)
        fd = os.open(os.path.join(directory, NAME), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


def is_there(directory: str) -> bool:
    """Whether something was noted, or was taken and not done."""
    return any(os.path.exists(os.path.join(directory, name)) for name in (NAME, _WORK))


def taken(directory: str) -> tuple[list[str], int]:
    """What was noted, and how long the list was; for the one who writes to the index, who says when it is `done`."""
    work = os.path.join(directory, _WORK)
    with suppress(OSError):
        if not os.path.exists(work):
            os.replace(os.path.join(directory, NAME), work)
        with open(work, "rb") as file:
            data = file.read()
        return list(dict.fromkeys(data.decode("utf-8", "replace").split(_END)[:-1])), len(data)
    return [], 0


def waiting(directory: str) -> list[str]:
    """What was noted and is not indexed yet."""
    found: list[str] = []
    for name in (_WORK, NAME):
        with suppress(OSError), open(os.path.join(directory, name), encoding="utf-8") as file:
            found += file.read().split(_END)[:-1]
    return list(dict.fromkeys(found))


def done(directory: str, size: int) -> None:
    """What was taken is indexed. A list that has grown since, by one who had it open, is for the next time."""
    work = os.path.join(directory, _WORK)
    with suppress(OSError):
        if os.path.getsize(work) <= size:
            os.unlink(work)
