"""What a memory is, and the files it is kept in.

    content.md          the text itself
    .relations.json     edges that lead away from it
    .abstract.md        one line, at most 100 characters
    .overview.md        its outline
    .meta.json          who, when, which version, and the hash of each part: the commit point
    .history/           every kept version, whole, one file each
    .outbox/            what the index has yet to learn

Everything can be read and edited by hand.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Any

from agentm.context.layout import laid_out
from agentm.context.uri import ContextUri, parse_uri
from agentm.errors import InvalidNodeError
from agentm.records import as_dict, field, field_names, record_class

CONTENT = "content.md"
RELATIONS = ".relations.json"
ABSTRACT = ".abstract.md"
OVERVIEW = ".overview.md"
META = ".meta.json"
HISTORY = ".history"
OUTBOX = ".outbox"
DLQ = "dlq"
DAMAGED = ".damaged"
"""In the name of a file that was put aside."""

PARTS = (CONTENT, RELATIONS, ABSTRACT, OVERVIEW)
LONGEST_ABSTRACT = 100
LARGEST_CONTENT = 16 * 1024 * 1024
"""Bytes. A memory is something to be read, not an archive."""


class NodeStatus(StrEnum):
    """Only ACTIVE is ever shown."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    BROKEN = "BROKEN"
    ARCHIVED = "ARCHIVED"
    MOVED = "MOVED"
    DELETED = "DELETED"


@record_class(frozen=True)
class RelationEdge:
    """One memory points to another. (from, to, type) names the edge; the rest can change."""

    from_uri: str
    to_uri: str
    relation_type: str = "related_to"
    weight: float = 1.0
    reason: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        return self.from_uri, self.to_uri, self.relation_type


@record_class(frozen=True)
class ContextNode:
    """A memory. The caller gives the first block; the second is filled in when it is read."""

    uri: str
    content: str
    abstract: str | None = None
    overview: str | None = None
    relations: tuple[RelationEdge, ...] = ()
    tags: tuple[str, ...] = ()

    version: int = 0
    status: NodeStatus = NodeStatus.ACTIVE
    created_at: str = ""
    updated_at: str = ""
    actor: str = ""
    sources: tuple[str, ...] = ()


