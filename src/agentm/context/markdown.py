"""A note as blocks: headings, text, items, facts, table rows, code; the fields above them; JSON alike.

Only as much Markdown as a summary needs. Everything is linear in the note: notes come from anybody, and a summary must
never hold up a write.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any
from unicodedata import normalize

from agentm.context.front_matter import front_matter
from agentm.context.graphemes import clean
from agentm.records import field, record_class

READ = 128 * 1024
"""Characters of a note that are looked at: more than a person would read before summing it up."""
_MOST_BLOCKS = 2000
_MOST_ENTRIES = 200

_CODE_SPAN = re.compile(r"(?<!`)(`{1,9})(?!`)(.{1,300}?)(?<!`)\1(?!`)", re.DOTALL)
_ESCAPE = re.compile(r"\\([`*_{}\[\]<>()#+!|~-])")
_MARKUP = re.compile(r"[`*_<&\\~=\[]")
_KEPT = re.compile("\x00(\\d+)\x00")
LINK = re.compile(
    r"\[([^\[\]]*+)\]\(\s*+<?([^()\s<>]*+(?:\([^()\s<>]*+\)[^()\s<>]*+)*+)>?(?:\s++[\"'(][^\"')]*+.)?\s*+\)"
)
_IMAGE = re.compile(r"!\[([^\[\]]*+)\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s++[\"'(][^\"')]*+.)?\s*+\)")
WIKILINK = re.compile(r"(!?)\[\[([^\[\]|\n]{1,300}+)(?:\|([^\[\]\n]{0,300}+))?\]\]")
_REFERENCE = re.compile(r"!?\[([^\[\]]++)\]\[[^\[\]]*+\]|\[\^[^\[\]\s]{1,60}\]")
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^<>\s]++|[^<>\s@]{1,64}@[^<>\s@]{1,255})>")
_HTML_TAG = re.compile(
    r"</?(?:a|abbr|b|blockquote|br|center|code|del|details|div|em|font|h[1-6]|hr|i|img|ins|kbd|li|mark|ol|p|pre|s|small|"
    r"span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)\b[^<>]{0,300}>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_EMPHASIS = {
    ("*",): re.compile(r"(?<![A-Za-z0-9*])(\*{1,3})(?=[^\s*])([^*]*+)(?<=\S)\1(?![A-Za-z0-9*])"),
    ("_",): re.compile(r"(?<!\w)(?!__[a-z0-9_]{1,60}__)(_{1,3})(?=[^\s_])((?:[^_]|(?<=\w)_(?=\w))*+)(?<=\S)\1(?!\w)"),
    ("~~", "=="): re.compile(r"(?<![A-Za-z0-9~=])(~~|==)(?=[^\s~=])([^~=]*+)(?<=\S)\1(?![A-Za-z0-9~=])"),
}
"""What is set apart, by the signs that it takes."""


def plain(text: str) -> str:
    """Markdown of one block as the words it shows: links keep their text, images what they are called."""
    if not _MARKUP.search(text):
        return clean(text)
    kept: list[str] = []

    def keep(shown: str) -> str:
        kept.append(shown)
        return f"\x00{len(kept) - 1}\x00"

    # Looking for a sign is far cheaper than looking for what it may begin, and most texts have one or two of them.
    text = text.replace("\x00", "")
    if "`" in text:
        text = _CODE_SPAN.sub(lambda m: keep(m[2].strip()), text)
    if "\\" in text:
        text = _ESCAPE.sub(lambda m: keep(m[1]), text)
    if "[" in text:
        text = WIKILINK.sub(lambda m: m[3] or m[2].rpartition("/")[2] or m[2], text)
        text = LINK.sub(lambda m: m[1] or m[2], without_images(text, r"\1"))
        text = _REFERENCE.sub(lambda m: m[1] or "", text)
    if "<" in text:
        text = _AUTOLINK.sub(r"\1", text)
        text = _HTML_TAG.sub(" ", text)
    for signs, emphasis in _EMPHASIS.items():
        if any(map(text.__contains__, signs)):
            text = emphasis.sub(r"\2", text)
    if "&" in text:
        text = _ENTITY.sub(lambda m: html.unescape(m[0]), text)
    return clean(_KEPT.sub(lambda m: kept[int(m[1])], text) if kept else text)


def without_code(text: str) -> str:
    return _CODE_SPAN.sub(" ", text) if "`" in text else text


def without_images(text: str, instead: str = "") -> str:
    return _IMAGE.sub(instead, text) if "![" in text else text


@record_class(slots=False, eq=False)
class Block:
    kind: str  # heading, text, item, fact, row, code
    text: str
    level: int = 0
    language: str = ""

    @cached_property
    def shown(self) -> str:
        return plain(self.text)


@record_class(slots=False)
class Note:
    """What was read of a note. Texts are still Markdown, `plain` and ``shown`` are for where they are shown."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    prose: str = ""
    """The lines outside code, where a # is a tag and a [[name]] a link."""

    def said(self, *keys: str) -> str:
        """The first of these fields that says something."""
        texts = (plain(" ".join(self.fields[key])) for key in keys if key in self.fields)
        return next(filter(None, texts), "")

    @cached_property
    def title(self) -> str:
        """What the note calls itself. A heading below the first text names a section, unless it is the top one."""
        opening = [block for block in self.blocks if block.kind != "code"]
        heading = next((block for block in opening if block.kind == "heading"), None)
        heads = heading is not None and (heading is opening[0] or heading.level == 1)
        return self.said("title", "name", "subject") or (heading.shown if heading and heads else "")

    @property
    def everything(self) -> str:
        return "\n".join([*(text for texts in self.fields.values() for text in texts), self.prose])


