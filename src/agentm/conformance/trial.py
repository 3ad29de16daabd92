"""What a check is given: a backend, and a place of its own in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from agentm.conformance.expect import Failed, describe
from agentm.conformance.oracles import Oracle, oracle_for
from agentm.records import field, record_class
from agentm.seam import Capabilities, DerivedMaintenance, Locator, Remove, StorageBackend, TierLayout, require


def scratch_prefix() -> str:
    """A name that nobody has used, so that a run may share a store with somebody's memory."""
    return f"agentm-conformance-{os.urandom(6).hex()}"


@record_class(frozen=True, slots=False)
class Setup:
    """How one run makes backends and what it was told about them."""

    make_backend: Callable[[], StorageBackend]
    derived_layout: TierLayout | None = None
    include_routing: bool = False
    maintenance: Callable[[StorageBackend], DerivedMaintenance] | None = None
    reopen: Callable[[StorageBackend], StorageBackend] | None = None
    oracle: Oracle | None = None
    processes: bool = True
    crashes: bool = True
    tidy: bool = True
    """Whether to remove what the checks wrote; needless when the whole store is thrown away."""
    prefix: str = field(default_factory=scratch_prefix)


def open_backend(setup: Setup) -> StorageBackend:
    """Make a backend, or say in one sentence why there is none."""
    try:
        backend = setup.make_backend()
    except Exception as cause:
        raise Failed(f"opening the backend raised {describe(cause)}") from cause
    if not isinstance(backend, StorageBackend):
        raise Failed(f"make_backend gave {type(backend).__name__}, which does not derive from StorageBackend")
    return backend


def close_backend(backend: StorageBackend) -> None:
    """Backends need no closing; one that has something to close is closed."""
    close = getattr(backend, "close", None)
    if callable(close):
        with suppress(Exception):
            close()


class Trial:
    """One check's backend and scratch directory, both gone when the check ends."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.setup = setup
        self.backend = open_backend(setup)
        self.scratch = Locator(setup.prefix).child(name)
        self.oracle = setup.oracle or oracle_for(self.backend)

    @property
    def capabilities(self) -> Capabilities:
        return self.backend.capabilities

    @property
    def raw(self) -> Callable[[Locator], bytes | None] | None:
        """The bytes that a text should have in the store, seen past the backend; None if nothing can tell."""
        oracle = self.oracle
        if oracle is None or self.capabilities.encryption:
            return None
        return lambda locator: oracle(self.backend, locator)

    def at(self, key: str = "") -> Locator:
        """A place in the scratch directory."""
        return self.scratch.child(key)

    def put(self, key: str, content: str) -> Locator:
        """Write a text into the scratch directory."""
        place = self.at(key)
        self.backend.write(place, content)
        return place

    def keys(self, key: str = "") -> list[str]:
        """The keys that ``list`` shows below a place, from the scratch directory on."""
        return [child.key.removeprefix(f"{self.scratch.key}/") for child in self.backend.list(self.at(key))]

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # A backend that just failed a check may fail here as well; the check has said so already.
        with suppress(Exception):
            if self.setup.tidy and self.capabilities.remove:
                remove_tree(self.backend, self.scratch)
                require(self.backend, Remove).remove(self.scratch.parent)
        close_backend(self.backend)


def remove_tree(backend: StorageBackend, top: Locator) -> None:
    """Remove a place and everything below it, as far as the backend can."""
    if not backend.exists(top):
        return
    for child in backend.list(top) if backend.info(top).is_dir else ():
        remove_tree(backend, child)
    require(backend, Remove).remove(top)


def snapshot(backend: StorageBackend, top: Locator) -> dict[str, str | None]:
    """Everything below a place, by key from there on: a file's text, None for a directory."""
    found: dict[str, str | None] = {}
    start = len(top.key) + 1 if top.key else 0
    for child in backend.list(top):
        if backend.info(child).is_dir:
            found[child.key[start:]] = None
            for key, text in snapshot(backend, child).items():
                found[f"{child.key[start:]}/{key}"] = text
        else:
            found[child.key[start:]] = backend.read(child)
    return found
