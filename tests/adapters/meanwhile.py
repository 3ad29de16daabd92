"""A store on which somebody else is faster: what they do happens between a read and the write that follows it."""

from __future__ import annotations

from collections.abc import Callable

from agentm.seam import Locator, StorageBackend, Versioned
from agentm.seam.layer import Layer


class Meanwhile(Layer):
    """Once ``happens`` is set, the next read is followed by it, once."""

    def __init__(self, inner: StorageBackend) -> None:
        super().__init__(inner)
        self.happens: Callable[[], object] | None = None

    def read(self, locator: Locator) -> str:
        text = super().read(locator)
        self._let_it_happen()
        return text

    def read_versioned(self, locator: Locator) -> Versioned:
        now = super().read_versioned(locator)
        self._let_it_happen()
        return now

    def _let_it_happen(self) -> None:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
