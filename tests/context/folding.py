"""A store that cannot tell names apart which differ in case or in how their letters are composed."""

from __future__ import annotations

from typing import Any

from agentm import Locator, MemoryBackend
from agentm.context.names import folded
from agentm.seam import ROOT, Held
from tests.context.recording import Recording


class Folding(Recording):
    """As file systems do that ignore case: a name keeps the spelling it was created in, and any other finds it."""

    def __init__(self) -> None:
        super().__init__(MemoryBackend())

    def real(self, locator: Locator) -> Locator:
        """The place as it is spelt in the store, as far as it is there."""
        found = ROOT
        for part in locator.parts:
            there = {folded(child.name): child.name for child in self.inner.list(found)}
            found = found.child(there.get(folded(part), part))
        return found

    def read(self, locator: Locator) -> str:
        return super().read(self.real(locator))

    def write(self, locator: Locator, content: str) -> Locator:
        return super().write(self.real(locator), content)

    def list(self, locator: Locator) -> list[Locator]:
        return [locator.child(found.name) for found in super().list(self.real(locator))]

    def exists(self, locator: Locator) -> bool:
        return super().exists(self.real(locator))

    def info(self, locator: Locator) -> Any:
        return super().info(self.real(locator))

    def mkdir(self, locator: Locator) -> Locator:
        return super().mkdir(self.real(locator))

    def lock(self, *locators: Locator) -> Any:
        # By the key as it is given, as the built-in stores do: folding is for those who lock.
        held: Held = self.inner.lock(*locators)
        return held

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if name not in ("remove", "read_versioned", "write_versioned"):
            return method
        return lambda locator, *args, **options: method(self.real(locator), *args, **options)
