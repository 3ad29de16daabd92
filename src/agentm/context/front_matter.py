"""The fields that stand above a note, between two lines of dashes, as far as a person writes them by hand."""

from __future__ import annotations

import re

_KEY = re.compile(r"([^\s:#\-\[\]{}\"'][^:\n]{0,60}):(?:\s+(.*))?$")


def with_fields_of(text: str, standing: str) -> str:
    """A text with the fields that stood above the one it replaces, unless it has some of its own."""
    fields, below = front_matter(standing)
    if not fields or not text.strip() or front_matter(text)[0]:
        return text
    return standing[: len(standing) - len(below.lstrip("\n"))] + text


def front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """The fields above the text, as far as a person writes them by hand, and what is below. No fields: all is text."""
    lines = text.split("\n", 300)
    end = next((n for n, line in enumerate(lines[1:300], 1) if line.rstrip() in ("---", "...")), 0)
    if lines[0].rstrip() != "---" or not end:
        return {}, text
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in lines[1:end]:
        bare = line.strip()
        key = _KEY.match(bare) if line[:1].strip() else None
        if key and not bare.startswith("- "):
            values = fields.setdefault(key[1].strip().casefold(), [])
            values += _values(key[2] or "")
        elif bare and not bare.startswith("#"):
            if not fields:
                return {}, text
            values += _values(bare.removeprefix("- "))
    return fields, "\n".join(lines[end + 1 :])


def _values(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
        parts = text[1:-1].split(",")
    elif text in (">", "|", ">-", "|-"):
        parts = []
    else:
        parts = [text]
    bare = (part.strip() for part in parts)
    return [part[1:-1] if len(part) > 1 and part[0] == part[-1] and part[0] in "\"'" else part for part in bare if part]
