"""Holding the nodes that are to be changed, and seeing what stands in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from agentm.context.mending import ACTOR, mend, mend_held
from agentm.context.node import Meta, NodeStatus
from agentm.context.reader import Standing, broken, kept_version, read_meta, standing
from agentm.context.spelling import Spellings
from agentm.context.summarise import Summariser
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import locked
from agentm.errors import NodeBusyError
from agentm.records import record_class
from agentm.seam import Held, StorageBackend

QUIET_SECONDS = 2.0
_ATTEMPTS = 5
_PATIENCE = 3
"""How many times ``quiet`` somebody who writes waits for an editor."""
_PAUSE = 0.05


@record_class(frozen=True)
class Hold:
    """Nodes that nobody else changes now, and what stands in them."""

    held: Held
    standing: dict[ContextUri, Standing]

    def meta(self, address: ContextUri) -> Meta | None:
        return own_meta(address, self.standing[address].meta)


@record_class(frozen=True)
class Holder:
    """Holds the nodes of one store.

    An edit made by hand is adopted before anything is written over it, once its file was left alone for ``quiet``
    seconds: what is only half saved does not become a version.
    """

    backend: StorageBackend
    spellings: Spellings
    quiet: float
    summariser: Summariser

    @contextmanager
    def hold(self, *addresses: ContextUri, even_broken: bool = False) -> Iterator[Hold]:
        """Hold nodes that are to be changed, once nothing of an earlier change is left to be done about them."""
        deadline = time.monotonic() + _PATIENCE * self.quiet
        attempts = 0
        while True:
            above = self.spellings.unsettled(*addresses)
            with locked(self.backend, *above, *(address.locator for address in addresses)) as held:
                hold = Hold(held, {address: standing(self.backend, address.locator) for address in addresses})
                unsettled = _half_moved(self.backend, hold)
                if unsettled is None:
                    edited = [one for one in addresses if not self._settle(one, hold, even_broken)]
                    if not edited:
                        yield hold
                        return
            if unsettled is None:
                _wait(edited[0], deadline)
                continue
            attempts += 1
            if attempts == _ATTEMPTS:
                raise broken(addresses[0].locator, "a move of it was begun and can be neither finished nor taken back")
            mend(self.backend, unsettled, summariser=self.summariser)

    def _settle(self, address: ContextUri, hold: Hold, even_broken: bool) -> bool:
        """Do what is left to be done about a node; what is broken is not written over. False if it is being edited."""
        found = hold.standing[address]
        if found.meta is not None and hold.meta(address) is None:
            return True  # another's: what comes next refuses it
        if found.meta is not None and found.meta.status is NodeStatus.BROKEN and not even_broken:
            raise broken(address.locator, "repair could not make it whole; look at its files, or undo")
        if found.meta is None and not found.files:
            return True
        if not self._is_settled(address, found):
            mend_held(self.backend, address, hold.held, actor=ACTOR, quiet=self.quiet, summariser=self.summariser)
            found = hold.standing[address] = standing(self.backend, address.locator)
        return found.meta is None or found.meta.status is not NodeStatus.ACTIVE or found.sound()

    def _is_settled(self, address: ContextUri, found: Standing) -> bool:
        """Whether it is shown, whole, and in the history too: what the history lacks, the next version would bury."""
        if found.meta is None or found.meta.status is not NodeStatus.ACTIVE or not found.sound():
            return False
        return not found.meta.parts or kept_version(self.backend, address.locator, found.meta) is not None


def _wait(address: ContextUri, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise NodeBusyError(
            f"the files of {address} are being edited by hand; try again in a moment.", locator=address.locator.key
        )
    time.sleep(_PAUSE)


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


def own_meta(uri: ContextUri, meta: Meta | None) -> Meta | None:
    """The meta found at an address; not that of another's node, which a store that folds names shows there too."""
    return meta if meta is not None and meta.uri == str(uri) else None
