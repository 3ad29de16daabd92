"""Fingerprints of texts, to tell that one was written before: exactly, or nearly.

Of each of two dozen orders in which all words could stand, a print keeps the first word that the text has. Two texts
agree in about as many of these as they have words in common. They are looked up by groups of four: texts that share
nine words in ten are nearly sure to agree in one of the six groups, others seldom do.
"""

from __future__ import annotations

import hashlib
import re
from array import array

from agentm.records import record_class

FEWEST_WORDS = 12
"""Shorter texts are only ever equal: a word more or less is another statement."""
_ORDERS, _GROUP = 24, 4
_ALIKE = 0.8
"""The share of the orders in which two texts must agree."""
_WORD = re.compile(r"\w+")
_PRIME = (1 << 61) - 1
_SHUFFLES = [
    tuple(int.from_bytes(hashlib.sha256(f"{order} {part}".encode()).digest()[:7]) | 1 for part in "ab")
    for order in range(_ORDERS)
]


@record_class(frozen=True)
class Print:
    exact: str
    near: bytes
    """Four bytes for each order; nothing for a text that is too short."""

    def is_like(self, other: Print) -> bool:
        return self.exact == other.exact or self.is_near(other.near)

    def is_near(self, other: bytes) -> bool:
        if not self.near or len(self.near) != len(other):
            return False
        agreed = sum(mine == theirs for mine, theirs in zip(_numbers(self.near), _numbers(other), strict=True))
        return agreed >= _ALIKE * _ORDERS

    @property
    def groups(self) -> list[int]:
        """By which it is looked up."""
        size = 4 * _GROUP
        starts = range(0, len(self.near), size)
        digests = (hashlib.sha256(bytes([at]) + self.near[at : at + size]).digest() for at in starts)
        return [int.from_bytes(digest[:6]) for digest in digests]


def _numbers(near: bytes) -> array[int]:
    return array("I", near)


def print_of(text: str) -> Print:
    words = _WORD.findall(text.casefold())
    exact = hashlib.sha256(" ".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    if len(words) < FEWEST_WORDS:
        return Print(exact, b"")
    hashes = [
        int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=7).digest())
        for word in set(words)
    ]
    firsts = [min([(one * a + b) % _PRIME for one in hashes]) & 0xFFFFFFFF for a, b in _SHUFFLES]
    return Print(exact, array("I", firsts).tobytes())
