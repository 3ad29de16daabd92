"""The storage seam: the contract between memory and any store."""

from agentm.errors import ConcurrentModificationError, InvalidLocatorError, ProtocolError, UnsupportedAbilityError
from agentm.seam.abilities import (
    ABILITIES,
    Append,
    ChangeFeed,
    CompareAndSwap,
    Held,
    Lock,
    Remove,
    Rename,
    Watch,
    Watcher,
    WriteMany,
    protocol_of,
    require,
    unsupported,
    update,
)
from agentm.seam.backend import StorageBackend
from agentm.seam.locator import ROOT, Locator, normalize_key
from agentm.seam.registry import BackendRegistry, registry
from agentm.seam.tiers import DerivedMaintenance, Tier, TierLayout
from agentm.seam.types import ABSENT, Capabilities, Change, Info, Versioned

__all__ = [
    "ABILITIES",
    "ABSENT",
    "ROOT",
    "Append",
    "BackendRegistry",
    "Capabilities",
    "Change",
    "ChangeFeed",
    "CompareAndSwap",
    "ConcurrentModificationError",
    "DerivedMaintenance",
    "Held",
    "Info",
    "InvalidLocatorError",
    "Locator",
    "Lock",
    "ProtocolError",
    "Remove",
    "Rename",
    "StorageBackend",
    "Tier",
    "TierLayout",
    "UnsupportedAbilityError",
    "Versioned",
    "Watch",
    "Watcher",
    "WriteMany",
    "normalize_key",
    "protocol_of",
    "registry",
    "require",
    "unsupported",
    "update",
]
