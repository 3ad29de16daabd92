"""The three tiers of memory: the truth, what may travel with it, and what must stay on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum

from agentm.records import record_class
from agentm.seam.locator import Locator


class Tier(Enum):
    """Who owns the truth, and whether a sync client may replicate it."""

    SOURCE = "source"
    SHARED_ABSTRACTS = "shared-abstracts"
    LOCAL_INDEX = "local-index"

    @property
    def syncs(self) -> bool:
        """False only for the local index: a replicated database file is a corrupt one."""
        return self is not Tier.LOCAL_INDEX

    @property
    def derived(self) -> bool:
        """Whether it can be rebuilt from the source; False only for the source itself."""
        return self is not Tier.SOURCE


@record_class(frozen=True)
class TierLayout:
    """The root of each tier. Placement only: nothing is created."""

    source: Locator = Locator("source")
    shared_abstracts: Locator = Locator("shared-abstracts")
    local_index: Locator = Locator("local-index")

    def __post_init__(self) -> None:
        roots = (self.source, self.shared_abstracts, self.local_index)
        if len(set(roots)) != len(roots):
            named = ", ".join(repr(str(root)) for root in roots)
            raise ValueError(f"the three tiers need three different roots, not {named}; give each its own.")

    @property
    def never_sync_root(self) -> Locator:
        """The one tree that must not be replicated."""
        return self.local_index

    def root_for(self, tier: Tier) -> Locator:
        return {
            Tier.SOURCE: self.source,
            Tier.SHARED_ABSTRACTS: self.shared_abstracts,
            Tier.LOCAL_INDEX: self.local_index,
        }[tier]


class DerivedMaintenance(ABC):
    """Keeping a derived tier true to the source."""

    @abstractmethod
    def reindex(self, tier: Tier) -> None:
        """Rebuild a derived tier from the source, from nothing."""

    @abstractmethod
    def changed_since(self, mtime: float) -> list[Locator]:
        """The source places whose ``Info.mtime`` is newer."""
