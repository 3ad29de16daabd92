"""Protocol names and the backend classes behind them."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import Any

from agentm.errors import BackendLoadError, BackendTypeError, ProtocolError
from agentm.seam.backend import StorageBackend

ENTRY_POINT_GROUP = "agentm.backends"

# Names only: a built-in is imported when it is asked for, exactly like a third party's entry point.
BUILT_IN = {
    "device-local": "agentm.backends.device_local:DeviceLocalBackend",
    "memory": "agentm.backends.memory:MemoryBackend",
    "sqlite": "agentm.backends.sqlite:SqliteBackend",
    "vault": "agentm.backends.vault:VaultBackend",
}


class BackendRegistry:
    """Maps protocol names to backend classes. Instances share nothing.

    Registering badly is loud; a name that is not there is merely absent, and the caller decides
    whether that is fatal.
    """

    def __init__(self) -> None:
        self._classes: dict[str, type[StorageBackend]] = {}

    def register(self, protocol: str, backend: type[StorageBackend], *, clobber: bool = False) -> None:
        """Put a concrete backend class under a name.

        Raises TypeError for an instance, a class that is no backend, or an abstract one, and ProtocolError
        for an empty name or, unless ``clobber``, one that is taken.
        """
        _check_class(protocol, backend)
        if not isinstance(protocol, str) or not protocol.strip():
            raise ProtocolError(f"a protocol name is a non-empty text, not {protocol!r}; give the backend a name.")
        if not clobber and protocol in self:
            raise ProtocolError(
                f"the protocol {protocol!r} is already registered; choose another name, or pass clobber=True."
            )
        self._classes[protocol] = backend

    def get(self, protocol: str) -> type[StorageBackend] | None:
        """The class registered under a name, or None."""
        return self._classes.get(protocol)

    def __contains__(self, protocol: object) -> bool:
        return isinstance(protocol, str) and self.get(protocol) is not None

    def protocols(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._classes))


class _DefaultRegistry(BackendRegistry):
    """The process-wide registry: what was registered, the built-ins, then installed plugins.

    Entry points are read only when a name is in neither of the first two, because finding them costs
    more than starting Python.
    """

    def get(self, protocol: str) -> type[StorageBackend] | None:
        found = super().get(protocol)
        if found is None and protocol in BUILT_IN:
            found = self._classes[protocol] = _load(protocol, BUILT_IN[protocol])
        if found is None:
            target = _entry_points().get(protocol)
            if target is not None:
                found = self._classes[protocol] = _load(protocol, target)
        return found

    def __contains__(self, protocol: object) -> bool:
        # Knowing a name must not import what is behind it.
        if not isinstance(protocol, str):
            return False
        return protocol in self._classes or protocol in BUILT_IN or protocol in _entry_points()

    def protocols(self) -> tuple[str, ...]:
        return tuple(sorted({*self._classes, *BUILT_IN, *_entry_points()}))


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(protocol: str, target: str) -> type[StorageBackend]:
    module, _, attribute = target.partition("[")[0].strip().partition(":")  # extras may follow in brackets
    try:
        backend: Any = reduce(getattr, attribute.split("."), import_module(module))
    except (Exception, SystemExit) as cause:  # a plugin may fail in any way while it is imported
        raise BackendLoadError(
            f"the backend {protocol!r} ({target}) cannot be imported: {cause}; reinstall the package that provides it.",
            backend=protocol,
        ) from cause
    _check_class(protocol, backend)
    return backend  # type: ignore[no-any-return]


def _check_class(protocol: str, backend: object) -> None:
    if not isinstance(backend, type) or not issubclass(backend, StorageBackend):
        raise BackendTypeError(
            f"{protocol!r} needs a class derived from StorageBackend, not {backend!r}; "
            "register the class, not an instance."
        )
    if getattr(backend, "__abstractmethods__", None):
        missing = ", ".join(sorted(backend.__abstractmethods__))
        raise BackendTypeError(f"{backend.__name__} is abstract; implement {missing} before registering it.")


registry = _DefaultRegistry()
"""The process-wide default; it holds the built-ins and the installed plugins."""
