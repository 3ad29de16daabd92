"""Changing one entry of a JSON text and not a byte of the rest.

Settings files are laid out, and kept under version control, by their owners. To read one and write it anew would change
every line they wrote differently from us.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentm.records import record_class

Key = str | int

_BLANK = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


def parse(text: str) -> Any:
    """The value of a JSON text; ValueError also for a key that is there twice, because one of the two would be lost."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


@record_class(frozen=True, slots=False)
class _Entry:
    """One entry of an object or array: from where to where it goes, and where its value begins."""

    key: Key
    start: int
    value: int
    end: int


def insert(text: str, path: tuple[Key, ...], key: Key, value: Any) -> str:
    """The text with one more entry, the last of the object or array at ``path``; an array ignores the key."""
    start = _find(text, path)
    entries = _entries(text, start)
    unit = _unit(text)
    margin = "\n" + unit * len(path)
    written = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", margin + unit)
    if isinstance(key, str):
        written = f"{json.dumps(key, ensure_ascii=False)}: {written}"
    if entries:
        end = entries[-1].end
        return f"{text[:end]},{margin}{unit}{written}{text[end:]}"
    end = _end(text, start)
    return f"{text[: start + 1]}{margin}{unit}{written}{margin}{text[end - 1 :]}"


def remove(text: str, path: tuple[Key, ...]) -> str:
    """The text without the entry at ``path``."""
    start = _find(text, path[:-1])
    entries = _entries(text, start)
    at = next(number for number, entry in enumerate(entries) if entry.key == path[-1])
    if at > 0:
        return text[: entries[at - 1].end] + text[entries[at].end :]
    if len(entries) > 1:
        return text[: entries[0].start] + text[entries[1].start :]
    return text[: start + 1] + text[_end(text, start) - 1 :]


def _find(text: str, path: tuple[Key, ...]) -> int:
    at = _skip(text, 0)
    for key in path:
        at = next(entry.value for entry in _entries(text, at) if entry.key == key)
    return at


def _entries(text: str, start: int) -> list[_Entry]:
    """The entries of the object or array that begins there."""
    is_object = text[start] == "{"
    found: list[_Entry] = []
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        key: Key = len(found)
        begin = value = at
        if is_object:
            key, value = _decode(text, at)
            value = _skip(text, _skip(text, value) + 1)
        end = _end(text, value)
        found.append(_Entry(key, begin, value, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _end(text: str, start: int) -> int:
    return int(_decode(text, start)[1])


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None  # it may be empty
    return blank.end()


def _unit(text: str) -> str:
    """What one level is indented by."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "
