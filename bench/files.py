"""What files cost: a scope beside no scope, FsStorage beside aiofiles, and each adapter beside the bare store.

    python bench/files.py [--quick] [--json] [--dir DIR]

All contenders of a row take turns, round by round, in one run, so that a slow moment of the machine hits all of them.
A figure is the median over the rounds; a ratio is the median of the ratios within each round. The files lie on a disk,
and once more in main memory, where flushing is free and only the work around it shows.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

from agentm import DeviceLocalBackend, FsStorage, Locator, ScopedStorage, ScopedStorageScope, Storage
from agentm.seam import update

BARE, SCOPED, SAME, PLAIN = "FsStorage", "scoped", "aiofiles, as safe", "aiofiles, plain"
CONTENDERS = (BARE, SCOPED, SAME, PLAIN)
GOAL = 1.5
"""At most this many times: a scope beside none, FsStorage beside aiofiles that keeps the same promise."""

MEMORY = "/dev/shm"

Action = Callable[[], Any]


@dataclass
class Row:
    """One verb at one place; each contender's action does it once."""

    name: str
    rounds: int
    batch: int
    actions: dict[str, Action]
    judged: bool = True


@dataclass
class Result:
    name: str
    microseconds: dict[str, float]
    ratios: dict[str, float] = field(default_factory=dict)
    judged: bool = True


class Aiofiles:
    """The files of a folder through aiofiles; with ``safe`` a write is flushed and put in place in one step."""

    def __init__(self, library: Any, *, safe: bool) -> None:
        self._open = library.open
        self._safe = safe
        self._numbers = count()

    async def read(self, path: str) -> str:
        async with self._open(path, encoding="utf-8", newline="") as file:
            return str(await file.read())

    async def write(self, path: str, text: str) -> None:
        if not self._safe:
            async with self._open(path, "w", encoding="utf-8", newline="") as file:
                await file.write(text)
            return
        loop = asyncio.get_running_loop()
        temp = f"{path}.tmp.{os.getpid()}.{next(self._numbers)}"
        async with self._open(temp, "w", encoding="utf-8", newline="") as file:
            await file.write(text)
            await file.flush()
            await loop.run_in_executor(None, os.fsync, file.fileno())
        await loop.run_in_executor(None, os.replace, temp, path)
        await loop.run_in_executor(None, _flush_folder, os.path.dirname(path))


def _flush_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fsync(fd)
    os.close(fd)


class Files:
    """Rows about one folder."""

    def __init__(self, folder: str, *, label: str, scale: float) -> None:
        self.folder = os.path.join(os.path.realpath(folder), "scope", "agent", "notes")
        os.makedirs(self.folder)
        self.label = label
        self.scale = scale
        root = os.path.join(os.path.realpath(folder), "scope")
        self.stores: dict[str, Any] = {BARE: FsStorage()}
        self.stores[SCOPED] = ScopedStorage(FsStorage(), ScopedStorageScope([root], [root]))
        library = imported("aiofiles")
        if library is not None:
            self.stores[SAME] = Aiofiles(library, safe=True)
            self.stores[PLAIN] = Aiofiles(library, safe=False)

    def rows(self) -> Iterator[Row]:
        for label, size in (("1 KB", 1_000), ("64 KB", 64_000)):
            yield self.read(f"read, {label}", size)
        for label, size in (("1 KB", 1_000), ("64 KB", 64_000)):
            yield self.write(f"write, over, {label}", size, new=False)
        yield self.write("write, new, 1 KB", 1_000, new=True)
        yield self.own("append, 10 bytes", 8, lambda store: lambda: store.append(f"{self.folder}/grows", "x" * 10))
        yield self.own("exists", 100, lambda store: lambda: store.exists(f"{self.folder}/note.md"))
        yield self.own("list, 10 entries", 50, lambda store: lambda: store.list(self.ten()))

    def read(self, name: str, size: int) -> Row:
        path = f"{self.folder}/{size}.md"
        with open(path, "w") as file:
            file.write("x" * size)

        def action(store: Any) -> Action:
            return lambda: store.read(path)

        chosen = [one for one in self.stores if one != PLAIN]  # it reads as the other does
        return self.row(name, 60, 100, {one: action(self.stores[one]) for one in chosen})

    def write(self, name: str, size: int, *, new: bool) -> Row:
        text, numbers = "x" * size, count()

        def action(store: Any) -> Action:
            return lambda: store.write(f"{self.folder}/{next(numbers) if new else 'same'}.md", text)

        return self.row(name, 40, 6, {one: action(store) for one, store in self.stores.items()})

    def own(self, name: str, batch: int, action: Callable[[Storage], Action]) -> Row:
        """A verb that aiofiles has no name for."""
        return self.row(name, 40, batch, {one: action(self.stores[one]) for one in (BARE, SCOPED)})

    def ten(self) -> str:
        folder = f"{self.folder}/ten"
        if not os.path.isdir(folder):
            for number in range(10):
                os.makedirs(f"{folder}/d{number}")
        return folder

    def row(self, name: str, rounds: int, batch: int, actions: dict[str, Action]) -> Row:
        judged = name.startswith(("read", "write"))
        return Row(f"{name}, {self.label}", max(5, int(rounds * self.scale)), batch, actions, judged)


def imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception:  # an adapter says in its own words what is missing; here it is one word
        return None


class Adapters:
    """Each adapter's verb beside what it does in the store. An adapter that is not installed has no rows."""

    def __init__(self, folder: str, *, scale: float) -> None:
        self.store = DeviceLocalBackend(os.path.join(folder, "store"))
        self.scale = scale
        self.text = "The owner likes green tea.\n" + "One more line of a note.\n" * 30
        self.missing: list[str] = []
        self.numbers = count()

    def rows(self) -> Iterator[Row]:
        for name, rows in (
            ("anthropic_memory", self.anthropic),
            ("openai_session", self.openai),
            ("deepagents", self.deepagents),
            ("langgraph", self.langgraph),
            ("fsspec", self.fsspec),
        ):
            module = imported(f"agentm.adapters.{name}")
            if module is None:
                self.missing.append(name)
                continue
            for verb, batch, adapter, bare in rows(module):
                yield Row(f"{name} {verb}", max(5, int(30 * self.scale)), batch, {"bare": bare, "adapter": adapter})

    def anthropic(self, module: Any) -> Iterator[tuple[str, int, Action, Action]]:
        tool = module.AgentmMemoryTool(self.store)
        place = Locator("bare/memory.md")
        for one in (place, Locator("memories/note.md")):
            self.store.write(one, self.text)
        view = {"command": "view", "path": "/memories/note.md"}
        yield "view", 40, lambda: tool.call(view), lambda: self.store.read(place)
        swap = self.swapped("/memories/note.md", "old_str", "new_str")
        yield "str_replace", 6, lambda: tool.call({"command": "str_replace", **swap()}), lambda: self.edit(place)

    def openai(self, module: Any) -> Iterator[tuple[str, int, Action, Action]]:
        item = {"role": "user", "content": self.text}

        def bare() -> object:
            line = json.dumps(item) + "\n"
            return update(self.store, Locator(f"bare/{next(self.numbers)}"), lambda text: (text or "") + line)

        yield (
            *("add_items, first", 6),
            *(lambda: module.AgentmSession(f"s{next(self.numbers)}", self.store).add_items([item]), bare),
        )

    def deepagents(self, module: Any) -> Iterator[tuple[str, int, Action, Action]]:
        files = module.AgentmBackend(self.store)
        files.write("/note.md", self.text)
        place = Locator("bare/note.md")
        self.store.write(place, self.text)
        yield "read", 40, lambda: files.read("/note.md"), lambda: self.store.read(place)
        swap = self.swapped("/note.md", "old_string", "new_string")

        def edit() -> object:
            given = swap()
            return files.edit(given["path"], given["old_string"], given["new_string"])

        yield "edit", 6, edit, lambda: self.edit(place)

    def langgraph(self, module: Any) -> Iterator[tuple[str, int, Action, Action]]:
        store = module.AgentmStore(self.store)
        place = Locator("bare/langgraph.md")
        value = {"text": self.text}
        for number in range(10):
            store.put(("users", "ada"), f"n{number}", value)
            self.store.write(Locator(f"bare/ten/n{number}"), self.text)
        yield "put", 6, lambda: store.put(("users", "ada"), "n0", value), lambda: self.store.write(place, self.text)
        yield "get", 40, lambda: store.get(("users", "ada"), "n0"), lambda: self.store.read(place)

        def ten() -> object:
            return [self.store.read(child) for child in self.store.list(Locator("bare/ten"))]

        yield "search, 10 items", 6, lambda: store.search(("users", "ada")), ten
        yield "search, a query", 6, lambda: store.search(("users", "ada"), query="green tea"), ten

    def fsspec(self, module: Any) -> Iterator[tuple[str, int, Action, Action]]:
        files = module.AgentmFileSystem(self.store)
        place = Locator("bare/fsspec.md")
        self.store.write(place, self.text)
        data = self.text.encode()
        yield "cat", 40, lambda: files.cat_file("bare/fsspec.md"), lambda: self.store.read(place)
        yield (
            *("pipe", 6),
            *(lambda: files.pipe_file("bare/piped.md", data), lambda: self.store.write(place, self.text)),
        )

    def swapped(self, path: str, old: str, new: str) -> Callable[[], dict[str, str]]:
        """An edit that can be made again and again: there and back."""
        words = count()

        def arguments() -> dict[str, str]:
            there = ("green", "black") if next(words) % 2 == 0 else ("black", "green")
            return {"path": path, old: there[0], new: there[1]}

        return arguments

    def edit(self, place: Locator) -> object:
        def turn(text: str | None) -> str:
            assert text is not None
            return text.replace("green", "black") if "green" in text else text.replace("black", "green")

        return update(self.store, place, turn)


