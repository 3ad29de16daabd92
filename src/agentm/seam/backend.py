"""The contract by which memory reaches a store.

A backend implements seven verbs and says what it can promise. Nothing here touches a disk, and no
verb takes or returns a file-system path. A third party who writes only this class conforms;
`agentm conformance` proves it. What else a store may be able to do is in `agentm.seam.abilities`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from agentm.seam.locator import Locator
from agentm.seam.types import Capabilities, Info


class StorageBackend(ABC):
    """A tree of UTF-8 texts, addressed by `Locator`.

    For every verb: a failure of the store is an OSError and leaves the store as it was, and a text
    crosses byte for byte (no newline is translated, none is added).
    """

    @abstractmethod
    def resolve(self, *parts: str) -> Locator:
        """Name a place. Touches nothing.

        - no parts: the root
        - parts are joined with ``/`` and normalised; ``Locator("/".join(parts))`` does it
        - ``..``, a backslash or a NUL: raises InvalidLocatorError
        """

    @abstractmethod
    def read(self, locator: Locator) -> str:
        """Return the text at a place.

        - nothing there: raises FileNotFoundError
        - a directory: raises IsADirectoryError
        - bytes that are not UTF-8: raises, never returns something else
        """

    @abstractmethod
    def write(self, locator: Locator, content: str) -> Locator:
        """Put a text at a place and return the place.

        - MUST be atomic: a reader, also after a crash, sees the whole old text or the whole new one
        - MUST be durable: when it returns, the text survives a power cut
        - missing parents are made
        - a directory there: raises IsADirectoryError
        """

    @abstractmethod
    def list(self, locator: Locator) -> list[Locator]:
        """Return the immediate children, sorted by key.

        - an empty directory, a file, or nothing there: ``[]``, never an error
        - whatever the backend keeps for itself (temporary files, locks) MUST NOT appear
        """

    @abstractmethod
    def exists(self, locator: Locator) -> bool:
        """Say whether a file or a directory is there. The root always exists."""

    @abstractmethod
    def info(self, locator: Locator) -> Info:
        """Return size and time of a place.

        - size is in bytes, 0 for a directory
        - nothing there: raises FileNotFoundError
        """

    @abstractmethod
    def mkdir(self, locator: Locator) -> Locator:
        """Make sure a directory is there, parents included, and return it.

        - a directory there already: not an error
        - a file there: raises an OSError
        """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend promises. It MUST be true of this very instance."""

    @property
    def conflict_strategy(self) -> str:
        """How divergent writes are reconciled: ``"none"`` (the last one wins) unless overridden."""
        return "none"
