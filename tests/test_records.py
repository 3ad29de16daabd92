"""Records do what dataclasses do, and are dataclasses to whoever asks."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from agentm.records import as_dict, field, field_names, record_class, replace


@record_class(frozen=True)
class Place:
    name: str
    height: float = 0.0
    marks: tuple[str, ...] = ()
    note: str = field(default="", compare=False)


@record_class()
class Tour:
    places: list[Place] = field(default_factory=list)
    days: int = 1


@record_class(frozen=True)
class Checked:
    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"{self.count} is below nothing")


@record_class(frozen=True, slots=False)
class Open:
    name: str
    height: float = 1.5


@record_class(eq=False)
class Person:
    name: str


@record_class(frozen=True)
class Peak(Place):
    climbed: bool = False


def test_fields_are_given_by_place_or_name_and_have_defaults() -> None:
    assert Place("hut") == Place(name="hut", height=0.0, marks=())
    assert (Place("hut", 2.5).height, Open("a").height) == (2.5, 1.5)


def test_a_default_that_is_made_is_made_each_time() -> None:
    first, second = Tour(), Tour()
    first.places.append(Place("hut"))
    assert second.places == []
    assert Tour([Place("hut")], 2).days == 2


@pytest.mark.parametrize("wrong", [{}, {"name": "a", "colour": "red"}])
def test_a_field_too_few_or_too_many_is_refused(wrong: dict[str, str]) -> None:
    for _ in range(2):  # the first one made and those after it
        with pytest.raises(TypeError):
            Place(**wrong)  # type: ignore[arg-type]


def test_equal_fields_are_equal_records_of_the_same_class() -> None:
    assert Place("hut", note="a") == Place("hut", note="b")
    assert Place("hut") != Place("barn")
    assert Place("hut") != Peak("hut")
    other: object = "hut"
    assert Place("hut") != other
    assert len({Place("hut"), Place("hut"), Place("barn")}) == 2
    assert Person("ann") != Person("ann")


def test_a_record_that_can_change_is_no_key() -> None:
    tour = Tour()
    tour.days = 3
    assert tour.days == 3
    with pytest.raises(TypeError):
        hash(tour)


def test_a_frozen_record_cannot_be_changed() -> None:
    for one in (Place("hut"), Open("hut"), Peak("hut")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.name = "barn"  # type: ignore[misc]
        with pytest.raises(dataclasses.FrozenInstanceError):
            del one.name
        assert one.name == "hut"


def test_a_record_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Tour().colour = "red"  # type: ignore[attr-defined]


def test_what_it_was_made_with_is_checked() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="below"):
            Checked(-1)
    with pytest.raises(ValueError, match="below"):
        replace(Checked(1), count=-1)


def test_a_record_derived_from_another_has_the_fields_of_both() -> None:
    peak = Peak("top", 3.0, climbed=True)
    assert (peak.name, peak.height, peak.climbed) == ("top", 3.0, True)
    assert field_names(Peak) == ("name", "height", "marks", "note", "climbed")


def test_replace_changes_a_copy() -> None:
    place = Place("hut", note="a")
    assert replace(place, height=2.0) == Place("hut", 2.0)
    assert (place.height, replace(place, height=2.0).note) == (0.0, "a")
    with pytest.raises(TypeError):
        replace(place, colour="red")


def test_a_record_is_plain_all_the_way_down() -> None:
    tour = Tour([Place("hut", marks=("x",))], 2)
    assert as_dict(tour) == {
        "places": [{"name": "hut", "height": 0.0, "marks": ["x"], "note": ""}],
        "days": 2,
    }


def test_it_says_what_it_holds() -> None:
    assert repr(Place("hut")) == "Place(name='hut', height=0.0, marks=(), note='')"


def test_records_are_copied_and_pickled() -> None:
    for one in (Place("hut", 1.0, ("x",)), Tour([Place("hut")], 2), Open("hut"), Peak("top", climbed=True)):
        assert pickle.loads(pickle.dumps(one)) == one
        assert copy.deepcopy(one) == one == copy.copy(one)


def test_the_standard_functions_take_them_for_dataclasses() -> None:
    place = Place("hut", 1.0)
    assert all(dataclasses.is_dataclass(one) for one in (Place, Tour))
    assert [one.name for one in dataclasses.fields(place)] == list(field_names(place))
    assert dataclasses.replace(place, name="barn") == Place("barn", 1.0)
    assert dataclasses.asdict(Tour([place])) == {
        "places": [{"name": "hut", "height": 1.0, "marks": (), "note": ""}],
        "days": 1,
    }

    @dataclasses.dataclass(frozen=True)
    class Derived(Place):
        extra: int = 0

    made: Any = Derived
    assert made("hut", extra=2).name == "hut"


def test_a_record_can_be_taken_apart_by_match() -> None:
    match Place("hut", 2.0):
        case Place(name, height):
            assert (name, height) == ("hut", 2.0)
        case _:  # pragma: no cover
            pytest.fail("it did not match")


def test_a_class_that_could_not_be_meant_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="shared"):

        @record_class()
        class Shared:
            names: list[str] = []  # noqa: RUF012

    with pytest.raises(TypeError, match="default"):

        @record_class()
        class Disordered:
            first: int = 0
            second: str  # type: ignore[misc]


def test_what_belongs_to_the_class_is_no_field() -> None:
    @record_class()
    class Counted:
        name: str
        count: ClassVar[int] = 3

    assert field_names(Counted) == ("name",)
    assert Counted.count == 3


def test_a_comparison_of_its_own_leaves_a_frozen_record_a_key() -> None:
    @record_class(frozen=True)
    class Folded:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Folded) and other.name.lower() == self.name.lower()

    assert Folded("A") == Folded("a")
    assert hash(Folded("a")) == hash(Folded("a"))


def test_slots_may_follow_a_class_without_them() -> None:
    @record_class(frozen=True)
    class Slotted(Open):
        extra: int = 0

    assert (Slotted("a", extra=2).name, Slotted("a", extra=2).extra) == ("a", 2)
