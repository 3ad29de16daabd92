"""A small honest store of files, and versions of it that are broken where only other processes or a crash can tell.

It does not flush, which none of the kit's process checks can see; everything else it does as it should.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from agentm.errors import ConcurrentModificationError
from agentm.seam import ABSENT, Capabilities, Info, Locator, StorageBackend, Versioned

Texts = Sequence[tuple[Locator, str]]

_TEMP = ".filestore-"


class FileStore(StorageBackend):
    """The seven verbs and nothing else."""

    def __init__(self, root: str) -> None:
        self.root = root
        os.makedirs(root, exist_ok=True)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def path(self, locator: Locator) -> str:
        return os.path.join(self.root, *locator.parts)

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        try:
            with open(self.path(locator), "rb") as file:
                return file.read().decode()
        except NotADirectoryError as cause:
            raise FileNotFoundError(locator.key) from cause

    def write(self, locator: Locator, content: str) -> Locator:
        path, data = self.path(locator), content.encode()
        if os.path.isdir(path):
            raise IsADirectoryError(locator.key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.place(path, data)
        return locator

    def place(self, path: str, data: bytes) -> None:
        temp = os.path.join(os.path.dirname(path), _TEMP + os.urandom(6).hex())
        with open(temp, "wb") as file:
            file.write(data)
        os.replace(temp, path)

    def list(self, locator: Locator) -> list[Locator]:
        try:
            names = os.listdir(self.path(locator))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            (locator.child(name) for name in names if not name.startswith(_TEMP)), key=lambda place: place.key
        )

    def exists(self, locator: Locator) -> bool:
        return os.path.exists(self.path(locator))

    def info(self, locator: Locator) -> Info:
        found = os.stat(self.path(locator))
        is_dir = os.path.isdir(self.path(locator))
        return Info(locator, is_dir, 0 if is_dir else found.st_size, found.st_mtime)

    def mkdir(self, locator: Locator) -> Locator:
        os.makedirs(self.path(locator), exist_ok=True)
        return locator


class AbleFileStore(FileStore):
    """With the abilities that a lock on the root makes possible."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(concurrent_writers=True, remove=True, rename=True, append=True, compare_and_swap=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def write(self, locator: Locator, content: str) -> Locator:
        with self.alone():
            return super().write(locator, content)

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        if not locator.key:
            raise PermissionError(errno.EPERM, "the root stays")
        with self.alone():
            if if_version is not None:
                self.check(locator, if_version)
            path = self.path(locator)
            (os.rmdir if os.path.isdir(path) else os.unlink)(path)

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        with self.alone():
            old, new = self.path(source), self.path(target)
            if not os.path.lexists(old):
                raise FileNotFoundError(source.key)
            if f"{new}/".startswith(f"{old}/"):
                raise OSError(errno.EINVAL, "a directory cannot go into itself")
            both_files = os.path.isfile(old) and os.path.isfile(new)
            if os.path.lexists(new) and not (overwrite and both_files):
                raise FileExistsError(target.key)
            os.makedirs(os.path.dirname(new), exist_ok=True)
            self.move(old, new)
        return target

    def move(self, old: str, new: str) -> None:
        os.rename(old, new)

    def append(self, locator: Locator, content: str) -> Locator:
        with self.alone():
            old = self.read(locator) if self.exists(locator) else ""
            return super().write(locator, old + content)

    def read_versioned(self, locator: Locator) -> Versioned:
        content = self.read(locator)
        return Versioned(content, hashlib.sha256(content.encode()).hexdigest())

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        with self.alone():
            self.check(locator, if_version)
            super().write(locator, content)
        return hashlib.sha256(content.encode()).hexdigest()

    def check(self, locator: Locator, if_version: str) -> None:
        try:
            current = self.read_versioned(locator).version
        except FileNotFoundError:
            current = ABSENT
        if current != if_version:
            raise ConcurrentModificationError("somebody was faster", current=current, expected=if_version)


class Grip:
    """A held lock of `LockingFileStore`."""

    def __init__(self) -> None:
        self.held = True

    def ours(self) -> bool:
        return self.held


