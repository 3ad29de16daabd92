"""What the full-text index knows of an entry, and how an entry is written into it.

Text is analysed here, not in tantivy, so that documents and queries meet in the same terms. What the ranking looks at
again, after tantivy found it, is kept beside the postings in one small piece.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

from agentm.index.kept import ANSWERS, ASKS, ENDS_ASKING, TELLS_TIME, keep
from agentm.index.words import date_terms, terms
from agentm.records import record_class

if TYPE_CHECKING:
    import tantivy

EXACT = ("uri", "space", "category", "tags", "project")
"""Fields that match as a whole."""
TEXT = ("body", "title", "who", "date", "context")
"""Fields that are searched by their terms."""
KEPT = "kept"
MOMENT = "when"

_TIME = re.compile(
    r"\b(?:ago|last|next|since|today|tonight|tomorrow|yesterday|(?:week|month|year|(?:week)?end)s?|(?:19|20)\d\d"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|september|october"
    r"|november|december)\b",
    re.IGNORECASE,
)
_END = re.compile(r"[?？؟][\s\"'”’)\]*_]*(?:\[[^\]]*\]\s*)?$")


@record_class(frozen=True)
class Entry:
    """One line of the index: an abstract, an overview or a passage of a memory."""

    record: int
    uri: str
    space: str
    category: str
    tags: tuple[str, ...]
    project: str
    level: int
    when: str
    """When it was, ISO; empty if nobody knows."""
    body: str
    title: str
    who: str
    date: str
    """What a search for a day should meet: an ISO date or moment, or words."""
    context: str
    """The text of the entries around it, as far as it is not in ``before``; two on either side are best."""
    before: str = ""
    """The text of those just before it, in their order: what this entry may be an answer to."""


def asks(text: str) -> bool:
    """Whether a text ends with a question, so that what comes next may be its answer."""
    return _END.search(text) is not None


@cache
def schema() -> tantivy.Schema:
    """The fields, the same for every account."""
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_unsigned_field("record", indexed=True, fast=True)
    builder.add_unsigned_field("level", indexed=True, fast=True)
    builder.add_integer_field(MOMENT, indexed=True, fast=True)
    for name in EXACT:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in TEXT:
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    builder.add_bytes_field(KEPT, stored=True)
    return builder.build()


def document(entry: Entry) -> tantivy.Document:
    """An entry as tantivy takes it."""
    from tantivy import Document

    found = Document()
    found.add_unsigned("record", entry.record)
    found.add_unsigned("level", entry.level)
    found.add_integer(MOMENT, day_number(entry.when))
    for name in ("uri", "space", "category", "project"):
        found.add_text(name, getattr(entry, name))
    for tag in entry.tags:
        found.add_text("tags", tag)
    said = {name: terms(getattr(entry, name)) for name in ("body", "title", "who", "before", "context")}
    said["date"] = _date_terms(entry.date)
    data = keep(
        entry.record,
        _traits(entry),
        entry.uri,
        entry.when,
        own=said["body"] + said["title"],
        before=said["before"],
        after=said["context"],
        who=said["who"],
        dates=said["date"],
    )
    found.add_bytes(KEPT, data)
    said["context"] += said.pop("before")
    for name, some in said.items():
        found.add_text(name, " ".join(some))
    return found


def moments(fields: tantivy.Schema, since: str | None, until: str | None) -> tantivy.Query:
    """Matches what was on or after a day and on or before another; ISO, either may be open."""
    from tantivy import FieldType, Query

    first = day_number(since) if since else 1
    last = day_number(until) if until else 99_99_99_99
    return Query.range_query(fields, MOMENT, FieldType.Integer, first, last)


def day_number(when: str) -> int:
    """A day as a number that sorts: 2026-03-05 is 20260305; 0 if there is none."""
    digits = when[:10].replace("-", "")
    return int(digits) if digits.isdecimal() and len(digits) == 8 else 0


def _date_terms(text: str) -> list[str]:
    try:
        return date_terms(date.fromisoformat(text[:10]))
    except ValueError:
        return terms(text)


def _traits(entry: Entry) -> int:
    text = entry.body
    return (
        ASKS * ("?" in text)
        | ENDS_ASKING * asks(text)
        | ANSWERS * asks(entry.before)
        | TELLS_TIME * (_TIME.search(text) is not None)
    )
