"""What recall costs: warm, cold, built, kept up; beside its bare parts, and beside what users would pick instead.

    python bench/recall.py [--quick] [--million] [--sizes N,N] [--json] [--dir DIR] [--peers-python PATH | --no-peers]

The texts have 10 to 60 words drawn as a language draws them: few words often, many seldom. A query is three to five of
the rarer words of one entry, which should then be among the first ten. Each part of agentm is measured in a process of
its own, and takes turns with the bare thing beside it, so that a slow moment of the machine hits both. The others come
one after the other in the same run: they have vectors of a model, their own full text, or both, and agentm is asked as
it comes, by words and their neighbours in meaning. A million entries are not laid out as files: a store made for this
writes each of them down in the moment in which it is read.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from functools import cached_property, lru_cache
from itertools import accumulate, product
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the benchmarks share what they can

from agentm import Capabilities, ContextNode, Info, Locator, Memory, StorageBackend
from agentm.context.node import ABSTRACT, CONTENT, HISTORY, META, OUTBOX, OVERVIEW, RELATIONS
from agentm.index.keeping import BATCH
from agentm.open import open_store
from agentm.seam import Change
from bench.nodes import CTX, files_of, medians, ratio, take_turns, uri
from bench.peers import PEERS
from bench.startup import AGENTM, child_environment

SIZES = (1_000, 10_000, 100_000)
MILLION = 1_000_000
COLD_SIZE, FULL_SIZE = 10_000, 100_000
"""The sizes at which the goals are set."""
OWN = "agentm"
ACCOUNT, USER = CTX.account_id, "alice"
FEWEST, MOST = 10, 60
VOCABULARY = 30_000
PER_DAY, DAYS = 50, 2_000
WRITES = 100
SETTLED = 2.1
"""Seconds after which a file counts as settled: a younger one may be written once more in the same tick."""
ROOT = Locator("")
STAMPED = (META, CONTENT, ABSTRACT, OVERVIEW, RELATIONS)

JSON = dict[str, Any]


@dataclass
class Row:
    """What a number of entries came to: everything that agentm was asked to do with them."""

    entries: int
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass
class Peer:
    """One of the contenders at one size."""

    name: str
    entries: int
    kind: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass
class Goal:
    """One line that is judged; or, for want of the size that the goal is set for, only shown."""

    name: str
    goal: str
    ratio: float
    passed: bool | None
    unit: str


# The texts.


class Corpus:
    """Entries and queries, each a function of its number."""

    @cached_property
    def words(self) -> list[str]:
        """English first, by how often Python's own manual uses it; then made-up names, as there are in any memory."""
        from pydoc_data.topics import topics

        said = Counter(re.findall(r"[a-z]{2,}", " ".join(topics.values()).lower()))
        made_up = map("".join, product(("ba", "ke", "lo", "mi", "nu", "ra", "si", "to", "ve", "zu"), repeat=5))
        return [*(word for word, _ in said.most_common()), *made_up][:VOCABULARY]

    @cached_property
    def _weights(self) -> list[float]:
        """Zipf's law: the second word is half as frequent as the first."""
        return list(accumulate(1 / rank for rank in range(1, len(self.words) + 1)))

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {word: rank for rank, word in enumerate(self.words)}

    def text(self, number: int) -> str:
        chance = random.Random(number)
        weights, words = self._weights, self.words
        many = chance.randint(FEWEST, MOST)
        return " ".join(words[bisect(weights, chance.random() * weights[-1])] for _ in range(many))

    def query(self, number: int) -> str:
        chance = random.Random(-number - 1)
        words = sorted(set(self.text(number).split()), key=lambda word: -self._ranks[word])
        return " ".join(chance.sample(words[: len(words) // 2 + 1], min(chance.randint(3, 5), len(words) // 2 + 1)))

    def node(self, number: int) -> ContextNode:
        day = date(2020, 1, 1) + timedelta(number // PER_DAY % DAYS)
        return ContextNode(uri(slug(number), USER), f"---\ndate: {day}\n---\n\n{self.text(number)}\n")


def slug(number: int) -> str:
    return f"n{number:07}"


def number_of(address: str) -> int:
    name = address.rpartition("/")[2]
    return int(name[1:]) if re.fullmatch(r"n\d{7}", name) else -1


def targets(entries: int, many: int) -> list[int]:
    """Which entries the queries are made of."""
    return random.Random(entries).sample(range(entries), min(many, entries))


# The stores.


def lay_out(root: str, corpus: Corpus, entries: int) -> None:
    """Nodes as the real code writes them, events for the index included, without waiting for the disk."""
    for number in range(entries):
        for key, text in (file for step in files_of(corpus.node(number)) for file in step):
            path = os.path.join(root, key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


class MadeUp(StorageBackend):
    """A store that holds nothing, and writes each node down when it is read."""

    protocol = "made-up"
    capabilities = Capabilities(change_feed=True)

    def __init__(self, path: str, entries: int, *, kept: int) -> None:
        self.path = path
        self._entries = entries
        self._corpus = Corpus()
        self._files = lru_cache(maxsize=kept)(self._made)
        self._folder = Locator(Locator(next(iter(self._made(0)))).parent.parent.key)

    def _made(self, number: int) -> dict[str, str]:
        files = dict(file for step in files_of(self._corpus.node(number)) for file in step)
        return {key: text for key, text in files.items() if f"/{OUTBOX}/" not in key and f"/{HISTORY}/" not in key}

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        number = number_of(locator.parent.key)
        text = self._files(number).get(locator.key) if 0 <= number < self._entries else None
        if text is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", locator.key)
        return text

    def exists(self, locator: Locator) -> bool:
        return number_of(locator.key) >= 0

    def list(self, locator: Locator) -> list[Locator]:
        return []

    def info(self, locator: Locator) -> Info:
        return Info(locator, False, len(self.read(locator).encode()), 0.0)

    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        for number in range(self._entries):
            for name in STAMPED:
                place = self._folder.child(slug(number), name)
                if place.key not in seen:
                    yield Change(place, "as ever")

    def write(self, locator: Locator, content: str) -> NoReturn:
        raise OSError(errno.EROFS, "nothing can be written here", locator.key)

    def mkdir(self, locator: Locator) -> NoReturn:
        raise OSError(errno.EROFS, "nothing can be made here", locator.key)


# What is done in a process of its own.


@dataclass
class Place:
    """Where the entries of one size are, and their index: as a user's home is laid out."""

    home: str
    entries: int
    made_up: bool = False

    @property
    def store(self) -> str:
        return os.path.join(self.home, ".agentm", "memory")

    @property
    def index(self) -> str:
        return os.path.join(self.home, ".agentm", "index")

    def opened(self, *, kept: int = 2 * BATCH) -> Any:
        """What is made up is kept as long as a batch is indexed, which looks at each node twice."""
        store = MadeUp(self.store, self.entries, kept=kept) if self.made_up else self.store
        return open_store(store, CTX, index_root=self.index)

    def memory(self) -> Memory:
        return Memory(self.opened(), CTX)

    def ask(self, verb: str, **request: Any) -> JSON:
        """Have something done by another process, and say what it needed."""
        command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps([verb, asdict(self)])]
        done = subprocess.run(command, input=json.dumps(request), check=True, stdout=subprocess.PIPE, text=True)
        answer: JSON = json.loads(done.stdout)
        return answer


def child(verb: str, place: Place, request: JSON) -> JSON:
    verbs: dict[str, Callable[..., JSON]] = {
        "build": build,
        "search": search,
        "unchanged": unchanged,
        "write": write,
    }
    return {**verbs[verb](place, **request), "peak": peak_megabytes()}


def build(place: Place, again: bool) -> JSON:
    with place.memory() as memory:
        started = time.perf_counter()
        caught = memory.reindex() if again else memory.catch_up()
        took = time.perf_counter() - started
    if caught.changed != place.entries or not caught.complete:
        raise SystemExit(f"{caught.changed} of {place.entries} entries were indexed")
    return {"seconds": took}


def search(place: Place, queries: list[str], rounds: int) -> JSON:
    """Recall, the search in it, and the bare query of that search, in turns.

    Each is at another of the queries: what one has just looked at is at hand for the next, and would make it cheaper.
    """
    from agentm.index.ranking import ask, looked_at, ranked, wanted_by

    opened = place.opened(kept=20 * len(queries))
    index = opened.index()
    schema, searcher = index.fulltext.schema, index.fulltext.searcher()
    many = looked_at(10)
    bare = {query: wanted_by(schema, ask(searcher, query)) for query in queries}
    with Memory(opened, CTX) as memory:
        found = [[number_of(one.uri) for one in memory.recall(query)] for query in queries]
        actions: dict[str, Callable[[str], object]] = {
            "recall": memory.recall,
            "search": lambda query: ranked(searcher, schema, query, many=many),
            "query": lambda query: searcher.search(bare[query], many, count=False),
        }
        times: dict[str, list[float]] = {name: [] for name in actions}
        for at in range(rounds * len(queries)):
            for place_in_turn, (name, action) in enumerate(actions.items()):
                query = queries[(at + place_in_turn * len(queries) // len(actions)) % len(queries)]
                started = time.perf_counter()
                action(query)
                times[name].append(time.perf_counter() - started)
    index.close()
    return {"times": times, "found": found}


def unchanged(place: Place, rounds: int) -> JSON:
    """Keeping up where there is nothing to do, beside a walk that looks at the same files."""
    with place.memory() as memory:

        def keep_up() -> None:
            if memory.catch_up().changed:
                raise SystemExit("something changed in a store that nobody writes to")

        if place.made_up:
            return {"times": take_turns({"kept up": keep_up}, 1, 1)}
        actions: dict[str, Callable[[], object]] = {
            "kept up": keep_up,
            "walk": lambda: stat_walk(place.store),
            "all": lambda: stat_walk(place.store, skip=()),
            "tight": lambda: tight_walk(place.store),
        }
        return {"times": take_turns(actions, rounds, 1)}


def stat_walk(root: str, skip: Collection[str] = (HISTORY, OUTBOX)) -> int:
    """A walk as one writes it down."""
    files = 0
    for directory, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in skip]
        for name in names:
            files += os.stat(os.path.join(directory, name)).st_mtime_ns > 0
    return files


def tight_walk(root: str, skip: Collection[str] = (HISTORY, OUTBOX)) -> int:
    """A walk with nothing left to take away."""
    files, pending = 0, [root]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in skip:
                        pending.append(entry.path)
                else:
                    files += os.stat(entry.path).st_mtime_ns > 0
    return files


def write(place: Place, texts: list[str]) -> JSON:
    """Single durable writes: as they are, and then each of them indexed before the next."""
    with place.memory() as memory:
        started = time.perf_counter()
        for at, text in enumerate(texts):
            memory.remember(text, slug=f"written-{at}")
        between = time.perf_counter()
        for at, text in enumerate(texts):
            memory.remember(text, slug=f"indexed-{at}", wait=True)
        return {"seconds": between - started, "waited": time.perf_counter() - between}


def peak_megabytes() -> float:
    """The most memory that this process had. getrusage would count what its parent had when it was started."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Measuring.


class Bench:
    """The sizes one after the other, each in a folder that goes before the next comes."""

    def __init__(self, directory: str, options: argparse.Namespace) -> None:
        self.directory = directory
        self.corpus = Corpus()
        self.quick: bool = options.quick
        self.peers_python: str | None = None if options.no_peers else options.peers_python
        self.patience: float = options.peer_seconds
        self.rows: list[Row] = []
        self.peers: list[Peer] = []
        self.say: Callable[[str], object] = (lambda text: print(text, file=sys.stderr)) if options.verbose else str

    @property
    def queries(self) -> int:
        return 50 if self.quick else 200

    @property
    def rounds(self) -> int:
        return 3 if self.quick else 5

    def run(self, entries: int) -> None:
        place = Place(os.path.join(self.directory, str(entries)), entries, made_up=entries >= MILLION)
        os.makedirs(os.path.dirname(place.store))
        asked = targets(entries, self.queries)
        queries = [self.corpus.query(number) for number in asked]
        row = Row(entries, note="made up while read, not files" if place.made_up else "")
        self.rows.append(row)
        try:
            self.agentm(row, place, asked, queries)
        finally:
            shutil.rmtree(place.home)
        if self.peers_python and not place.made_up:
            self.compare(entries, asked, queries)

    def agentm(self, row: Row, place: Place, asked: list[int], queries: list[str]) -> None:
        if not place.made_up:
            self.say(f"{place.entries:,}: laying out")
            lay_out(place.store, self.corpus, place.entries)
            time.sleep(SETTLED)
        self.say(f"{place.entries:,}: building the index")
        first = place.ask("build", again=False)
        row.figures["first build, s"] = first["seconds"]
        built = first if place.made_up else place.ask("build", again=True)
        row.figures |= {
            "index build, s": built["seconds"],
            "entries a second": place.entries / built["seconds"],
            "peak MB, build": built["peak"],
            "index bytes an entry": size_of(place.index) / place.entries,
        }
        self.say(f"{place.entries:,}: searching")
        self.warm(row, place, asked, queries)
        self.say(f"{place.entries:,}: looking for changes")
        self.kept_up(row, place)
        if not place.made_up:
            self.cold(row, place, queries)
            texts = [self.corpus.text(place.entries + at) for at in range(WRITES)]
            written = place.ask("write", texts=texts)
            row.figures |= {"writes/s": WRITES / written["seconds"], "indexed writes/s": WRITES / written["waited"]}
        self.peers.append(self.as_peer(row))
        self.say(f"  {row.figures}")

    def warm(self, row: Row, place: Place, asked: list[int], queries: list[str]) -> None:
        answer = place.ask("search", queries=queries, rounds=self.rounds)
        times = answer["times"]
        row.figures |= {
            "warm p50, ms": quantile(times["recall"], 0.5),
            "warm p99, ms": quantile(times["recall"], 0.99),
            "its search alone p50, ms": quantile(times["search"], 0.5),
            "its bare query p50, ms": quantile(times["query"], 0.5),
            "warm ÷ search alone": ratio(times, "recall", "search"),
            "warm ÷ bare query": ratio(times, "recall", "query"),
            "peak MB, recall": answer["peak"],
            "R@10": hits(asked, answer["found"]),
        }

    def kept_up(self, row: Row, place: Place) -> None:
        times = place.ask("unchanged", rounds=3 if place.entries >= FULL_SIZE else 5)["times"]
        row.figures["nothing changed, ms"] = medians(times)["kept up"] / 1e3
        if "walk" in times:
            row.figures |= {
                "bare stat walk, ms": medians(times)["walk"] / 1e3,
                "unchanged ÷ walk": ratio(times, "kept up", "walk"),
                "… ÷ walk of all files": ratio(times, "kept up", "all"),
                "… ÷ tightest walk": ratio(times, "kept up", "tight"),
            }

    def cold(self, row: Row, place: Place, queries: list[str]) -> None:
        environment = child_environment(place.home)
        at = iter(queries * 100)

        def run(command: list[str]) -> None:
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

        def recall() -> None:
            run([AGENTM, "recall", "--account", ACCOUNT, "--user", USER, next(at)])

        actions: dict[str, Callable[[], object]] = {
            "python": lambda: run([sys.executable, "-c", "pass"]),
            "recall": recall,
        }
        times = take_turns(actions, 8 if self.quick else 20, 1)
        row.figures |= {
            "cold agentm recall, ms": medians(times)["recall"] / 1e3,
            "python -c pass, ms": medians(times)["python"] / 1e3,
            "cold ÷ python": ratio(times, "recall", "python"),
        }

    def as_peer(self, row: Row) -> Peer:
        names = {
            "build, s": "index build, s",
            "writes/s": "writes/s",
            "p50, ms": "warm p50, ms",
            "p99, ms": "warm p99, ms",
            "R@10": "R@10",
        }
        figures = {name: row.figures[known] for name, known in names.items() if known in row.figures}
        waited = row.figures.get("indexed writes/s")
        note = f"durable; indexed at once too: {waited:,.0f} writes/s" if waited else row.note
        return Peer(OWN, row.entries, "words+", figures, note)

    # The others.

    def compare(self, entries: int, asked: list[int], queries: list[str]) -> None:
        path = os.path.join(self.directory, "texts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(self.corpus.text(number)) + "\n" for number in range(entries))
        for name in PEERS:
            self.say(f"{entries:,}: {name}")
            peer = Peer(name, entries)
            self.peers.append(peer)
            directory = os.path.join(self.directory, "peer")
            os.makedirs(directory)
            try:
                self.measure(peer, directory, path, asked, queries)
            finally:
                shutil.rmtree(directory)
            self.say(f"  {peer.figures} {peer.note}")
        os.unlink(path)

    def measure(self, peer: Peer, directory: str, path: str, asked: list[int], queries: list[str]) -> None:
        command = [str(self.peers_python), os.path.join(os.path.dirname(__file__), "peers.py"), peer.name, directory]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None

            def ask(**request: Any) -> JSON:
                assert process.stdin is not None
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                return heard()

            def heard() -> JSON:
                assert process.stdout is not None
                line = process.stdout.readline()
                answer: JSON = json.loads(line) if line else {"failed": "it ended"}
                if why := answer.get("missing") or answer.get("failed"):
                    raise Unavailable(f"not importable: {why}" if "missing" in answer else f"failed: {why}")
                return answer

            try:
                hello = heard()
                peer.kind, peer.note = hello["kind"], hello["about"]
                built = ask(verb="build", path=path, count=peer.entries, seconds=self.patience)
                if built["held"] < peer.entries:
                    peer.note += f"; took in {built['held']:,} before its time was up"
                peer.figures["build, s"] = built["seconds"]
                answer = ask(verb="search", queries=queries, rounds=self.rounds, seconds=self.patience / 20)
                peer.figures["p50, ms"] = quantile(answer["times"], 0.5)
                peer.figures["p99, ms"] = quantile(answer["times"], 0.99)
                peer.figures["R@10"] = hits(asked, answer["found"])
                if len(answer["found"]) < len(asked):
                    peer.note += f"; slow: R@10 of {len(answer['found'])} queries"
                texts = [self.corpus.text(peer.entries + at) for at in range(WRITES)]
                peer.figures["writes/s"] = WRITES / ask(verb="write", texts=texts, first=peer.entries)["seconds"]
            except Unavailable as why:
                peer.note = f"{peer.note}; {why}" if peer.note else str(why)
            process.stdin.close()

    # What it was all for.

    def goals(self) -> Iterator[Goal]:
        for row in self.rows:
            slower = row.figures["warm ÷ search alone"]
            yield Goal(f"warm recall, {row.entries:,}", "at most 2", slower, slower <= 2, "× its search alone")
        for row in self.rows:
            if row.entries == COLD_SIZE:
                slower = row.figures["cold ÷ python"]
                name = f"cold agentm recall, {row.entries:,}"
                yield Goal(name, "at most 8", slower, slower <= 8, "× python -c pass")
            if row.entries == FULL_SIZE:
                slower = row.figures["unchanged ÷ walk"]
                name = f"nothing changed, {row.entries:,}"
                yield Goal(name, "at most 1.5", slower, slower <= 1.5, "× a bare stat walk of the same files")
        yield from self.growth()
        yield from self.ahead()

    def growth(self) -> Iterator[Goal]:
        by_size = {row.entries: row.figures["warm p50, ms"] for row in self.rows}
        largest = max(by_size)
        if COLD_SIZE in by_size and largest > COLD_SIZE:
            more = by_size[largest] / by_size[COLD_SIZE]
            limit = (largest / COLD_SIZE) ** 0.5
            name = f"warm recall, growth from {COLD_SIZE:,} to {largest:,}"
            yield Goal(name, f"at most {limit:.1f}, the square root", more, more <= limit, "× the time")

    def ahead(self) -> Iterator[Goal]:
        """At the largest size that all of them met."""
        size = max((peer.entries for peer in self.peers if peer.name != OWN), default=0)
        own = next((peer for peer in self.peers if peer.name == OWN and peer.entries == size), None)
        for peer in self.peers:
            if own is None or peer.entries != size or "R@10" not in peer.figures or peer is own:
                continue
            times = peer.figures["p50, ms"] / own.figures["p50, ms"]
            better = own.figures["R@10"] >= peer.figures["R@10"]
            hybrid = peer.kind == "hybrid"
            goal = "at least 10" if hybrid else "at least 1, with answers as good"
            passed = times >= 10 if hybrid else times >= 1 and better
            name = f"warm recall beside {peer.name}, {size:,}"
            yield Goal(name, goal, times, passed if size == FULL_SIZE else None, "× as fast")


class Unavailable(Exception):
    """A peer that cannot go on."""


def quantile(times: Sequence[float], share: float) -> float:
    """Milliseconds."""
    if len(times) < 2:
        return times[0] * 1e3
    return statistics.quantiles(times, n=1_000, method="inclusive")[round(share * 1_000) - 1] * 1e3


def hits(asked: Sequence[int], found: Sequence[Sequence[int]]) -> float:
    """The share of queries whose entry is among the first ten; of those that were asked."""
    return statistics.mean(number in one[:10] for number, one in zip(asked, found, strict=False))


def size_of(directory: str) -> int:
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(directory) for name in names)


# Showing.


def table(bench: Bench, goals: Sequence[Goal]) -> Iterator[str]:
    if hasattr(os, "getloadavg"):
        busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
        yield f"{os.cpu_count()} cores, load {busy} at the end"
    yield "agentm" + " " * 24 + "".join(f"{row.entries:>13,}" for row in bench.rows)
    names = dict.fromkeys(name for row in bench.rows for name in row.figures)
    for name in names:
        yield f"{name:30}" + "".join(f"{shown(row.figures.get(name)):>13}" for row in bench.rows)
    yield from (f"{row.entries:,}: {row.note}" for row in bench.rows if row.note)
    columns = ("build, s", "writes/s", "p50, ms", "p99, ms", "R@10")
    for entries in dict.fromkeys(peer.entries for peer in bench.peers):
        yield ""
        yield f"{f'{entries:,} entries':20}{'by':9}" + "".join(f"{name:>11}" for name in columns)
        for peer in (one for one in bench.peers if one.entries == entries):
            cells = "".join(f"{shown(peer.figures.get(name)):>11}" for name in columns)
            yield f"{peer.name:20}{peer.kind:9}{cells}  {peer.note}"
    yield ""
    for goal in goals:
        word = {True: "PASS", False: "MISS", None: f"for {FULL_SIZE:,}:"}[goal.passed]
        yield f"{word}  {goal.name}: {goal.ratio:.2f} {goal.unit} (goal: {goal.goal})"


def shown(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if figure >= 1_000 else f"{figure:.1f}" if figure >= 100 else f"{figure:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="What recall costs, beside its parts and beside what else there is.")
    parser.add_argument("--quick", action="store_true", help="1,000 and 10,000 entries, and fewer rounds")
    parser.add_argument("--million", action="store_true", help="a million entries too: many minutes, and some GB")
    parser.add_argument("--sizes", help="how many entries instead, with commas between")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--dir", help="work below this directory, which should be on a real disk (default: /var/tmp)")
    parser.add_argument("--peers-python", default=sys.executable, help="a Python with bench/peers.txt installed")
    parser.add_argument("--peer-seconds", type=float, default=300.0, help="how long a peer may build (default: 300)")
    parser.add_argument("--no-peers", action="store_true", help="agentm alone")
    parser.add_argument("--verbose", action="store_true", help="say on stderr what is being done")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        verb, place = json.loads(options.child)
        print(json.dumps(child(verb, Place(**place), json.load(sys.stdin))))
        return 0
    sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else list(SIZES)
    if options.quick and not options.sizes:
        sizes = sizes[:-1]
    # /tmp may be in main memory, where flushing is free and the figures mean nothing.
    parent = options.dir or ("/var/tmp" if os.path.isdir("/var/tmp") else None)
    directory = tempfile.mkdtemp(prefix="agentm-bench-", dir=parent)
    bench = Bench(directory, options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # hundreds of thousands of files are not left behind
    try:
        for entries in [*sizes, *([MILLION] if options.million else [])]:
            bench.run(entries)
    finally:
        shutil.rmtree(directory)
    goals = list(bench.goals())
    if options.json:
        report: dict[str, Sequence[Any]] = {"sizes": bench.rows, "peers": bench.peers, "goals": goals}
        print(json.dumps({name: [asdict(one) for one in some] for name, some in report.items()}, indent=2))
    else:
        print(*table(bench, goals), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
