"""Holding the nodes that are to be changed, and seeing what stands in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentm.context.mending import mend, mend_held
from agentm.context.node import Meta, NodeStatus
from agentm.context.reader import Standing, broken, read_meta, standing
from agentm.context.spelling import Spellings
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import locked
from agentm.seam import Held, StorageBackend

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Hold:
    """Nodes that nobody else changes now, and what stands in them."""

    held: Held
    standing: dict[ContextUri, Standing]

    def meta(self, address: ContextUri) -> Meta | None:
        return own_meta(address, self.standing[address].meta)


@contextmanager
def holding(
    backend: StorageBackend, spellings: Spellings, *addresses: ContextUri, even_broken: bool = False
) -> Iterator[Hold]:
    """Hold nodes that are to be changed, once nothing of an earlier change is left to be done about them."""
    for _ in range(_ATTEMPTS):
        above = spellings.unsettled(*addresses)
        with locked(backend, *above, *(address.locator for address in addresses)) as held:
            hold = Hold(held, {address: standing(backend, address.locator) for address in addresses})
            unsettled = _half_moved(backend, hold)
            if unsettled is None:
                for address in addresses:
                    _settle(backend, address, hold, even_broken)
                yield hold
                return
        mend(backend, unsettled)
    raise broken(addresses[0].locator, "a move of it was begun and can be neither finished nor taken back")


def _half_moved(backend: StorageBackend, hold: Hold) -> ContextUri | None:
    """The target of a move that was cut short and concerns one of these nodes."""
    for address in hold.standing:
        meta = hold.meta(address)
        if meta is None or meta.other_uri is None:
            continue
        if meta.status is NodeStatus.PENDING:
            return address
        other = parse_uri(meta.other_uri)
        arrived = read_meta(backend, other.locator)
        if arrived is not None and arrived.status is NodeStatus.PENDING and arrived.other_uri == meta.uri:
            return other
    return None


def _settle(backend: StorageBackend, address: ContextUri, hold: Hold, even_broken: bool) -> None:
    """Keep what was edited by hand before something is written over it; what is broken is not written over."""
    found = hold.standing[address]
    if found.meta is None and found.files:
        _mend(backend, address, hold)  # a first write that was cut short
        return
    if found.meta is None or hold.meta(address) is None:
        return
    if found.meta.status is NodeStatus.BROKEN and not even_broken:
        raise broken(address.locator, "repair could not make it whole; look at its files, or undo")
    if found.meta.status is NodeStatus.ACTIVE and not found.sound():
        _mend(backend, address, hold)


def _mend(backend: StorageBackend, address: ContextUri, hold: Hold) -> None:
    mend_held(backend, address, hold.held, actor="process:agentm")
    hold.standing[address] = standing(backend, address.locator)


def own_meta(uri: ContextUri, meta: Meta | None) -> Meta | None:
    """The meta found at an address; not that of another's node, which a store that folds names shows there too."""
    return meta if meta is not None and meta.uri == str(uri) else None
