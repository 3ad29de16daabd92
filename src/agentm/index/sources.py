"""What the index knows about one memory or one plain note: a pure function of what lies in the store."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from agentm.context.front_matter import front_matter
from agentm.context.markdown import read_note
from agentm.context.node import ContextNode, RelationEdge
from agentm.context.uri import SCHEME, parse_uri
from agentm.index.passages import Passage, passages
from agentm.index.prints import Print, print_of
from agentm.records import field, field_names, record_class

NODE, NOTE = "node", "note"
_WHEN = ("date", "when", "created", "time")
_WHO = ("who", "speaker", "author", "people", "from")
_PROJECT_TAG = "project:"


@record_class(frozen=True)
class Source:
    """A memory or a note as the index holds it."""

    uri: str
    """The address of a memory, the key of a note."""
    kind: str
    version: int
    space: str
    category: str
    tags: tuple[str, ...]
    project: str
    when: str
    """The moment it is about, as ISO 8601; when it was written, where it does not say."""
    written: str
    who: str
    title: str
    thread: str
    """What it is a part of: its neighbours are those of the same thread before and after it."""
    abstract: str
    overview: str
    passages: tuple[Passage, ...]
    edges: tuple[RelationEdge, ...] = ()
    hash: str = field(default="", compare=False)

    @property
    def print(self) -> Print:
        """What tells that a text was written before."""
        return print_of(" ".join(passage.text for passage in self.passages))

    @property
    def place(self) -> str:
        """Sorts the members of a thread."""
        return f"{self.when}\n{self.written}\n{self.uri}"


def of_node(node: ContextNode) -> Source:
    address = parse_uri(node.uri)
    fields, start = _front(node.content)
    when = _moment(fields) or node.created_at
    tags = tuple(dict.fromkeys((*node.tags, *fields.get("tags", ()))))
    return _hashed(
        Source(
            uri=node.uri,
            kind=NODE,
            version=node.version,
            space=address.owner_space,
            category=address.category,
            tags=tags,
            project=_project(fields, tags),
            when=when,
            written=node.created_at,
            who=_joined(fields, _WHO),
            title=read_note(node.content).title,
            # Never with another owner's: what they said must not help to find this.
            thread=f"{address.owner_space}\n{node.sources[0] if node.sources else f'{address.category}/{when[:10]}'}",
            abstract=node.abstract or "",
            overview=node.overview or "",
            passages=tuple(passages(node.content, start)),
            edges=node.relations,
        )
    )


def of_note(key: str, text: str, *, space: str, modified: float, abstract: str) -> Source:
    """A plain note of the owner's, at ``key`` in the store. Its neighbours are its own passages."""
    fields, start = _front(text)
    written = datetime.fromtimestamp(modified, UTC).isoformat(timespec="seconds")
    tags = tuple(dict.fromkeys(tag.lstrip("#") for tag in fields.get("tags", ())))
    parts = key.split("/")
    project = parts[1] if parts[0] == "projects" and len(parts) > 2 else _project(fields, tags)
    return _hashed(
        Source(
            uri=key,
            kind=NOTE,
            version=0,
            space=space,
            category=NOTE,
            tags=tags,
            project=project,
            when=_moment(fields) or written,
            written="",
            who=_joined(fields, _WHO),
            title=read_note(text).title or parts[-1].removesuffix(".md"),
            thread=key,
            abstract=abstract,
            overview="",
            passages=tuple(passages(text, start)),
        )
    )


def is_node(uri: str) -> bool:
    return uri.startswith(SCHEME)


def _front(content: str) -> tuple[dict[str, list[str]], int]:
    fields, below = front_matter(content)
    return fields, len(content) - len(below)


def _joined(fields: dict[str, list[str]], keys: tuple[str, ...]) -> str:
    return " ".join(value for key in keys for value in fields.get(key, ()))


def _project(fields: dict[str, list[str]], tags: tuple[str, ...]) -> str:
    tagged = (tag.removeprefix(_PROJECT_TAG) for tag in tags if tag.startswith(_PROJECT_TAG))
    return next(iter(fields.get("project", ())), "") or next(tagged, "")


def _moment(fields: dict[str, list[str]]) -> str:
    """The first date among the fields that can be understood."""
    for value in (value for key in _WHEN for value in fields.get(key, ())):
        try:
            return datetime.fromisoformat(value.strip()).isoformat(timespec="seconds")
        except ValueError:
            continue
    return ""


def _hashed(source: Source) -> Source:
    """With a hash of everything the index holds of it: what has the same one need not be looked at again."""
    said = [getattr(source, name) for name in field_names(Source) if name not in ("hash", "passages", "edges")]
    said += [[(one.start, one.end, one.text) for one in source.passages], [(e.to_uri, e.name) for e in source.edges]]
    data = json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass")
    values = {name: getattr(source, name) for name in field_names(Source)}
    return Source(**{**values, "hash": hashlib.sha256(data).hexdigest()[:32]})
