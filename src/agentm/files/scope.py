"""What may be read and what may be written: prefixes of paths, and a floor that nothing lifts.

Whole names are compared: ``/a/b`` covers ``/a/b`` and all below it, never ``/a/bc``. What is denied is denied in every
spelling that some disk takes for the same; what is allowed is allowed in the given one only.
"""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Iterable, Sequence
from copy import copy
from functools import lru_cache

from agentm.errors import BoundaryError, InvalidPathError, ReachError
from agentm.files.base import check_path, segments

READ, WRITE = "read", "write"

DENIED = (
    "~/.ssh",
    "~/.aws",
    "~/.azure",
    "~/.gnupg",
    "~/.kube",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.docker/config.json",
    "~/.git-credentials",
    "~/.netrc",
    "~/.npmrc",
    "~/.password-store",
    "~/.pgpass",
    "~/.pypirc",
    "~/Library/Keychains",
    "/etc",
    "/private/etc",
    "/proc",
    "/run/secrets",
    "/sys",
)
"""The floor: where keys and the machine's own settings are. No tool of an agent has any business there."""

Names = tuple[str, ...]

_LOOK_AGAIN = 1.0  # seconds


class ScopedStorageScope:
    """Where a storage may read and where it may write.

    :param read: paths that may be read, with all below them
    :param write: paths that may be written; being allowed to write is not being allowed to read
    :param always_deny: what is denied besides `DENIED`, whatever is allowed
    """

    def __init__(
        self, read: Sequence[str] = (), write: Sequence[str] = (), always_deny: Sequence[str] | None = None
    ) -> None:
        self.read = _prefixes("read", read)
        self.write = _prefixes("write", write)
        self._given = _prefixes("always_deny", always_deny or ())
        self.always_deny = (*_floor(), *self._given)
        self._allowed = {READ: [segments(one) for one in self.read], WRITE: [segments(one) for one in self.write]}
        self._denied = _Denied(self.always_deny, self.always_deny)

    def for_places(self) -> ScopedStorageScope:
        """The same for places of a store, which are no paths of this machine: the floor is about where files lie."""
        scope = copy(self)
        scope.always_deny = self._given
        scope._denied = _Denied(self._given)
        return scope

    @property
    def roots(self) -> list[str]:
        """The prefixes that may be taken for what they lead to, also if they are links.

        Not those within what may be written: whoever the scope is for could put something else in their place.
        """
        every = {one: segments(one) for one in (*self.read, *self.write)}
        return [one for one, names in every.items() if not names or not self.covers(WRITE, names[:-1])]

    def check(self, kind: str, path: str) -> str:
        """The path in its plain form if it may be read or written, else BoundaryError."""
        names = self._names(kind, path)
        plain = "/" + "/".join(names)
        if self.is_denied(plain):
            raise self.refusal(kind, path, "always-deny floor")
        if not self.covers(kind, names):
            raise self.refusal(kind, path)
        return plain

    def check_whole(self, kind: str, path: str) -> str:
        """As ``check``, for what takes along all below the path: nothing of that may be denied."""
        plain = self.check(kind, path)
        if self.is_denied(plain, whole=True):
            raise self.refusal(kind, path, "always-deny floor")
        return plain

    def check_move(self, source: str, target: str) -> tuple[str, str]:
        """Both ends of a move may be written; and what could not be read before cannot be read after it."""
        old, new = self.check_whole(WRITE, source), self.check_whole(WRITE, target)
        shown = self.covers(READ, segments(new)) or self.leads_to(READ, segments(new))
        if shown and not self.covers(READ, segments(old)):
            raise self.refusal(READ, source)
        return old, new

    def covers(self, kind: str, names: Names) -> bool:
        """Whether a prefix leads to these names."""
        return any(names[: len(prefix)] == prefix for prefix in self._allowed[kind])

    def leads_to(self, kind: str, names: Names) -> bool:
        """Whether these names lie on the way to something that is allowed."""
        return any(prefix[: len(names)] == names for prefix in self._allowed[kind])

    def is_denied(self, path: str, *, whole: bool = False) -> bool:
        """Whether the floor covers a path, in any spelling; with ``whole`` also whether it lies below the path."""
        return _is_denied(self._denied.names(), path, whole)

    def refusal(self, kind: str, path: str, why: str = "outside the scope") -> BoundaryError:
        return BoundaryError(kind, path, self.read if kind == READ else self.write, why)

    def _names(self, kind: str, path: str) -> Names:
        if isinstance(path, str) and "\0" in path:
            raise self.refusal(kind, path)
        return segments(check_path(path))

    def __repr__(self) -> str:
        return f"ScopedStorageScope(read={list(self.read)}, write={list(self.write)})"


class _Denied:
    """The names that are denied. What a link leads to is denied with the link, and links are made and turned while a
    scope is in use: where they lead is looked at again, though not for every path that is asked for.

    :param lying: those of them that are paths of this machine
    """

    def __init__(self, paths: Iterable[str], lying: Iterable[str] = ()) -> None:
        self._given = frozenset(_folded(segments(one)) for one in paths)
        self._lying = tuple(lying)
        self._look()

    def names(self) -> frozenset[Names]:
        if time.monotonic() >= self._until:
            self._look()
        return self._names

    def _look(self) -> None:
        self._names = self._given | _real(self._lying)
        self._until = time.monotonic() + _LOOK_AGAIN


def check_scope(scope: object) -> ScopedStorageScope:
    """A scope, or ReachError."""
    if not isinstance(scope, ScopedStorageScope):
        raise ReachError(f"a scope is needed, not {scope!r}; pass ScopedStorageScope(read=[...], write=[...]).")
    return scope


def _prefixes(what: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ReachError(f"{what} is {given!r}, not a list of paths; write [{given!r}].")
    found = []
    for path in given:
        try:
            names = check_path(path).split("/")
        except InvalidPathError as cause:
            raise ReachError(f"{what} holds what is no path: {cause.message}") from cause
        if ".." in names or "." in names:
            raise ReachError(f"{what} holds {path!r}, which goes up or nowhere; write the path that it leads to.")
        found.append(path)
    return tuple(found)


def _floor() -> tuple[str, ...]:
    """The floor with every home of this user in it."""
    homes = [home.rstrip("/") for home in sorted(_homes())]
    return tuple(start + one.removeprefix("~") for one in DENIED for start in (homes if one[0] == "~" else [""]))


def _homes() -> set[str]:
    """Where this user's keys may be: the environment is anybody's to change, the system's own word is not."""
    homes = {os.path.expanduser("~")}
    try:
        import pwd

        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # a system without such a list, or a user who is not in it
        pass
    return {home for home in homes if home.startswith("/")}


def _real(paths: Iterable[str]) -> set[Names]:
    """Where denied places really are: what a link leads to is denied with the link."""
    return {_folded(segments(os.path.realpath(path))) for path in paths if os.path.lexists(path)}


@lru_cache(maxsize=4096)  # asked of every path that is used, and of where it really is
def _is_denied(denied: frozenset[Names], path: str, whole: bool) -> bool:
    names = _folded(segments(path))
    longest = max(map(len, denied), default=0)
    if any(names[:count] in denied for count in range(min(len(names), longest) + 1)):
        return True
    return whole and any(one[: len(names)] == names for one in denied)


def _folded(names: Names) -> Names:
    """One form for all spellings that some disk takes for the same, as far as names and their order go."""
    folded = (name.lower() if name.isascii() else _plain(name) for name in names)
    return tuple(name.rstrip(". ") or name for name in folded)


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())
