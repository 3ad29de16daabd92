"""What a source is read as, whatever it is: things to be remembered, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from agentm.exporting import LeftOut
from agentm.records import record_class


@record_class(frozen=True)
class Link:
    """An edge to another item, named by the source that it comes from."""

    target: str
    relation_type: str = "links_to"
    reason: str = ""


@record_class(frozen=True)
class Item:
    """One memory to be."""

    source: str
    """Where it comes from: the file, or its ID over there. A second import finds the memory again by it."""
    name: str
    content: str
    category: str
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    created_at: str = ""
    owner: str = ""
    """Whose it was over there, if that is known."""


@record_class(frozen=True)
class Nothing:
    """Something that says nothing: an empty note, a conversation without a word."""

    source: str


Read = Item | LeftOut | Nothing


@record_class(frozen=True)
class Kind:
    """A kind of source."""

    name: str
    what: str
    read: Callable[[str], Iterator[Read]]
    linked: bool = False
    """Whether its items point at each other, so that they have to be known together."""
    owned: bool = False
    """Whether it may hold what is known about several people."""


def instant(value: Any) -> str:
    """A point in time as agentm writes it, from ISO text or seconds since 1970; empty if it is none, or yet to come."""
    try:
        moment = _moment(value)
        if moment is None or moment > datetime.now(UTC):
            return ""
        return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def _moment(value: Any) -> datetime | None:
    if isinstance(value, bool) or not value:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str):
        return None
    text = value.strip()
    found = datetime.combine(date.fromisoformat(text), datetime.min.time()) if len(text) <= 10 else None
    found = found or datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def shown(moment: str) -> str:
    """A point in time for people."""
    return f"{moment[:10]} {moment[11:16]} UTC" if moment else ""


def unique(words: Iterator[str]) -> tuple[str, ...]:
    """Each word once, in its first spelling."""
    found: dict[str, str] = {}
    for word in words:
        found.setdefault(word.casefold(), word)
    return tuple(found.values())
