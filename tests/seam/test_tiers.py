"""The three tiers: which is the truth, which may travel, and where each lives."""

from __future__ import annotations

import pytest

from agentm import DerivedMaintenance, Locator, Tier, TierLayout


@pytest.mark.spec("SEAM-11")
def test_there_are_three_tiers_by_these_names() -> None:
    assert {tier.name: tier.value for tier in Tier} == {
        "SOURCE": "source",
        "SHARED_ABSTRACTS": "shared-abstracts",
        "LOCAL_INDEX": "local-index",
    }


@pytest.mark.spec("SEAM-11")
def test_only_the_index_stays_here_and_only_the_source_is_the_truth() -> None:
    assert [tier for tier in Tier if not tier.syncs] == [Tier.LOCAL_INDEX]
    assert [tier for tier in Tier if not tier.derived] == [Tier.SOURCE]


@pytest.mark.spec("SEAM-11")
def test_each_tier_has_a_root_of_its_own() -> None:
    layout = TierLayout()
    roots = [layout.root_for(tier) for tier in Tier]
    assert all(isinstance(root, Locator) for root in roots)
    assert len(set(roots)) == 3
    assert layout.never_sync_root == layout.root_for(Tier.LOCAL_INDEX)
    other = TierLayout(source=Locator("notes"), local_index=Locator("cache/index"))
    assert other.root_for(Tier.SOURCE) == Locator("notes")
    assert other.never_sync_root == Locator("cache/index")


@pytest.mark.spec("SEAM-11")
@pytest.mark.parametrize("taken", ["shared_abstracts", "local_index"])
def test_two_tiers_cannot_share_a_root(taken: str) -> None:
    with pytest.raises(ValueError, match="three different roots"):
        TierLayout(**{"source": Locator("same"), taken: Locator("/same/")})


@pytest.mark.spec("SEAM-11")
def test_upkeep_is_a_contract_of_two_calls() -> None:
    assert DerivedMaintenance.__abstractmethods__ == {"reindex", "changed_since"}
    with pytest.raises(TypeError):
        DerivedMaintenance()  # type: ignore[abstract]
