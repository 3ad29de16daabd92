"""Abstract and overview of a memory, made without a model.

The abstract is one line that says what the note is about; the overview is what one would want to know before reading
it: outline, key sentences, facts, dates, names, links, tags. Both depend on the text alone.

A model can take the place of `DEFAULT`; what it answers goes through `checked_abstract`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice
from typing import NamedTuple, Protocol

from agentm.context.graphemes import clean, fit
from agentm.context.markdown import LINK, WIKILINK, Block, Note, plain, read_note, without_code, without_images
from agentm.context.node import LONGEST_ABSTRACT
from agentm.context.prose import dates, names, sentence_ends, sentences, words

LONGEST_OVERVIEW = 2000
_MOST_SENTENCES = 400
_LONGEST_LINE = 180


class Summariser(Protocol):
    """Whoever writes the two short tiers of a memory. What it raises is the caller's business."""

    def abstract(self, content: str) -> str: ...

    def overview(self, content: str) -> str: ...


class _WithoutModel:
    def abstract(self, content: str) -> str:
        return abstract_of(content)

    def overview(self, content: str) -> str:
        return overview_of(content)


DEFAULT: Summariser = _WithoutModel()


def checked_abstract(text: str) -> str:
    """An abstract that somebody else wrote, brought to one clean line of at most 100 characters."""
    return fit(text, LONGEST_ABSTRACT)


def abstract_of(content: str) -> str:
    """One line of at most 100 characters, cut behind a word; empty only if there is nothing to see."""
    return _abstract(read_note(content), content)


def overview_of(content: str) -> str:
    """Markdown of at most 2,000 characters, with the sections that the note has something for."""
    note = read_note(content)
    title = fit(note.title, 110) or _abstract(note, content)
    prose = without_images(without_code(note.prose), r"\1")
    points = _points(note)
    head = f"# {title}\n" if title else "\n"
    outline = _section("Outline", _outline(note, title), 350)
    rest = [
        _section("Facts", _facts(note), 350),
        _section("Code", _code(note), 160),
        _section("Dates", _one_line(dates(note.everything), ", "), 160),
        _section("Names", _one_line(names(point.text for point in points), ", "), 160),
        _section("Links", _links(prose), 260),
        _section("Tags", _one_line(_tags(note, prose), " "), 160),
    ]
    room = LONGEST_OVERVIEW - len(head) - len(outline) - sum(map(len, rest))
    key_points = _section("Key points", _key_points(note, points, title, room - 20), room)
    return head + outline + key_points + "".join(rest)


# The abstract.

_LETTER = re.compile(r"[^\W\d_]")
_JUST_DATA = ("#", "@", "http://", "https://")


def _abstract(note: Note, content: str) -> str:
    title = fit(note.title, _LONGEST_LINE)
    told = fit(note.said("description", "summary", "abstract"), _LONGEST_LINE)
    gist = told or _opening(note, LONGEST_ABSTRACT - len(f"{title} — " if title else ""))
    if gist.casefold().startswith(title.casefold()):
        title = ""
    glue = " " if title.endswith(tuple(".!?:;。！？：")) else " — "
    text = f"{title}{glue}{gist}" if title and gist else title or gist
    return fit(text or _anything(note, content), LONGEST_ABSTRACT)


def _opening(note: Note, room: int) -> str:
    """The first text that says something, with what follows it in the same section as long as it fits."""
    blocks = [block for block in note.blocks if block.kind != "code"][:60]
    start = next((n for n, block in enumerate(blocks) if _tells(block)), None)
    if start is None:
        return "" if note.title else next((text for block in blocks if (text := block.shown)), "")
    opening = ""
    for block in blocks[start:]:
        text = fit(block.shown, 500)
        part = _whole_sentences(text, room - len(opening) - bool(opening)) if block.kind == "text" else text
        joined = f"{opening}{' ' if block.kind == 'text' else '; '}{part}" if opening else part
        # A list is told until the room is full, and cut there; of text, only sentences that fit are added.
        if block.kind == "heading" or (opening and block.kind == "text" and len(joined) > room):
            break
        opening = joined
        if len(opening) > room or part != text:
            break
    return opening


