"""Locks on places of a store: one file for each of a fixed number of stripes, outside of every store.

A file for every place would pile up without end, and whoever locks a thousand places would need as many descriptors.
Two places that share a stripe wait for each other now and then, which is harmless, and one caller takes a stripe only
once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agentm.backends._mutex import Held, Mutex
from agentm.errors import LockTimeoutError, LockUnavailableError, could_not, store_error
from agentm.seam.locator import Locator

_STRIPES = 128


class AllHeld:
    """Several locks at once."""

    def __init__(self, held: list[Held]) -> None:
        self._held = held

    def ours(self) -> bool:
        return all(held.ours() for held in self._held)


class Locks:
    """The locks of one store. ``identity`` is the same for all who open that store."""

    def __init__(self, lock_root: str, identity: str, *, backend: str, patience: float = 10.0) -> None:
        self._folder = os.path.join(lock_root, hashlib.sha256(os.fsencode(identity)).hexdigest()[:32])
        self._backend = backend
        self._patience = patience

    @contextmanager
    def hold(self, *locators: Locator) -> Iterator[AllHeld]:
        stripes = {_stripe(locator): locator for locator in locators}
        while True:
            with ExitStack() as stack:
                held = AllHeld([self._take(stack, stripe, stripes[stripe]) for stripe in sorted(stripes)])
                # Waiting for one of them is sleeping on the others, which may be lost by now.
                if held.ours():
                    yield held
                    return

    def _take(self, stack: ExitStack, stripe: int, locator: Locator) -> Held:
        mutex = Mutex(os.path.join(self._folder, f"{stripe:02x}.lock"), patience=self._patience)
        try:
            return stack.enter_context(mutex.hold())
        except (LockTimeoutError, LockUnavailableError) as cause:
            timed_out = isinstance(cause, LockTimeoutError)
            fix = "end or resume it" if timed_out else "mend that, or set XDG_CACHE_HOME to a folder you can write to"
            raise type(cause)(
                f"{could_not(self._backend, 'lock', locator.key)}: {cause}; {fix}.",
                errno=cause.errno,
                backend=self._backend,
                verb="lock",
                locator=locator.key,
            ) from cause
        except OSError as cause:
            raise store_error(cause, backend=self._backend, verb="lock", locator=locator.key) from cause


def _stripe(locator: Locator) -> int:
    return int.from_bytes(hashlib.sha256(locator.key.encode("utf-8", "surrogatepass")).digest()[:8], "big") % _STRIPES
