"""Whether the right memory is found: LoCoMo, each turn of a conversation a memory, each question a recall.

    python bench/locomo.py DATA [--json]

DATA is ``locomo10.json`` of github.com/snap-research/locomo (Maharana et al., ACL 2024; CC BY-NC 4.0), or a part of it.
Evidence recall@k is the share of a question's evidence turns among the first k found, averaged over the questions that
have evidence. No model is called. All rows come from one run over the same turns; where a row is given neighbours, days
or names, they are what any host of a conversation knows.

The ranker's table that ships with agentm was learned from five conversations. On those, only the row "each conversation
left out" says anything about others; it learns the table anew without the conversation that it is then asked about.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from agentm import Memory, Note
from agentm.index.ranker import Ranker
from agentm.index.ranking import ask, features, find, looked_at, search
from agentm.index.schema import Entry, document, schema

if TYPE_CHECKING:
    import tantivy

SOURCE = "https://github.com/snap-research/locomo (data/locomo10.json)"
KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
AROUND = 2
FIRST = 20
FUSED = 64
"""How many of each list the rank fusion is given."""


@dataclass(frozen=True)
class Turn:
    id: str
    who: str
    text: str
    day: str
    session: int

    @property
    def line(self) -> str:
        """What a log of the conversation would hold."""
        return f"{self.who}, {self.day}: {self.text}"


@dataclass(frozen=True)
class Question:
    text: str
    kind: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class Conversation:
    name: str
    turns: list[Turn]
    questions: list[Question]


@dataclass
class Result:
    """One line of the table, in per cent; milliseconds a question."""

    name: str
    recall_at_10: float
    recall_at_20: float
    mrr: float
    p50_ms: float
    index_seconds: float
    index_bytes: int
    kinds: dict[str, float] = field(default_factory=dict)


Ranking = Callable[[str], list[int]]
"""A question's best turns, by their number."""
Method = Callable[[Conversation, str], tuple[Ranking, int]]
"""Gets a conversation ready in a directory; gives the ranking and the bytes of what it made."""


def read(path: str) -> list[Conversation]:
    with open(path, encoding="utf-8") as file:
        return [_conversation(sample) for sample in json.load(file)]


def _conversation(sample: dict[str, Any]) -> Conversation:
    talk = sample["conversation"]
    turns = [
        _turn(said, number, talk[f"session_{number}_date_time"])
        for number in sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
        for said in talk[f"session_{number}"]
    ]
    questions = []
    for asked in sample["qa"]:
        evidence = frozenset(re.findall(r"D\d+:\d+", " ".join(asked["evidence"])))
        if evidence:
            questions.append(Question(asked["question"], KINDS[asked["category"]], evidence))
    return Conversation(sample["sample_id"], turns, questions)


def _turn(said: dict[str, Any], session: int, moment: str) -> Turn:
    seen = said.get("blip_caption")
    text = f"{said['text']} [{seen}]" if seen else said["text"]
    day = datetime.strptime(moment.split(" on ")[1], "%d %B, %Y").date().isoformat()
    return Turn(said["dia_id"], said["speaker"], text, day, session)


# agentm.


def entries(conversation: Conversation) -> Iterator[Entry]:
    turns = conversation.turns

    def texts(first: int, last: int, session: int) -> str:
        near = turns[max(first, 0) : max(last, 0)]
        return "\n".join(turn.text for turn in near if turn.session == session)

    for at, turn in enumerate(turns):
        yield Entry(
            record=at,
            uri=f"ctx://bench/users/{conversation.name}/memories/events/{turn.id}",
            space=f"users/{conversation.name}",
            category="events",
            tags=(),
            project="",
            level=2,
            when=turn.day,
            body=turn.text,
            title="",
            who=turn.who,
            date=turn.day,
            context=texts(at + 1, at + 1 + AROUND, turn.session),
            before=texts(at - AROUND, at, turn.session),
        )


def indexed(conversation: Conversation, directory: str | None = None) -> tantivy.Searcher:
    import tantivy

    index = tantivy.Index(schema(), path=directory)
    writer = index.writer(15_000_000, 1)
    for entry in entries(conversation):
        writer.add_document(document(entry))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index.searcher()


