"""CLAUDE.md, AGENTS.md and MEMORY.md: what coding agents are told, one file for each project."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agentm.importing import links
from agentm.importing.items import Item, Kind, Read
from agentm.importing.links import Names, Note
from agentm.importing.notes import read_notes

NAMES = ("claude.md", "claude.local.md", "agents.md", "memory.md")


def is_agent_file(path: str) -> bool:
    return os.path.basename(path).casefold() in NAMES


def read(path: str) -> Iterator[Read]:
    found: list[Note] = []
    for one in read_notes(path, only=NAMES, also=(".claude",)):
        if isinstance(one, Note):
            found.append(one)
        else:
            yield one
    names = Names(found)
    for note in found:
        yield Item(
            source=note.source,
            name=f"{_project(note.path)} {note.stem}",
            content=note.text,
            category="preferences",
            tags=links.tags(note),
            links=links.links(note, names),
            created_at=links.created(note),
        )


def _project(path: str) -> str:
    """The folder that the file speaks of; ``.claude`` and the like lie in it."""
    folder = os.path.dirname(path)
    while os.path.basename(folder).startswith("."):
        folder = os.path.dirname(folder)
    return os.path.basename(folder)


KIND = Kind("agent-files", "CLAUDE.md, AGENTS.md and MEMORY.md files", read, linked=True)
