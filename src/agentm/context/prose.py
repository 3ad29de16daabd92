"""What a text says, whatever its language: its sentences, its words, the dates and names in it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from agentm.context.graphemes import UNSPACED, clean

# A lookbehind and possessive runs: a line of a million dots must cost a million steps.
_ENDER = re.compile(r"(?<![.!?…])[.!?…؟۔։።။]++[\"'”’»)\]]*+(?=\s|$)|[。！？｡।॥]++[」』”’）\"']*+")
_SHORT_FORMS = """
    dr mr mrs ms prof st jr sr no nr vs e.g i.e z.b d.h bzw ca cf approx fig p pp vol art str tel abs inc ltd
    sra srta ud av dott sig т.е т.д г ул
"""
_ABBREVIATIONS = frozenset(_SHORT_FORMS.split())
_AROUND = "\"'`“”„‘’«»‹›()[]{}<>.,;:!?…*_~|/\\#،؛؟।。、"


def sentence_ends(text: str) -> Iterator[int]:
    """The position behind each sentence; the last is the end of the text."""
    end = 0
    for found in _ENDER.finditer(text):
        if _ends(text, found):
            end = found.end()
            yield end
    if text[end:].strip():
        yield len(text)


def _ends(text: str, found: re.Match[str]) -> bool:
    if found[0][0] not in ".…":
        return True
    if text[found.end() : found.end() + 2].strip()[:1].islower():
        return False
    before = text[max(0, found.start() - 16) : found.start()].split()
    word = before[-1].lstrip("(\"'“«[") if before and found[0] == "." else ""
    # "17. März", "J. Smith", "e.g."
    number = word.isdigit() and len(word) <= 2 and found.end() < len(text)
    return not (number or (len(word) == 1 and word.isupper()) or word.casefold() in _ABBREVIATIONS)


def sentences(text: str) -> Iterator[str]:
    start = 0
    for end in sentence_ends(text):
        yield text[start:end].strip()
        start = end


def words(text: str) -> set[str]:
    """What a text is about: its longer words; pairs of characters where no space parts them."""
    found: set[str] = set()
    spaced = text.isascii()
    for raw in text.casefold().split():
        core = raw.strip(_AROUND)
        if not spaced and UNSPACED.search(core):
            found.update(pair for pair in map("".join, pairwise(core)) if pair.isalnum())
        elif len(core) >= (4 if core.upper() != core else 2):
            found.add(core)
    return found


_MONTH_NAMES = """
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    januar jänner februar märz mai juni juli oktober dezember
    janvier février mars avril juin juillet août septembre octobre novembre décembre
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
    janeiro fevereiro março maio junho julho setembro outubro novembro dezembro
    gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
    januari februari maart mei augustus
    stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
    января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь
    січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня
    ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık
    يناير فبراير مارس أبريل ابريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر
    जनवरी फ़रवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर
    มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม
