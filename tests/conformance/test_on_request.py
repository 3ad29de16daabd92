"""The checks that have to be asked for: derived tiers and routing."""

from __future__ import annotations

import pytest

from agentm import Locator, MemoryBackend, list_repos, register_repo, run_conformance
from agentm.conformance import derived
from agentm.seam import DerivedMaintenance, StorageBackend, Tier, TierLayout
from tests.conformance.filestore import FileStore

LAYOUT = TierLayout()


class Derives(MemoryBackend, DerivedMaintenance):
    """Keeps the first line of every source as an abstract, and a word count as its index."""

    def reindex(self, tier: Tier) -> None:
        self.clear(LAYOUT.root_for(tier))
        for place in self.sources():
            text = self.read(place)
            made = text.splitlines()[-1] if tier is Tier.SHARED_ABSTRACTS else str(len(text))
            self.write(LAYOUT.root_for(tier).child(place.key), made)

    def changed_since(self, mtime: float) -> list[Locator]:
        return [place for place in self.sources() if self.info(place).mtime > mtime]

    def sources(self) -> list[Locator]:
        return [Locator(key) for key in sorted(self._files) if key.startswith(f"{LAYOUT.source.key}/")]

    def clear(self, root: Locator) -> None:
        for key in [key for key in self._files if key.startswith(f"{root.key}/")]:
            del self._files[key]


class RebuildsNothing(Derives):
    built = False

    def reindex(self, tier: Tier) -> None:
        if not all(self.list(LAYOUT.root_for(tier)) for tier in Tier if tier.derived) and not self.built:
            super().reindex(tier)
            self.built = tier is Tier.LOCAL_INDEX


class IndexesOnce(Derives):
    """Rebuilds from what it saw the first time."""

    def sources(self) -> list[Locator]:
        self.first = getattr(self, "first", None) or [(place, self.read(place)) for place in super().sources()]
        return [place for place, _ in self.first]

    def read(self, locator: Locator) -> str:
        return dict(getattr(self, "first", ())).get(locator) or super().read(locator)


class DiffersEachTime(Derives):
    count = 0

    def reindex(self, tier: Tier) -> None:
        self.count += 1
        super().reindex(tier)
        self.write(LAYOUT.root_for(tier).child("built"), str(self.count))


class NamesEverything(Derives):
    def changed_since(self, mtime: float) -> list[Locator]:
        return self.sources()


class NamesNothing(Derives):
    def changed_since(self, mtime: float) -> list[Locator]:
        return []


class NamesDerived(Derives):
    def changed_since(self, mtime: float) -> list[Locator]:
        return [*super().changed_since(mtime), LAYOUT.local_index]


class RewritesTheSource(Derives):
    def reindex(self, tier: Tier) -> None:
        super().reindex(tier)
        for place in self.sources():
            self.write(place, self.read(place).rstrip("\n"))


def derived_result(make_backend, **options):
    (result,) = run_conformance(make_backend, derived_layout=LAYOUT, only=["derived"], **options).results
    return result


@pytest.mark.spec("SEAM-11", "SEAM-18")
class TestDerived:
    def test_a_derived_tier_that_is_rebuilt_passes(self):
        result = derived_result(Derives)
        assert result.status == "pass", result.detail
        assert "shared-abstracts, local-index" in result.detail

    @pytest.mark.parametrize(
        "mutant",
        [RebuildsNothing, IndexesOnce, DiffersEachTime, NamesEverything, NamesNothing, NamesDerived, RewritesTheSource],
    )
    def test_a_broken_one_fails(self, mutant, monkeypatch):
        monkeypatch.setattr(derived, "TICK_SECONDS", 0.5)
        result = derived_result(mutant)
        assert result.status == "fail", result.detail

    def test_maintenance_may_be_an_object_of_its_own(self):
        backend = Derives()

        class Other(DerivedMaintenance):
            def __init__(self, store: StorageBackend) -> None:
                assert store is backend

            def reindex(self, tier: Tier) -> None:
                backend.reindex(tier)

            def changed_since(self, mtime: float) -> list[Locator]:
                return backend.changed_since(mtime)

        assert derived_result(lambda: backend, maintenance=Other).status == "pass"

    def test_a_layout_without_maintenance_is_a_failure(self):
        assert derived_result(MemoryBackend).status == "fail"

    def test_it_is_not_made_unless_a_layout_is_given(self):
        assert run_conformance(Derives, only=["derived"]).results == ()

    def test_what_the_source_held_before_stays(self):
        backend = Derives()
        backend.write(LAYOUT.source.child("mine.md"), "mine\n")
        assert derived_result(lambda: backend).status == "pass"
        assert sorted(backend._files) == [
            "local-index/source/mine.md",
            "shared-abstracts/source/mine.md",
            "source/mine.md",
        ]


class ForgetsWrites(MemoryBackend):
    """Loses the registry, and nothing else."""

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        return (
            "v0" if locator.name == "repos.json" else super().write_versioned(locator, content, if_version=if_version)
        )


class ResolvesUpperCase(MemoryBackend):
    def resolve(self, *parts: str) -> Locator:
        raise OSError("no such place")


@pytest.mark.spec("SEAM-18", "SEAM-27")
class TestRouting:
    def run(self, make_backend, **options):
        (result,) = run_conformance(make_backend, include_routing=True, only=["routing"], **options).results
        return result

    @pytest.mark.parametrize("mutant", [ForgetsWrites, ResolvesUpperCase])
    def test_a_store_that_loses_the_registry_fails(self, mutant):
        assert self.run(mutant).status == "fail"

    def test_it_is_not_made_unless_asked_for(self):
        assert run_conformance(MemoryBackend, only=["routing"]).results == ()

    def test_what_was_registered_before_stays_to_the_byte(self):
        backend = MemoryBackend()
        register_repo(backend, "mine", "/home/me/mine")
        place = Locator("_meta/repos.json")
        backend.write(place, backend.read(place).replace("\n", " "))
        before = backend.read(place)
        assert self.run(lambda: backend).status == "pass"
        assert backend.read(place) == before
        assert [repo["slug"] for repo in list_repos(backend)] == ["mine"]

    def test_an_empty_store_is_empty_again(self):
        backend = MemoryBackend()
        assert self.run(lambda: backend).status == "pass"
        assert backend.list(Locator()) == []

    def test_a_store_that_cannot_remove_passes_too(self, tmp_path):
        assert self.run(lambda: FileStore(str(tmp_path))).status == "pass"
