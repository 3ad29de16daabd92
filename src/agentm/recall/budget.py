"""How many tokens a text costs, counted without a tokenizer, and a text cut to what it may cost.

The estimate errs on the side of too many, by about a quarter for prose, code and JSON: a recall that is a little short
does no harm, one that does not fit does.
"""

from __future__ import annotations

import re
from functools import lru_cache

MARK = "…"
"""Stands at the end of a text that was cut."""

# What byte-pair encoders make of a text, by kind of character. The lookahead is bounded: it must stay linear.
_PIECE = re.compile(
    r"(?P<noise>(?=[A-Za-z+/=]{0,40}[0-9])[A-Za-z0-9+/=]{20,})"
    r"|(?P<word>[a-z]+)"
    r"|(?P<name>[A-Z][a-z]+)"
    r"|(?P<capitals>[A-Z]+)"
    # One token each: a number, signs, a line break, indentation, and the blank before a number, which stays alone.
    r"|(?P<one>[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|\n+|[^\S\n]{2,}|[^\S\n](?=[0-9]))"
    r"|(?P<none>\s)"
    # Not by ranges here: those take longer to compile than a short text takes to count.
    r"|(?P<foreign>[^\x00-\x7f])"
    r"|(?P<basic>.)",
    re.DOTALL,
)
_ALPHABETS = ((0x0370, 0x052F), (0x0590, 0x06FF), (0x0900, 0x097F), (0x0E00, 0x0E7F))
_COMMON = (
    (0x00A0, 0x024F), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x3000, 0x9FFF), (0xAC00, 0xD7A3), (0xFF00, 0xFFEF),
)  # fmt: skip
# A word with the blank before it: what is in one has no effect on the count of the next.
_CHUNK = re.compile(r" ?[^ ]+| +")
# In quarters of a token, per character.
_QUARTERS = {"noise": 3.2, "none": 0.0, "basic": 9.0}
_LONG_WORD = 13
"""Characters; words this long are rare ones, made of small parts."""


def tokens(text: str) -> int:
    """About how many tokens a text is, rather too many than too few; never less than a quarter of its bytes."""
    return -int(-max(sum(map(_quarters_of, _CHUNK.findall(text))), _size(text)) // 4)


@lru_cache(maxsize=20_000)  # words come again and again
def _quarters_of(chunk: str) -> float:
    return sum(map(_quarters, _PIECE.finditer(chunk)))


def _quarters(piece: re.Match[str]) -> float:
    kind, length = piece.lastgroup or "basic", piece.end() - piece.start()
    if kind == "one":
        return 4
    if kind in ("word", "name", "capitals"):
        step = {"word": 6, "name": 5, "capitals": 4}[kind]
        return 4 * ((length + 2) // 3 if length >= _LONG_WORD else 1 + (length - 1) // step)
    if kind == "foreign":
        return _foreign(ord(piece[0]))
    return _QUARTERS[kind] * length


@lru_cache(maxsize=10_000)
def _foreign(number: int) -> float:
    if any(first <= number <= last for first, last in _ALPHABETS):
        return 3.0
    if any(first <= number <= last for first, last in _COMMON):
        return 5.0
    return 9.0 if number <= 0xFFFF else 12.0


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def fit(text: str, budget: int) -> str:
    """The text, or its beginning, in at most ``budget`` tokens; ``…`` at the end says that it was cut.

    It is cut behind a paragraph if that loses little, else behind a sentence, a word, or at worst a cluster. Nothing
    that makes sense fits: "".
    """
    if budget <= 0:
        return ""
    if _size(text) <= 4 * budget and tokens(text) <= budget:
        return text
    # No character is less than a quarter of a token.
    room = _room(text[: 4 * budget], budget - tokens(f" {MARK}"))
    return _marked(text[: _border(text, room)])


def _room(text: str, budget: int) -> int:
    """How many characters of a text fit."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def _border(text: str, room: int) -> int:
    from agentm.context.prose import sentence_ends  # only what is cut needs it

    start = text[:room]
    paragraph = start.rfind("\n\n")
    if paragraph >= room * 0.7:
        return paragraph
    line = start.rfind("\n")
    sentence = max((end for end in sentence_ends(start) if end < room), default=0)
    if max(line, sentence) >= room * 0.5:
        return max(line, sentence)
    word = max(start.rfind(" "), line)
    if word >= room * 0.6:
        return word
    return _whole_clusters(text, room)


def _whole_clusters(text: str, room: int) -> int:
    """The last place at or before ``room`` that lies between two clusters."""
    from agentm.context.graphemes import clusters

    # A blank begins a cluster, so from there on they are in step.
    end = at = max(text.rfind(" ", 0, room), text.rfind("\n", 0, room), 0)
    for cluster in clusters(text[at : room + 1]):
        at += len(cluster)
        if at <= room:
            end = at
    return end


def _marked(start: str) -> str:
    kept = start.rstrip()
    return f"{kept} {MARK}" if kept else ""