@record_class(frozen=True)
class Meta:
    """What `.meta.json` says. ``parts`` are the hashes that tie the other files to this version."""

    uri: str
    context_type: str
    category: str
    level: int
    owner_space: str
    status: NodeStatus
    created_at: str
    updated_at: str
    version: int
    tags: tuple[str, ...]
    actor: str = ""
    sources: tuple[str, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    write_id: str = ""
    """Names the file of this version in the history: two writers never name theirs alike."""
    other_uri: str | None = None
    """Where it went, or where it came from, while a move is under way or done."""
    purge: bool = False
    """Whether the history is to go too: the repair goes by it where a purge was cut short."""
    rest: dict[str, Any] = field(default_factory=dict)
    """Keys that somebody else put there: kept."""

    @property
    def history_name(self) -> str:
        return history_name(self.version, self.write_id)


def history_name(version: int, write_id: str) -> str:
    return f"{version:08d}-{write_id}.json"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def dump_meta(meta: Meta) -> str:
    return laid_out(_fields(meta)) + "\n"


def _fields(meta: Meta) -> dict[str, Any]:
    fields = {name: getattr(meta, name) for name in field_names(Meta) if name != "rest"}
    fields["status"] = meta.status.value
    for name in ("other_uri", "purge"):
        if not fields[name]:
            del fields[name]
    return fields | meta.rest


def load_meta(text: str) -> Meta:
    """Meta from its file; InvalidNodeError if it is not what a meta is."""
    try:
        return _meta(json.loads(text))
    except (ValueError, RecursionError) as cause:
        raise _no_meta(cause) from cause


def _meta(found: Any) -> Meta:
    try:
        if not isinstance(found, dict):
            raise TypeError(f"it is a {type(found).__name__}")
        known = {name: found.pop(name) for name in field_names(Meta) if name in found and name != "rest"}
        known |= {name: tuple(known[name]) for name in ("tags", "sources") if name in known}
        known["status"] = NodeStatus(known["status"])
        if not isinstance(known["version"], int) or known["version"] < 1:
            raise TypeError("it has no version")
        if not isinstance(known.setdefault("parts", {}), dict):
            raise TypeError("its parts are no hashes")
        parse_uri(known["uri"])
        return Meta(**known, rest=found)
    except (ValueError, TypeError, KeyError) as cause:
        raise _no_meta(cause) from cause


def _no_meta(cause: Exception) -> InvalidNodeError:
    return InvalidNodeError(f"{META} cannot be understood ({cause}); agentm repair says what can be done.")


def dump_relations(edges: tuple[RelationEdge, ...]) -> str:
    return laid_out([as_dict(edge) for edge in edges]) + "\n"


def load_relations(text: str) -> tuple[RelationEdge, ...]:
    try:
        return tuple(RelationEdge(**edge) for edge in json.loads(text))
    except (ValueError, TypeError, RecursionError) as cause:
        raise InvalidNodeError(f"{RELATIONS} cannot be understood ({cause}); it is a list of edges.") from cause


@record_class(frozen=True)
class Version:
    """One version of a node, whole: its meta and the text of each part."""

    meta: Meta
    parts: dict[str, str]

    def sound(self) -> bool:
        """Whether the parts are those that the meta was written for; a meta without hashes vouches for any."""
        if not self.meta.parts:
            return True
        return {name: digest(text) for name, text in self.parts.items()} == self.meta.parts

    def node(self) -> ContextNode:
        return ContextNode(
            uri=self.meta.uri,
            content=self.parts[CONTENT],
            abstract=self.parts[ABSTRACT].removesuffix("\n"),
            overview=self.parts[OVERVIEW],
            relations=load_relations(self.parts[RELATIONS]),
            tags=self.meta.tags,
            version=self.meta.version,
            status=self.meta.status,
            created_at=self.meta.created_at,
            updated_at=self.meta.updated_at,
            actor=self.meta.actor,
            sources=self.meta.sources,
        )


def dump_version(version: Version) -> str:
    return laid_out({"meta": _fields(version.meta), "parts": version.parts}) + "\n"


def load_version(text: str) -> Version:
    try:
        found = json.loads(text)
        return Version(_meta(found["meta"]), {str(k): str(v) for k, v in found["parts"].items()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
        raise InvalidNodeError(f"a version in {HISTORY} cannot be understood ({cause}); it is skipped.") from cause


def build_version(node: ContextNode, uri: ContextUri, *, abstract: str, overview: str, meta: dict[str, Any]) -> Version:
    """The next version of a node, checked, with every part as the text of its file."""
    _check_tiers(node, abstract, overview)
    parts = {
        CONTENT: node.content,
        RELATIONS: dump_relations(node.relations),
        ABSTRACT: f"{abstract}\n",
        OVERVIEW: overview,
    }
    fields: dict[str, Any] = {
        "uri": str(uri),
        "context_type": uri.context_type,
        "category": uri.category,
        "level": 3,
        "owner_space": uri.owner_space,
        "status": NodeStatus.ACTIVE,
        "tags": node.tags,
        "parts": {name: digest(text) for name, text in parts.items()},
    }
    return Version(Meta(**{**fields, **meta}), parts)


def _size(text: str, what: str) -> int:
    if not isinstance(text, str):
        raise InvalidNodeError(f"the {what} is {type(text).__name__}, not text; pass a str.")
    try:
        return len(text.encode())
    except UnicodeEncodeError as cause:
        raise InvalidNodeError(f"character {cause.start} of the {what} has no UTF-8 form; remove it.") from cause


def check_line(text: str, what: str) -> None:
    """Refuse what is no text, or more than a line of it."""
    _size(text, what)
    if "\n" in text:
        raise InvalidNodeError(f"the {what} goes over several lines; keep it to one.")


def check_content(text: str) -> None:
    """Refuse what is no text, or too much of it, before anything is made of it."""
    size = _size(text, "content")
    if size > LARGEST_CONTENT:
        raise InvalidNodeError(
            f"the content has {size:,} bytes, a memory at most {LARGEST_CONTENT:,}; keep it elsewhere and link to it.",
            code="content_too_big",
        )


def _check_tiers(node: ContextNode, abstract: str, overview: str) -> None:
    _size(overview, "overview")
    _size(abstract, "abstract")
    if len(abstract) > LONGEST_ABSTRACT or "\n" in abstract:
        raise InvalidNodeError(
            f"the abstract has {len(abstract)} characters; keep it to one line of at most {LONGEST_ABSTRACT}."
        )
    if isinstance(node.tags, str):
        raise InvalidNodeError(f"the tags are one text, {node.tags!r}; give a tuple of words.")
    for tag in node.tags:
        if not isinstance(tag, str) or not tag.strip():
            raise InvalidNodeError(f"{tag!r} is no tag; a tag is a word.")
        _size(tag, "tag")
