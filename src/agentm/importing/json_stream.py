"""The elements of a large JSON file, one after the other, so that a file that is cut still gives what came before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from agentm.errors import InvalidNodeError, NotTextError

_CHUNK = 1 << 20
LARGEST_ELEMENT = 64 << 20
"""Characters; a conversation that makes a memory has a quarter of that at most."""


def elements(stream: TextIO, what: str) -> Iterator[Any]:
    """The elements of an array, or the values that stand one after the other (JSON lines, or just one)."""
    window = _Window(stream, what)
    if window.peek() != "[":
        while window.peek():
            yield window.value()
        return
    window.at += 1
    while (sign := window.peek()) != "]":
        if not sign:
            raise window.invalid("it ends in the middle")
        if sign == ",":
            window.at += 1
        else:
            yield window.value()


class _Window:
    """The part of the text that is being looked at."""

    def __init__(self, stream: TextIO, what: str) -> None:
        self._stream = stream
        self._what = what
        self._text = ""
        self._passed = 0
        self._decoder = json.JSONDecoder()
        self.at = 0

    def peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            rest = self._text[self.at : self.at + _CHUNK]
            bare = rest.lstrip(" \t\r\n\ufeff")
            self.at += len(rest) - len(bare)
            if bare:
                return bare[0]
            if not self._more():
                return ""

    def value(self) -> Any:
        """The value that begins here. One that is cut off by the window cannot be told from one that is wrong."""
        while True:
            try:
                found, self.at = self._decoder.raw_decode(self._text, self.at)
            except RecursionError as cause:
                raise self.invalid("it is nested too deeply") from cause
            except ValueError as cause:
                if not self._more():
                    raise self.invalid("it is cut off, or no JSON") from cause
            else:
                return found

    def _more(self) -> bool:
        """Twice as much as there is, so that looking again costs no more than looking once."""
        held = len(self._text) - self.at
        if held > LARGEST_ELEMENT:
            raise self.invalid(f"an element has more than {LARGEST_ELEMENT:,} characters")
        try:
            read = self._stream.read(max(_CHUNK, held))
        except UnicodeDecodeError as cause:
            raise NotTextError(f"{self._what} is not UTF-8; convert it first, for example with iconv.") from cause
        self._passed += self.at
        self._text, self.at = self._text[self.at :] + read, 0
        return bool(read)

    def invalid(self, why: str) -> InvalidNodeError:
        return InvalidNodeError(
            f"{self._what} cannot be read from character {self._passed + self.at:,} on: {why}; export it anew.",
            code="json_invalid",
        )