async def measure(row: Row, base: str) -> Result:
    for action in row.actions.values():
        await done(action)  # the first time makes folders and fills caches
    times: dict[str, list[float]] = {name: [] for name in row.actions}
    order = list(row.actions)
    for _ in range(row.rounds):
        random.shuffle(order)
        for name in order:
            times[name].append(await timed(row.actions[name], row.batch))
    ratios = {
        name: statistics.median(own / bare for own, bare in zip(taken, times[base], strict=True))
        for name, taken in times.items()
    }
    figures = {name: statistics.median(taken) * 1e6 for name, taken in times.items()}
    return Result(row.name, figures, ratios, row.judged)


async def done(action: Action) -> None:
    answer = action()
    if inspect.isawaitable(answer):
        await answer


async def timed(action: Action, batch: int) -> float:
    started = time.perf_counter()
    for _ in range(batch):
        answer = action()
        if inspect.isawaitable(answer):
            await answer
    return (time.perf_counter() - started) / batch


def table(results: list[Result], columns: tuple[str, ...], base: str, title: str) -> Iterator[str]:
    yield title
    yield f"{'':<32}" + "".join(f"{name:>22}" for name in columns)
    for result in results:
        yield f"{result.name:<32}" + "".join(f"{cell(result, name, base):>22}" for name in columns)


def cell(result: Result, name: str, base: str) -> str:
    if name not in result.microseconds:
        return "–"
    ratio = f" {result.ratios[name]:5.2f}×" if name != base else ""
    return f"{result.microseconds[name]:,.1f}{ratio}"


def verdicts(results: list[Result]) -> Iterator[str]:
    for result in results:
        if result.judged:
            yield verdict(f"{result.name}: scoped", result.ratios[SCOPED], "FsStorage")
            if SAME in result.ratios:
                yield verdict(f"{result.name}: FsStorage", 1 / result.ratios[SAME], SAME)
    if all(SAME not in result.ratios for result in results):
        yield "aiofiles is not installed: pip install aiofiles"


def verdict(what: str, ratio: float, beside: str) -> str:
    return f"{'PASS' if ratio <= GOAL else 'MISS'}  {what} at {ratio:.2f}× {beside} (goal {GOAL}×)"


async def run(directory: str, memory: str | None, *, scale: float) -> dict[str, Any]:
    places = {"disk": directory} if memory is None else {"disk": directory, "memory": memory}
    files = [
        await measure(row, BARE)
        for label, folder in places.items()
        for row in Files(folder, label=label, scale=scale).rows()
    ]
    adapters = Adapters(memory or directory, scale=scale)
    return {
        "files": files,
        "adapters": [await measure(row, "bare") for row in adapters.rows()],
        "missing": adapters.missing,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What files, scopes and adapters cost.")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    parser.add_argument("--dir", help="work below this directory, which must be on a real disk (default: /var/tmp)")
    options = parser.parse_args()
    # /tmp may be in main memory, where flushing is free and the figures mean nothing.
    parent = options.dir or ("/var/tmp" if os.path.isdir("/var/tmp") else None)
    directory = tempfile.mkdtemp(prefix="agentm-bench-", dir=parent)
    memory = tempfile.mkdtemp(prefix="agentm-bench-", dir=MEMORY) if os.access(MEMORY, os.W_OK) else None
    try:
        found = asyncio.run(run(directory, memory, scale=0.2 if options.quick else 1.0))
    finally:
        for made in filter(None, (directory, memory)):
            shutil.rmtree(made)
    if options.json:
        print(json.dumps(found, indent=2, default=asdict))
        return 0
    print(*table(found["files"], CONTENDERS, BARE, "Microseconds each, and how many times FsStorage's"), sep="\n")
    print()
    title = "Microseconds each, and how many times the bare calls of the store"
    print(*table(found["adapters"], ("bare", "adapter"), "bare", title), sep="\n")
    for name in found["missing"]:
        print(f"{name:<32}{'not installed':>22}")
    print("", *verdicts(found["files"]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
