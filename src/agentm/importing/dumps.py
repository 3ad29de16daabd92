"""JSON that a service hands out: a file, the zip it came in, or the folder that was unpacked from it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from agentm.errors import AgentmError, InvalidNodeError, store_error
from agentm.exporting import LeftOut
from agentm.importing import archives, files
from agentm.importing.json_stream import elements

_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.jsonl?")


def values(path: str) -> Iterator[Any | LeftOut]:
    """The elements of every conversations file, or of the one JSON file; what cannot be read is said at its place."""
    if archives.is_archive(path):
        yield from _of_archive(path)
    elif os.path.isdir(path):
        for name in sorted(filter(_CONVERSATIONS.fullmatch, os.listdir(path))):
            yield from _of_file(os.path.join(path, name))
    else:
        yield from _of_file(path)


def has_conversations(folder: str) -> bool:
    return any(map(_CONVERSATIONS.fullmatch, os.listdir(folder)))


def _of_file(path: str) -> Iterator[Any | LeftOut]:
    name = os.path.basename(path)
    try:
        try:
            with open(path, encoding="utf-8") as stream:
                yield from elements(stream, name)
        except OSError as cause:
            if isinstance(cause, AgentmError):
                raise
            raise store_error(cause, backend="agentm", verb="read", locator=name) from cause
    except AgentmError as error:
        yield files.left_out(os.path.realpath(path), error)


def _of_archive(path: str) -> Iterator[Any | LeftOut]:
    try:
        with archives.opened(path) as archive:
            wanted = [one for one in archive.infolist() if _CONVERSATIONS.fullmatch(os.path.basename(one.filename))]
            if not wanted:
                raise InvalidNodeError(
                    f"{os.path.basename(path)!r} holds no conversations.json; name the zip that the service sent you.",
                    code="import_unrecognised",
                )
            for member in sorted(wanted, key=lambda one: one.filename):
                with archives.text_of(archive, member) as stream:
                    yield from elements(stream, member.filename)
    except AgentmError as error:
        yield files.left_out(os.path.realpath(path), error)


def unknown(source: str, what: str) -> LeftOut:
    """An element that is not what such an export is made of."""
    return LeftOut(source, "item_unknown", f"{source} is no {what}; if that is new in such exports, report it.")
