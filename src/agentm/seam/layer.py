"""A store around a store: everything is passed on, until a layer says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from agentm.seam.abilities import (
    Append,
    ChangeFeed,
    CompareAndSwap,
    Held,
    Lock,
    Remove,
    Rename,
    Watch,
    Watcher,
    WriteMany,
    protocol_of,
    require,
)
from agentm.seam.backend import StorageBackend
from agentm.seam.links import check_whole, folder_of, is_link
from agentm.seam.locator import ROOT, Locator
from agentm.seam.types import Capabilities, Change, Info, Versioned


class Layer(StorageBackend):
    """Passes every verb and every ability on to the store inside, which nobody gets at through it.

    One that calls places otherwise than the store inside says so in ``folder`` and ``is_link`` as well.
    """

    def __init__(self, inner: StorageBackend) -> None:
        self._inner = inner
        self.protocol = protocol_of(inner)

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def conflict_strategy(self) -> str:
        return self._inner.conflict_strategy

    @property
    def folder(self) -> str | None:
        return folder_of(self._inner)

    def is_link(self, locator: Locator) -> bool:
        return is_link(self._inner, locator)

    def check_whole(self, locator: Locator) -> None:
        check_whole(self._inner, locator)

    def resolve(self, *parts: str) -> Locator:
        return self._inner.resolve(*parts)

    def read(self, locator: Locator) -> str:
        return self._inner.read(locator)

    def write(self, locator: Locator, content: str) -> Locator:
        return self._inner.write(locator, content)

    def list(self, locator: Locator) -> list[Locator]:
        return self._inner.list(locator)

    def exists(self, locator: Locator) -> bool:
        return self._inner.exists(locator)

    def info(self, locator: Locator) -> Info:
        return self._inner.info(locator)

    def mkdir(self, locator: Locator) -> Locator:
        return self._inner.mkdir(locator)

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        require(self._inner, Remove).remove(locator, if_version=if_version)

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        return require(self._inner, Rename).rename(source, target, overwrite=overwrite)

    def append(self, locator: Locator, content: str) -> Locator:
        return require(self._inner, Append).append(locator, content)

    def read_versioned(self, locator: Locator) -> Versioned:
        return require(self._inner, CompareAndSwap).read_versioned(locator)

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        return require(self._inner, CompareAndSwap).write_versioned(locator, content, if_version=if_version)

    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        return require(self._inner, ChangeFeed).changes(seen, below, skip=skip)

    def watch(self, below: Locator = ROOT) -> Watcher:
        return require(self._inner, Watch).watch(below)

    def lock(self, *locators: Locator) -> AbstractContextManager[Held]:
        return require(self._inner, Lock).lock(*locators)

    def write_many(
        self,
        *steps: Sequence[tuple[Locator, str]],
        if_versions: Mapping[Locator, str] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        require(self._inner, WriteMany).write_many(*steps, if_versions=if_versions, before=before)
