"""The values that cross the seam, and the shape of the contract."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields

import pytest

from agentm import Capabilities, Change, Info, Locator, StorageBackend, Versioned
from agentm.seam import ABILITIES, UnsupportedAbilityError, require
from agentm.seam.abilities import Remove

VERBS = {"resolve", "read", "write", "list", "exists", "info", "mkdir"}


@pytest.mark.spec("SEAM-03")
def test_info_is_four_facts() -> None:
    info = Info(Locator("a"), False, 3, 1.5)
    assert info == Info(locator=Locator("a"), is_dir=False, size=3, mtime=1.5)
    assert [field.name for field in fields(Info)] == ["locator", "is_dir", "size", "mtime"]


@pytest.mark.spec("SEAM-04")
def test_capabilities_promise_nothing_by_default() -> None:
    assert not any(getattr(Capabilities(), field.name) for field in fields(Capabilities))


@pytest.mark.spec("SEAM-04")
def test_the_first_four_capabilities_stay_what_they_are() -> None:
    names = [field.name for field in fields(Capabilities)]
    assert names[:4] == ["concurrent_writers", "conflict_files", "encryption", "sync"]
    assert Capabilities(True, False, True, False) == Capabilities(concurrent_writers=True, encryption=True)


@pytest.mark.spec("SEAM-04", "SEAM-09")
def test_every_other_capability_is_an_ability_with_methods() -> None:
    names = [field.name for field in fields(Capabilities)]
    assert set(names[4:]) == set(ABILITIES)
    for protocol, methods in ABILITIES.values():
        assert methods
        for method in methods:
            assert inspect.getdoc(getattr(protocol, method)), method


@pytest.mark.spec("SEAM-02", "SEAM-03", "SEAM-04")
@pytest.mark.parametrize(
    "value",
    [
        Locator("a"),
        Info(Locator("a"), False, 0, 0.0),
        Capabilities(),
        Versioned("text", "v1"),
        Change(Locator("a"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_frozen_and_hashable(value) -> None:
    name = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)
    assert hash(value) == hash(type(value)(*(getattr(value, field.name) for field in fields(value))))


@pytest.mark.spec("SEAM-05")
def test_the_contract_is_seven_verbs_and_what_they_promise() -> None:
    assert StorageBackend.__abstractmethods__ == VERBS | {"capabilities"}
    assert inspect.isabstract(StorageBackend)


class Smallest(StorageBackend):
    """What a third party has to write, and nothing more."""

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        raise FileNotFoundError(locator.key)

    def write(self, locator: Locator, content: str) -> Locator:
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        return []

    def exists(self, locator: Locator) -> bool:
        return not locator.key

    def info(self, locator: Locator) -> Info:
        raise FileNotFoundError(locator.key)

    def mkdir(self, locator: Locator) -> Locator:
        return locator

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()


@pytest.mark.spec("SEAM-05")
def test_the_seven_verbs_alone_make_a_backend() -> None:
    backend = Smallest()
    assert backend.conflict_strategy == "none"
    assert backend.capabilities == Capabilities()


@pytest.mark.spec("SEAM-05")
@pytest.mark.parametrize("verb", sorted(VERBS | {"capabilities"}))
def test_no_verb_can_be_left_out(verb: str) -> None:
    rest = {name: value for name, value in vars(Smallest).items() if name != verb and not name.startswith("_")}
    incomplete = type("Incomplete", (StorageBackend,), rest)
    with pytest.raises(TypeError):
        incomplete()


@pytest.mark.spec("SEAM-09")
def test_a_method_without_its_flag_is_no_ability() -> None:
    class Pretender(Smallest):
        def remove(self, locator: Locator, *, if_version: str | None = None) -> None: ...

    with pytest.raises(UnsupportedAbilityError) as raised:
        require(Pretender(), Remove)
    assert raised.value.code == "ability_unsupported"
    assert "Pretender" in str(raised.value)


@pytest.mark.spec("SEAM-09")
def test_a_flag_without_its_method_is_no_ability() -> None:
    class Boaster(Smallest):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(remove=True)

    with pytest.raises(UnsupportedAbilityError):
        require(Boaster(), Remove)
