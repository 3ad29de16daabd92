"""Folders of markdown: an Obsidian vault, a basic-memory project, or any other; and a single note."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator

from agentm.context.uri import CATEGORIES
from agentm.errors import AgentmError
from agentm.exporting import LeftOut
from agentm.importing import files, links
from agentm.importing.items import Item, Kind, Nothing, Read
from agentm.importing.links import Names, Note

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\b")
_OBSERVATION = re.compile(r"^\s*- \[[^\[\]\s][^\[\]]+\] \S", re.MULTILINE)
_TYPED = re.compile(r"^\s*- [\w-]+ \[\[[^\[\]]+\]\]\s*$", re.MULTILINE)
_LOOKED_AT = 50
"""Notes, to tell what wrote a folder."""


def obsidian(path: str) -> Iterator[Read]:
    return _read(path, typed=False)


def basic_memory(path: str) -> Iterator[Read]:
    return _read(path, typed=True)


def _read(path: str, *, typed: bool) -> Iterator[Read]:
    found: list[Note] = []
    for one in read_notes(path):
        if isinstance(one, Note):
            found.append(one)
        else:
            yield one
    names = Names(found)
    for note in found:
        yield Item(
            source=note.source,
            name=_title(note) if typed else note.stem,
            content=note.text,
            category=category_of(note),
            tags=links.tags(note),
            links=links.links(note, names, typed=typed),
            created_at=links.created(note),
        )


def read_notes(
    path: str, *, only: Collection[str] = (), also: Collection[str] = ()
) -> Iterator[Note | LeftOut | Nothing]:
    """The notes of a folder, or the one at a path, and what cannot be read."""
    path = os.path.realpath(path)
    folder = os.path.isdir(path)
    root = path if folder else os.path.dirname(path)
    for one in files.markdown_files(root, only=only, also=also) if folder else [path]:
        if isinstance(one, LeftOut):
            yield one
            continue
        try:
            text = files.read_text(one)
        except AgentmError as error:
            yield files.left_out(one, error)
            continue
        yield links.read(one, root, text) if text.strip("\ufeff \t\r\n") else Nothing(files.source_of(one))


def category_of(note: Note) -> str:
    """The one that a note names itself; a note that is named after a day is an event."""
    named = {value.casefold() for field in ("category", "type") for value in note.fields.get(field, [])}
    known = [category for category in CATEGORIES if category in named and category != "profile"]
    return known[0] if known else "events" if _DAY.match(note.stem) else "entities"


def _title(note: Note) -> str:
    return next(iter(note.fields.get("title", [])), "") or note.stem


def looks_like_basic_memory(path: str) -> bool:
    """Whether notes have what only basic-memory writes: a permalink, and observations or relations with a type."""
    read = (one for one in read_notes(path) if isinstance(one, Note))
    for note, _ in zip(read, range(_LOOKED_AT), strict=False):
        if "permalink" in note.fields and (_OBSERVATION.search(note.prose) or _TYPED.search(note.prose)):
            return True
    return False


OBSIDIAN = Kind("obsidian", "an Obsidian vault", obsidian, linked=True)
MARKDOWN = Kind("markdown", "a folder of markdown, or one such file", obsidian, linked=True)
BASIC_MEMORY = Kind("basic-memory", "a basic-memory project", basic_memory, linked=True)
