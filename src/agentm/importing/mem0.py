"""mem0's memories as JSON: a list, or what ``get_all`` returns. What it knows about one is kept above its text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentm.context.node import digest
from agentm.context.summarise import abstract_of
from agentm.context.uri import CATEGORIES
from agentm.exporting import LeftOut
from agentm.importing.dumps import unknown, values
from agentm.importing.items import Item, Kind, Nothing, Read, instant, unique

_LISTS = ("results", "memories")
_KEPT = ("user_id", "agent_id", "app_id", "run_id", "actor_id", "role", "created_at", "updated_at")


def read(path: str) -> Iterator[Read]:
    for number, value in enumerate(_entries(path), 1):
        yield value if isinstance(value, LeftOut) else _memory(value, number)


def is_mine(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("memory"), str) or any(isinstance(value.get(name), list) for name in _LISTS)


def _entries(path: str) -> Iterator[Any | LeftOut]:
    for value in values(path):
        listed = [value[name] for name in _LISTS if isinstance(value, dict) and isinstance(value.get(name), list)]
        yield from listed[0] if listed else [value]


def _memory(value: Any, number: int) -> Read:
    text = value.get("memory") if isinstance(value, dict) else None
    if not isinstance(text, str):
        return unknown(f"mem0:entry {number}", "memory of mem0")
    source = f"mem0:{value.get('id') or digest(text)[:16]}"
    if not text.strip():
        return Nothing(source)
    about = value.get("metadata") if isinstance(value.get("metadata"), dict) else {}
    return Item(
        source=source,
        name=abstract_of(text),
        content=_fields(value, about) + text.strip() + "\n",
        category=about["category"] if about.get("category") in CATEGORIES[1:] else "entities",
        tags=unique(tag.strip() for tag in _tags(value, about) if tag.strip()),
        created_at=instant(value.get("created_at")),
        owner=str(value.get("user_id") or ""),
    )


def _tags(value: dict[str, Any], about: dict[str, Any]) -> Iterator[str]:
    for given in (value.get("categories"), about.get("tags")):
        yield from (str(tag) for tag in given) if isinstance(given, list) else ()


def _fields(value: dict[str, Any], about: dict[str, Any]) -> str:
    """What is known about a memory, the way notes have it; nothing if nothing is."""
    kept = {name: value[name] for name in _KEPT if value.get(name)}
    kept |= {name: one for name, one in about.items() if name not in kept and one not in (None, "", [], {})}
    lines = "".join(f"{name}: {json.dumps(one, ensure_ascii=False)}\n" for name, one in kept.items())
    return f"---\n{lines}---\n\n" if lines else ""


KIND = Kind("mem0", "mem0's memories as JSON", read, owned=True)
