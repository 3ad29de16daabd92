"""The derived tiers: thrown away and rebuilt from the source, they are the same again."""

from __future__ import annotations

import time

from agentm.conformance.expect import Failed, Skipped, expect, same, short
from agentm.conformance.trial import Trial, remove_tree, snapshot
from agentm.seam import DerivedMaintenance, Locator, StorageBackend, Tier, TierLayout

TICK_SECONDS = 5.0
"""A store's clock must have moved on by then; the coarsest in use tick every two seconds."""


def derived(trial: Trial) -> str:
    layout = trial.setup.derived_layout
    if layout is None:
        raise Skipped("no derived_layout was given")
    bench = _Bench(trial.backend, _maintenance(trial), layout, trial.scratch)
    try:
        return bench.run()
    finally:
        if trial.capabilities.remove:
            remove_tree(trial.backend, bench.source)
            bench.reindex_all()


def _maintenance(trial: Trial) -> DerivedMaintenance:
    if trial.setup.maintenance is not None:
        return trial.setup.maintenance(trial.backend)
    if isinstance(trial.backend, DerivedMaintenance):
        return trial.backend
    raise Failed("a derived_layout was given, but the backend is no DerivedMaintenance; pass maintenance=")


class _Bench:
    """A source of our own below the source tier, and what the derived tiers make of it."""

    def __init__(
        self, backend: StorageBackend, maintenance: DerivedMaintenance, layout: TierLayout, scratch: Locator
    ) -> None:
        self.source = layout.source.child(scratch.key)
        self._backend = backend
        self._maintenance = maintenance
        self._layout = layout
        self._tiers = [tier for tier in Tier if tier.derived]

    def run(self) -> str:
        for name in ("one", "two", "sub/three"):
            self._put(name, f"# {name}\n\nfirst text of {name}\n")
        first = self._rebuilds("first")
        changed = self._change_is_named()
        self._put("four", "# four\n\na new note\n")
        second = self._rebuilds("changed")
        expect(second != first, f"the derived tiers do not show that {changed.name!r} changed in the source")
        shown = [tier.value for tier in self._tiers if second[tier]]
        return f"rebuilt from nothing, twice: {', '.join(shown)}"

    def reindex_all(self) -> None:
        for tier in self._tiers:
            self._maintenance.reindex(tier)

    def _put(self, name: str, text: str) -> Locator:
        return self._backend.write(self.source.child(f"{name}.md"), text)

    def _rebuilds(self, which: str) -> dict[Tier, dict[str, str | None]]:
        source = snapshot(self._backend, self.source)
        self.reindex_all()
        made = {tier: self._shown(tier) for tier in self._tiers}
        expect(any(made.values()), "reindex left every derived tier empty, so there is nothing to compare")
        for tier in self._tiers:
            self._empty(tier)
            self._maintenance.reindex(tier)
            same(f"{tier.value}, rebuilt from the {which} source after it was emptied,", self._shown(tier), made[tier])
        same("the source after reindex", snapshot(self._backend, self.source), source)
        return made

    def _shown(self, tier: Tier) -> dict[str, str | None]:
        return snapshot(self._backend, self._layout.root_for(tier))

    def _empty(self, tier: Tier) -> None:
        """Throw the tier away; where nothing can be removed, spoil every file in it."""
        root = self._layout.root_for(tier)
        if self._backend.capabilities.remove:
            for child in self._backend.list(root):
                remove_tree(self._backend, child)
            same(f"{tier.value} after it was emptied", self._shown(tier), {})
            return
        for key, text in self._shown(tier).items():
            if text is not None:
                self._backend.write(root.child(key), "spoilt\n")

    def _change_is_named(self) -> Locator:
        places = [self.source.child(f"{name}.md") for name in ("one", "two", "sub/three")]
        mark = max(self._backend.info(place).mtime for place in places)
        changed = self._write_after(mark)
        same("changed_since the last write", self._changed(mark), [changed])
        same("changed_since the beginning", self._changed(0.0), sorted(places, key=str))
        same("changed_since a day from now", self._changed(time.time() + 86_400), [])
        return changed

    def _changed(self, mtime: float) -> list[Locator]:
        found = self._maintenance.changed_since(mtime)
        for place in found:
            expect(_below(place, self._layout.source), f"changed_since named {short(place.key)}, outside of the source")
        return sorted((place for place in found if _below(place, self.source)), key=str)

    def _write_after(self, mark: float) -> Locator:
        """Change a file so that its mtime shows it, however coarse the store's clock is."""
        deadline = time.monotonic() + TICK_SECONDS
        while True:
            place = self._put("two", "# two\n\nsecond text of two\n")
            if self._backend.info(place).mtime > mark:
                return place
            expect(
                time.monotonic() < deadline,
                f"mtime did not move although a file was rewritten for {TICK_SECONDS:.0f} s",
            )
            time.sleep(0.02)


def _below(place: Locator, top: Locator) -> bool:
    return f"{place.key}/".startswith(f"{top.key}/") if top.key else True
