"""agentm: an agent's memory as plain files its owner can read, on any store.

Every public name is importable from here and loaded on first use, so that ``import agentm`` costs
next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

_HOME = {
    "agentm.backends.device_local": ("DeviceLocalBackend",),
    "agentm.backends.memory": ("MemoryBackend",),
    "agentm.backends.sqlite": ("SqliteBackend",),
    "agentm.backends.vault": ("VaultBackend",),
    "agentm.conflicts": ("ConflictFile", "detect_conflict_files"),
    "agentm.conformance": ("ConformanceReport", "run_conformance"),
    "agentm.errors": (
        "AgentmError",
        "CapabilityMismatchError",
        "ConcurrentModificationError",
        "InvalidLocatorError",
        "ProtocolError",
        "StorageSelectionError",
        "StoreError",
        "UnsupportedAbilityError",
    ),
    "agentm.projects": ("resolve_project",),
    "agentm.repo_registry": (
        "list_repos",
        "read_registry",
        "register_repo",
        "registry_locator",
        "unregister_repo",
        "write_registry",
    ),
    "agentm.seam": (
        "ABSENT",
        "BackendRegistry",
        "Capabilities",
        "Change",
        "DerivedMaintenance",
        "Info",
        "Locator",
        "StorageBackend",
        "Tier",
        "TierLayout",
        "Versioned",
        "normalize_key",
        "registry",
        "require",
        "update",
    ),
    "agentm.selection": ("StoragePreview", "choose_protocol", "select_backend", "storage_preview"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'agentm' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
