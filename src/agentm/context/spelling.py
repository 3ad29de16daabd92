"""One name, one spelling: what some file system takes for the same name is not there twice.

A store that keeps ``Visit`` and ``visit`` apart could not be copied to one that does not. So a name in lower case
stands for itself, and any other spelling first lays a claim to the lower-case one: a file ``.names/visit`` beside it
that holds ``Visit``. Whoever creates either of them looks at that one file; no folder is listed.

Who creates a node holds it, and the folders above it that are new, under their lower-case names: two spellings of one
name are never created at the same time.
"""

from __future__ import annotations

from agentm.context.names import folded
from agentm.context.reader import read_text
from agentm.context.uri import ContextUri, Folder
from agentm.errors import BoundaryError, InvalidUriError, NotTextError
from agentm.seam import Locator, StorageBackend, update

CLAIMS = ".names"


class Spellings:
    """The names on one store. Those above the nodes are remembered once they are seen to stand."""

    def __init__(self, backend: StorageBackend) -> None:
        self._backend = backend
        self._standing: set[Locator] = set()

    def unsettled(self, *addresses: ContextUri) -> set[Locator]:
        """The folders above these nodes that are not there, or not surely theirs: to be held while they are made."""
        return {place for address in addresses for place in _owners(address) if not self._stands(place)}

    def claim(self, address: ContextUri) -> None:
        """Take the names of a node that is about to be created; InvalidUriError if one has another spelling here."""
        for place in _owners(address):
            if place not in self._standing:
                self._take(place)
        if address.category != "profile":
            self._take(address.locator)

    def is_anothers(self, folder: Folder) -> bool:
        """Whether a store that folds names shows here what is somebody else's."""
        return any(not self._stands(place) and bool(self._rival(place)) for place in _owners(folder))

    def _stands(self, place: Locator) -> bool:
        if place in self._standing:
            return True
        if not self._backend.exists(place) or self._spelling(place) != place.name:
            return False
        self._standing.add(place)
        return True

    def _spelling(self, place: Locator) -> str:
        """How a name that is there is spelt. Who may not look at claims has been given the folder as it is called."""
        try:
            return self._claimed(place) or folded(place.name)
        except BoundaryError:
            return place.name

    def _take(self, place: Locator) -> None:
        if place.name == folded(place.name) and self._claimed(place) is None:
            return

        def claim(text: str | None) -> str:
            rival = self._rival(place)
            if rival:
                raise _taken(place.name, rival)
            return f"{place.name}\n"

        # Read again and swapped: one who slept through the turn must not take the name from its new owner.
        update(self._backend, _claim_place(place), claim)

    def _rival(self, place: Locator) -> str | None:
        """Another spelling of a name that is there. On a store that folds names, the claim says which of them is."""
        claimed = self._claimed(place)
        if claimed == place.name and self._backend.exists(place):
            return None
        if claimed and claimed != place.name and self._backend.exists(place.parent.child(claimed)):
            return claimed
        plain = folded(place.name)
        if place.name == plain or not self._backend.exists(place.parent.child(plain)):
            return None
        there = [other.name for other in self._backend.list(place.parent) if folded(other.name) == plain]
        return None if place.name in there else next(iter(there), None)

    def _claimed(self, place: Locator) -> str | None:
        """The spelling that a name was claimed in; None if it was not, or if somebody spoilt the claim."""
        claim = _claim_place(place)
        if not self._backend.exists(claim):
            return None  # nearly every name: told for less than an error costs
        try:
            text = read_text(self._backend, claim)
        except NotTextError:
            return None
        spelling = (text or "").removesuffix("\n")
        return spelling if spelling and folded(spelling) == folded(place.name) else None


def _claim_place(place: Locator) -> Locator:
    return place.parent.child(CLAIMS, folded(place.name))


def _owners(place: ContextUri | Folder) -> list[Locator]:
    """The folders of the account and of the user or agent."""
    account = Folder(place.account, None, ()).locator
    return [account, account.child(*place.path[:2])] if len(place.path) > 1 else [account]


def _taken(name: str, rival: str) -> InvalidUriError:
    return InvalidUriError(
        f"the name {name!r} is taken by {rival!r}, which not every store can tell from it; "
        "use that spelling, or choose another name.",
        code="uri_taken",
    )
