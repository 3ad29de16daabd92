"""What a text is searched by: its words, folded and stemmed, the same for what is kept and what is asked.

Words of scripts that put no space between them become overlapping pairs of characters; an emoji is a word of its own.
Stemming goes by script, not by language: a text need not say which one it is in, and a query seldom could.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tantivy

LONGEST = 40
"""Characters of a word that count; what is longer is no word but a key, a hash or a picture in letters."""


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Function words only, and of other languages only those that are no words of English: "die", "hat" and "met" stay.
STOP_WORDS = _listed(
    """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each else ever few for from further get gets getting go going gonna
    got had has have having he her here hers herself hi him himself his how i if in into is it its itself just let like
    lot lots many me more most much must my myself no nor not of off oh ok okay on once one only or other ought our ours
    ourselves out over own per really same shall she should so some such than that the their theirs them themselves then
    there these they thing things this those through to too under until up upon us very via was we well were what
    whatever when where whether which while who whom whose why will with would yeah yes yet you your yours yourself
    yourselves
    arent cant couldnt didnt doesnt dont hadnt hasnt havent im isnt ive lets mustnt shouldnt thats theres theyre wasnt
    werent whats wont wouldnt youre
    als aber auch auf aus bei bist das dass dem der des dich ein eine einem einen einer eines er es habe haben hatte ich
    ihm ihn ihr ihre ist kein keine mein meine mich mir mit nach nicht noch nur oder sein seine sich sie sind uber um
    und uns unser vom von wann warum welche wenn werden wie wir wird wo zu zum zur
    au aux avec ce ces cet cette dans du elle elles est et etait il ils je la le les leur lui mais mes moi nous ou par
    pas pour quand que quel quelle qui sa sera ses sont sur tu une vous
    al como con cual cuando de del donde el ella en entre eran esta este fue ha hay lo mi muy nos para pero por porque
    quien se ser si sobre su sus tambien te tiene un una y ya yo
    anche che chi dei della delle di e gli ho nel nella perche piu quale quando questa questo sono suo
    ao com dos ela ele foi isso meu na nao nas onde os pela pelo qual quem sao seu sua uma voce
    dat deze dit een heb heeft het hij hoe ik maar naar niet ook op uit van voor waar waren wat wel wij zijn
    """
)
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# Thai, Lao, Burmese, Khmer, kana, Chinese characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
    # Korean has spaces, but what a word does in its sentence is tied to its end.
    "\uac00-\ud7a3"
)
# What belongs to the letter before it though it is none: accents, Hebrew and Arabic points, the vowels of India.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u0670\u0900-\u0dff"
_PICTURES = "\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001f3fa\U0001f400-\U0001faff"
_LETTER = f"[^\\W_{_UNSPACED}]"
_ASCII_WORD = re.compile("[0-9]+(?:[.,:][0-9]+)+|[a-z0-9]+(?:'[a-z0-9]+)*")
_ISO_DAY = re.compile(r"\b(\d{4})-(\d\d?)-(\d\d?)\b")
_MONTH = "|".join(rf"{name[:3]}(?:{name[3:]})?" for name in MONTHS) + "|sept"
_DAY_AND_MONTH = re.compile(
    rf"(?:\b(\d\d?)(?:st|nd|rd|th)?(?: of)? )?\b({_MONTH})\b(?: (\d\d?)(?:st|nd|rd|th)?\b)?(?:,? (\d{{4}})\b)?"
)
_THIS_OR_LAST = re.compile(r"\b(this|last|past) (week|month|year)\b")
_TIED_ON = re.compile("'(?:d|ll|m|re|s|ve)$")
_SCRIPTS = (("\u0400", "\u052f", "russian"), ("\u0370", "\u03ff", "greek"), ("\u0600", "\u06ff", "arabic"))


# Ranges of characters take long to compile, and most texts here have none of them.
@cache
def _word() -> re.Pattern[str]:
    return re.compile(
        f"[0-9]+(?:[.,:][0-9]+)+|[{_UNSPACED}]+|[\U0001f1e6-\U0001f1ff]{{2}}|[{_PICTURES}]"
        f"|{_LETTER}+(?:['{_MARKS}]+{_LETTER}*)*"
    )


@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


@cache
def _latin_accent() -> re.Pattern[str]:
    return re.compile("(?<=[a-z])[\u0300-\u036f]+")


def terms(text: str) -> list[str]:
    """The terms of a text in their order; of one that has nothing but stop words, those."""
    words = _ascii_words(text) if text.isascii() else _words(text)
    return stems([word for word in words if word not in STOP_WORDS] or words)


def stems(words: list[str]) -> list[str]:
    """Each word's stem; words are folded and have no blanks."""
    together = " ".join(words)
    found = _stemmer("english").analyze(together)
    return found if together.isascii() else [_other_stem(term) for term in found]


