"""Locks on places of a store: one file for each of a fixed number of stripes, outside of every store.

A file for every place would pile up without end. Two places that share a stripe wait for each other now and then,
which is harmless, and one caller takes a stripe only once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agentm.backends._mutex import Held, Mutex
from agentm.seam.locator import Locator

_STRIPES = 4096


class AllHeld:
    """Several locks at once."""

    def __init__(self, held: list[Held]) -> None:
        self._held = held

    def ours(self) -> bool:
        return all(held.ours() for held in self._held)


class Locks:
    """The locks of one store. ``identity`` is the same for all who open that store."""

    def __init__(self, lock_root: str, identity: str, *, patience: float = 10.0) -> None:
        self._folder = os.path.join(lock_root, hashlib.sha256(os.fsencode(identity)).hexdigest()[:32])
        self._patience = patience

    @contextmanager
    def hold(self, *locators: Locator) -> Iterator[AllHeld]:
        with ExitStack() as stack:
            yield AllHeld([stack.enter_context(self._mutex(stripe).hold()) for stripe in sorted(_stripes(locators))])

    def _mutex(self, stripe: int) -> Mutex:
        return Mutex(os.path.join(self._folder, f"{stripe:03x}.lock"), patience=self._patience)


def _stripes(locators: tuple[Locator, ...]) -> set[int]:
    return {
        int.from_bytes(hashlib.sha256(os.fsencode(locator.key)).digest()[:4], "big") % _STRIPES for locator in locators
    }
