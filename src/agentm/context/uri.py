"""Addresses of memories: ``ctx://`` URIs, the places they map to on any store, and back.

    ctx://{account}/users/{user}/memories/{category}/{slug}
    ctx://{account}/agents/{agent}/memories/{category}/{slug}
    ctx://{account}/agents/{agent}/skills/{name}
    ctx://{account}/users/{user}/memories/profile          (agents alike)

A place is ``accounts/`` and the rest of the URI, unchanged.
"""

from __future__ import annotations

from functools import lru_cache

from agentm.context.names import checked_name
from agentm.errors import InvalidUriError
from agentm.records import record_class
from agentm.seam.locator import Locator

SCHEME = "ctx://"
ACCOUNTS = "accounts"
CATEGORIES = ("profile", "preferences", "entities", "events", "cases", "patterns", "skills")
_CATEGORY_DEPTH = 4
_KINDS = {"users": "user", "agents": "agent"}


@record_class(frozen=True)
class ContextUri:
    """The address of one node."""

    account: str
    owner_space: str
    """``user:{id}`` or ``agent:{id}``."""
    category: str
    path: tuple[str, ...]
    """Everything behind the account."""

    @property
    def context_type(self) -> str:
        return "SKILL" if self.path[2] == "skills" else "MEMORY"

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def locator(self) -> Locator:
        return Locator("/".join((ACCOUNTS, self.account, *self.path)))

    def __str__(self) -> str:
        return f"{SCHEME}{self.account}/{'/'.join(self.path)}"


@record_class(frozen=True)
class Folder:
    """A place that holds nodes, or further folders: what `list_children` is asked about."""

    account: str
    owner_space: str | None
    """None above the spaces of users and agents."""
    path: tuple[str, ...]

    @property
    def locator(self) -> Locator:
        return Locator("/".join((ACCOUNTS, self.account, *self.path)))

    def __str__(self) -> str:
        return "/".join((f"{SCHEME}{self.account}", *self.path))


def parse_uri(text: str) -> ContextUri:
    """The address that a text means; InvalidUriError with the shape that was expected."""
    found = parse_place(text)
    if isinstance(found, Folder):
        raise InvalidUriError(
            f"{text!r} is a folder, not a memory; add what is missing, as in "
            "ctx://acme/users/alice/memories/events/first-visit."
        )
    return found


def parse_place(text: str) -> ContextUri | Folder:
    """The node or the folder that a text means."""
    if not isinstance(text, str) or not text.startswith(SCHEME):
        raise InvalidUriError(f"{text!r} does not begin with ctx://; write ctx://account/users/name/memories/….")
    return _parsed(text)


@lru_cache(maxsize=2048)  # every step of a change asks for the same few
def _parsed(text: str) -> ContextUri | Folder:
    account, *path = text[len(SCHEME) :].rstrip("/").split("/")
    return place_of(checked_name(account, "account"), tuple(path))


def uri_of(locator: Locator) -> ContextUri:
    """The address of the node at a place of the store."""
    if locator.parts[:1] != (ACCOUNTS,) or len(locator.parts) < 2:
        raise InvalidUriError(f"{locator.key!r} is not the place of a memory; those lie below 'accounts/'.")
    found = place_of(locator.parts[1], locator.parts[2:])
    if isinstance(found, Folder):
        raise InvalidUriError(f"{locator.key!r} is a folder, not a memory; name what lies in it.")
    return found


def child_of(folder: Folder, name: str) -> ContextUri | Folder:
    """What has this name right below a folder."""
    if folder.owner_space is None or len(folder.path) != _CATEGORY_DEPTH:
        return place_of(folder.account, (*folder.path, name))
    # Most names of a store: only this one has to be looked at.
    path = (*folder.path, checked_name(name, "slug"))
    return ContextUri(folder.account, folder.owner_space, folder.path[-1], path)


def place_of(account: str, path: tuple[str, ...]) -> ContextUri | Folder:
    if not path:
        return Folder(account, None, ())
    kind = _one_of(path[0], tuple(_KINDS), "kind of space")
    if len(path) == 1:
        return Folder(account, None, path)
    owner = f"{_KINDS[kind]}:{checked_name(path[1], _KINDS[kind])}"
    sections = ("memories", "skills") if kind == "agents" else ("memories",)
    if len(path) == 2:
        return Folder(account, owner, (kind, owner.partition(":")[2]))
    section = _one_of(path[2], sections, "section")
    head = (kind, owner.partition(":")[2], section)
    return _in_section(account, owner, head, path[3:])


def _in_section(account: str, owner: str, head: tuple[str, ...], rest: tuple[str, ...]) -> ContextUri | Folder:
    if not rest:
        return Folder(account, owner, head)
    if head[2] == "skills":
        _no_more(rest, 1)
        return ContextUri(account, owner, "skills", (*head, checked_name(rest[0], "skill name")))
    category = _one_of(rest[0], CATEGORIES, "category")
    if category == "profile":
        _no_more(rest, 1)
        return ContextUri(account, owner, category, (*head, category))
    if len(rest) == 1:
        return Folder(account, owner, (*head, category))
    _no_more(rest, 2)
    return ContextUri(account, owner, category, (*head, category, checked_name(rest[1], "slug")))


def _one_of(word: str, known: tuple[str, ...], what: str) -> str:
    if word in known:
        return word
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"it is one of {', '.join(known)}."
    raise InvalidUriError(f"there is no {what} {word!r}; {hint}")


def _no_more(rest: tuple[str, ...], most: int) -> None:
    if len(rest) > most:
        raise InvalidUriError(f"the URI goes on behind the memory ({'/'.join(rest[most:])!r}); leave that out.")
