"""Where something is in a store: a normalised key, never a file-system path."""

from __future__ import annotations

from collections.abc import Collection

from agentm.errors import InvalidLocatorError
from agentm.records import record_class


def normalize_key(key: str) -> str:
    """Return the canonical form of a key, or raise InvalidLocatorError.

    - empty segments and ``.`` are dropped, so a leading ``/`` becomes relative
    - ``..``, a backslash or a NUL is refused: a key never leaves its store
    - everything else is kept and joined with ``/``
    """
    if not isinstance(key, str):
        raise InvalidLocatorError(f"a key is text, not {type(key).__name__}; pass a str such as 'notes/today.md'.")
    if "\\" in key or "\0" in key:
        raise InvalidLocatorError(
            f"the key {key!r} holds a backslash or NUL; separate segments with '/' and leave those out.", locator=key
        )
    parts = [part for part in key.split("/") if part and part != "."]
    if ".." in parts:
        raise InvalidLocatorError(
            f"the key {key!r} holds '..'; write the key from the root of the store instead.", locator=key
        )
    return "/".join(parts)


def _is_plain(part: str) -> bool:
    return (
        isinstance(part, str)
        and part not in ("", ".", "..")
        and "/" not in part
        and "\\" not in part
        and "\0" not in part
    )


@record_class(frozen=True)
class Locator:
    """A place in some backend's namespace. Hashable, comparable, and it never touches a disk."""

    key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", normalize_key(self.key))

    @property
    def parts(self) -> tuple[str, ...]:
        """The segments of the key; ``()`` at the root."""
        return tuple(self.key.split("/")) if self.key else ()

    @property
    def name(self) -> str:
        """The last segment; ``""`` at the root."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> Locator:
        """The place one level up; the root is its own parent."""
        return Locator(self.key.rpartition("/")[0])

    def child(self, *parts: str) -> Locator:
        """A place below this one; each part is normalised and cannot climb."""
        if len(parts) == 1 and self.key and _is_plain(parts[0]):
            # What is normal already is put together as it is: most places are reached this way.
            place = object.__new__(Locator)
            object.__setattr__(place, "key", f"{self.key}/{parts[0]}")
            return place
        return Locator("/".join((self.key, *parts)))

    def __str__(self) -> str:
        return self.key


ROOT = Locator()


def lies_in(key: str, folders: Collection[str]) -> bool:
    """Whether a key leads through a folder with one of these names."""
    return any(part in folders for part in key.split("/")[:-1])
