"""What earlier imports wrote, found in the store itself, and which names are taken.

A version that an import wrote names what it was made from. Somebody may have edited or moved the memory since: then
the version lies in its history.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentm.context import history
from agentm.context.holding import QUIET_SECONDS, own_meta
from agentm.context.mending import mend
from agentm.context.names import folded
from agentm.context.node import CONTENT, RELATIONS, Meta, NodeStatus
from agentm.context.reader import is_visible, read_meta
from agentm.context.tenancy import RequestContext
from agentm.context.uri import ContextUri, Folder
from agentm.errors import NodeBrokenError
from agentm.exporting import nodes_below
from agentm.records import field, record_class
from agentm.seam import StorageBackend

ACTOR = "process:import"


@record_class(frozen=True)
class Known:
    """A memory that an import wrote: what it is now, and what it was when it was last imported."""

    uri: str
    now: Meta
    written: Meta
    shown: bool

    @property
    def edited(self) -> bool:
        """Whether somebody has changed what it says since."""
        return not says(self.now, self.written.parts.get(CONTENT, ""), self.written.tags)

    @property
    def edges(self) -> str:
        """The hash of the edges that lead away from it now."""
        return self.now.parts.get(RELATIONS, "")


def says(meta: Meta, content: str, tags: tuple[str, ...]) -> bool:
    """Whether a version has the content with this hash, and these tags."""
    return meta.parts.get(CONTENT) == content and meta.tags == tags


@record_class()
class Shelf:
    """The memories of one user or agent, as an import sees them."""

    taken: set[str] = field(default_factory=set)
    known: dict[str, Known] = field(default_factory=dict)

    def free(self, folder: Folder, slug: str) -> str:
        """The address of this name in a folder, or the next one that is free; it is taken from now on."""
        number = 1
        while folded(uri := f"{folder}/{slug if number == 1 else f'{slug}-{number}'}") in self.taken:
            number += 1
        self.taken.add(folded(uri))
        return uri


def look(backend: StorageBackend, ctx: RequestContext, owner: Folder, *, settle: bool) -> Shelf:
    """Look at every memory of an owner once; with ``settle``, what a crash left of an import is put right first."""
    shelf = Shelf()
    for address in nodes_below(backend, ctx, owner):
        try:
            meta = _meta(backend, address, settle)
        except NodeBrokenError:
            shelf.taken.add(folded(str(address)))
            continue
        shown = is_visible(backend, meta)
        written = _written(backend, address, meta)
        if shown or written or _can_come_back(backend, address, meta):
            shelf.taken.add(folded(str(address)))
        if meta is not None and written is not None:
            one = Known(str(address), meta, written, shown)
            before = shelf.known.get(written.sources[0])
            if before is None or (shown and not before.shown):
                shelf.known[written.sources[0]] = one
    return shelf


def _meta(backend: StorageBackend, address: ContextUri, settle: bool) -> Meta | None:
    meta = own_meta(address, read_meta(backend, address.locator))
    if meta is None and settle and history.places(backend, address.locator):
        mend(backend, address, quiet=QUIET_SECONDS)
        meta = own_meta(address, read_meta(backend, address.locator))
    return meta


def _written(backend: StorageBackend, address: ContextUri, meta: Meta | None) -> Meta | None:
    """The last version that an import wrote."""
    return next((one for one in _newest_first(backend, address, meta) if one.actor == ACTOR and one.sources), None)


def _newest_first(backend: StorageBackend, address: ContextUri, meta: Meta | None) -> Iterator[Meta]:
    if meta is not None and meta.status is NodeStatus.ACTIVE:
        yield meta
    if meta is not None and meta.version > 1:
        yield from (version.meta for version in reversed(history.committed(backend, address, meta)))


def _can_come_back(backend: StorageBackend, address: ContextUri, meta: Meta | None) -> bool:
    """Whether the name still belongs to a memory that was put away, or to a text that somebody put there."""
    if history.places(backend, address.locator):
        return meta is not None or not _begun(backend, address)
    return meta is None and backend.exists(address.locator.child(CONTENT))


def _begun(backend: StorageBackend, address: ContextUri) -> bool:
    """Whether this is what a crash left of an import: the name is for the same memory again."""
    found = [history.load(backend, place) for place in history.places(backend, address.locator)]
    return all(version is not None and version.meta.actor == ACTOR for version in found)