def agentm(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
    searcher = indexed(conversation, directory)
    return (lambda question: [hit.record for hit in search(searcher, schema(), question, limit=FIRST)]), size(directory)


def through_memory(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
    """As an agent would: each turn remembered, the index built from the store, each question recalled."""
    memory = Memory.open(directory + "/store", user="bench", index_root=directory + "/index", install_prefix=directory)
    notes = [
        Note(turn.text, slug=f"turn-{at:05}", when=turn.day, who=turn.who, sources=(f"session-{turn.session}",))
        for at, turn in enumerate(conversation.turns)
    ]
    memory.remember_many(notes, secrets="allow")
    memory.catch_up()
    made = sum(size(place) for place, _, _ in os.walk(directory + "/index"))

    def ranking(question: str) -> list[int]:
        found = memory.recall(question, limit=FIRST, budget=100_000)
        return [int(entry.uri.rpartition("-")[2]) for entry in found]

    return ranking, made


def unranked(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
    """What is found and looked at, with nothing learned: one sum with round weights."""
    searcher = indexed(conversation, directory)

    def ranking(question: str) -> list[int]:
        asked = ask(searcher, question)
        found = find(searcher, schema(), asked, many=looked_at(FIRST))
        scored = zip(features(asked, found), found, strict=True)
        return [entry.record for _, entry in sorted(scored, key=lambda one: -one[0]["whole"])]

    return ranking, size(directory)


def left_out(tables: dict[str, str]) -> Method:
    def method(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
        searcher = indexed(conversation, directory)
        ranker = Ranker(tables[conversation.name])

        def ranking(question: str) -> list[int]:
            asked = ask(searcher, question)
            found = find(searcher, schema(), asked, many=looked_at(FIRST))
            scored = zip(features(asked, found), found, strict=True)
            return [entry.record for _, entry in sorted(scored, key=lambda one: -ranker.score(one[0]))]

        return ranking, size(directory)

    return method


def tables_without_each(conversations: Sequence[Conversation]) -> dict[str, str]:
    from tools.ranker import examples, learn

    shown = {one.name: examples(one) for one in conversations}
    return {
        name: learn([example for other, some in shown.items() if other != name for example in some]) for name in shown
    }


# What agentm is compared with.


def grep(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
    """The lines with the most of the question's words in them, as somebody with grep would go about it."""
    lines = [turn.line.lower() for turn in conversation.turns]

    def ranking(question: str) -> list[int]:
        words = {word for word in re.findall(r"\w+", question.lower()) if len(word) > 3}
        counts = [sum(word in line for word in words) for line in lines]
        return sorted(range(len(lines)), key=lambda at: -counts[at])[:FIRST]

    return ranking, 0


def full_text(tokenizer: str) -> Method:
    """tantivy as it comes, one field, any word."""

    def method(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field("record", stored=True)
        builder.add_text_field("text", tokenizer_name=tokenizer)
        index = tantivy.Index(builder.build(), path=directory)
        writer = index.writer(15_000_000, 1)
        for at, turn in enumerate(conversation.turns):
            writer.add_document(tantivy.Document(record=at, text=turn.line))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        searcher = index.searcher()

        def ranking(question: str) -> list[int]:
            query, _ = index.parse_query_lenient(question, ["text"])
            return [searcher.doc(address)["record"][0] for _, address in searcher.search(query, FUSED).hits]

        return ranking, size(directory)

    return method


@cache
def embedder() -> Callable[[Sequence[str]], Any]:
    """wordllama from its wheel, without its own loader, which would go to the network."""
    np, tensors, tokenizers = (import_module(name) for name in ("numpy", "safetensors.numpy", "tokenizers"))
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("wordllama")
    folder = os.path.dirname(spec.origin)
    [weights] = tensors.load_file(os.path.join(folder, "weights", "l2_supercat_256.safetensors")).values()
    pieces = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizers", "l2_supercat_tokenizer_config.json"))

    def embed(texts: Sequence[str]) -> Any:
        encoded = pieces.encode_batch(list(texts), add_special_tokens=False)
        pooled = np.array([weights[one.ids].astype("f4").mean(0) for one in encoded])
        return pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-9)

    return embed


def vectors(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
    np = import_module("numpy")
    embed = embedder()
    stored = embed([turn.line for turn in conversation.turns])

    def ranking(question: str) -> list[int]:
        order = np.argsort(-(stored @ embed([question])[0]), kind="stable")
        return [int(at) for at in order[:FUSED]]

    return ranking, stored.nbytes


def rank_fusion(conversation: Conversation, directory: str) -> tuple[Ranking, int]:
    """The usual hybrid: reciprocal ranks, 60, of stemmed full text and vectors."""
    words, words_size = full_text("en_stem")(conversation, directory)
    meaning, meaning_size = vectors(conversation, directory)

    def ranking(question: str) -> list[int]:
        scores: dict[int, float] = collections.defaultdict(float)
        for order in (words(question), meaning(question)):
            for rank, at in enumerate(order, 1):
                scores[at] += 1 / (60 + rank)
        return sorted(scores, key=lambda at: -scores[at])

    return ranking, words_size + meaning_size


def size(directory: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory) if entry.is_file())


# Measuring.


def measure(name: str, method: Method, conversations: Sequence[Conversation]) -> Result:
    recalls: dict[int, list[float]] = {10: [], 20: []}
    by_kind: dict[str, list[float]] = collections.defaultdict(list)
    reciprocal, taken, building, made = [], [], 0.0, 0
    for conversation in conversations:
        with tempfile.TemporaryDirectory(prefix="agentm-bench-") as directory:
            started = time.perf_counter()
            ranking, many = method(conversation, directory)
            building += time.perf_counter() - started
            made += many
            for question in conversation.questions:
                started = time.perf_counter()
                best = ranking(question.text)
                taken.append(time.perf_counter() - started)
                found = [conversation.turns[at].id in question.evidence for at in best]
                for first, shares in recalls.items():
                    shares.append(sum(found[:first]) / len(question.evidence))
                by_kind[question.kind].append(recalls[10][-1])
                reciprocal.append(1 / (found.index(True) + 1) if True in found else 0.0)
    return Result(
        name,
        100 * statistics.mean(recalls[10]),
        100 * statistics.mean(recalls[20]),
        100 * statistics.mean(reciprocal),
        1000 * statistics.median(taken),
        building,
        made,
        {kind: 100 * statistics.mean(by_kind[kind]) for kind in KINDS.values() if kind in by_kind},
    )


def results(conversations: Sequence[Conversation]) -> Iterator[Result | str]:
    """Rows, and for each that cannot be had the reason."""
    yield measure("grep", grep, conversations)
    yield measure("full text, any word", full_text("default"), conversations)
    yield measure("full text, stems", full_text("en_stem"), conversations)
    try:
        embedder()
        yield measure("vectors alone (wordllama)", vectors, conversations)
        yield measure("rank fusion of the two", rank_fusion, conversations)
    except ImportError as error:
        yield f"vectors alone, rank fusion: missing ({error.name}; pip install wordllama)"
    yield measure("agentm, nothing learned", unranked, conversations)
    yield measure("agentm", agentm, conversations)
    yield measure("agentm, through Memory", through_memory, conversations)
    if len(conversations) < 2:
        return
    try:
        tables = tables_without_each(conversations)
        yield measure("agentm, each conversation left out", left_out(tables), conversations)
    except ImportError as error:
        yield f"agentm, each conversation left out: missing ({error.name}; pip install lightgbm)"


def table(rows: Sequence[Result | str]) -> Iterator[str]:
    yield f"{'':36}{'R@10':>6}{'R@20':>6}{'MRR':>6}{'p50 ms':>8}{'index s':>9}{'KB':>7}   R@10 by kind"
    for row in rows:
        if isinstance(row, str):
            yield row
            continue
        kinds = "  ".join(f"{kind} {value:.0f}" for kind, value in row.kinds.items())
        figures = f"{row.recall_at_10:6.1f}{row.recall_at_20:6.1f}{row.mrr:6.1f}{row.p50_ms:8.2f}"
        yield f"{row.name:36}{figures}{row.index_seconds:9.2f}{math.ceil(row.index_bytes / 1024):7}   {kinds}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Whether the right memory is found, on LoCoMo.")
    parser.add_argument("data", nargs="?", help="locomo10.json, or a part of it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args()
    if options.data is None or not os.path.exists(options.data):
        print(f"There is no data at {options.data}; get it from {SOURCE} and give its path.", file=sys.stderr)
        return 0 if options.data is None else 1
    conversations = read(options.data)
    rows = list(results(conversations))
    if options.json:
        print(json.dumps([row if isinstance(row, str) else asdict(row) for row in rows], indent=2))
    else:
        print(*table(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
