"""`offer_save_here`: a copy with its place, and nothing saved."""

from __future__ import annotations

import os

import pytest

from agentm import offer_save_here
from tests.process.places import build, configure, put
from tests.snapshot import snapshot

pytestmark = pytest.mark.spec("PROC-02")

CANDIDATE = {"kind": "decision", "slug": "dobby", "body": "Our own.", "confidence": 0.9}


def test_a_candidate_comes_back_with_its_project_and_phase(place):
    [offered] = offer_save_here({**place.context, "phase": "plan"}, CANDIDATE)
    assert offered.pop("target") in (None, os.path.join(place.store, "projects", "loom"))
    assert offered == {**CANDIDATE, "project": "loom", "phase": "plan"}


def test_the_target_is_the_projects_folder(vault):
    [offered] = offer_save_here(vault.context, CANDIDATE)
    assert offered["target"] == os.path.join(vault.store, "projects", "loom")
    assert "phase" not in offered


def test_without_a_phase_none_is_made_up_and_the_candidates_own_stays(vault):
    [offered] = offer_save_here(vault.context, {**CANDIDATE, "phase": "review"})
    assert offered["phase"] == "review"
    [offered] = offer_save_here({**vault.context, "phase": ""}, CANDIDATE)
    assert "phase" not in offered
    [offered] = offer_save_here({**vault.context, "phase": "plan"}, {**CANDIDATE, "phase": "review"})
    assert offered["phase"] == "plan"


def test_a_store_without_folders_has_no_target(home):
    [offered] = offer_save_here(build(home, "sqlite").context, CANDIDATE)
    assert offered["target"] is None


def test_a_project_that_the_store_does_not_know_yet_has_no_target(home):
    place = build(home, "vault", {"personal/_always-load/a.md": "x"})
    [offered] = offer_save_here(place.context, CANDIDATE)
    assert (offered["project"], offered["target"]) == ("loom", None)


def test_the_candidate_itself_is_not_touched(place):
    candidate = dict(CANDIDATE)
    [offered] = offer_save_here({**place.context, "phase": "plan"}, candidate)
    assert candidate == CANDIDATE
    assert offered is not candidate


@pytest.mark.parametrize("candidate", ["A thought.", 7, ["a", "b"], ("x",)])
def test_what_is_no_mapping_becomes_a_body(place, candidate):
    [offered] = offer_save_here(place.context, candidate)
    assert offered["body"] == candidate


@pytest.mark.parametrize("candidate", [None, {}, "", "  \n", [], 0])
def test_nothing_to_save_is_no_offer(place, candidate):
    assert offer_save_here(place.context, candidate) == []


def test_no_memory_is_no_offer(home):
    assert offer_save_here({"cwd": home}, CANDIDATE) == []
    configure(home, "{ not json")
    assert offer_save_here({"cwd": home}, CANDIDATE) == []


def test_no_project_is_no_offer(place):
    assert offer_save_here({"cwd": place.home}, CANDIDATE) == []
    put(os.path.join(place.project, ".harness", "project.json"), "[]")
    assert offer_save_here(place.context, CANDIDATE) == []


class Odd:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


@pytest.mark.parametrize(("context", "candidate"), [(7, CANDIDATE), ({"cwd": 7}, CANDIDATE), (None, Odd())])
def test_it_never_raises(place, context, candidate, monkeypatch):
    monkeypatch.chdir(place.home)  # where there is no project
    assert offer_save_here(context, candidate) == []


def test_nothing_is_saved(place):
    before = snapshot(place.home)
    assert offer_save_here(place.context, CANDIDATE) != []
    assert snapshot(place.home) == before
