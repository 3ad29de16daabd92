"""Names that mean the same on every file system.

A node moves between disks, synced folders and buckets, so a segment of its URI must be a file name everywhere, and two
names that some system takes for one must not both exist.
"""

from __future__ import annotations

import unicodedata

from agentm.errors import InvalidUriError

LONGEST_NAME = 200
"""Bytes. File systems stop at 255; what agentm and sync clients put behind a name has to fit too."""

_FORBIDDEN = frozenset('/\\<>:"|?*%')
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in "123456789¹²³"), *(f"lpt{n}" for n in "123456789¹²³")]
)
# Control, format (bidirectional marks among them), surrogate, private, unassigned; line and paragraph separators.
_INVISIBLE = frozenset(["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])


def checked_name(name: str, what: str) -> str:
    """The name in its one spelling (NFC), or InvalidUriError saying what is wrong with it."""
    if not isinstance(name, str) or not name:
        raise InvalidUriError(f"the {what} is empty; give it a name such as 'acme'.")
    name = unicodedata.normalize("NFC", name)
    problem = _problem(name)
    if problem:
        raise InvalidUriError(f"the {what} {name!r} {problem}; use letters, digits, '-' and '_'.")
    return name


def _problem(name: str) -> str:
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()  # most names: no need to spell them out
    for character in "" if plain else name:
        if character in _FORBIDDEN:
            return f"holds {character!r}"
        # A joiner inside an emoji is the one invisible character that people mean.
        if unicodedata.category(character) in _INVISIBLE and character != "\u200d":
            return f"holds the invisible character U+{ord(character):04X}"
    if max(len(name.encode()), len(folded(name).encode())) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} bytes"
    if name.startswith((".", " ")) or name.endswith((".", " ")):
        return "begins with a dot or space, or ends with one"
    if name.split(".")[0].rstrip(" ").casefold() in _RESERVED:
        return "is a device name on Windows"
    return ""


def folded(name: str) -> str:
    """What a file system that ignores case and spelling takes a name for."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
