"""What memories cost: writing, reading and scanning nodes beside the same work done straight with os calls.

    python bench/nodes.py [--quick] [--json] [--dir DIR] [--nodes N]

All contenders of a row take turns, round by round, in one run, so that a slow moment of the machine hits all of them.
A figure is the median over the rounds; a ratio is the median of the ratios within each round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count

from agentm import (
    ContextFS,
    ContextNode,
    DeviceLocalBackend,
    RequestContext,
    SqliteBackend,
    StorageBackend,
    VaultBackend,
    repair,
)
from agentm.backends import _durable
from agentm.context.drafting import new_version
from agentm.context.events import NO_EDGES, upserts
from agentm.context.node import META, PARTS
from agentm.context.reader import Part
from agentm.context.uri import parse_uri
from agentm.context.writer import ORDER, Draft

BASE, JUDGED = "os calls", "device-local"
CTX = RequestContext("acme", user_id="alice", actor="process:bench")
MANY = 1_000
PER_USER = 1_000
TEXT = (
    "# Coffee at the corner\n\nAlice drank an espresso at the corner on 2026-03-15 and asked for **oat milk**. "
    "The place opens at eight and closes at six; the owner is called Bea.\n\n- she pays by card\n"
    "- she comes back on Fridays\n"
)
"""What an agent keeps of a conversation: a few sentences."""

Action = Callable[[], object]


@dataclass
class Result:
    """One line of the table: what it costs, beside what, and how that compares with the goal."""

    name: str
    goal: str
    microseconds: dict[str, float]
    ratio: float
    passed: bool
    unit: str = "× the bare calls"


def uri(name: object, user: str = "alice") -> str:
    return f"ctx://acme/users/{user}/memories/events/{name}"


def memory(name: object, user: str = "alice", said: object = "") -> ContextNode:
    return ContextNode(uri(name, user), f"{TEXT}\nThis one is number {name} {said}.\n", tags=("bench",))


Files = list[list[tuple[str, str]]]
"""Keys and texts, step by step."""


def files_of(node: ContextNode, before: ContextNode | None = None) -> Files:
    """What a write of a node puts into files, new or over an earlier version of it."""
    address = parse_uri(node.uri)
    old = new_version(before, address, actor="process:bench") if before else None
    version = new_version(node, address, actor="process:bench", before=old.meta if old else None)
    standing = {name: Part(text, None) for name, text in old.parts.items()} if old else {}
    draft = Draft(address.locator, version, upserts(version, NO_EDGES), standing)
    return [[(place.key, text) for place, text, _ in draft.texts(step)] for step in ORDER]


class Bare:
    """The flushes of a node with nothing around them."""

    def __init__(self, root: str) -> None:
        self.root = root
        os.makedirs(root)

    def write(self, path: str, data: bytes) -> None:
        temp = os.path.join(self.root, f".{os.urandom(8).hex()}")
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.write(fd, data)
        os.fsync(fd)
        os.close(fd)
        os.replace(temp, path)
        self.flush(os.path.dirname(path))

    def flush(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)

    def write_node(self, files: Files) -> None:
        for key, text in (file for step in files for file in step):
            path = os.path.join(self.root, key)
            self.make(os.path.dirname(path))
            self.write(path, text.encode())

    def write_node_laid_out(self, files: Files) -> None:
        """The same flushes, those of all files first: how agentm orders them."""
        opened: list[int] = []
        made: set[str] = set()
        steps = [[self.put_aside(key, text, opened, made) for key, text in step] for step in files]
        for fd in opened:
            os.fsync(fd)
            os.close(fd)
        for directory in {os.path.dirname(path) for step in steps for _, path in step}:
            self.flush(os.path.dirname(directory))
        for step in steps:
            for temp, path in step:
                os.replace(temp, path)
            for directory in {os.path.dirname(path) for _, path in step}:
                self.flush(directory)

    def write_nodes(self, nodes: list[Files]) -> None:
        """Laid out together, put in place step by step, with a flush of the whole file system after each.

        No call is made twice: what these files cost on this disk, which nothing that keeps the order can do without.
        """
        whole = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC)
        made: set[str] = set()
        opened: list[int] = []
        steps = []
        for step in zip(*nodes, strict=True):
            steps.append([self.put_aside(key, text, opened, made) for files in step for key, text in files])
            while opened:
                os.close(opened.pop())
        _durable.sync_file_system(whole)
        for moves in filter(None, steps):
            for temp, path in moves:
                os.replace(temp, path)
            _durable.sync_file_system(whole)
        os.close(whole)

    def put_aside(self, key: str, text: str, opened: list[int], made: set[str]) -> tuple[str, str]:
        path = os.path.join(self.root, key)
        directory = os.path.dirname(path)
        if directory not in made:
            os.makedirs(directory, exist_ok=True)
            made.add(directory)
        temp = os.path.join(self.root, f".{os.urandom(8).hex()}")
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.write(fd, text.encode())
        opened.append(fd)
        return temp, path

    def make(self, directory: str) -> None:
        if not os.path.isdir(directory):
            above = os.path.dirname(directory)
            self.make(above)
            os.mkdir(directory)
            self.flush(above)

    def read_node(self, directory: str) -> list[str]:
        texts = []
        for name in (META, *PARTS):
            fd = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            texts.append(os.read(fd, 1 << 14).decode())
            os.close(fd)
        return texts


def stores(directory: str) -> dict[str, StorageBackend]:
    return {
        JUDGED: DeviceLocalBackend(os.path.join(directory, "device-local")),
        "vault": VaultBackend(os.path.join(directory, "vault"), lock_root=os.path.join(directory, "locks")),
        "sqlite": SqliteBackend(os.path.join(directory, "memory.db")),
    }


def take_turns(actions: dict[str, Action], rounds: int, batch: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in actions}
    order = list(actions)
    for action in actions.values():
        action()  # the first time makes folders and fills caches
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            times[name].append(timed(actions[name], batch))
    return times


def timed(action: Action, batch: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(batch):
        action()
    return (time.perf_counter() - started) / batch


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(taken) * 1e6 for name, taken in times.items()}


def ratio(times: dict[str, list[float]], over: str, under: str) -> float:
    return statistics.median(a / b for a, b in zip(times[over], times[under], strict=True))


class Bench:
    """The stores, each with a directory of its own, and the rows."""

    def __init__(self, directory: str, *, quick: bool, nodes: int) -> None:
        self.directory = directory
        self.rounds = 8 if quick else 30
        self.nodes = nodes
        self.bare = Bare(os.path.join(directory, "bare"))
        self.memories = {name: ContextFS(store) for name, store in stores(directory).items()}

    def results(self) -> Iterator[Result]:
        yield self.write("write_node, new", new=True)
        yield self.write("write_node, again", new=False)
        yield self.write_many()
        yield self.read()
        yield from self.scan()

    def write(self, name: str, *, new: bool) -> Result:
        numbers = count()

        def node(contender: str) -> ContextNode:
            number = next(numbers)
            return memory(f"{contender}-{number}") if new else memory("same", said=number)

        def through(fs: ContextFS, contender: str) -> Action:
            return lambda: fs.write_node(node(contender), CTX)

        # What a caller hands over is a text; that the bare calls get it as files is their head start.
        before = None if new else memory("same")
        prepared = iter([files_of(node("bare"), before) for _ in range(2 * (self.rounds * 4 + 1))])
        actions: dict[str, Action] = {
            BASE: lambda: self.bare.write_node(next(prepared)),
            f"{BASE}, laid out first": lambda: self.bare.write_node_laid_out(next(prepared)),
        }
        actions |= {one: through(fs, one) for one, fs in self.memories.items()}
        times = take_turns(actions, self.rounds, 4)
        speed = ratio(times, BASE, JUDGED)
        return Result(name, "at least 0.80", medians(times), speed, speed >= 0.8)

    def write_many(self) -> Result:
        numbers = count()
        fs = self.memories[JUDGED]

        def together() -> float:
            nodes = [memory(f"many-{next(numbers)}") for _ in range(MANY)]
            return timed(lambda: fs.write_nodes(nodes, CTX)) / MANY

        def alone() -> float:
            nodes = iter([memory(f"many-{next(numbers)}") for _ in range(50)])
            return timed(lambda: fs.write_node(next(nodes), CTX), 50)

        def bare_together() -> float:
            nodes = [files_of(memory(f"many-{next(numbers)}")) for _ in range(MANY)]
            return timed(lambda: self.bare.write_nodes(nodes)) / MANY

        def bare_alone() -> float:
            nodes = iter([files_of(memory(f"many-{next(numbers)}")) for _ in range(50)])
            return timed(lambda: self.bare.write_node(next(nodes)), 50)

        actions = {
            "one by one": alone,
            "write_nodes": together,
            "os calls, one by one": bare_alone,
            "os calls, together": bare_together,
        }
        times: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(max(3, self.rounds // 6)):
            for name, action in actions.items():
                times[name].append(action())
        speed = ratio(times, "one by one", "write_nodes")
        bare = ratio(times, "os calls, one by one", "os calls, together")
        unit = f"× one by one (the bare calls: {bare:.1f} ×)"
        return Result(f"write_nodes, {MANY:,}", "at least 10", medians(times), speed, speed >= 10, unit)

    def read(self) -> Result:
        self.bare.write_node(files_of(memory("read")))
        place = os.path.join(self.bare.root, parse_uri(uri("read")).locator.key)

        def through(fs: ContextFS) -> Action:
            fs.write_node(memory("read"), CTX)
            return lambda: fs.read_node(uri("read"), CTX)

        actions: dict[str, Action] = {BASE: lambda: self.bare.read_node(place)}
        actions |= {name: through(fs) for name, fs in self.memories.items()}
        times = take_turns(actions, self.rounds, 100)
        slower = ratio(times, JUDGED, BASE)
        return Result("read_node", "at most 3", medians(times), slower, slower <= 3)

    def scan(self) -> Iterator[Result]:
        root = os.path.join(self.directory, "scan")
        few, many = self.nodes // 10, self.nodes
        lay_out(root, "few", few)
        lay_out(root, "acme", many)
        store = DeviceLocalBackend(root)
        actions: dict[str, Action] = {
            BASE: lambda: bare_walk(os.path.join(root, "accounts", "acme")),
            JUDGED: lambda: healthy(store, "acme", many),
        }
        times = take_turns(actions, 3, 1)
        slower = ratio(times, JUDGED, BASE)
        each = {name: taken / many for name, taken in medians(times).items()}
        yield Result(f"repair scan, {many:,} nodes", "at most 2", each, slower, slower <= 2)
        small, large = (scan_memory(root, account) for account in ("few", "acme"))
        yield Result(
            f"its memory, {few:,} and {many:,} nodes",
            "at most 1.1",
            {"few, MB": small, "many, MB": large},
            large / small,
            large / small <= 1.1,
            "× the small one",
        )


def lay_out(root: str, account: str, nodes: int) -> None:
    """Healthy nodes, as the real code writes them, without waiting for the disk."""
    for number in range(nodes):
        node = memory(number, f"user-{number // PER_USER}")
        node = ContextNode(node.uri.replace("//acme/", f"//{account}/"), node.content, tags=node.tags)
        for key, text in (file for step in files_of(node) for file in step):
            path = os.path.join(root, key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def bare_walk(root: str) -> int:
    active = 0
    for directory, _, names in os.walk(root):
        if META in names:
            with open(os.path.join(directory, META), encoding="utf-8") as file:
                active += json.load(file)["status"] == "ACTIVE"
    return active


def healthy(store: StorageBackend, account: str, nodes: int) -> None:
    report = repair(store, account=account)
    if report.scanned != nodes or report.findings:
        raise SystemExit(f"the scan found {report.scanned} nodes and {report.findings[:3]}")


def scan_memory(root: str, account: str) -> float:
    """The most memory, in MB, that a process needs to scan an account."""
    command = [sys.executable, __file__, "--dir", root, "--scan", account]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def table(results: list[Result]) -> Iterator[str]:
    yield "Microseconds each (a node), and the ratio that is judged"
    for result in results:
        cells = "  ".join(f"{name} {value:,.1f}" for name, value in result.microseconds.items())
        word = "PASS" if result.passed else "MISS"
        yield f"{word}  {result.name}: {result.ratio:.2f} {result.unit} (goal: {result.goal})"
        yield f"      {cells}"


def main() -> int:
    parser = argparse.ArgumentParser(description="What memories cost beside bare os calls.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and a tenth of the nodes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--dir", help="work below this directory, which must be on a real disk (default: /var/tmp)")
    parser.add_argument("--nodes", type=int, help="how many nodes the scan meets (default: 100,000)")
    parser.add_argument("--scan", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scan:
        repair(DeviceLocalBackend(options.dir), account=options.scan)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return 0
    # /tmp may be in main memory, where flushing is free and the figures mean nothing.
    parent = options.dir or ("/var/tmp" if os.path.isdir("/var/tmp") else None)
    directory = tempfile.mkdtemp(prefix="agentm-bench-", dir=parent)
    nodes = options.nodes or (10_000 if options.quick else 100_000)
    try:
        results = list(Bench(directory, quick=options.quick, nodes=nodes).results())
    finally:
        shutil.rmtree(directory)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print(*table(results), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
