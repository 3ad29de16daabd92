"""The learned ranker: for each feature a table of steps, added up.

`tools/ranker.py` learns the table. That no two features are mixed in it costs half a point of recall against deeper
trees, and pays for it: it is a few kilobytes that can be read, a score costs a few lookups, and its parts add up.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache

PATH = os.path.join(os.path.dirname(__file__), "ranker.txt")


class Ranker:
    """Steps by feature: a value up to and with the first bound, another up to the second, and so on.

    In the file each feature has a line: its name, a colon, and value, bound, value, bound, ..., value.
    """

    def __init__(self, text: str) -> None:
        self._steps: list[tuple[str, list[float], list[float]]] = []
        for line in text.splitlines():
            name, _, numbers = line.partition(":")
            if numbers:
                steps = [float(number) for number in numbers.split()]
                self._steps.append((name, steps[1::2], steps[::2]))

    def score(self, row: Mapping[str, float]) -> float:
        """A score between 0 and 1."""
        odds = 0.0
        for name, bounds, values in self._steps:
            odds += values[bisect_left(bounds, row[name])]
        return 1 / (1 + math.exp(-odds))

    def why(self, row: Mapping[str, float]) -> dict[str, float]:
        """What each feature adds to the logarithm of the odds that a score is."""
        return {name: values[bisect_left(bounds, row[name])] for name, bounds, values in self._steps}


@cache
def ranker() -> Ranker:
    """The ranker of the package."""
    with open(PATH, encoding="utf-8") as file:
        return Ranker(file.read())
