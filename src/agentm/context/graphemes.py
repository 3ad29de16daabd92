"""Text cut where a reader would cut it: one clean line, never inside a cluster, inside a word only if it must be.

The standard library knows no grapheme clusters. `clusters` follows UAX #29 as far as `unicodedata` reaches, and where
it must guess it joins: after any joiner and any virama. So it may keep together what the standard parts, never the
reverse.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_TAG_LETTERS = "\U000e0030-\U000e0039\U000e0061-\U000e007a"
# What nobody sees or what turns the text around it: control, format, bidirectional, noncharacters, lone surrogates, and
# the tag characters that can smuggle a whole text, unless they spell a flag. White space is not in it.
_HIDDEN = re.compile(
    f"(\U0001f3f4[{_TAG_LETTERS}]{{3,6}}\U000e007f)"
    "|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]+"
)
_ZWJ = "\u200d"
_JOINING = re.compile("[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]+")

# Marks by behaviour though not by category: a joiner, halfwidth voicing, Thai and Lao AM, skin tones, tags.
_EXTENDS = re.compile("[\u200c\u200d\u0e33\u0eb3\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_PREPENDS = re.compile(
    "[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941"
    "\U00011a3a\U00011a84-\U00011a89\U00011d46]"
)
_VIRAMA = 9  # its canonical combining class

# Scripts that put no space between words, and pictures, which stand alone.
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u2600-\u27bf\u2e80-\u312f"
    "\u3190-\ua4cf\ua980-\ua9df\uaa60-\uaadf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff9f\U0001f000-\U0001faff"
    "\U00020000-\U0003ffff]"
)
_PAUSES = frozenset("、。，！？；：」』）】》〉…｡､")
# What may not begin a line, and what may not end one: closing and opening signs, small kana, vowels that belong to the
# consonant before or behind them.
_NOT_FIRST = _PAUSES | frozenset(".,!?:;)]}%％℃．・ー々〕〗］｝”’ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶะาำๆฯະາຳ")
_NOT_LAST = frozenset("([{（「『【〔〈《〖［｛“‘$#@￥เแโใไເແໂໃໄ")
_AFTER_MARK = frozenset("/-–—_&?=+|,;:")
_LOOSE_ENDS = frozenset(" .,;:·|/&+=-–—…、，；：､（「『【《(“‘[{")
_ASCII_LOOSE_ENDS = "".join(filter(str.isascii, _LOOSE_ENDS))


def clean(text: str) -> str:
    """One line: runs of white space become a space, and whatever cannot be seen is gone."""
    if text.isascii() and (line := " ".join(text.split())).isprintable():
        return line  # nearly every text: there is nothing hidden in it
    return " ".join(_JOINING.sub(_joining, _HIDDEN.sub(r"\1", text)).split())


def _joining(run: re.Match[str]) -> str:
    """Of a run of joiners and variation selectors, what one cluster can use: a selector, then a joiner."""
    text, start, end = run.string, run.start(), run.end()
    if start == 0 or text[start - 1].isspace():
        return ""
    kept = "" if run[0][0] in "\u200c\u200d" else run[0][0]
    if end < len(text) and not text[end].isspace():
        kept += next((c for c in run[0] if c in "\u200c\u200d"), "")
    return kept


def clusters(text: str) -> Iterator[str]:
    """What a reader takes for one character each: base and marks, emoji sequence, flag, syllable block."""
    start = flags = 0
    for at in range(1, len(text)):
        before, after = text[at - 1], text[at]
        flags = flags + 1 if _is_flag_letter(before) else 0
        if not _joined(before, after, flags):
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


def _joined(before: str, after: str, flags: int) -> bool:
    if before.isascii() and after.isascii():
        return (before, after) == ("\r", "\n")
    if unicodedata.category(after)[0] == "M" or _EXTENDS.match(after):
        return unicodedata.category(before) not in ("Cc", "Zl", "Zp")
    if _PREPENDS.match(before):
        return unicodedata.category(after) not in ("Cc", "Zl", "Zp")
    if before == _ZWJ:
        return not after.isspace()
    if _is_flag_letter(after):
        return flags % 2 == 1
    if unicodedata.combining(before) == _VIRAMA:
        return after.isalpha() and not after.isascii()
    return _syllable(before, after)


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _syllable(before: str, after: str) -> bool:
    """Hangul: leading consonants, then vowels, then trailing consonants, or a block that already holds some of them."""
    first, second = _jamo(before), _jamo(after)
    return second != "" and second in _FOLLOWS.get(first, "")


_FOLLOWS = {"L": "LVBC", "V": "VT", "B": "VT", "C": "T", "T": "T"}


def _jamo(character: str) -> str:
    """Leading, Vowel, Trailing; Block open or Closed by a trailing consonant; nothing for other scripts."""
    if "\u1100" <= character <= "\u115f" or "\ua960" <= character <= "\ua97c":
        return "L"
    if "\u1160" <= character <= "\u11a7" or "\ud7b0" <= character <= "\ud7c6":
        return "V"
    if "\u11a8" <= character <= "\u11ff" or "\ud7cb" <= character <= "\ud7fb":
        return "T"
    if "\uac00" <= character <= "\ud7a3":
        return "C" if (ord(character) - 0xAC00) % 28 else "B"
    return ""


def fit(text: str, room: int) -> str:
    """The text as one clean line in NFC, at most ``room`` characters; if it had to be cut, ``…`` says so."""
    if len(text) <= room and text.isascii():
        return clean(text)
    # No character is composed of more than four, so this much always shows whether the text is too long; and
    # normalising is quadratic in a run of marks, so it must not see more.
    text = unicodedata.normalize("NFC", _start(text, 4 * room + 64))
    if len(text) <= room:
        return text
    return f"{_without_loose_end(text[: _cut(text, room - 1)])}…"


def _start(text: str, size: int) -> str:
    """The first characters of the clean text; of a long one, no more is cleaned than that takes."""
    taken = 4 * size
    # What is cleaned at the very end of a piece might look different with the rest behind it.
    while len(line := clean(text[:taken])) < size + 16 and taken < len(text):
        taken *= 4
    return line[:size]


def _cut(text: str, room: int) -> int:
    """Where to end: behind a word or a pause, else between unspaced clusters, else behind a sign, else a cluster."""
    if (space := text.rfind(" ", 1, room + 1)) >= room * 0.6 and text[: room + 1].isascii():
        return space  # what the long way comes to, for nearly every text
    pause = soft = sign = whole = at = 0
    before = ""
    for cluster in clusters(text[: room + 1]):
        if before and at <= room:
            whole = at
            kind = _break(before, cluster)
            if kind == "pause":
                pause = at
            elif kind == "soft":
                soft = at
            elif kind == "sign":
                sign = at
        at += len(cluster)
        before = cluster
    if pause >= room * 0.6:
        return pause
    if pause >= room * 0.4 or soft > pause:
        return max(soft, pause)
    # A cluster that alone is longer than the room can only be broken.
    return max(pause, sign) or whole or room


def _break(before: str, after: str) -> str:
    first, second = before[0], after[0]
    if second == " ":
        return "pause"
    if first == " " or second in _NOT_FIRST or first in _NOT_LAST:
        return ""
    if first in _PAUSES:
        return "pause"
    if UNSPACED.match(first) or UNSPACED.match(second):
        return "soft"
    return "sign" if before in _AFTER_MARK and second.isalnum() else ""


def _without_loose_end(text: str) -> str:
    """No comma or opening bracket before the dots, unless there is nothing else."""
    if text.isascii():
        return text.rstrip(_ASCII_LOOSE_ENDS) or text[:1]
    parts = list(clusters(text))
    while len(parts) > 1 and parts[-1] in _LOOSE_ENDS:
        parts.pop()
    return "".join(parts)
