"""The kinds of sources, in one list, and how one is told from another."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agentm.errors import InvalidNodeError, store_error
from agentm.exporting import MANIFEST, LeftOut
from agentm.importing import agent_files, archives, chatgpt, claude, dumps, files, mem0, notes
from agentm.importing.items import Kind, Read


def _no_items(path: str) -> Iterator[Read]:
    """Its memories are not made anew, but brought back as they are: see `agentm.importing.restore`."""
    return iter(())


AGENTM = Kind("agentm", "a zip that agentm export wrote", _no_items)

KINDS = (
    notes.OBSIDIAN,
    notes.BASIC_MEMORY,
    notes.MARKDOWN,
    agent_files.KIND,
    mem0.KIND,
    chatgpt.KIND,
    claude.KIND,
    AGENTM,
)

_SERVICES = (chatgpt, claude, mem0)


def detect(path: str) -> Kind:
    """What kind of source lies at a path; InvalidNodeError if it is none that is known."""
    try:
        found = _of_folder(path) if os.path.isdir(path) else _of_file(path)
    except OSError as cause:
        raise store_error(cause, backend="agentm", verb="read", locator=path) from cause
    if found is None:
        raise InvalidNodeError(
            f"{path} is nothing that agentm can tell; name its kind: --from {'|'.join(kind.name for kind in KINDS)}.",
            code="import_unrecognised",
        )
    return found


def _of_folder(path: str) -> Kind | None:
    names = {name.casefold() for name in os.listdir(path)}
    if ".obsidian" in names:
        return notes.OBSIDIAN
    if dumps.has_conversations(path):
        return _of_service(path)
    if {"claude.md", "agents.md"} & names:
        return agent_files.KIND
    if notes.looks_like_basic_memory(path):
        return notes.BASIC_MEMORY
    return notes.MARKDOWN if any(files.markdown_files(os.path.realpath(path))) else None


def _of_file(path: str) -> Kind | None:
    os.stat(path)
    if agent_files.is_agent_file(path):
        return agent_files.KIND
    if path.lower().endswith(files.MARKDOWN):
        return notes.BASIC_MEMORY if notes.looks_like_basic_memory(path) else notes.MARKDOWN
    if archives.is_archive(path):
        with archives.opened(path) as archive:
            if MANIFEST in archive.namelist():
                return AGENTM
    return _of_service(path)


def _of_service(path: str) -> Kind | None:
    """By the first thing in it; the reason why nothing can be read is for the import to say."""
    for value in dumps.values(path):
        if isinstance(value, LeftOut):
            raise InvalidNodeError(value.message, code=value.code)
        return next((service.KIND for service in _SERVICES if service.is_mine(value)), None)
    return None
