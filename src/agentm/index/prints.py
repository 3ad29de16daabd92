"""Fingerprints of texts, to tell that one was written before: exactly, or nearly.

The print of a text is a similarity hash: 64 bits, of which two texts that share nearly all of their runs of words
differ in few. Prints that differ in at most three are equal in one of four parts, which is how they are looked up.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

FEWEST_WORDS = 12
"""Shorter texts are only ever equal: a word more or less is another statement."""
_RUN = 3
_MOST_BITS = 3
_WORD = re.compile(r"\w+")
_LANES = [sum(1 << 16 * bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]
"""For each byte, its bits as counters of 16 bits side by side."""


@dataclass(frozen=True, slots=True)
class Print:
    exact: str
    near: int
    """0 for a text that is too short."""

    def is_near(self, other: int) -> bool:
        return self.near != 0 and other != 0 and (self.near ^ other).bit_count() <= _MOST_BITS

    @property
    def parts(self) -> list[int]:
        """Each a quarter of the print, with its place."""
        return [(place << 16) | (self.near >> 16 * place & 0xFFFF) for place in range(4)] if self.near else []


def print_of(text: str) -> Print:
    words = _WORD.findall(text.casefold())
    exact = hashlib.sha256(" ".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    if len(words) < FEWEST_WORDS:
        return Print(exact, 0)
    runs = {" ".join(words[at : at + _RUN]) for at in range(min(len(words) - _RUN + 1, 60_000))}
    counts = 0
    for run in runs:
        for place, byte in enumerate(hashlib.blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest()):
            counts += _LANES[byte] << 128 * place
    half = len(runs) / 2
    return Print(exact, sum(1 << bit for bit in range(64) if counts >> 16 * bit & 0xFFFF > half))