class LockingFileStore(FileStore):
    """One file for the lock of each place, beside the tree, and many texts written one by one."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lock=True, write_many=True)

    @contextlib.contextmanager
    def lock(self, *locators: Locator) -> Iterator[Grip]:
        grip = Grip()
        with contextlib.ExitStack() as stack:
            for key in sorted({locator.key for locator in locators}):
                stack.enter_context(self.grab(hashlib.sha256(key.encode()).hexdigest()))
            try:
                yield grip
            finally:
                grip.held = False

    @contextlib.contextmanager
    def grab(self, name: str) -> Iterator[None]:
        os.makedirs(f"{self.root}.locks", exist_ok=True)
        fd = os.open(f"{self.root}.locks/{name}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def write_many(self, *steps: Texts, **options: Any) -> None:
        for number, step in enumerate(steps):
            if options.get("before"):
                options["before"](number)
            for locator, content in step:
                self.write(locator, content)


# Broken where several processes meet.


def dawdle() -> None:
    """Stay long enough in the wrong moment that others meet it, also on a busy machine."""
    time.sleep(0.002)


class KeepsToItself(FileStore):
    """Remembers what was written and does not tell the disk."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._texts: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root,)

    def write(self, locator: Locator, content: str) -> Locator:
        super().write(locator, "")
        self._texts[locator.key] = content
        return locator

    def read(self, locator: Locator) -> str:
        return self._texts[locator.key] if locator.key in self._texts else super().read(locator)


class RemembersLists(FileStore):
    """Looks into a directory once and never again; pickles as its root."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._names: dict[str, list[Locator]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root,)

    def write(self, locator: Locator, content: str) -> Locator:
        super().write(locator, content)
        for place in (locator.parent, locator.parent.child("theirs")):
            self._names[place.key] = super().list(place)
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        return self._names.get(locator.key) or self._names.setdefault(locator.key, super().list(locator))


class WritesInPlace(AbleFileStore):
    """Cuts the old text off before it has written the new one."""

    def place(self, path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            dawdle()
            file.write(data)


class WritesInPieces(AbleFileStore):
    def place(self, path: str, data: bytes) -> None:
        with open(path, "wb", buffering=0) as file:
            middle = len(data) // 2
            file.write(data[:middle])
            dawdle()
            file.write(data[middle:])


class OneFileWithoutLock(FileStore):
    """The whole tree in one JSON file that everybody reads, changes and puts back."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(concurrent_writers=True)

    def load(self) -> dict[str, str]:
        try:
            with open(os.path.join(self.root, "all.json"), encoding="utf-8") as file:
                loaded: dict[str, str] = json.load(file)
                return loaded
        except FileNotFoundError:
            return {}

    def write(self, locator: Locator, content: str) -> Locator:
        texts = {**self.load(), locator.key: content}
        dawdle()
        self.place(os.path.join(self.root, "all.json"), json.dumps(texts).encode())
        return locator

    def read(self, locator: Locator) -> str:
        texts = self.load()
        if locator.key not in texts:
            raise FileNotFoundError(locator.key)
        return texts[locator.key]

    def list(self, locator: Locator) -> list[Locator]:
        return sorted((Locator(key) for key in self.load() if Locator(key).parent == locator), key=str)


class SharesOneTemp(FileStore):
    """Every writer's temporary file has the same name."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(concurrent_writers=True)

    def place(self, path: str, data: bytes) -> None:
        temp = os.path.join(self.root, f"{_TEMP}shared")
        with open(temp, "wb") as file:
            file.write(data)
        dawdle()
        os.replace(temp, path)


class LocksNobodyOut(AbleFileStore):
    """Whoever should be alone is not."""

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        yield

    def place(self, path: str, data: bytes) -> None:
        dawdle()
        super().place(path, data)


class LocksThreadsOnly(LockingFileStore):
    """Nobody in another process hears of its locks."""

    inside: ClassVar[dict[str, threading.Lock]] = {}

    @contextlib.contextmanager
    def grab(self, name: str) -> Iterator[None]:
        with self.inside.setdefault(self.root + name, threading.Lock()):
            yield

    def write(self, locator: Locator, content: str) -> Locator:
        dawdle()
        return super().write(locator, content)


class LocksByMakingAFile(LockingFileStore):
    """A lock is a file that is there; whoever dies leaves it there."""

    @contextlib.contextmanager
    def grab(self, name: str) -> Iterator[None]:
        os.makedirs(f"{self.root}.locks", exist_ok=True)
        path, deadline = f"{self.root}.locks/{name}", time.monotonic() + 20
        while True:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.001)
        try:
            yield
        finally:
            os.unlink(path)


class FreesDeadLocksLate(LocksByMakingAFile):
    """The same, but a lock that is old enough is broken."""

    @contextlib.contextmanager
    def grab(self, name: str) -> Iterator[None]:
        path = f"{self.root}.locks/{name}"
        with contextlib.suppress(FileNotFoundError):
            while time.time() - os.stat(path).st_mtime < 3:
                time.sleep(0.01)
            os.unlink(path)
        with super().grab(name):
            yield


# Broken where a process dies.


class AnswersTooEarly(FileStore):
    """Says that it is done, and does the last thing when it is called again."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._pending: list[Callable[[], object]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root,)

    def write(self, locator: Locator, content: str) -> Locator:
        self._flush()
        self._pending.append(lambda: FileStore.write(self, locator, content))
        return locator

    def read(self, locator: Locator) -> str:
        self._flush()
        return super().read(locator)

    def list(self, locator: Locator) -> list[Locator]:
        self._flush()
        return super().list(locator)

    def _flush(self) -> None:
        while self._pending:
            self._pending.pop(0)()


