"""What of an index may be shown through a scope: where it is searched, and what of the finds can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentm.context.node import CONTENT, META
from agentm.context.uri import ACCOUNTS, SCHEME, parse_uri
from agentm.errors import AgentmError
from agentm.files.base import segments
from agentm.seam import Locator, StorageBackend

if TYPE_CHECKING:
    import tantivy

    from agentm.files.scope import ScopedStorageScope

_SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""What means something else in tantivy's patterns."""
_ANYTHING = "(.|\n)*"


class Reach:
    """A scope, as a search obeys it.

    The paths that it names can be searched for. Other spellings of what is denied, and links, show when they are met.
    """

    def __init__(self, scope: ScopedStorageScope, store: StorageBackend) -> None:
        """The store is the one that the scope is around."""
        self._store = store
        self._readable = [segments(path) for path in scope.read]
        self._denied = [segments(path) for path in scope.for_places().always_deny]

    def query(self, schema: tantivy.Schema) -> tantivy.Query | None:
        """Matches what lies at or below a path that may be read, and not at or below a denied one; None for all."""
        from tantivy import Occur, Query

        must: list[tuple[Occur, Query]] = []
        if () not in self._readable:
            must.append((Occur.Must, _below(self._readable, schema)))
        if self._denied:
            must += [(Occur.Must, Query.all_query()), (Occur.MustNot, _below(self._denied, schema))]
        return Query.boolean_query(must) if must else None

    def shows(self, uri: str) -> bool:
        """Whether a source is there, and can be read."""
        try:
            return all(map(self._store.exists, _files(uri)))
        except (AgentmError, OSError):
            return False


def _files(uri: str) -> list[Locator]:
    """Without which there is no memory, or no note."""
    if not uri.startswith(SCHEME):
        return [Locator(uri)]
    place = parse_uri(uri).locator
    return [place.child(META), place.child(CONTENT)]


def _below(prefixes: Iterable[tuple[str, ...]], schema: tantivy.Schema) -> tantivy.Query:
    from tantivy import Occur, Query

    return Query.boolean_query(
        [(Occur.Should, Query.regex_query(schema, "uri", _pattern(names))) for names in prefixes]
    )


def _pattern(names: tuple[str, ...]) -> str:
    """Matches the sources at and below a place of the store: nodes by their addresses, notes by their keys."""
    if names in ((), (ACCOUNTS,)):
        return f"{SCHEME if names else ''}{_ANYTHING}"
    start = SCHEME + "/".join(names[1:]) if names[0] == ACCOUNTS else "/".join(names)
    return _SIGNS.sub(r"\\\g<0>", start) + f"(/{_ANYTHING})?"