@lru_cache(maxsize=1)  # the abstract and the overview are made of the same one
def read_note(content: str) -> Note:
    text = _window(content)
    data = _json(text)
    if data is not None:
        return _from_json(data)
    fields, body = front_matter(text)
    reader = _Reader(Note(fields))
    for line in _without_comments(body).splitlines():
        reader.feed(line)
        if len(reader.note.blocks) > _MOST_BLOCKS:
            break
    return reader.finish()


def _window(content: str) -> str:
    """As much of the text as is looked at, composed, so that a word is found however it was typed."""
    text = content.lstrip("\ufeff \t\r\n\f\v")
    if len(text) > READ:
        text = text[:READ]
        # Not in the middle of a word, if there is any place that is not.
        text = text[: max(text.rfind(mark) + 1 for mark in "\n 。！？") or READ]
    if text.isascii():
        return text
    # In pieces, because normalising is quadratic in a run of marks; where two meet, `fit` composes what is shown.
    return "".join(normalize("NFC", text[at : at + 1024]) for at in range(0, len(text), 1024))


def _without_comments(text: str) -> str:
    first, *rest = text.split("<!--")
    parts = [first]
    for chunk in rest:
        before, closed, after = chunk.partition("-->")
        parts.append(after if closed else f"<!--{before}")
    return "".join(parts)


_FENCE = re.compile(r"\s{0,12}(`{3,}|~{3,})\s*([\w+#.-]{0,30})")
_QUOTE = re.compile(r"(?:\s{0,3}>\s?)+(?:\[!\w{1,30}\][+-]?)?")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,9}[.)])\s+(?:\[[ xX/>-]\]\s+)?(.*)")
_FACT = re.compile(r"\s*[-*+]\s+(\[[^\[\]]{2,60}\]\s+\S.*)")
_DEFINITION = re.compile(r"\s{0,3}\[[^\[\]]{1,200}\]:\s")