class LeavesItsLock(FileStore):
    """A lock file that only its maker takes away; whoever finds it gives up."""

    def place(self, path: str, data: bytes) -> None:
        lock = os.path.join(self.root, f"{_TEMP}lock")
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        try:
            super().place(path, data)
        finally:
            os.unlink(lock)


class WaitsForItsLock(LeavesItsLock):
    """The same, and whoever finds it waits for ever."""

    def place(self, path: str, data: bytes) -> None:
        while os.path.exists(os.path.join(self.root, f"{_TEMP}lock")):
            time.sleep(0.01)
        super().place(path, data)


class ShowsItsTemps(FileStore):
    def list(self, locator: Locator) -> list[Locator]:
        path = self.path(locator)
        names = os.listdir(path) if os.path.isdir(path) else []
        return sorted((locator.child(name) for name in names), key=lambda place: place.key)


class MovesByCopying(AbleFileStore):
    def move(self, old: str, new: str) -> None:
        if os.path.isdir(old):
            os.rename(old, new)
            return
        with open(old, "rb") as file:
            self.place(new, file.read())
        os.unlink(old)


class AppendsInPieces(AbleFileStore):
    def append(self, locator: Locator, content: str) -> Locator:
        path = self.path(locator)
        with self.alone():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "ab", buffering=0) as file:
                data = content.encode()
                file.write(data[: len(data) // 2])
                file.write(data[len(data) // 2 :])
        return locator


class RemovesInTwoSteps(AbleFileStore):
    """Empties a file before it takes it away."""

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        path = self.path(locator)
        if os.path.isfile(path) and if_version is None:
            os.truncate(path, 0)
        super().remove(locator, if_version=if_version)


class MarksNewDirectories(FileStore):
    """Puts a marker into the parent while it makes a directory."""

    def mkdir(self, locator: Locator) -> Locator:
        marker = f"{self.path(locator.parent.parent)}/making"
        with open(marker, "wb"):
            pass
        super().mkdir(locator)
        os.unlink(marker)
        return locator


class SwapsInPlace(AbleFileStore):
    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        with self.alone():
            self.check(locator, if_version)
            with open(self.path(locator), "wb") as file:
                file.write(content.encode())
        return hashlib.sha256(content.encode()).hexdigest()


class WritesManyInPlace(LockingFileStore):
    def write_many(self, *steps: Texts, **options: Any) -> None:
        for locator, content in (text for step in steps for text in step):
            os.makedirs(os.path.dirname(self.path(locator)), exist_ok=True)
            with open(self.path(locator), "wb", buffering=0) as file:
                file.write(content.encode())


class WritesManyLater(LockingFileStore):
    """Answers when the last of them is still to come."""

    def write_many(self, *steps: Texts, **options: Any) -> None:
        [texts] = steps
        *first, self.last = texts
        super().write_many(first, **options)

    def read(self, locator: Locator) -> str:
        return self.last[1] if hasattr(self, "last") and self.last[0] == locator else super().read(locator)


class MovesTheOldOnesAway(LockingFileStore):
    """Takes all the old texts out of the way before it puts the new ones there."""

    def write_many(self, *steps: Texts, **options: Any) -> None:
        for locator, _ in (text for step in steps for text in step):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(locator))
        super().write_many(*steps, **options)


# Broken flags.


class LitterInTheTree(FileStore):
    """Declares a replicated tree and keeps a lock in it, which it does not list."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sync=True)

    def place(self, path: str, data: bytes) -> None:
        super().place(path, data)
        with open(os.path.join(os.path.dirname(path), f"{_TEMP}lock"), "wb"):
            pass
