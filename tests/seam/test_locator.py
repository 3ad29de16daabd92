"""Keys and locators: one spelling for each place, and no way out of the store."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, strategies as st

from agentm import InvalidLocatorError, Locator, normalize_key
from agentm.seam import ROOT

# Segments that matter, and any text between slashes.
segments = st.one_of(st.sampled_from(["", ".", "..", "...", "a", "a b", "~", "-"]), st.text(max_size=8))
keys = st.lists(segments, max_size=6).map("/".join)


@pytest.mark.spec("SEAM-01")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("/", ""),
        (".", ""),
        ("./.", ""),
        ("///", ""),
        ("a", "a"),
        ("/a/b", "a/b"),
        ("//a///b//", "a/b"),
        ("./a/./b/.", "a/b"),
        ("a/b.md", "a/b.md"),
        ("...", "..."),
        ("a/..b/c..", "a/..b/c.."),
        (" a / b ", " a / b "),
        ("C:/Users", "C:/Users"),
        ("%2e%2e/x", "%2e%2e/x"),
        ("~/x", "~/x"),
        ("é/e\u0301", "é/e\u0301"),
        ("line\nbreak", "line\nbreak"),
    ],
)
def test_a_key_has_one_spelling(given: str, expected: str) -> None:
    assert normalize_key(given) == expected
    assert Locator(given).key == expected


@pytest.mark.spec("SEAM-01")
@pytest.mark.parametrize("key", ["..", "../a", "a/..", "a/../b", "/..", "./..", "a\\b", "\\", "a\0b", "\0", "..\\a"])
def test_a_key_that_could_leave_the_store_is_refused(key: str) -> None:
    with pytest.raises(InvalidLocatorError) as raised:
        normalize_key(key)
    error = raised.value
    assert isinstance(error, ValueError)
    assert error.code == "invalid_locator"
    assert error.locator == key
    assert repr(key) in str(error)
    assert str(error).endswith(".")
    assert len(str(error).splitlines()) == 1


@pytest.mark.spec("SEAM-01", "SEAM-02")
@pytest.mark.parametrize("key", [None, 7, b"bytes", ("a", "b"), Locator("a")])
def test_a_key_is_text(key: object) -> None:
    with pytest.raises(InvalidLocatorError):
        normalize_key(key)  # type: ignore[arg-type]
    with pytest.raises(InvalidLocatorError):
        Locator(key)  # type: ignore[arg-type]


@pytest.mark.spec("SEAM-01")
@given(keys)
def test_normalising_is_idempotent_and_leaves_nothing_odd(key: str) -> None:
    try:
        normal = normalize_key(key)
    except InvalidLocatorError:
        assert ".." in key.split("/") or "\\" in key or "\0" in key
        return
    assert normalize_key(normal) == normal
    assert not {"", ".", ".."} & set(normal.split("/")) or normal == ""
    assert [part for part in key.split("/") if part not in ("", ".")] == [part for part in normal.split("/") if part]


@pytest.mark.spec("SEAM-02")
@given(keys, keys)
def test_a_child_is_a_place_below_and_the_parts_lead_back(first: str, second: str) -> None:
    try:
        parent, below = Locator(first), Locator(second)
    except InvalidLocatorError:
        return
    child = parent.child(second)
    assert child.parts == parent.parts + below.parts
    assert parent.child(*below.parts) == child
    assert ROOT.child(*child.parts) == child
    assert Locator(str(child)) == child


@pytest.mark.spec("SEAM-02")
@pytest.mark.parametrize("part", ["..", "a/../b", "a\\b", "\0"])
def test_a_child_cannot_climb(part: str) -> None:
    with pytest.raises(InvalidLocatorError):
        Locator("a/b").child(part)


@pytest.mark.spec("SEAM-02")
def test_the_root() -> None:
    root = Locator()
    assert (root.key, root.parts, root.name, str(root)) == ("", (), "", "")
    assert root == ROOT == Locator("/") == Locator("./")
    assert root.parent == root
    assert root.child() == root


@pytest.mark.spec("SEAM-02")
def test_parts_name_and_parent() -> None:
    place = Locator("/notes//2026/today.md")
    assert place.key == str(place) == "notes/2026/today.md"
    assert place.parts == ("notes", "2026", "today.md")
    assert place.name == "today.md"
    assert place.parent == Locator("notes/2026")
    assert Locator("top").parent == ROOT
    assert place.parent.child(place.name) == place


@pytest.mark.spec("SEAM-02")
def test_equal_places_are_equal_hashable_and_unchangeable() -> None:
    place = Locator("a/b")
    assert {place: 1}[Locator("/a/./b/")] == 1
    assert len({place, Locator("a//b"), Locator("a/c")}) == 2
    with pytest.raises(FrozenInstanceError):
        place.key = "../x"  # type: ignore[misc]
    for twin in (copy.copy(place), copy.deepcopy(place), pickle.loads(pickle.dumps(place))):
        assert twin == place
        assert hash(twin) == hash(place)


@pytest.mark.spec("SEAM-02")
def test_a_locator_is_no_path() -> None:
    place = Locator("a")
    assert not hasattr(place, "__fspath__")
    with pytest.raises(TypeError):
        open(place)  # type: ignore[call-overload]  # noqa: SIM115
