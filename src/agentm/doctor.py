"""What is wrong with this installation, and what to type next.

Each check looks at one thing and says one line about each thing it found. Looking is all they do: nothing is created,
and a store is opened only where it already exists. A check that itself fails becomes a warning.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from agentm import config as settings
from agentm.backends._durable import dead_temps
from agentm.config import StrPath
from agentm.conflicts import detect_conflict_files
from agentm.errors import AgentmError, ConfigError, StorageSelectionError
from agentm.records import field_names, record_class
from agentm.seam import Capabilities, StorageBackend
from agentm.seam.registry import BUILT_IN, ENTRY_POINT_GROUP
from agentm.selection import StoragePreview, confirm_required, select_backend, shown, storage_preview, store_place

_SKEW_SECONDS = 120.0
_LOOKED_AT = 1000


@record_class(frozen=True)
class Finding:
    """One line of the doctor's: ``status`` is ok, warn or fail."""

    status: str
    name: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.name} [{self.status.upper()}] {self.text}"


class Patient:
    """What the checks look at, each part found out once and only when a check asks."""

    def __init__(self, install_prefix: StrPath | None = None) -> None:
        self.install_prefix = install_prefix

    @cached_property
    def preview(self) -> StoragePreview:
        return storage_preview(install_prefix=self.install_prefix)

    @cached_property
    def config(self) -> dict[str, Any]:
        return settings.read_config(self.install_prefix)

    @cached_property
    def place(self) -> str | None:
        """The store's directory or file, if it is there."""
        place = store_place(install_prefix=self.install_prefix)
        return place if place and os.path.exists(place) else None

    @cached_property
    def backend(self) -> StorageBackend | None:
        """The store, opened, if it is there already."""
        return select_backend(install_prefix=self.install_prefix) if self.place else None


Check = Callable[[Patient], Iterator[Finding]]


def diagnose(install_prefix: StrPath | None = None) -> list[Finding]:
    """Every finding, the storage line first."""
    patient = Patient(install_prefix)
    found = [finding for check in CHECKS for finding in _run(check, patient)]
    # Looked at last: opening a store clears away what dead writers left, which is something to be told of.
    return [_storage(patient), *found]


def _storage(patient: Patient) -> Finding:
    """What selection would do, and, if the store is there, whether it really opens."""
    said = Finding(patient.preview.status, "storage", patient.preview.line.partition("] ")[2])
    if said.status == "fail":
        return said
    try:
        _ = patient.backend
    except AgentmError as refusal:
        return Finding("fail", "storage", shown(str(refusal)))
    if patient.preview.protocol == "vault" and patient.place is None:
        text = f"{said.text}: there is no such folder; mount it or put it back, or make it with mkdir to begin anew"
        return Finding("warn", "storage", text)
    if patient.preview.protocol == "memory":
        text = "memory is gone when the process ends; to keep what is written type: agentm config unset storage.backend"
        return Finding("warn", "storage", text)
    return said


def confirm(names: list[str], install_prefix: StrPath | None = None) -> str:
    """The name of the chosen store if it has all these capabilities; else the error that says what is missing.

    A name that is no capability is refused before any store is looked at.
    """
    known = list(field_names(Capabilities))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"unknown capability: {', '.join(shown(name) for name in unknown)}" if unknown else "no capability named"
        raise StorageSelectionError(f"{what}; choose from {', '.join(known)}.", code="capability_unknown")
    return confirm_required(Capabilities(**dict.fromkeys(names, True)), install_prefix=install_prefix)


def _run(check: Check, patient: Patient) -> list[Finding]:
    try:
        return list(check(patient))
    except Exception as cause:
        name = check.__name__.removeprefix("check_").replace("_", "-")
        return [Finding("warn", name, f"could not be checked: {shown(str(cause) or type(cause).__name__)}")]


def check_config(patient: Patient) -> Iterator[Finding]:
    try:
        config = patient.config
    except ConfigError:
        return  # the storage line says it already
    slips = {key: near for key in config if (near := settings.nearest_key(key))}
    for key, near in slips.items():
        yield Finding(
            "warn",
            "config",
            f"nobody reads the key {shown(key)!r}; if you meant {near}, type: agentm config set {near} …",
        )
    nested = settings.nested_keys(config)
    for key in nested:
        yield Finding(
            "warn", "config", f"{key} stands inside an object, where nobody reads it; type: agentm config set {key} …"
        )
    if not slips and not nested:
        path = shown(settings.config_path(patient.install_prefix))
        yield Finding("ok", "config", f"{path}, keys: {len(config)}" if config else f"no settings in {path}")


def check_plugins(_: Patient) -> Iterator[Finding]:
    from importlib.metadata import entry_points

    targets: dict[str, set[str]] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        targets.setdefault(point.name, set()).add(point.value)
    for name, values in sorted(targets.items()):
        if name in BUILT_IN:
            text = f"{shown(name)} of {_joined(values)} is never used, because agentm has one of that name itself"
            yield Finding("warn", "plugins", f"{text}; ask its author for another name")
        elif len(values) > 1:
            text = f"{len(values)} plugins call themselves {shown(name)}: {_joined(values)}"
            yield Finding("warn", "plugins", f"{text}; uninstall all but one")


