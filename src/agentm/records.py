"""Records: classes that are nothing but their fields.

What `dataclasses` gives, for a program that is started to answer one question. That module and the thirty classes on
the way to an answer took a fifth of `agentm recall`: it pulls in half of the inspection of the language, and compiles
six methods for each class. Here the methods are shared, and only ``__init__`` is compiled, when the first one is made.

A record is a dataclass to whoever asks: ``dataclasses.fields``, ``replace``, ``asdict`` and ``match`` work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")

_MISSING: Final = object()
_FIELDS: Final = "__record_fields__"


class _Field:
    """How one field is filled when it is not given, and whether it counts in a comparison."""

    __slots__ = ("annotation", "compare", "default", "factory")

    def __init__(self, default: object, factory: object, compare: bool) -> None:
        self.annotation: object = None
        self.default = default
        self.factory = factory
        self.compare = compare

    def standard(self, library: Any) -> Any:
        more = {} if self.default is _MISSING else {"default": self.default}
        if self.factory is not _MISSING:
            more = {"default_factory": self.factory}
        return library.field(compare=self.compare, **more)


def field(*, default: Any = _MISSING, default_factory: Any = _MISSING, compare: bool = True) -> Any:
    """A field with a default that is made anew for each record, or that does not count in a comparison."""
    return _Field(default, default_factory, compare)


@dataclass_transform(field_specifiers=(field,))
def record_class(*, frozen: bool = False, slots: bool = True, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """Make a class a record of its annotated fields.

    :param frozen: its fields cannot be set once it is made, and it can be a key
    :param slots: it has no other attributes
    :param eq: two with the same fields are equal
    """
    return lambda cls: _made(cls, frozen=frozen, slots=slots, eq=eq)


def replace(one: T, /, **changes: Any) -> T:
    """The same record with some fields changed."""
    return type(one)(**{name: getattr(one, name) for name in _fields_of(type(one))} | changes)


def field_names(one: object) -> tuple[str, ...]:
    """The fields of a record or of its class, in their order."""
    return tuple(_fields_of(one if isinstance(one, type) else type(one)))


def as_dict(one: object) -> dict[str, Any]:
    """A record as plain dictionaries and lists all the way down, as for JSON."""
    return {name: _plain(getattr(one, name)) for name in field_names(one)}


def _plain(value: Any) -> Any:
    if hasattr(type(value), _FIELDS):
        return as_dict(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _fields_of(cls: type) -> dict[str, _Field]:
    fields: dict[str, _Field] = getattr(cls, _FIELDS)
    return fields


def _made(cls: type[T], *, frozen: bool, slots: bool, eq: bool) -> type[T]:
    own: dict[str, _Field] = {}
    for name, annotation in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 (inspect is what costs)
        if str(annotation).removeprefix("typing.").startswith("ClassVar"):
            continue
        given = cls.__dict__.get(name, _MISSING)
        own[name] = made = given if isinstance(given, _Field) else _Field(given, _MISSING, True)
        made.annotation = annotation
    fields = getattr(cls, _FIELDS, {}) | own
    _check(cls, fields)
    if slots:
        cls = _with_slots(cls, own)
    else:
        for name, one in own.items():
            if one.factory is not _MISSING:
                delattr(cls, name)
            elif one.default is not _MISSING:
                setattr(cls, name, one.default)
    defined = set(cls.__dict__)
    if "__eq__" in defined and cls.__dict__.get("__hash__") is None:
        defined.discard("__hash__")  # Python's doing, not the class's
    for method, code in _methods(fields, frozen=frozen, eq=eq).items():
        if method not in defined or method in ("__getstate__", "__setstate__"):
            setattr(cls, method, code)
    if "__init__" not in defined:
        _initialise_late(cls, fields, frozen=frozen, slots=slots)
    setattr(cls, _FIELDS, fields)
    setattr(cls, "__match_args__", tuple(fields))  # noqa: B010
    for standard in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, standard, _AsDataclass(standard, frozen=frozen, eq=eq))
    return cls


def _check(cls: type, fields: dict[str, _Field]) -> None:
    """Refuse at once what would go wrong with the first record, or be shared by all of them."""
    optional = ""
    for name, one in fields.items():
        if one.default is _MISSING and one.factory is _MISSING:
            if optional:
                raise TypeError(f"{cls.__name__}.{name} has no default, but {optional} before it has one")
        else:
            optional = name
        if type(one.default).__hash__ is None:
            raise ValueError(f"the default of {cls.__name__}.{name} would be shared; use field(default_factory=...)")


def _with_slots(cls: type[T], own: dict[str, _Field]) -> type[T]:
    """The class once more: slots have to be there when it is made."""
    space = {name: value for name, value in cls.__dict__.items() if name not in own}
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    meta: Any = type(cls)
    made: type[T] = meta(cls.__name__, cls.__bases__, {**space, "__slots__": tuple(own)})
    made.__qualname__ = cls.__qualname__
    return made


def _initialise_late(cls: type, fields: dict[str, _Field], *, frozen: bool, slots: bool) -> None:
    """Compile ``__init__`` when the first record is made: most classes that are imported are never used."""

    def first(self: object, *args: Any, **given: Any) -> None:
        code = _initialiser(cls, fields, frozen=frozen, slots=slots)
        setattr(cls, "__init__", code)  # noqa: B010
        code(self, *args, **given)

    setattr(cls, "__init__", first)  # noqa: B010


def _initialiser(cls: type, fields: dict[str, _Field], *, frozen: bool, slots: bool) -> Callable[..., None]:
    space: dict[str, Any] = {"_missing": _MISSING, "_set": object.__setattr__}
    arguments, lines = ["self"], []
    for name, one in fields.items():
        if one.factory is not _MISSING:
            space[f"_make_{name}"] = one.factory
            arguments.append(f"{name}=_missing")
            lines.append(f"if {name} is _missing: {name} = _make_{name}()")
        elif one.default is not _MISSING:
            space[f"_default_{name}"] = one.default
            arguments.append(f"{name}=_default_{name}")
        else:
            arguments.append(name)
        if not frozen:
            lines.append(f"self.{name} = {name}")
        elif slots and hasattr(getattr(cls, name, None), "__set__"):  # not so if it comes from a class without slots
            space[f"_set_{name}"] = getattr(cls, name).__set__
            lines.append(f"_set_{name}(self, {name})")
        else:
            lines.append(f"_set(self, {name!r}, {name})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(arguments)}):\n    {body}", space)
    code: Callable[..., None] = space["__init__"]
    code.__qualname__ = f"{cls.__qualname__}.__init__"
    return code


def _methods(fields: dict[str, _Field], *, frozen: bool, eq: bool) -> dict[str, Any]:
    """What all records do alike; each knows only the names of its fields."""
    names = tuple(fields)
    compared = [name for name, one in fields.items() if one.compare]
    key: Callable[[Any], Any] = attrgetter(*compared) if compared else lambda _: ()

    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    methods: dict[str, Any] = {
        "__repr__": __repr__,
        "__getstate__": __getstate__,
        "__setstate__": __setstate__,
        "__replace__": replace,  # what copy.replace asks for
    }
    if eq:

        def __eq__(self: Any, other: object) -> Any:
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self: Any) -> int:
            return hash(key(self))

        methods |= {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_set}
    return methods


def _refuse_to_set(self: object, name: str, value: object = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"{type(self).__name__} is frozen: {name} cannot be changed")


class _AsDataclass:
    """What `dataclasses` wants to know of a class, made when it asks."""

    def __init__(self, wanted: str, *, frozen: bool, eq: bool) -> None:
        self.wanted = wanted
        self.frozen = frozen
        self.eq = eq

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        fields = [(name, one.annotation, one.standard(dataclasses)) for name, one in _fields_of(owner).items()]
        twin = dataclasses.make_dataclass(owner.__name__, fields, eq=self.eq, frozen=self.frozen)
        return getattr(twin, self.wanted)
