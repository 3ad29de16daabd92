"""Zip files from anywhere: names that stay inside, sizes that are bounded, damage that is said."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO
from zipfile import BadZipFile, ZipFile, ZipInfo, is_zipfile

from agentm.errors import AgentmError, InvalidNodeError, store_error

MOST_MEMBERS = 2_000_000
_UNREMARKABLE = 256 << 20
"""Bytes that may come out of however few."""
_MOST_TIMES = 200
"""How many times larger something may get; text gets about ten times."""


def is_archive(path: str) -> bool:
    """Whether something is a zip, or would be if it were whole."""
    return os.path.isfile(path) and (is_zipfile(path) or path.lower().endswith(".zip"))


@contextmanager
def opened(path: str) -> Iterator[ZipFile]:
    """A zip file to read from; whatever is wrong with it is an AgentmError."""
    name = os.path.basename(path)
    try:
        with ZipFile(path) as archive:
            _refuse_bomb(name, archive.infolist(), os.path.getsize(path))
            yield archive
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as cause:
        # RuntimeError is what zipfile calls a member that has a password.
        if type(cause) not in (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
            raise
        why = f"{name!r} is damaged or locked ({cause}); export it anew."
        raise InvalidNodeError(why, code="archive_damaged") from cause
    except OSError as cause:
        if isinstance(cause, AgentmError):
            raise
        raise store_error(cause, backend="agentm", verb="read", locator=name) from cause


def _refuse_bomb(name: str, members: list[ZipInfo], size: int) -> None:
    """The sizes in the directory of an archive can be relied upon: no more is ever read than they say."""
    whole = sum(member.file_size for member in members)
    if len(members) > MOST_MEMBERS or (whole > _UNREMARKABLE and whole > _MOST_TIMES * size):
        raise InvalidNodeError(
            f"{name!r} would unpack to {len(members):,} files of {whole:,} bytes, more than such an export can hold; "
            "get the export anew.",
            code="archive_bomb",
        )


def is_inside(name: str) -> bool:
    """Whether a name in an archive stays in the folder that it would be unpacked to."""
    return not (name.startswith("/") or "\\" in name or "\0" in name or ":" in name or ".." in name.split("/"))


@contextmanager
def text_of(archive: ZipFile, member: ZipInfo) -> Iterator[TextIO]:
    with archive.open(member) as stream, io.TextIOWrapper(stream, encoding="utf-8") as text:
        yield text
