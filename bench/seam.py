"""What the seam costs: each verb of each built-in store beside the same work done straight with os calls.

    python bench/seam.py [--quick] [--json] [--dir DIR]

All contenders of a row take turns, round by round, in one run, so that a slow moment of the machine hits all of them.
A figure is the median over the rounds; a ratio is the median of the ratios within each round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count

from agentm import DeviceLocalBackend, Locator, MemoryBackend, SqliteBackend, StorageBackend, VaultBackend

BASE, JUDGED = "os calls", "device-local"
CONTENDERS = (BASE, JUDGED, "vault", "sqlite", "memory")
SIZES = {"1 KB": 1_000, "64 KB": 64_000}
WRITE_GOAL, LOOK_GOAL = 0.8, 0.5
"""At least this many times the speed of the bare calls: 80 % for a durable write, half (within 2×) for the rest."""

Action = Callable[[], object]


@dataclass
class Row:
    """One verb under one condition; each contender's action does it once."""

    name: str
    goal: float
    rounds: int
    batch: int
    actions: dict[str, Action]


@dataclass
class Result:
    name: str
    goal: float
    microseconds: dict[str, float]
    speed: dict[str, float]
    """How many times as fast as the bare calls."""


class Bare:
    """The same protocol as a backend's, with nothing around it."""

    def __init__(self, root: str) -> None:
        self.root = root
        os.makedirs(root)

    def write(self, path: str, text: str) -> None:
        data = text.encode()
        temp = os.path.join(self.root, f".{os.urandom(8).hex()}")
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.write(fd, data)
        os.fsync(fd)
        os.close(fd)
        os.replace(temp, path)
        fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)

    def read(self, path: str, size: int) -> str:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        data = os.read(fd, size + 1)
        os.close(fd)
        return data.decode()


class Bench:
    """The contenders, each with a directory of its own, and the rows they meet in."""

    def __init__(self, directory: str, *, quick: bool) -> None:
        self.scale = 0.2 if quick else 1.0
        self.bare = Bare(os.path.join(directory, "bare"))
        self.stores: dict[str, StorageBackend] = {
            JUDGED: DeviceLocalBackend(os.path.join(directory, "device-local")),
            "vault": VaultBackend(os.path.join(directory, "vault"), lock_root=os.path.join(directory, "locks")),
            "sqlite": SqliteBackend(os.path.join(directory, "memory.db")),
            "memory": MemoryBackend(),
        }

    def rows(self) -> Iterator[Row]:
        for label, size in SIZES.items():
            yield self.write(f"write, new, {label}", size, new=True)
            yield self.write(f"write, over, {label}", size, new=False)
        for label, size in SIZES.items():
            yield self.read(f"read, {label}", size)
        for entries in (10, 1_000):
            yield self.list(f"list, {entries:,} entries", entries)
        yield self.exists("exists, a file", "here")
        yield self.exists("exists, nothing", "nothing")

    def write(self, name: str, size: int, *, new: bool) -> Row:
        text = "x" * size
        folder = self.bare_folder(name)
        numbers = count()

        def key() -> str:
            return f"{next(numbers)}.md" if new else "same.md"

        def through(store: StorageBackend) -> Action:
            return lambda: store.write(Locator(f"{name}/{key()}"), text)

        actions: dict[str, Action] = {BASE: lambda: self.bare.write(f"{folder}/{key()}", text)}
        return self.row(name, WRITE_GOAL, 60, 6, actions, through)

    def read(self, name: str, size: int) -> Row:
        path, place = f"{self.bare_folder(name)}/note.md", Locator(f"{name}/note.md")
        self.bare.write(path, "x" * size)
        for store in self.stores.values():
            store.write(place, "x" * size)
        actions: dict[str, Action] = {BASE: lambda: self.bare.read(path, size)}
        return self.row(name, LOOK_GOAL, 60, 200, actions, lambda store: lambda: store.read(place))

    def list(self, name: str, entries: int) -> Row:
        folder, place = self.bare_folder(name), Locator(name)
        for n in range(entries):
            os.mkdir(f"{folder}/{n}")
            for store in self.stores.values():
                store.mkdir(place.child(str(n)))
        actions: dict[str, Action] = {BASE: lambda: sorted(os.listdir(folder))}
        batch = 100 if entries < 100 else 4
        return self.row(name, LOOK_GOAL, 60, batch, actions, lambda store: lambda: store.list(place))

    def exists(self, name: str, key: str) -> Row:
        path, place = f"{self.bare_folder(name)}/{key}", Locator(f"{name}/{key}")
        if key != "nothing":
            self.bare.write(path, "")
            for store in self.stores.values():
                store.write(place, "")
        actions: dict[str, Action] = {BASE: lambda: os.path.exists(path)}
        return self.row(name, LOOK_GOAL, 60, 300, actions, lambda store: lambda: store.exists(place))

    def bare_folder(self, name: str) -> str:
        folder = os.path.join(self.bare.root, name)
        os.makedirs(folder)
        return folder

    def row(
        self,
        name: str,
        goal: float,
        rounds: int,
        batch: int,
        actions: dict[str, Action],
        through: Callable[[StorageBackend], Action],
    ) -> Row:
        for protocol, store in self.stores.items():
            actions[protocol] = through(store)
        return Row(name, goal, max(5, int(rounds * self.scale)), batch, actions)


