"""Files of a folder that somebody points at: read whole, never more than a memory holds, never outside the folder."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Collection, Iterator

from agentm.conflicts import is_conflict_name
from agentm.context.node import LARGEST_CONTENT, META
from agentm.errors import AgentmError, InvalidNodeError, NotTextError, store_error
from agentm.exporting import LeftOut

MARKDOWN = (".md", ".markdown")
_PASSED_OVER = frozenset(["node_modules", "__pycache__", "venv"])
# Neither through a link that somebody put there just now, nor waiting for what is no file.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def source_of(path: str) -> str:
    """How a file is named as a source: by its path, from the home directory on if it lies there."""
    home = os.path.realpath(os.path.expanduser("~"))
    below = os.path.relpath(path, home) if path.startswith(home + os.sep) else ""
    named = f"~/{below}" if below else path
    return f"file:{unicodedata.normalize('NFC', named.replace(os.sep, '/'))}"


def markdown_files(root: str, *, only: Collection[str] = (), also: Collection[str] = ()) -> Iterator[str | LeftOut]:
    """The paths of the notes below a folder, in the order of their names; hidden ones, and agentm's own, are not.

    ``only`` are the names that are wanted, in lower case (all, if there are none); ``also`` are hidden folders that are
    looked into all the same.
    """
    refused: list[OSError] = []
    for directory, folders, names in os.walk(root, onerror=refused.append):
        if META in names:  # a memory, in a store that lies in this very folder
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name in also or not _is_passed_over(name))
        for name in [one for one in folders if os.path.islink(os.path.join(directory, one))]:
            folders.remove(name)
            yield from _linked(root, os.path.join(directory, name))
        for name in sorted(names):
            if name.lower().endswith(MARKDOWN) and not _is_passed_over(name) and (not only or name.lower() in only):
                yield from _file(root, os.path.join(directory, name))
    for error in refused:
        yield left_out(str(error.filename), error)


def _is_passed_over(name: str) -> bool:
    return name.startswith(".") or name in _PASSED_OVER


def _file(root: str, path: str) -> Iterator[str | LeftOut]:
    name = os.path.basename(path)
    if os.path.islink(path):
        yield from _linked(root, path)
    elif is_conflict_name(name, ()):
        why = f"{name!r} is the conflict copy of a sync client; put what is new in it into its original, and delete it."
        yield LeftOut(source_of(path), "conflict_copy", why)
    else:
        yield path


def _linked(root: str, path: str) -> Iterator[LeftOut]:
    """What a link leads to is read where it lies, if that is in the folder; what is elsewhere is not for us to read."""
    if not os.path.realpath(path).startswith(root + os.sep):
        why = f"the link {os.path.basename(path)!r} leads out of the folder; import what it leads to by itself."
        yield LeftOut(source_of(path), "symlink_refused", why)


def read_text(path: str) -> str:
    """The text of a file, as it is; an AgentmError if it is none, or too long for a memory."""
    data = _read(path)
    if len(data) > LARGEST_CONTENT:
        raise InvalidNodeError(
            f"{os.path.basename(path)!r} has more than {LARGEST_CONTENT:,} bytes, the most a memory may have; "
            "split it, or keep it elsewhere and link to it.",
            code="content_too_big",
        )
    try:
        source_of(path).encode()
        return data.decode()
    except UnicodeEncodeError as cause:
        raise NotTextError(f"the name {os.path.basename(path)!r} is not UTF-8; rename the file.") from cause
    except UnicodeDecodeError as cause:
        raise NotTextError(
            f"{os.path.basename(path)!r} is not UTF-8 (byte {cause.start}); convert it first, for example with iconv."
        ) from cause


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, _FLAGS)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            return file.read(LARGEST_CONTENT + 1)
    except OSError as cause:
        raise store_error(cause, backend="agentm", verb="read", locator=os.path.basename(path)) from cause


def left_out(path: str, error: Exception) -> LeftOut:
    """What is said of a file that could not be read."""
    if isinstance(error, AgentmError):
        return LeftOut(source_of(path), error.code, error.message)
    if isinstance(error, OSError):
        refusal = store_error(error, backend="agentm", verb="read", locator=os.path.basename(path))
        return LeftOut(source_of(path), refusal.code, refusal.message)
    raise error