def _tells(block: Block) -> bool:
    if block.kind == "heading":
        return False
    return _says(plain(without_images(block.text)) if "![" in block.text else block.shown)


def _says(text: str) -> bool:
    """More than a date, a link or some tags."""
    letters = 0
    for word in text[:_LONGEST_LINE].split():
        if not word.startswith(_JUST_DATA):
            letters += len(_LETTER.findall(word))
            if letters > 1:
                return True
    return False


def _whole_sentences(text: str, room: int) -> str:
    """As many sentences as fit, at least one."""
    ends = list(sentence_ends(text)) or [len(text)]
    return text[: max((end for end in ends if end <= room), default=ends[0])]


def _anything(note: Note, content: str) -> str:
    """For a note without a word of text: its code, its fields, or its first line as it is."""
    code = next((_first_code(block.text) for block in note.blocks if block.kind == "code"), "")
    fields = "; ".join(f"{key}: {', '.join(values)}" for key, values in note.fields.items() if values)
    return clean(code) or clean(fields) or content


_PREAMBLE = re.compile(r"#!|(?:import|from|use|using|package|require)\b|#\s*include\b|<\?")
_REMARK = re.compile(r"(?://+|#+|--|/\*+|\"\"\"|''')\s*")


def _first_code(code: str) -> str:
    """The first line of a program that tells what it does: a remark, a definition, not what it imports."""
    lines = [line for raw in code.splitlines()[:500] if (line := raw.strip()) and any(map(str.isalnum, line))]
    line = next((line for line in lines if not _PREAMBLE.match(line)), lines[0] if lines else "")
    return _REMARK.sub("", line, count=1) or line


# The overview.


def _section(name: str, lines: Iterable[str], room: int) -> str:
    """The lines that fit under their heading; nothing when there are none, and a sign when some are left out."""
    text = f"\n## {name}\n"
    start = len(text)
    for line in lines:
        if len(text) + len(line) + 6 > room:
            return text + ("- …\n" if line.lstrip().startswith("- ") else "") if len(text) > start else ""
        text += f"{line}\n"
    return text if len(text) > start else ""


def _one_line(parts: list[str], glue: str) -> list[str]:
    """The first parts, whole, in one line that its section has room for."""
    line = ""
    for part in (fit(part, 60) for part in parts[:12]):
        if len(line) + len(glue) + len(part) > 130:
            break
        line += glue + part if line else part
    return [line] if line else []


def _outline(note: Note, title: str) -> list[str]:
    headings = [(block.level, fit(block.shown, 110)) for block in note.blocks if block.kind == "heading"]
    # A heading that is already the title says nothing new.
    headings = [(level, text) for level, text in headings if text not in ("", title)]
    while len(headings) > 12 and len({level for level, _ in headings}) > 1:
        deepest = max(level for level, _ in headings)
        headings = [(level, text) for level, text in headings if level < deepest]
    top = min((level for level, _ in headings), default=0)
    return ["  " * min(level - top, 4) + f"- {text}" for level, text in headings]


def _facts(note: Note) -> list[str]:
    return [f"- {fit(block.shown, _LONGEST_LINE)}" for block in note.blocks if block.kind == "fact"]


def _code(note: Note) -> list[str]:
    blocks = [block for block in note.blocks if block.kind == "code" and block.text.strip()]
    sizes = [len(block.text.splitlines()) for block in blocks]
    return [
        f"- {block.language or 'code'}, {size} line{'s' * (size > 1)}: {fit(_first_code(block.text), 60)}"
        for block, size in zip(blocks, sizes, strict=True)
    ][:3]


_BARE_URL = re.compile(r"https?://[^\s<>\"'`\[\]()|。、，）」]{3,400}")


