"""What a note says about others, and about itself: links, tags, fields."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from agentm.context.front_matter import front_matter
from agentm.context.markdown import LINK, WIKILINK, without_code
from agentm.importing.files import source_of
from agentm.importing.items import Link, instant, unique
from agentm.records import record_class

_FENCE = re.compile(r"\s{0,12}(`{3,}|~{3,})")
_TAG = re.compile(r"(?<![^\s(\[,;>])#([\w/-]+)")
_RELATION = re.compile(
    r"\s*[-*+]\s+([^\[\]\n]{0,100}?)\s*\[\[([^\[\]|\n]{1,300})(?:\|[^\[\]\n]*)?\]\]\s*(?:\((.*)\))?\s*$"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@record_class(frozen=True)
class Note:
    """A note as it was read, with what it is called."""

    path: str
    place: str
    """Its path from the root of the import on, separated by ``/``."""
    text: str
    fields: dict[str, list[str]]
    prose: str
    """Its lines outside code, where a # is a tag and a [[name]] a link."""

    @property
    def stem(self) -> str:
        return posixpath.splitext(posixpath.basename(self.place))[0]

    @property
    def source(self) -> str:
        return source_of(self.path)


def read(path: str, root: str, text: str) -> Note:
    place = unicodedata.normalize("NFC", os.path.relpath(path, root).replace(os.sep, "/"))
    fields, body = front_matter(text.lstrip("\ufeff"))
    return Note(path, place, text, fields, _prose(body))


def _prose(body: str) -> str:
    kept, fence = [], ""
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        else:
            kept.append(line)
    return without_code("\n".join(kept))


def tags(note: Note) -> tuple[str, ...]:
    """Those among the fields and those in the text."""
    listed = (
        word for name in ("tags", "tag") for text in note.fields.get(name, []) for word in re.split(r"[,\s]+", text)
    )
    inline = (found for found in _TAG.findall(note.prose))
    words = (word.lstrip("#").rstrip("/-") for word in (*listed, *inline))
    return unique(word for word in words if any(map(str.isalpha, word)))


def created(note: Note) -> str:
    """When it says that it was written."""
    names = ("created", "created_at", "date", "created-at", "date created")
    return next(filter(None, (instant(value) for name in names for value in note.fields.get(name, []))), "")


class Names:
    """What the notes of one import are called: which of them a link means."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self._places: dict[str, Note] = {}
        self._stems: dict[str, list[Note]] = {}
        self._others: dict[str, Note] = {}
        for note in sorted(notes, key=lambda one: (one.place.count("/"), one.place)):  # the nearest to the root wins
            self._places[_folded(posixpath.splitext(note.place)[0])] = note
            self._stems.setdefault(_folded(note.stem), []).append(note)
            for field in ("aliases", "alias", "title", "permalink"):
                for name in note.fields.get(field, []):
                    self._others.setdefault(_folded(name), note)

    def meant(self, name: str, by: Note, *, relative: bool = False) -> Note | None:
        """The note that ``[[name]]`` means in another one; what is ``relative`` is looked for beside that one first."""
        name = _folded(re.split(r"[#^]", name, maxsplit=1)[0].strip().rstrip("\\"))
        name = name.removesuffix(".md").removesuffix(".markdown")
        if not name:
            return None
        beside = posixpath.normpath(posixpath.join(_folded(posixpath.dirname(by.place)), name))
        places = (beside, name.lstrip("/")) if relative else (name.lstrip("/"), beside)
        found = next((self._places[place] for place in places if place in self._places), None)
        if found is None:
            alike = self._stems.get(posixpath.basename(name), [])
            found = next((note for note in alike if _ends_with(note, name)), None)
        return found or self._others.get(name)


def _ends_with(note: Note, name: str) -> bool:
    return f"/{_folded(posixpath.splitext(note.place)[0])}".endswith(f"/{name}")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def links(note: Note, names: Names, *, typed: bool = False) -> tuple[Link, ...]:
    """The edges of a note, each once; with ``typed``, an item like ``- built_by [[Ada]] (in May)`` names its type."""
    found: dict[tuple[str, str], Link] = {}
    for link in _links(note, names, typed):
        if link.target != note.source:
            found.setdefault((link.target, link.relation_type), link)
    return tuple(found.values())


def _links(note: Note, names: Names, typed: bool) -> Iterator[Link]:
    for field, values in note.fields.items():
        for _, name, _ in WIKILINK.findall(" ".join(values)):
            yield from _to(names.meant(name, note), field)
    for line in note.prose.split("\n"):
        relation = _RELATION.match(line) if typed else None
        if relation:
            yield from _to(names.meant(relation[2], note), relation[1].strip() or "relates_to", relation[3] or "")
            continue
        for embeds, name, _ in WIKILINK.findall(line):
            yield from _to(names.meant(name, note), "embeds" if embeds else "links_to")
        for _, url in LINK.findall(line):
            yield from _to_url(url, note, names)


def _to(target: Note | None, relation_type: str, reason: str = "") -> Iterator[Link]:
    if target is not None:
        yield Link(target.source, relation_type, reason)


def _to_url(url: str, note: Note, names: Names) -> Iterator[Link]:
    """A link to a file, which may have been imported at another time."""
    url = unquote(url.partition("#")[0])
    if not url or _SCHEME.match(url) or "\0" in url:
        return
    known = names.meant(url, note, relative=True)
    if known is not None:
        yield Link(known.source)
    elif url.lower().endswith(".md"):
        yield Link(source_of(os.path.normpath(os.path.join(os.path.dirname(note.path), url))))
