"""An item of a key-value store as a markdown note: a person reads it, recall finds it, and nothing of it is lost.

Above the text stand the item's fields, each in one line of JSON; ``value`` among them is all of the item's value. The
text below is what can be found of it, and is never read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from agentm.adapters._file_names import file_name
from agentm.errors import InvalidNodeError, NodeBrokenError
from agentm.records import field_names, record_class
from agentm.seam import Locator

SUFFIX = ".md"
TAG = "langgraph"

_EDGE = "---\n"
_OPENING = f"{_EDGE}namespace:"
"""How the file of every item begins."""
_MARKS = {"namespace", "key", "value"}
"""The fields that only an item has together."""
_MOMENTS = {"created", "updated", "expires"}


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
    fields = _fields(text)
    if not _is_of_an_item(text, fields):
        return None
    try:
        lost = _MARKS - fields.keys()
        if lost:
            raise ValueError(f"there is no {min(lost)}")
        said = {name: json.loads(fields[name]) for name in field_names(Kept) if name in fields}
        for name in _MOMENTS & said.keys():
            said[name] = _moment(said[name])
        _check(said)
        return Kept(**said | {"namespace": tuple(said["namespace"])})
    except (TypeError, ValueError) as cause:
        raise NodeBrokenError(
            f"the fields above {place.key!r} cannot be read as those of an item ({cause}); mend or remove the file.",
            locator=place.key,
        ) from cause


def created(text: str) -> datetime | None:
    """When an item came to be, also where the rest of its file is damaged; None if that is, too."""
    with suppress(KeyError, TypeError, ValueError):
        return _moment(json.loads(_fields(text)["created"]))
    return None


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


def _is_of_an_item(text: str, fields: Mapping[str, str]) -> bool:
    """Also if it is damaged: cut off anywhere, down to nothing, or with one of its marks lost."""
    start = _as_written(text)
    return not start.strip() or _OPENING.startswith(start) or start.startswith(_OPENING) or len(_MARKS & {*fields}) > 1


def _fields(text: str) -> dict[str, str]:
    """The fields above a text, unread; none where they do not end."""
    head, edge, _ = f"{_as_written(text)}\n".partition(f"\n{_EDGE}")
    if not edge or not head.startswith(_EDGE):
        return {}
    return {name: value for name, _, value in (line.partition(":") for line in head.split("\n")[1:])}


def _as_written(text: str) -> str:
    """Without what editors add to a file."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _check(said: Mapping[str, Any]) -> None:
    """Each field is what a put would have written: it may have been edited."""
    namespace, index, ttl = said["namespace"], said.get("index"), said.get("ttl")
    if not _is_list_of_texts(namespace):
        raise TypeError("its namespace is not a list of texts")
    if not isinstance(said["key"], str):
        raise TypeError("its key is not a text")
    if not isinstance(said["value"], dict):
        raise TypeError("its value is not an object")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float)):
        raise TypeError("its ttl is not a number")
    if index is not None and index is not False and not _is_list_of_texts(index):
        raise TypeError("its index is neither false nor a list of texts")


def _is_list_of_texts(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(one, str) for one in said)


def _moment(said: str) -> datetime:
    moment = datetime.fromisoformat(said)
    if moment.tzinfo is None:
        raise ValueError(f"{said!r} does not say its time zone")
    return moment


def _line(name: str, value: Any) -> str:
    return f"{name}: {json.dumps(value, ensure_ascii=False)}\n"


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