def _links(prose: str) -> list[str]:
    """Where the note points, each place once, in the order of the text."""
    found: dict[str, tuple[int, str]] = {}
    for match in WIKILINK.finditer(prose) if "[[" in prose else ():
        target = fit(match[2], 120)
        found.setdefault(target, (match.start(), f"- [[{target}]]"))
    for match in LINK.finditer(prose) if "](" in prose else ():
        target, text = clean(match[2]), fit(plain(match[1]), 60)
        if target and not target.startswith("#"):
            found.setdefault(target, (match.start(), f"- [{text}]({target})" if text else f"- {target}"))
    for match in _BARE_URL.finditer(LINK.sub(lambda link: " " * len(link[0]), prose)) if "://" in prose else ():
        target = clean(match[0]).rstrip(".,;:!?*_")
        found.setdefault(target, (match.start(), f"- {target}"))
    # Half an address leads nowhere: a long one is left out.
    return [line for _, line in sorted(found.values()) if len(line) <= 200]


_TAG = re.compile(r"(?<![^\s(\[,;])#([^\s#,.;:!?()\[\]{}\"'<>|`*…。、，！？；：）」]++)")


def _tags(note: Note, prose: str) -> list[str]:
    given = [tag for key in ("tags", "tag", "keywords") for text in note.fields.get(key, []) for tag in text.split(",")]
    given += (match[1] for match in _TAG.finditer(prose) if not match[1].isdigit())
    return list(dict.fromkeys("#" + tag for raw in given if (tag := clean(raw).strip("#").replace(" ", "-"))))


class _Point(NamedTuple):
    text: str
    bonus: float


def _points(note: Note) -> list[_Point]:
    """Every sentence, item and row, with what its place in the note is worth."""
    points: list[_Point] = []
    worth = 3.0
    for block in note.blocks:
        if block.kind == "heading":
            worth = max(worth, 1.5)
        elif block.kind in ("text", "item", "row"):
            text = block.shown
            for part in islice(sentences(text), _MOST_SENTENCES) if block.kind == "text" else [text]:
                points.append(_Point(part, worth + (0.5 if block.kind == "text" else 0.0)))
                worth = 0.0
        if len(points) >= _MOST_SENTENCES:
            break
    return points


def _key_points(note: Note, points: list[_Point], title: str, room: int) -> list[str]:
    """The sentences that carry most, in the order of the note."""
    scores = _scores(note, points)
    chosen: dict[str, int] = {f"- {title}": -1}
    for n in sorted(range(len(points)), key=lambda n: -scores[n]):
        line = f"- {fit(points[n].text, _LONGEST_LINE)}"
        if line not in chosen and len(line) < room and _says(points[n].text):
            chosen[line] = n
            room -= len(line) + 1
        if room < 20 or len(chosen) > 8:
            break
    return sorted(chosen, key=lambda line: chosen[line])[1:]


def _scores(note: Note, points: list[_Point]) -> list[float]:
    terms = [words(point.text) for point in points]
    spread = Counter(chain.from_iterable(terms))
    # A word in every other sentence is grammar, not a topic.
    usual = len(points) * 0.4 if len(points) > 6 else len(points)
    topics = {term: min(times - 1, 4) for term, times in spread.items() if 1 < times <= usual}
    headings = (block.shown for block in note.blocks if block.kind == "heading")
    headed = words(" ".join([note.title, *headings]))
    scores = []
    for point, found in zip(points, terms, strict=True):
        score = point.bonus + sum(topics[term] for term in found & topics.keys()) / (len(found) + 1) ** 0.5
        score += 0.7 * min(len(found & headed), 3)
        score += 1.0 if any(map(str.isdigit, point.text)) else 0.0
        score += 0.5 if any(map(str.isupper, point.text[1:])) else 0.0
        scores.append(score - (1.5 if len(point.text) < 12 else 0.0) - (1.0 if len(point.text) > 300 else 0.0))
    return scores
