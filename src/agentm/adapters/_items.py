"""An item of a key-value store as a markdown note: a person reads it, recall finds it, and nothing of it is lost.

Above the text stand the item's fields, each in one line of JSON; ``value`` among them is all of the item's value. The
text below is what can be found of it, and is never read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from agentm.adapters._file_names import file_name
from agentm.errors import InvalidNodeError, NodeBrokenError
from agentm.records import field_names, record_class
from agentm.seam import Locator

SUFFIX = ".md"
TAG = "langgraph"

_EDGE = "---\n"


@record_class(frozen=True)
class Kept:
    """An item as its file says it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created: datetime
    updated: datetime
    index: Any = None
    """False for an item that is not to be found, or the paths of the fields that it is to be found by."""
    ttl: float | None = None
    """Minutes that it lives on after it was last read or written."""
    expires: datetime | None = None


def folder_of(root: Locator, namespace: tuple[str, ...]) -> Locator:
    return root.child(*map(file_name, namespace)) if namespace else root


def place_of(root: Locator, namespace: tuple[str, ...], key: str) -> Locator:
    return folder_of(root, namespace).child(f"{file_name(key)}{SUFFIX}")


def tag_of(namespace: tuple[str, ...]) -> str:
    """What all items of a namespace, and of those below it, are tagged with."""
    return "/".join((TAG, *map(file_name, namespace)))


def written(item: Kept, text: str) -> str:
    """The file of an item that is to be found by a text."""
    fields = {name: _plain(getattr(item, name)) for name in field_names(Kept)}
    tags = [tag_of(item.namespace[:depth]) for depth in range(len(item.namespace) + 1)]
    try:
        lines = [_line(name, one) for name, one in (fields | {"tags": tags}).items() if one is not None]
    except (TypeError, ValueError) as cause:
        raise InvalidNodeError(
            f"the value of {item.key!r} cannot be written as JSON ({cause}); put texts, numbers, lists and dicts."
        ) from cause
    return "".join((_EDGE, *lines, _EDGE, "\n", text, "\n" if text else ""))


def read(text: str, place: Locator) -> Kept | None:
    """The item that a file holds; None if it is somebody's own note."""
    fields = dict(_fields(text))
    if not {"namespace", "key", "value"} <= fields.keys():
        return None
    try:
        said = {name: json.loads(fields[name]) for name in field_names(Kept) if name in fields}
        for name in {"created", "updated", "expires"} & said.keys():
            said[name] = datetime.fromisoformat(said[name])
        return Kept(**said | {"namespace": tuple(said["namespace"])})
    except (TypeError, ValueError) as cause:
        raise NodeBrokenError(
            f"the fields above {place.key!r} cannot be read as those of an item ({cause}); mend or remove the file.",
            locator=place.key,
        ) from cause


def said_by(value: Mapping[str, Any]) -> str:
    """All of a value as a text for people."""
    return "\n\n".join(f"{name}: {text}" for name, text in _leaves(value, ""))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping | list | tuple) for one in value):
        for number, one in enumerate(value):
            yield from _leaves(one, f"{name}[{number}]")
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    head, edge, _ = text.removeprefix(_EDGE).partition(f"\n{_EDGE}")
    for line in head.split("\n") if edge and text.startswith(_EDGE) else ():
        name, _, value = line.partition(": ")
        yield name, value


def _line(name: str, value: Any) -> str:
    return f"{name}: {json.dumps(value, ensure_ascii=False)}\n"


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
