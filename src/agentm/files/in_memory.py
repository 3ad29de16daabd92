"""Files that live in this process, for tests: nothing to set up, nothing to clean away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agentm.backends.memory import MemoryBackend
from agentm.files.backend import BackendStorage

T = TypeVar("T")


class InMemoryStorage(BackendStorage):
    """Files in a dictionary. A folder is there as soon as something is in it."""

    def __init__(self) -> None:
        super().__init__(MemoryBackend())

    async def _run(self, call: Callable[[], T]) -> T:
        return call()  # nothing here waits, so no thread is worth its while
