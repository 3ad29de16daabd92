"""A name for a memory, made from what it says."""

from __future__ import annotations

import unicodedata

from agentm.context.names import checked_name
from agentm.errors import InvalidUriError

_LONGEST = 48
"""Characters of at most four bytes; a number behind them still fits into a name."""


def slug_of(text: str, fallback: str = "note") -> str:
    """The same text always gives the same name: lower case, words joined by '-', accents left out."""
    words = "".join(_kept(text)).split()
    slug = unicodedata.normalize("NFC", _joined(words)) or fallback
    try:
        return checked_name(slug, "slug")
    except InvalidUriError:  # a name that some system keeps for itself
        return f"{fallback}-{slug}"


def _kept(text: str) -> list[str]:
    found: list[str] = []
    for character in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()):
        if unicodedata.category(character).startswith("M"):
            # An accent on a Latin letter can go; a vowel sign of another script is part of the word.
            if found and not found[-1].isascii():
                found.append(character)
        elif character not in "'’":
            found.append(character if character.isalnum() else " ")
    return found


def _joined(words: list[str]) -> str:
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:_LONGEST]
        if len(longer) > _LONGEST:
            break
        slug = longer
    return slug
