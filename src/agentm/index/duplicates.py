"""Whether something like a text was remembered before: in the index, or a moment ago and not indexed yet."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock

from agentm.context.front_matter import front_matter
from agentm.context.node import CONTENT
from agentm.context.reader import read_text
from agentm.context.uri import parse_uri
from agentm.errors import AgentmError
from agentm.index import todo
from agentm.index.catalogue import CURRENT, NAME, Catalogue
from agentm.index.prints import Print, print_of
from agentm.seam import StorageBackend

_MOST_WAITING = 50
"""Of what is not indexed yet, how many are looked at: the last ones."""


class Duplicates:
    """Looks without opening the full-text index: a write must not wait for that."""

    def __init__(self, directory: str | None, backend: StorageBackend) -> None:
        self._directory = directory
        self._backend = backend
        self._catalogue: Catalogue | None = None
        self._lock = Lock()  # threads share one connection
        self._known: dict[str, Print] = {}
        """Of what is not indexed yet, as far as it was looked at."""

    def of(self, text: str, uri: str) -> tuple[str, ...]:
        """The memories of the same owner that say what this text says, or nearly; not the one at ``uri`` itself."""
        if self._directory is None:
            return ()
        made, space = print_of(text), parse_uri(uri).owner_space
        found: list[str] = []
        with self._lock, suppress(sqlite3.Error, OSError):  # a hint is not worth an error
            found += self._waiting(self._directory, made, space)
            found += self._indexed(self._directory).alike(made, space)
        self._known[uri] = made
        return tuple(one for one in dict.fromkeys(found) if one != uri and self._is_there(one))

    def _is_there(self, uri: str) -> bool:
        """Not gone since it was indexed, and in reach of who asks."""
        try:
            return self._backend.exists(parse_uri(uri).locator)
        except (AgentmError, OSError):
            return False

    def _indexed(self, directory: str) -> Catalogue:
        current = os.path.join(directory, CURRENT)
        if self._catalogue is None or not self._catalogue.is_at(current):
            self.close()
            if not os.path.exists(os.path.join(current, NAME)):
                raise FileNotFoundError(current)
            self._catalogue = Catalogue(current)
        return self._catalogue

    def _waiting(self, directory: str, made: Print, space: str) -> Iterator[str]:
        waiting = todo.waiting(directory)[-_MOST_WAITING:]
        self._known = {uri: self._known[uri] for uri in waiting if uri in self._known}
        for uri in waiting:
            with suppress(AgentmError, OSError):
                if parse_uri(uri).owner_space == space and self._print_at(uri).is_like(made):
                    yield uri

    def _print_at(self, uri: str) -> Print:
        if uri not in self._known:
            content = read_text(self._backend, parse_uri(uri).locator.child(CONTENT)) or ""
            self._known[uri] = print_of(front_matter(content)[1])
        return self._known[uri]

    def close(self) -> None:
        if self._catalogue is not None:
            self._catalogue.close()
            self._catalogue = None
