"""The versions of a node: each one whole, in a file of its own."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from agentm.context.node import CONTENT, HISTORY, ContextNode, Meta, Version, load_version
from agentm.context.reader import read_text
from agentm.context.uri import ContextUri
from agentm.errors import ConfigError, InvalidNodeError, NodeConflictError, NodeNotFoundError, NotTextError
from agentm.records import record_class
from agentm.seam import Locator, Remove, StorageBackend, require

_NAME = re.compile(r"[0-9]{8,}-[0-9a-f]+\.json")


@record_class(frozen=True)
class Retention:
    """How many versions are kept, and for how long; the current one always is."""

    versions: int
    days: float | None = None

    def check(self) -> None:
        if not isinstance(self.versions, int) or self.versions < 1:
            raise ConfigError(f"keep_versions is {self.versions!r}; give a whole number from 1 on.")
        if self.days is not None and (not isinstance(self.days, int | float) or self.days < 0):
            raise ConfigError(f"keep_days is {self.days!r}; give a number of days, or None for ever.")


def places(backend: StorageBackend, node: Locator) -> list[Locator]:
    """The files of the history, oldest version first; those of unfinished writes among them."""
    return [place for place in backend.list(node.child(HISTORY)) if _NAME.fullmatch(place.name)]


def number_of(place: Locator) -> int:
    return int(place.name.partition("-")[0])


def load(backend: StorageBackend, place: Locator) -> Version | None:
    """A kept version, or None if its file is damaged."""
    try:
        text = read_text(backend, place)
        version = None if text is None else load_version(text)
    except (InvalidNodeError, NotTextError):
        return None
    return version if version is not None and version.sound() else None


def committed(backend: StorageBackend, address: ContextUri, meta: Meta | None) -> list[Version]:
    """The versions that were committed, oldest first.

    Of two files with one number only one was: the one whose successor, or the meta, came after it. A write that
    died before its commit leaves a file too; the next writer takes the same number and a new name.
    """
    if meta is None:
        return []
    found: dict[int, Version] = {}
    for place in places(backend, address.locator):
        version = load(backend, place)
        if version is None or version.meta.version > meta.version:
            continue
        number = version.meta.version
        if number == meta.version and version.meta.write_id != meta.write_id:
            continue
        found[number] = _later(found.get(number), version)
    return [found[number] for number in sorted(found)]


def _later(one: Version | None, other: Version) -> Version:
    return other if one is None or other.meta.updated_at >= one.meta.updated_at else one


def versions(backend: StorageBackend, address: ContextUri, meta: Meta | None) -> list[ContextNode]:
    return [version.node() for version in committed(backend, address, meta)]


def version_at(backend: StorageBackend, address: ContextUri, meta: Meta | None, number: int) -> Version:
    for version in committed(backend, address, meta):
        if version.meta.version == number:
            return version
    raise NodeNotFoundError(f"{address} has no version {number}; agentm history lists those it has.")


def version_before(backend: StorageBackend, address: ContextUri, meta: Meta | None, to: int | None) -> Version:
    """The version to go back to: ``to``, or the last one before the current that holds something."""
    kept = [version for version in committed(backend, address, meta) if meta and version.meta.version < meta.version]
    if to is not None:
        kept = [version for version in kept if version.meta.version == to]
    if not kept:
        wanted = "older version" if to is None else f"version {to} before this one"
        raise NodeNotFoundError(f"{address} has no {wanted}; agentm history lists those it has.")
    return kept[-1]


def prune(backend: StorageBackend, node: Locator, meta: Meta, retention: Retention) -> None:
    """Let go of what is too old, and of what dead writers left; failing to is harmless."""
    if meta.version == 1:
        return
    with suppress(OSError):
        names = {place.name: place for place in backend.list(node.child(HISTORY))}
        present = f"{meta.version:08d}-"  # a number sorts as its digits do
        old = [place for name, place in names.items() if name < present and _NAME.fullmatch(name)]
        # This version is committed, so another with its number never can be.
        rivals = (name for name in names if name.startswith(present) and name != meta.history_name)
        surplus = [names[name] for name in rivals if _NAME.fullmatch(name)]
        too_many = max(0, len(old) - retention.versions + 1)
        surplus += old[:too_many]
        if retention.days is not None:
            limit = datetime.now(UTC) - timedelta(days=retention.days)
            surplus += _older(backend, old[too_many:], limit)
        for place in surplus:
            require(backend, Remove).remove(place)


def _older(backend: StorageBackend, oldest_first: list[Locator], limit: datetime) -> list[Locator]:
    found = []
    for place in oldest_first:
        version = load(backend, place)
        if version is None:
            continue  # damaged: evidence, and no sign of how old those behind it are
        if _when(version) >= limit:
            break
        found.append(place)
    return found


def _when(version: Version) -> datetime:
    try:
        written = datetime.fromisoformat(version.meta.updated_at)
    except (ValueError, TypeError):
        return datetime.now(UTC)
    return written if written.tzinfo else written.replace(tzinfo=UTC)


def expect(address: ContextUri, current: Version | None, wanted: int | None, text: str) -> None:
    """NodeConflictError unless a node has the version that its writer takes it to have."""
    if wanted is None:
        return
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise InvalidNodeError(f"{wanted!r} is no version of {address}; a version is a number, and 0 is none at all.")
    version = current.meta.version if current else 0
    if wanted == version:
        return
    theirs = current.parts.get(CONTENT, "") if current else ""
    raise NodeConflictError(
        f"{address} is at version {version}, not {wanted}; read it again, put your change on top, and write that.",
        version=version,
        diff=unified_diff(theirs, text, f"version {version}", "yours"),
        expected=str(wanted),
    )


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
    return "\n".join(lines)