def measure(row: Row) -> Result:
    for action in row.actions.values():
        action()  # the first time makes folders and fills caches
    times: dict[str, list[float]] = {name: [] for name in row.actions}
    order = list(row.actions)
    for _ in range(row.rounds):
        random.shuffle(order)
        for name in order:
            times[name].append(timed(row.actions[name], row.batch))
    return Result(
        row.name,
        row.goal,
        {name: statistics.median(taken) * 1e6 for name, taken in times.items()},
        {
            name: statistics.median(base / own for base, own in zip(times[BASE], taken, strict=True))
            for name, taken in times.items()
        },
    )


def timed(action: Action, batch: int) -> float:
    started = time.perf_counter()
    for _ in range(batch):
        action()
    return (time.perf_counter() - started) / batch


def table(results: list[Result]) -> Iterator[str]:
    yield "Microseconds each, and how many times as fast as the bare os calls"
    yield f"{'':<22}" + "".join(f"{name:>17}" for name in CONTENDERS)
    for result in results:
        yield f"{result.name:<22}" + "".join(f"{cell(result, name):>17}" for name in CONTENDERS)


def cell(result: Result, name: str) -> str:
    speed = result.speed[name]
    ratio = f"{speed:.2f}×" if speed < 10 else f"{speed:,.0f}×"
    return f"{result.microseconds[name]:,.1f}" + (f" {ratio:>6}" if name != BASE else "")


def verdicts(results: list[Result]) -> Iterator[str]:
    for result in results:
        word = "PASS" if result.speed[JUDGED] >= result.goal else "MISS"
        rate = 1e6 / result.microseconds[JUDGED]
        yield (
            f"{word}  {result.name}: {JUDGED} at {result.speed[JUDGED]:.0%} of the bare calls "
            f"(goal {result.goal:.0%}), {rate:,.0f} a second"
        )


def flush_microseconds(directory: str) -> float:
    """What flushing a small file costs here; next to nothing means that it is not done."""
    fd = os.open(os.path.join(directory, "flush"), os.O_WRONLY | os.O_CREAT, 0o600)

    def flush() -> None:
        os.write(fd, b"x")
        os.fsync(fd)

    try:
        return statistics.median(timed(flush, 1) for _ in range(9)) * 1e6
    finally:
        os.close(fd)


def main() -> int:
    parser = argparse.ArgumentParser(description="What the seam costs beside bare os calls.")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--dir", help="work below this directory, which must be on a real disk (default: /var/tmp)")
    options = parser.parse_args()
    # /tmp may be in main memory, where flushing is free and the figures mean nothing.
    parent = options.dir or ("/var/tmp" if os.path.isdir("/var/tmp") else None)
    directory = tempfile.mkdtemp(prefix="agentm-bench-", dir=parent)
    try:
        flush = flush_microseconds(directory)
        results = [measure(row) for row in Bench(directory, quick=options.quick).rows()]
    finally:
        shutil.rmtree(directory)
    if options.json:
        print(json.dumps({"flush_microseconds": flush, "rows": [asdict(result) for result in results]}, indent=2))
        return 0
    print(*table(results), "", *verdicts(results), sep="\n")
    if flush < 20:
        print(
            f"Flushing costs only {flush:.0f} µs here: this is no real disk, so name one with --dir.", file=sys.stderr
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