"""
_MONTHS = frozenset(unicodedata.normalize("NFC", _MONTH_NAMES).split())
# Months that are also something else when nobody capitalises them.
_ALSO_WORDS = frozenset({"dec", "maja", "mar", "march", "mars", "mart", "may", "mei"})
_NUMBER = re.compile(r"\d+")
_IN_NUMBERS = re.compile(
    r"\d{4}-\d{2}-\d{2}(?!\d)"
    r"|(?<![\w./-])(?:\d{4}([/.])\s?\d{1,2}\1\s?\d{1,2}|\d{1,2}([/.-])\s?\d{1,2}\2\s?\d{4})(?![\w/-])"
    r"|(?:\d{4}\s?[年년]\s?)?\d{1,2}\s?[月월]\s?\d{1,2}\s?[日일]|\d{4}\s?[年년]\s?\d{1,2}\s?[月월]"
)
_DAY_AND_MONTH = re.compile(
    r"(?<!\w)\d{1,2}(?:st|nd|rd|th|er|[.º])?\s(?:of\s|de\s)?([^\s\d,.;:()]{2,16})(?:[.,]?\s(?:de\s|del\s)?(\d{4})(?!\d))?"
)
_MONTH = re.compile(r"(?<!\w)([^\W\d_]{3,12})\.?\s$")
_DAY_AND_YEAR = re.compile(r"\d{1,2}(?:st|nd|rd|th)?(?:,?\s(\d{4}))?(?!\w)|(\d{4})(?!\w)")


def dates(text: str) -> list[str]:
    """Dates as they are written, each once, in the order of the text."""
    found: dict[str, None] = {}
    end = 0
    for number in _NUMBER.finditer(text):
        if number.start() >= end:
            start, end = _date_at(text, number.start())
            if start < end:
                found[clean(text[start:end])] = None
    return list(found)


def _date_at(text: str, at: int) -> tuple[int, int]:
    """From where to where a date goes that has its first number here; nothing if there is none."""
    numbers = _IN_NUMBERS.match(text, at)
    if numbers and _is_date(numbers[0]):
        return at, numbers.end()
    day = _DAY_AND_MONTH.match(text, at)
    if day and _is_month(day[1], day[2]):
        return at, day.end()
    month = _MONTH.search(text[max(0, at - 15) : at])
    rest = _DAY_AND_YEAR.match(text, at)
    if month and rest and _is_month(month[1], rest[1] or rest[2]):
        return at - len(month[0]), rest.end()
    return at, at


def _is_date(written: str) -> bool:
    small = [int(number) for number in _NUMBER.findall(written) if len(number) < 4]
    return all(1 <= number <= 31 for number in small) and min(small) <= 12


def _is_month(word: str, year: str | None) -> bool:
    name = unicodedata.normalize("NFC", word).casefold()
    return name in _MONTHS and (word[0].isupper() or year is not None or name not in _ALSO_WORDS)


_MENTION = re.compile(r"(?<![\w@/.])@[A-Za-z0-9_][\w-]{0,60}(?:\.[\w-]{1,60})?")
_PARTICLES = frozenset({"al", "bin", "da", "de", "del", "den", "der", "di", "ibn", "of", "ten", "van", "von", "y"})
_COMMON = """
    the a an i we he she it they you this that these those there here in on at for from with by to of and or but if as
    so when while after before since until what who how why where which my our your his her their its not no yes all
    some any each every today tomorrow yesterday note notes todo see also then now please never always use
    monday tuesday wednesday thursday friday saturday sunday
    der die das ein eine wir ich er sie es im am in den dem mit von für und oder aber wenn als nach vor zu bei auf
    le la les un une des nous je il elle on et ou mais si dans pour avec el los las una unos yo él ella en y o pero
    con por para o os as um uma eu ele ela não no na em il lo gli uno e ma che per nel
    я мы он она они это в на и но с по к о для из у а как что не если когда после
"""
_NO_NAMES = frozenset(_COMMON.split()) | _MONTHS


def names(parts: Iterable[str]) -> list[str]:
    """People, places and products in sentences: runs of capitalised words and @mentions, the most frequent first.

    A word that only opens sentences is one if it does so twice and is never written small. Where nearly every noun is
    capitalised, as in German, a single word is none.
    """
    count: Counter[str] = Counter()
    opening: Counter[str] = Counter()
    seen: set[str] = set()
    inside = capital = 0
    for part in parts:
        if "@" in part:
            count.update(_MENTION.findall(part))
        tokens = part.split()
        inside += len(tokens) - 1
        seen.update(tokens)
        for at, run in _capitalised(tokens):
            capital += len(run) - (at == 0)
            (opening if at == 0 and len(run) == 1 else count)[" ".join(run)] += 1
    for name, times in opening.items():
        if name in count or (times > 1 and name.casefold() not in seen):
            count[name] += times
    if capital > 8 and capital > inside * 0.2:
        count = Counter({name: times for name, times in count.items() if " " in name or name[0] == "@"})
    return sorted(count, key=lambda name: -count[name])


def _capitalised(tokens: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Each run of capitalised words with its place; a particle may stand inside, punctuation ends it."""
    run: list[str] = []
    for at, token in enumerate([*tokens, ""]):
        if not run and token.islower():
            continue
        core = token.strip(_AROUND).removesuffix("'s").removesuffix("’s")
        name = _is_capitalised(core)
        opens = bool(run) and not token.startswith(core)
        if run and (opens or len(run) > 4 or not (name or token in _PARTICLES)):
            yield from _without_particles(at, run)
            run = []
        if name or (run and token in _PARTICLES):
            run.append(core)
            if not token.endswith(core):
                yield from _without_particles(at + 1, run)
                run = []


def _without_particles(end: int, run: list[str]) -> Iterator[tuple[int, list[str]]]:
    start = end - len(run)
    while run[-1] in _PARTICLES:
        run = run[:-1]
    yield start, run


def _is_capitalised(core: str) -> bool:
    return (
        1 < len(core) <= 40
        and core[0].isupper()
        and any(map(str.islower, core))
        and core.casefold() not in _NO_NAMES
        and not core.casefold().startswith("http")
    )