def _other_stem(term: str) -> str:
    language = next((language for first, last, language in _SCRIPTS if first <= term[:1] <= last), None)
    return _stemmer(language).analyze(term)[0] if language else term


def date_terms(day: date) -> list[str]:
    """How a day is written in the index: by year, month, day of the month and of the week, alone and together."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    return [str(day.year), *stems([month, weekday]), f"{day:%Y-%m}", f"{day:%m-%d}", f"{day:%Y-%m-%d}"]


def asked_dates(text: str, today: date) -> list[str]:
    """The days, months and years that a query speaks of, as `date_terms` writes them."""
    folded = text.casefold()
    found = [f"{int(year):04}-{int(month):02}-{int(day):02}" for year, month, day in _ISO_DAY.findall(folded)]
    for day, month, late_day, year in _DAY_AND_MONTH.findall(folded):
        number = next(at for at, name in enumerate(MONTHS, 1) if name.startswith(month[:3]))
        day = day or late_day
        if day:
            found += [f"{number:02}-{int(day):02}"] + ([f"{year}-{number:02}-{int(day):02}"] if year else [])
        if year:
            found.append(f"{year}-{number:02}")
    return list(dict.fromkeys(found + _relative(folded, today)))


def _relative(folded: str, today: date) -> list[str]:
    days = {"today": 0, "tonight": 0, "yesterday": 1}
    found = [f"{today - timedelta(ago):%Y-%m-%d}" for word, ago in days.items() if re.search(rf"\b{word}\b", folded)]
    for which, unit in _THIS_OR_LAST.findall(folded):
        last = which != "this"
        if unit == "week":
            monday = today - timedelta(today.weekday() + 7 * last)
            found += [f"{monday + timedelta(day):%Y-%m-%d}" for day in range(7)]
        elif unit == "month":
            found.append(f"{today.replace(day=1) - timedelta(last):%Y-%m}")
        else:
            found.append(str(today.year - last))
    return found


def _ascii_words(text: str) -> list[str]:
    return [_bare(word) for word in _ASCII_WORD.findall(text.lower())]


def _words(text: str) -> list[str]:
    found: list[str] = []
    for word in _word().findall(_fold(text)):
        if _run().match(word):
            found += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        else:
            found.append(_bare(word))
    return found


def _fold(text: str) -> str:
    """Case, width and the accents of Latin letters gone; in other scripts an accent may make another letter."""
    apart = unicodedata.normalize("NFKD", text.replace("\u2019", "'").casefold())
    return unicodedata.normalize("NFKC", _latin_accent().sub("", apart))


def _bare(word: str) -> str:
    """Without apostrophes and what they tie on: "Ann's" is Ann, and "I'll" is not ill."""
    return (_TIED_ON.sub("", word).replace("'", "") if "'" in word else word)[:LONGEST]


@cache
def _stemmer(language: str) -> tantivy.TextAnalyzer:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stemmer(language)).build()