class _Reader:
    """Lines in, blocks out; it remembers the paragraph, or the code, that it is in."""

    def __init__(self, note: Note) -> None:
        self.note = note
        self._paragraph: list[str] = []
        self._lines: list[str] = []
        self._code: list[str] = []
        self._fence = self._language = ""

    def feed(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2]:
                self._end_code()
            else:
                self._code.append(line)
        elif fence and "`" not in line[fence.end() :]:
            self._end_paragraph()
            self._fence, self._language = fence[1], fence[2]
        else:
            self._lines.append(line)
            self._read_prose(_QUOTE.sub("", line, count=1) if line.lstrip()[:1] == ">" else line)

    def finish(self) -> Note:
        self._end_paragraph()
        if self._fence:
            self._end_code()
        self.note.prose = "\n".join(self._lines)
        return self.note

    def _read_prose(self, line: str) -> None:
        bare = line.strip()
        if not bare or _DEFINITION.match(line):
            self._end_paragraph()
        elif bare[0] == "#" and (heading := _HEADING.match(line)):
            self._add("heading", heading[2].rstrip(" \t#"), len(heading[1]))
        elif bare[0] in "=-*_" and _is_rule(bare):
            self._underline(bare)
        elif bare[0] == "|":
            self._row(bare)
        elif fact := _FACT.match(line):
            self._add("fact", fact[1])
        elif item := _ITEM.match(line):
            self._add("item", item[1])
        else:
            self._paragraph.append(bare)

    def _underline(self, bare: str) -> None:
        """Below a single line it makes a heading of it; otherwise it parts two blocks."""
        if len(self._paragraph) == 1 and bare[0] in "=-":
            text = self._paragraph.pop()
            self._add("heading", text, 1 if bare[0] == "=" else 2)
        elif bare[0] != "=":
            self._end_paragraph()

    def _row(self, bare: str) -> None:
        cells = [cell.strip() for cell in bare.strip("|").split("|")]
        if any(cell.strip(":-") for cell in cells):
            self._add("row", " | ".join(cell for cell in cells if cell))

    def _add(self, kind: str, text: str, level: int = 0) -> None:
        self._end_paragraph()
        if text:
            self.note.blocks.append(Block(kind, text, level))

    def _end_paragraph(self) -> None:
        if self._paragraph:
            self.note.blocks.append(Block("text", "\n".join(self._paragraph)))
            self._paragraph = []

    def _end_code(self) -> None:
        self.note.blocks.append(Block("code", "\n".join(self._code), language=self._language))
        self._code, self._fence = [], ""


def _is_rule(bare: str) -> bool:
    signs = set(bare.replace(" ", ""))
    return len(signs) == 1 and (len(bare) > 2 or signs == {"="})


def _json(text: str) -> Any:
    """The value, if the whole note is a JSON object or array."""
    if text[:1] not in "{[" or text.rstrip()[-1:] not in "}]":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _from_json(data: Any) -> Note:
    note = Note()
    for key, value in data.items() if isinstance(data, dict) else ():
        if isinstance(value, str | list):
            note.fields[str(key).casefold()] = [str(part) for part in (value if isinstance(value, list) else [value])]
    lines = list(_entries("", data, 3, _MOST_ENTRIES))
    note.blocks = [Block("item", line) for line in lines]
    note.prose = "\n".join(lines)
    return note


def _entries(path: str, value: Any, depth: int, most: int) -> Iterator[str]:
    """Each plain value with the keys that lead to it; a list of plain values is one."""
    if isinstance(value, list) and not any(isinstance(part, dict | list) for part in value):
        value = ", ".join(map(_scalar, value[:20]))
    if isinstance(value, dict | list) and depth:
        pairs = value.items() if isinstance(value, dict) else ((None, part) for part in value)
        for key, part in pairs:
            name = path if key is None else f"{path} {key}".strip()
            for line in _entries(name, part, depth - 1, most):
                if most == 0:
                    return
                most -= 1
                yield line
    else:
        shown = f"({len(value)})" if isinstance(value, dict | list) else _scalar(value)
        yield f"{path}: {shown}" if path else shown


def _scalar(value: Any) -> str:
    return value[:2000] if isinstance(value, str) else json.dumps(value)
