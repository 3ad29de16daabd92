"""Backends that are broken on purpose, each in one way, and the checks that must notice."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from threading import Barrier, BrokenBarrierError, get_ident
from typing import Any

from agentm.backends.memory import MemoryBackend
from agentm.errors import ConcurrentModificationError
from agentm.seam import ABSENT, ROOT, Capabilities, Change, Info, Locator, Versioned
from agentm.seam.locator import lies_in

Texts = Sequence[tuple[Locator, str]]


def _joined(steps: tuple[Texts, ...]) -> list[tuple[Locator, str]]:
    return [text for step in steps for text in step]


class ResolvesToText(MemoryBackend):
    def resolve(self, *parts: str) -> Any:
        return str(super().resolve(*parts))


class ResolvesByMaking(MemoryBackend):
    def resolve(self, *parts: str) -> Locator:
        return self.mkdir(super().resolve(*parts))


class CutsLongTexts(MemoryBackend):
    def write(self, locator: Locator, content: str) -> Locator:
        return super().write(locator, content[: 1 << 16])


class ReadsNothingAsEmpty(MemoryBackend):
    def read(self, locator: Locator) -> str:
        try:
            return super().read(locator)
        except FileNotFoundError:
            return ""


class ReadsDirectories(MemoryBackend):
    def read(self, locator: Locator) -> str:
        return "\n".join(map(str, self.list(locator))) if locator.key in self._dirs else super().read(locator)


class TranslatesNewlines(MemoryBackend):
    def write(self, locator: Locator, content: str) -> Locator:
        return super().write(locator, content.replace("\r\n", "\n"))


class DropsByteOrderMark(MemoryBackend):
    def read(self, locator: Locator) -> str:
        return super().read(locator).removeprefix("\ufeff")


class GuessesHalfCharacters(MemoryBackend):
    def write(self, locator: Locator, content: str) -> Locator:
        return super().write(locator, content.encode("utf-8", "replace").decode())


class KnowsFilesOnly(MemoryBackend):
    def exists(self, locator: Locator) -> bool:
        return locator.key in self._files


class MatchesPrefixes(MemoryBackend):
    def exists(self, locator: Locator) -> bool:
        return any(key.startswith(locator.key) for key in (*self._files, *self._dirs))


class CountsCharacters(MemoryBackend):
    def info(self, locator: Locator) -> Info:
        info = super().info(locator)
        return info if info.is_dir else replace(info, size=len(self.read(locator)))


class TellsMilliseconds(MemoryBackend):
    def info(self, locator: Locator) -> Info:
        info = super().info(locator)
        return replace(info, mtime=info.mtime * 1000)


class InformsOfNothing(MemoryBackend):
    def info(self, locator: Locator) -> Info:
        return super().info(locator) if self.exists(locator) else Info(locator, False, 0, 0.0)


class RefusesSecondMkdir(MemoryBackend):
    def mkdir(self, locator: Locator) -> Locator:
        if self.exists(locator):
            raise FileExistsError(locator.key)
        return super().mkdir(locator)


class EmptiesOnMkdir(MemoryBackend):
    def mkdir(self, locator: Locator) -> Locator:
        for key in [key for key in self._files if locator.key and key.startswith(f"{locator.key}/")]:
            del self._files[key]
        return super().mkdir(locator)


class ListsBackwards(MemoryBackend):
    def list(self, locator: Locator) -> list[Locator]:
        return super().list(locator)[::-1]


class ListsEverything(MemoryBackend):
    def list(self, locator: Locator) -> list[Locator]:
        prefix = f"{locator.key}/" if locator.key else ""
        keys = sorted(key for key in (*self._files, *self._dirs) if key and key.startswith(prefix))
        return [Locator(key) for key in keys]


class HidesDotFiles(MemoryBackend):
    def list(self, locator: Locator) -> list[Locator]:
        return [child for child in super().list(locator) if not child.name.startswith(".")]


class RaisesOnListOfNothing(MemoryBackend):
    def list(self, locator: Locator) -> list[Locator]:
        if not self.exists(locator):
            raise FileNotFoundError(locator.key)
        return super().list(locator)


class ListsFileAsItself(MemoryBackend):
    def list(self, locator: Locator) -> list[Locator]:
        return [locator] if locator.key in self._files else super().list(locator)


class CollapsesDots(MemoryBackend):
    def resolve(self, *parts: str) -> Locator:
        key = posixpath.normpath("/".join(("", *parts)))
        return Locator(key)


class TakesBackslashForSlash(MemoryBackend):
    def resolve(self, *parts: str) -> Locator:
        return super().resolve(*(part.replace("\\", "/") for part in parts))


class RaisesAnotherError(MemoryBackend):
    def resolve(self, *parts: str) -> Locator:
        try:
            return super().resolve(*parts)
        except ValueError as cause:
            raise OSError("bad key") from cause


UNIVERSAL_MUTANTS: tuple[tuple[str, type[MemoryBackend], set[str]], ...] = (
    ("resolve_and_locator", ResolvesToText, set()),
    ("resolve_and_locator", ResolvesByMaking, set()),
    ("round_trip", ReadsNothingAsEmpty, {"remove"}),  # a removed file cannot be read either
    ("round_trip", CutsLongTexts, {"info"}),  # sizes of long texts are wrong too
    ("round_trip", ReadsDirectories, set()),
    ("lf_exact_round_trip", TranslatesNewlines, {"info", "rename", "write_many"}),  # all look at a text with CRLF
    ("lf_exact_round_trip", DropsByteOrderMark, {"write_many"}),  # which looks at the same texts
    ("lf_exact_round_trip", GuessesHalfCharacters, set()),
    ("exists_flips", KnowsFilesOnly, {"resolve_and_locator", "rename"}),  # the root; directories as targets
    ("exists_flips", MatchesPrefixes, {"rename"}),  # a source that is gone seems to be there
    ("info", CountsCharacters, set()),
    ("info", TellsMilliseconds, set()),
    ("info", InformsOfNothing, set()),
    ("mkdir_idempotent", RefusesSecondMkdir, set()),
    ("mkdir_idempotent", EmptiesOnMkdir, set()),
    ("list_children", ListsBackwards, set()),
    ("list_children", ListsEverything, set()),
    ("list_children", HidesDotFiles, set()),
    ("list_on_absent", RaisesOnListOfNothing, set()),
    ("list_on_absent", ListsFileAsItself, set()),
    ("invalid_locator_rejected", CollapsesDots, set()),
    ("invalid_locator_rejected", TakesBackslashForSlash, set()),
    ("invalid_locator_rejected", RaisesAnotherError, set()),
)
"""The check, the mutant, and what else may well notice it."""


class RemovesTrees(MemoryBackend):
    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        for child in self.list(locator):
            self.remove(child)
        super().remove(locator, if_version=if_version)


class RemovesNothing(MemoryBackend):
    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        if not self.exists(locator):
            super().remove(locator, if_version=if_version)


class RemovesSilently(MemoryBackend):
    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        if self.exists(locator):
            super().remove(locator, if_version=if_version)


class RemovesAnyVersion(MemoryBackend):
    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        super().remove(locator)


class RenamesByCopying(MemoryBackend):
    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        kept = self._files.get(source.key)
        super().rename(source, target, overwrite=overwrite)
        if kept:
            self._files[source.key] = kept
        return target


class RenamesOverAnything(MemoryBackend):
    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        return super().rename(source, target, overwrite=True)


class RenamesPrefixes(MemoryBackend):
    def _move_keys(self, source: str, target: str) -> None:
        trees: tuple[dict[str, Any], ...] = (self._files, self._dirs)
        for tree in trees:
            for key in [key for key in tree if key.startswith(source)]:
                tree[target + key[len(source) :]] = tree.pop(key)


class AppendsLines(MemoryBackend):
    def append(self, locator: Locator, content: str) -> Locator:
        return super().append(locator, content if content.endswith("\n") else f"{content}\n")


class AppendsWithoutLock(MemoryBackend):
    """Both appenders read before either writes."""

    def __init__(self) -> None:
        super().__init__()
        self._both = Barrier(2)

    def append(self, locator: Locator, content: str) -> Locator:
        old = self.read(locator) if self.exists(locator) else ""
        if locator.name == "shared.md":
            _meet(self._both)
        return self.write(locator, old + content)


class SwapsAnyway(MemoryBackend):
    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        self.write(locator, content)
        return self.read_versioned(locator).version


class KeepsCurrentToItself(MemoryBackend):
    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        try:
            return super().write_versioned(locator, content, if_version=if_version)
        except ConcurrentModificationError as clash:
            raise ConcurrentModificationError(clash.message) from None


class TellsOneVersionForAll(MemoryBackend):
    def read_versioned(self, locator: Locator) -> Versioned:
        return replace(super().read_versioned(locator), version="v")

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        if (if_version == ABSENT) is self.exists(locator):
            raise ConcurrentModificationError("clash", current="v" if self.exists(locator) else ABSENT)
        self.write(locator, content)
        return "v"


class ChecksThenWrites(MemoryBackend):
    """Looks at the version, once lets somebody else look as well, and writes."""

    def __init__(self) -> None:
        super().__init__()
        self._both = Barrier(2)
        self._met = 0

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        self._check("write", locator, if_version)
        self._met += locator.name == "counter"
        if 0 < self._met <= 2:
            _meet(self._both)
        self.write(locator, content)
        return super().read_versioned(locator).version


class FeedsByLength(MemoryBackend):
    def changes(self, seen: Mapping[str, str], below: Locator = ROOT, **options: Any) -> Iterator[Change]:
        prefix = f"{below.key}/" if below.key else ""
        skip = options.get("skip", ())
        files = ((key, file) for key, file in self._files.items() if not lies_in(key, skip))
        now = {key: str(len(file.data)) for key, file in files if key.startswith(prefix)}
        yield from (Change(Locator(key), now[key]) for key in sorted(now) if seen.get(key) != now[key])
        yield from (Change(Locator(key), None) for key in sorted(seen) if key.startswith(prefix) and key not in now)


class FeedsWhatIsSkipped(MemoryBackend):
    def changes(self, seen: Mapping[str, str], below: Locator = ROOT, **options: Any) -> Iterator[Change]:
        return super().changes(seen, below)


class FeedsNoLosses(MemoryBackend):
    def changes(self, seen: Mapping[str, str], below: Locator = ROOT, **options: Any) -> Iterator[Change]:
        return (change for change in super().changes(seen, below, **options) if change.stamp is not None)


class FeedsSiblings(MemoryBackend):
    def changes(self, seen: Mapping[str, str], below: Locator = ROOT, **options: Any) -> Iterator[Change]:
        return (change for change in super().changes(seen, **options) if change.locator.key.startswith(below.key))


class FeedsForEver(MemoryBackend):
    def changes(self, seen: Mapping[str, str], below: Locator = ROOT, **options: Any) -> Iterator[Change]:
        return super().changes(dict.fromkeys(seen, "never"), below, **options)


class WatchesNothing(MemoryBackend):
    def _tell(self, locator: Locator) -> None:
        pass


class WatchesOneLevel(MemoryBackend):
    def _tell(self, locator: Locator) -> None:
        if "deep" not in locator.parts:
            super()._tell(locator)


class WatchesNoRemovals(MemoryBackend):
    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        watchers, self._watchers = self._watchers, []
        super().remove(locator, if_version=if_version)
        self._watchers = watchers


class WatchesElsewhere(MemoryBackend):
    def _tell(self, locator: Locator) -> None:
        for watcher in self._watchers:
            watcher._pending[Locator("somewhere/else")] = None
        super()._tell(locator)


class LocksNobodyOut(MemoryBackend):
    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        with super().lock(Locator(f"nobody asks for {os.urandom(8).hex()}")) as held:
            yield held


class LocksOneOfMany(MemoryBackend):
    def lock(self, *locators: Locator) -> Any:
        return super().lock(*locators[:1])


class LocksEverything(MemoryBackend):
    def lock(self, *locators: Locator) -> Any:
        return super().lock(ROOT)


class LocksWriters(MemoryBackend):
    """Whoever writes waits for the lock."""

    def write(self, locator: Locator, content: str) -> Locator:
        with self.lock(locator) if not self._mine() else nullcontext():
            return super().write(locator, content)

    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        with super().lock(*locators) as held:
            self._holder = get_ident()
            yield held
            self._holder = 0

    def _mine(self) -> bool:
        return getattr(self, "_holder", 0) == get_ident()


class LocksInGivenOrder(MemoryBackend):
    """Takes one place after the other as it is told to, and waits in between."""

    def __init__(self) -> None:
        super().__init__()
        self._both = Barrier(2)
        self._met = False

    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        with ExitStack() as stack:
            held = stack.enter_context(super().lock(*locators[:1]))
            if len(locators) == 3 and not self._met:
                with suppress(BrokenBarrierError):
                    self._both.wait(1)
                self._met = True
            for place in dict.fromkeys(locators[1:]):
                if place != locators[0]:
                    stack.enter_context(super().lock(place))
            yield held


class LocksTwice(MemoryBackend):
    """Waits for itself when a place is named twice."""

    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        with ExitStack() as stack:
            held = stack.enter_context(super().lock())
            for place in sorted(locators, key=str):
                held = stack.enter_context(super().lock(place))
            yield held


class KeepsLocksOfTheFailed(MemoryBackend):
    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        kept = super().lock(*locators)
        self.kept = [*getattr(self, "kept", []), kept]
        yield kept.__enter__()
        kept.__exit__(None, None, None)


class LocksByMaking(MemoryBackend):
    def lock(self, *locators: Locator) -> Any:
        for locator in locators:
            if not self.exists(locator):
                self.write(locator, "")
        return super().lock(*locators)


class LocksOnlyWhatIsThere(MemoryBackend):
    def lock(self, *locators: Locator) -> Any:
        for locator in locators:
            self.info(locator)
        return super().lock(*locators)


class _Answer:
    def __init__(self, answer: bool) -> None:
        self.ours = lambda: answer


class NeverSaysOurs(MemoryBackend):
    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        with super().lock(*locators):
            yield _Answer(False)


class AlwaysSaysOurs(MemoryBackend):
    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Any]:
        with super().lock(*locators):
            yield _Answer(True)


class WritesTheFirstOfTwo(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        super().write_many(
            list({locator: (locator, content) for locator, content in reversed(texts)}.values()), **options
        )


class WritesOneBatch(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        super().write_many(texts[:256], **options)


class WritesManyAsLines(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        super().write_many([(locator, "\n".join(content.splitlines())) for locator, content in texts], **options)


class WritesManyIntoOldDirectories(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        for locator, _ in texts:
            self.info(locator.parent)
        super().write_many(texts, **options)


class WritesManyButNotOver(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        super().write_many([text for text in texts if not self.exists(text[0])], **options)


class SkipsWhatItCannotWrite(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        for text in texts:
            with suppress(OSError):
                super().write_many([text], **options)


class NeedsOneText(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        if texts[0]:
            super().write_many(texts, **options)


class NeedsTwoTexts(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        if len(texts) != 1:
            super().write_many(texts, **options)


class WritesAllStepsAtOnce(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        before = options.pop("before", None) or (lambda number: None)
        super().write_many(_joined(steps), **options)
        for number in range(len(steps)):
            before(number)


class TellsNobodyOfSteps(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        super().write_many(*steps, if_versions=options.get("if_versions"))


class WritesEachStepTooEarly(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        for number, step in enumerate(steps):
            super().write_many(step, if_versions=options.get("if_versions") if len(steps) == 1 else None)
            if options.get("before"):
                options["before"](number)


class SwallowsWhatStopsIt(MemoryBackend):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        with suppress(RuntimeError):
            super().write_many(*steps, **options)


class EmptiesManyOnRefusal(MemoryBackend):
    """Makes room for all of them first, and finds out later."""

    def write_many(self, *steps: Texts, **options: Any) -> None:
        texts = _joined(steps)
        for locator, _ in texts:
            if locator.key not in self._dirs and not any(key in self._files for key in _above(locator)):
                self.write(locator, "")
        super().write_many(texts, **options)


def _above(locator: Locator) -> list[str]:
    return ["/".join(locator.parts[:n]) for n in range(1, len(locator.parts))]


ABILITY_MUTANTS: tuple[tuple[str, type[MemoryBackend], set[str]], ...] = (
    ("remove", RemovesTrees, set()),
    ("remove", RemovesNothing, {"compare_and_swap", "change_feed", "watch"}),  # each of them removes a file
    ("remove", RemovesSilently, set()),
    ("remove", RemovesAnyVersion, set()),
    ("rename", RenamesByCopying, set()),
    ("rename", RenamesOverAnything, set()),
    ("rename", RenamesPrefixes, set()),
    ("append", AppendsLines, set()),
    ("append", AppendsWithoutLock, set()),
    ("compare_and_swap", SwapsAnyway, set()),
    ("compare_and_swap", KeepsCurrentToItself, set()),
    ("compare_and_swap", TellsOneVersionForAll, {"remove", "write_many"}),  # which have conditional forms
    ("compare_and_swap", ChecksThenWrites, set()),
    ("change_feed", FeedsByLength, set()),
    ("change_feed", FeedsNoLosses, set()),
    ("change_feed", FeedsWhatIsSkipped, set()),
    ("change_feed", FeedsSiblings, set()),
    ("change_feed", FeedsForEver, set()),
    ("watch", WatchesNothing, set()),
    ("watch", WatchesOneLevel, set()),
    ("watch", WatchesNoRemovals, set()),
    ("watch", WatchesElsewhere, set()),
    ("lock", LocksNobodyOut, set()),
    ("lock", LocksOneOfMany, set()),
    ("lock", LocksEverything, set()),
    ("lock", LocksWriters, set()),
    ("lock", LocksInGivenOrder, set()),
    ("lock", LocksTwice, set()),
    ("lock", KeepsLocksOfTheFailed, set()),
    ("lock", LocksByMaking, set()),
    ("lock", LocksOnlyWhatIsThere, set()),
    ("lock", NeverSaysOurs, set()),
    ("lock", AlwaysSaysOurs, set()),
    ("write_many", WritesTheFirstOfTwo, set()),
    ("write_many", WritesOneBatch, set()),
    ("write_many", WritesManyAsLines, set()),
    ("write_many", WritesManyIntoOldDirectories, set()),
    ("write_many", WritesManyButNotOver, set()),
    ("write_many", SkipsWhatItCannotWrite, set()),
    ("write_many", NeedsOneText, set()),
    ("write_many", NeedsTwoTexts, set()),
    ("write_many", EmptiesManyOnRefusal, set()),
    ("write_many", WritesAllStepsAtOnce, set()),
    ("write_many", TellsNobodyOfSteps, set()),
    ("write_many", WritesEachStepTooEarly, set()),
    ("write_many", SwallowsWhatStopsIt, set()),
)


class DeclaresLess(MemoryBackend):
    """Has every method, and says so of all but one."""

    withheld = ""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, **{self.withheld: False})


def without(flag: str) -> type[MemoryBackend]:
    return type(f"Without_{flag}", (DeclaresLess,), {"withheld": flag})


def _meet(barrier: Barrier) -> None:
    """Go on together with another thread, or alone if none comes."""
    try:
        barrier.wait(5)
    except BrokenBarrierError:
        barrier.reset()
