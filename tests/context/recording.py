"""A store that writes down every change made to it, and can be told to fail or to die at one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentm import Capabilities, Info, Locator, StorageBackend

_CHANGES = ("append", "remove", "rename", "write_versioned")


class Died(BaseException):
    """The process ends here, as far as the code under test can tell."""


class Recording(StorageBackend):
    """Passes everything on. ``changes`` holds (verb, key) of what was asked, in order."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.protocol = inner.protocol
        self.changes: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda verb, key: None
        """Called before each change; what it raises is what the change does instead."""

    def names(self) -> list[str]:
        """The last segments of what was changed."""
        return [key.rpartition("/")[2] for _, key in self.changes]

    def note(self, verb: str, locator: Locator) -> None:
        self.before(verb, locator.key)
        self.changes.append((verb, locator.key))

    def resolve(self, *parts: str) -> Locator:
        return self.inner.resolve(*parts)

    def read(self, locator: Locator) -> str:
        return self.inner.read(locator)

    def write(self, locator: Locator, content: str) -> Locator:
        self.note("write", locator)
        return self.inner.write(locator, content)

    def list(self, locator: Locator) -> list[Locator]:
        return self.inner.list(locator)

    def exists(self, locator: Locator) -> bool:
        return self.inner.exists(locator)

    def info(self, locator: Locator) -> Info:
        return self.inner.info(locator)

    def mkdir(self, locator: Locator) -> Locator:
        self.note("mkdir", locator)
        return self.inner.mkdir(locator)

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def write_many(self, *steps: Any, if_versions: Any = None, before: Any = None) -> None:
        """One by one, so that it can fail or die at each of them."""
        versions = dict(if_versions or {})
        for number, step in enumerate(steps):
            if before is not None:
                before(number)
            for place, text in step:
                if place in versions:
                    self.write_versioned(place, text, if_version=versions.pop(place))
                else:
                    self.write(place, text)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in _CHANGES:
            return method

        def change(locator: Locator, *args: Any, **options: Any) -> Any:
            self.note("write" if name == "write_versioned" else name, locator)
            return method(locator, *args, **options)

        return change


def dies_at(number: int) -> Callable[[str, str], None]:
    """Ends the process at the change with this number, and at every later one: a dead process cleans nothing up."""
    left = [number]

    def before(verb: str, key: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Died

    return before