def check_temporary_files(patient: Patient) -> Iterator[Finding]:
    if patient.place and os.path.isdir(patient.place):
        left = sum(1 for _ in dead_temps(patient.place))
        if left:
            text = f"{left} left by writers that died; the next opening of the store clears them away"
            yield Finding("ok", "temporary-files", text)


def check_local_files(patient: Patient) -> Iterator[Finding]:
    """Locks and databases in a synced tree are corrupted by the sync client."""
    protocol, cache = patient.preview.protocol, settings.cache_root()
    if protocol == "vault" and patient.place:
        if _inside(cache, patient.place):
            text = f"{shown(cache)} lies inside the vault and would be synced"
            yield Finding("fail", "local-files", f"{text}; set XDG_CACHE_HOME to a directory outside of it")
        else:
            yield Finding("ok", "local-files", f"locks are outside the vault, in {shown(cache)}")
    vault = patient.config.get(settings.VAULT_PATH) or patient.config.get(settings.LEGACY_VAULT_PATH)
    if protocol == "sqlite" and patient.place and isinstance(vault, str) and _inside(patient.place, vault):
        text = f"the database {shown(patient.place)} lies inside the vault {shown(vault)}, whose sync would corrupt it"
        yield Finding("fail", "local-files", f"{text}; move it and type: agentm config set {settings.SQLITE_PATH} PATH")


def check_clock(patient: Patient) -> Iterator[Finding]:
    """Times ahead of this clock: it is slow, or another device's is fast."""
    if not patient.place:
        return
    limit = time.time() + _SKEW_SECONDS
    ahead = [stamp for stamp in _times(patient.place) if stamp > limit]
    if ahead:
        minutes = (max(ahead) - time.time()) / 60
        text = f"the store has times up to {minutes:.0f} min ahead of this clock (entries: {len(ahead)})"
        yield Finding("warn", "clock", f"{text}; compare it with: date -u, and the clocks of your other devices")


def check_conflicts(patient: Patient) -> Iterator[Finding]:
    if patient.backend is None:
        return
    copies = detect_conflict_files(patient.backend)
    if not copies:
        yield Finding("ok", "conflicts", "no conflict copies")
        return
    named = ", ".join(repr(shown(copy.locator.key)) for copy in copies[:3])
    more = f" and {len(copies) - 3} more" if len(copies) > 3 else ""
    text = f"{len(copies)} conflict {'copy' if len(copies) == 1 else 'copies'} in the store: {named}{more}"
    yield Finding("warn", "conflicts", f"{text}; compare each with its original, keep what you want, delete the copy")


def check_index(patient: Patient) -> Iterator[Finding]:
    """Whether the index can be kept, and what of the store is not in it."""
    from agentm.index.catalogue import CURRENT, unreadable_in
    from agentm.index.damage import is_sound
    from agentm.index.obstacle import obstacle
    from agentm.open import caller, index_directory

    if patient.backend is None:
        return
    account = caller(install_prefix=patient.install_prefix).account_id
    home = index_directory(patient.backend, account, patient.install_prefix, None)
    if home is None:
        return
    current = os.path.join(home, CURRENT)
    if why := obstacle(home):
        yield Finding("warn", "index", f"every recall makes one and throws it away: {shown(why)}")
    elif not is_sound(current):
        yield Finding("warn", "index", f"the one in {shown(home)} is damaged; the next recall sets it aside")
    if unreadable := unreadable_in(current):
        named = ", ".join(repr(shown(one)) for one in unreadable[:3])
        text = f"{len(unreadable)} memories and notes cannot be read, as {named}"
        yield Finding("warn", "index", f"{text}; save notes as UTF-8, and for memories type: agentm repair --dry-run")


def check_python(_: Patient) -> Iterator[Finding]:
    yield Finding("ok", "python", f"{sys.version.split()[0]} at {shown(sys.executable)}")


def check_sqlite(_: Patient) -> Iterator[Finding]:
    import sqlite3

    version = sqlite3.sqlite_version
    text = version
    if _wal_may_be_reset(sqlite3.sqlite_version_info):
        text = f"{version}; its fault in write-ahead logging cannot strike here, as agentm keeps rollback journals"
    yield Finding("ok", "sqlite", text)


# In the order they are printed; the leftovers come before what opens the store, because opening clears them.
# Later parts put their own checks here: pending and dead events, broken nodes.
CHECKS: tuple[Check, ...] = (
    check_config,
    check_plugins,
    check_temporary_files,
    check_local_files,
    check_clock,
    check_conflicts,
    check_index,
    check_python,
    check_sqlite,
)


def _wal_may_be_reset(version: tuple[int, ...]) -> bool:
    """Fixed in 3.51.3, and carried back to 3.50.7 and 3.44.6."""
    return version < (3, 51, 3) and not any(
        first <= version < (first[0], first[1] + 1) for first in ((3, 50, 7), (3, 44, 6))
    )


def _times(place: str) -> Iterator[float]:
    yield os.stat(place).st_mtime
    if os.path.isdir(place):
        with os.scandir(place) as entries:
            for entry in islice(entries, _LOOKED_AT):
                yield entry.stat(follow_symlinks=False).st_mtime


def _inside(path: str, directory: str) -> bool:
    path, directory = (os.path.normcase(os.path.realpath(each)) for each in (path, directory))
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _joined(values: set[str]) -> str:
    return ", ".join(shown(value) for value in sorted(values))
