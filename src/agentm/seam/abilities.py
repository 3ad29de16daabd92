"""What a store may be able to do beyond the seven verbs.

Each ability is a narrow protocol of its own and one flag in `Capabilities`. The flag decides: ask for
an ability with `require(backend, Remove)` and you get the backend typed as that ability, or
UnsupportedAbilityError. A backend whose flag is False refuses the method too, if it has it.

They were weighed against a disk, a bucket with ETags, a git tree and a dict:

- a version token is opaque text (a content hash, an ETag, a blob id, a counter) and says nothing
  about order; `ABSENT` stands for "nothing there", so creating is a swap like any other
- rename is declared only where it is one step; elsewhere callers copy, verify and remove
- append is whole or not at all, and two appenders both land
- a change feed compares stamps the caller kept with those of now, so it needs no state in the store,
  no clock, and nothing is lost when the caller dies half-way
- a watcher only says "look again", never what happened
- a lock is the machine's, freed by the death of its holder; what must not come late is a swap as well
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from agentm.errors import ConcurrentModificationError, UnsupportedAbilityError
from agentm.seam.backend import StorageBackend
from agentm.seam.locator import ROOT, Locator
from agentm.seam.types import ABSENT, Change, Versioned


class Remove(Protocol):
    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        """Take a file, or an empty directory, out of the store, durably.

        - nothing there: raises FileNotFoundError
        - a directory that holds something: raises OSError (ENOTEMPTY), nothing is removed
        - the root: raises OSError
        - with ``if_version`` (where compare_and_swap is declared too): only if the file still has that
          version, else ConcurrentModificationError
        """


class Rename(Protocol):
    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        """Move a file or a whole directory in one step and return the target.

        - at every instant, also after a crash, it is in exactly one of the two places
        - missing parents of the target are made
        - nothing at the source: raises FileNotFoundError
        - something at the target: raises FileExistsError, unless both are files and ``overwrite`` is set
        - a directory into itself: raises OSError
        """


class Append(Protocol):
    def append(self, locator: Locator, content: str) -> Locator:
        """Add text at the end of a file, durably, and return the place.

        - nothing there: the file is made, parents too
        - whole or not at all, and two appenders at once both land
        """


class CompareAndSwap(Protocol):
    def read_versioned(self, locator: Locator) -> Versioned:
        """Return the text with the token of the version it is; otherwise as ``read``."""

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        """Write only if the place still has that version; return the new version's token.

        - ``if_version=ABSENT``: only if nothing is there
        - otherwise: ConcurrentModificationError whose ``current`` is the token of now (or ABSENT), and
          what stands there is untouched
        - durable and atomic as ``write``
        """


class ChangeFeed(Protocol):
    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        """Yield what differs from ``seen``, a mapping of file keys to the stamps they had.

        - a file that is new or was written since: its new stamp, to be kept for the next time
        - a file in ``seen`` (and below ``below``) that is gone: stamp None
        - what lies in folders with a name in ``skip`` is not looked at; ``seen`` holds nothing of it
        - a write MUST NOT be missed, whatever happened to clocks, sizes and mtimes; an unchanged file
          may be named once too often
        """


class Watcher(Protocol):
    def wait(self, timeout: float) -> tuple[Locator, ...]:
        """Return places to look at again, or ``()`` when the time is up. The root means: anywhere."""

    def close(self) -> None: ...

    def __enter__(self) -> Watcher: ...

    def __exit__(self, *_: object) -> None: ...


class Watch(Protocol):
    def watch(self, below: Locator = ROOT) -> Watcher:
        """Start watching a place and all below it; every later change wakes ``wait``."""


class Held(Protocol):
    def ours(self) -> bool:
        """Whether the lock is still held. Look before every step that must not come late."""


class Lock(Protocol):
    def lock(self, *locators: Locator) -> AbstractContextManager[Held]:
        """Keep out everybody else who asks for one of these places, in every thread and process of this machine.

        - it concerns only those who ask: verbs are not held up by it
        - it is freed at once when its holder dies
        - a holder that sleeps while others wait loses it after a while, and ``ours`` says so; one that is merely slow
          keeps it by looking at ``ours`` every second or so
        - several places are taken in an order of the store's own, so that two holders never wait for each other
        - the places need not exist
        - ask for everything at once: whoever holds a lock and asks for another may wait for ever, also if the two
          places are different, because a store may keep one lock for several places
        - a process forked by the holder does not hold it
        """


class WriteMany(Protocol):
    def write_many(
        self,
        *steps: Sequence[tuple[Locator, str]],
        if_versions: Mapping[Locator, str] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        """Write several texts, sharing the cost of making them durable, in one step or in several.

        - when it returns, all of them survive a power cut; each one is atomic by itself, as with ``write``
        - nothing of a step is seen before all of the step before it survives a power cut
        - ``before`` is called with the number of a step, from 0 on, before anything of it is seen; what it raises ends
          the call there
        - of two texts for one place the last one wins
        - after an error or a crash any of the texts of the step that had begun may have landed
        - with ``if_versions`` (where compare_and_swap is declared too): each place in it only if it still has that
          version (`ABSENT`: nothing), else ConcurrentModificationError; where one does not have it before the first of
          them is written, nothing is
        """


ABILITIES: dict[str, tuple[type, tuple[str, ...]]] = {
    "remove": (Remove, ("remove",)),
    "rename": (Rename, ("rename",)),
    "append": (Append, ("append",)),
    "compare_and_swap": (CompareAndSwap, ("read_versioned", "write_versioned")),
    "change_feed": (ChangeFeed, ("changes",)),
    "watch": (Watch, ("watch",)),
    "lock": (Lock, ("lock",)),
    "write_many": (WriteMany, ("write_many",)),
}
"""Flag in `Capabilities` → the protocol it declares and the methods that make it up."""

_FLAG_OF: dict[Any, str] = {protocol: flag for flag, (protocol, _) in ABILITIES.items()}

A = TypeVar("A")


def protocol_of(backend: StorageBackend) -> str:
    """The name to use for a backend in messages."""
    return str(getattr(backend, "protocol", type(backend).__name__))


def require(backend: StorageBackend, ability: type[A]) -> A:
    """The backend, typed as one of its abilities; UnsupportedAbilityError if it does not declare it."""
    flag = _FLAG_OF[ability]
    methods = ABILITIES[flag][1]
    if getattr(backend.capabilities, flag) and all(hasattr(backend, method) for method in methods):
        return backend  # type: ignore[return-value]  # the flag and the methods are the proof
    raise unsupported(protocol_of(backend), flag)


def unsupported(backend: str, flag: str) -> UnsupportedAbilityError:
    """The refusal of an ability, for `require` and for backends that have the method but not the power."""
    return UnsupportedAbilityError(
        f"{backend} does not declare {flag}; use a backend whose capabilities say {flag}=True "
        f"(agentm doctor --requires {flag} tells).",
        backend=backend,
        verb=flag,
    )


def update(
    backend: StorageBackend, locator: Locator, change: Callable[[str | None], str], *, patience: float = 30.0
) -> str:
    """Read, change and write back one text so that no other writer's change is lost.

    ``change`` gets the text of now (None if absent) and returns the new one; it is called again when
    someone else was faster, for at most ``patience`` seconds. On a store without compare-and-swap
    with one writer this is a plain read and write; one with several, and no swap, is refused. Returns the new text.
    """
    able = backend.capabilities
    if not able.compare_and_swap and not able.concurrent_writers and not able.sync:
        try:
            old = backend.read(locator)
        except FileNotFoundError:
            old = None
        new = change(old)
        if new != old:
            backend.write(locator, new)
        return new
    store = require(backend, CompareAndSwap)
    deadline = time.monotonic() + patience
    pause = 0.0005
    while True:
        old, version = _current(store, locator)
        new = change(old)
        if new == old:
            return new
        try:
            store.write_versioned(locator, new, if_version=version)
        except ConcurrentModificationError:
            if time.monotonic() > deadline:
                raise
            time.sleep(pause * random.random())
            pause = min(pause * 2, 0.05)
        else:
            return new


def _current(store: CompareAndSwap, locator: Locator) -> tuple[str | None, str]:
    try:
        now = store.read_versioned(locator)
    except FileNotFoundError:
        return None, ABSENT
    return now.content, now.version
