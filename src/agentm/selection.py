"""From the settings of this machine to one store: choose it, open it, or refuse. Never demote.

A store that was asked for and cannot be had is an error. Falling back to the default would write memories where
nobody looks for them, so on every refusal nothing is opened and nothing appears on disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from agentm import config as settings
from agentm.config import StrPath
from agentm.errors import CapabilityMismatchError, ConfigError, StorageSelectionError
from agentm.records import field, field_names, record_class
from agentm.seam import Capabilities, StorageBackend, registry

__all__ = [
    "Capabilities",
    "CapabilityMismatchError",
    "StoragePreview",
    "StorageSelectionError",
    "choose_protocol",
    "confirm_required",
    "select_backend",
    "storage_preview",
    "store_place",
]

VAULT_ENV = "MEMORY_VAULT_PATH"


@record_class(frozen=True)
class StoragePreview:
    """What selection would do now: ``status`` is ok, warn or fail; ``line`` says so to a person."""

    status: str
    protocol: str | None
    line: str


@record_class(frozen=True)
class _Choice:
    protocol: str
    why: str
    config: Mapping[str, Any]


@record_class(frozen=True)
class _Plan:
    """Everything that opening the store needs, found out without opening it."""

    protocol: str
    why: str
    backend: type[StorageBackend]
    place: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> StorageBackend:
        arguments = () if self.place is None else (self.place,)
        try:
            return self.backend(*arguments, **self.options)
        except Exception as cause:
            raise _unusable(self.protocol, cause) from cause


def choose_protocol(*, install_prefix: StrPath | None = None) -> str:
    """The store to use: ``storage.backend``, else ``vault`` if $MEMORY_VAULT_PATH is set, else ``device-local``.

    Nothing is opened. StorageSelectionError when the config cannot be read or names no store.
    """
    return _choose(install_prefix).protocol


def select_backend(
    *,
    install_prefix: StrPath | None = None,
    device_local_root: StrPath | None = None,
    vault_lock_root: StrPath | None = None,
    required: Capabilities | None = None,
) -> StorageBackend:
    """Open the chosen store. StorageSelectionError, and nothing on disk, when it cannot be had.

    With ``required``, each True flag must be one that the store declares, else CapabilityMismatchError.
    """
    plan = _plan(install_prefix, device_local_root, vault_lock_root)
    _check_declared(plan, required)
    backend = plan.open()
    _check(plan.protocol, backend, required)
    return backend


def confirm_required(required: Capabilities, *, install_prefix: StrPath | None = None) -> str:
    """The chosen store's name if it has what is required, else the error that `select_backend` would raise.

    Only a third party's store is opened for it: ours say what they promise without being made.
    """
    plan = _plan(install_prefix, None, None)
    if not _check_declared(plan, required):
        _check(plan.protocol, plan.open(), required)
    return plan.protocol


def storage_preview(
    *, install_prefix: StrPath | None = None, device_local_root: StrPath | None = None
) -> StoragePreview:
    """Say what `select_backend` would do, without opening anything and without ever raising."""
    protocol = None
    try:
        choice = _choose(install_prefix)
        protocol = choice.protocol
        plan = _plan_for(choice, device_local_root, None)
        where = f" at {shown(plan.place)}" if plan.place else ""
        obstacle = _obstacle(plan)
    except Exception as refusal:
        return StoragePreview("fail", protocol, f"storage [FAIL] {_reason(refusal)}")
    if obstacle:
        return StoragePreview("warn", protocol, f"storage [WARN] {shown(protocol)}{where}: {obstacle} ({plan.why})")
    return StoragePreview("ok", protocol, f"storage [OK] {shown(protocol)}{where} ({plan.why})")


def store_place(*, install_prefix: StrPath | None = None) -> str | None:
    """The directory or file of the chosen store, there or not; None when it has none or cannot be chosen."""
    try:
        return _plan(install_prefix, None, None).place
    except StorageSelectionError:
        return None


def install_plugin_message(protocol: str) -> str:
    """The refusal of a store that nobody registers; the doctor prints the same words before it happens."""
    name = shown(protocol)
    registered = ", ".join(registry.protocols()) or "(none)"
    return (
        f"storage backend '{name}' is configured (storage.backend) but no installed plugin registers it. "
        f"Install the plugin that provides the '{name}' backend, or set storage.backend to an installed backend "
        f"(currently registered: {registered})."
    )


def shown(text: str) -> str:
    """A text from outside on one line, with nothing in it that a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _choose(prefix: StrPath | None) -> _Choice:
    try:
        path = settings.config_path(prefix)
        config = settings.read_config(prefix)
    except ConfigError as cause:
        raise StorageSelectionError(cause.message, code="config_unreadable") from cause
    if settings.STORAGE_BACKEND in config:
        named = config[settings.STORAGE_BACKEND]
        if not isinstance(named, str) or not named.strip():
            raise _invalid(path, f"storage.backend is {shown(repr(named))}, which is not a non-empty text")
        return _Choice(named, f"storage.backend in {shown(path)}", config)
    if settings.STORAGE_BACKEND in settings.nested_keys(config):
        raise _invalid(path, "storage.backend stands inside an object, but keys are flat")
    if os.environ.get(VAULT_ENV):
        return _Choice("vault", f"${VAULT_ENV}", config)
    return _Choice("device-local", "nothing is configured", config)


def _invalid(path: str, what: str) -> StorageSelectionError:
    return StorageSelectionError(
        f"in the config file {shown(path)!r} {what}; type: agentm config set storage.backend NAME.",
        code="storage_backend_invalid",
    )


def _plan(prefix: StrPath | None, device_local_root: StrPath | None, lock_root: StrPath | None) -> _Plan:
    return _plan_for(_choose(prefix), device_local_root, lock_root)


def _plan_for(choice: _Choice, device_local_root: StrPath | None, lock_root: StrPath | None) -> _Plan:
    backend = _load(choice.protocol)
    place, options = None, {}
    if choice.protocol == "device-local":
        place = _expand(device_local_root or os.path.join("~", ".agentm", "memory"))
    elif choice.protocol == "sqlite":
        place = _sqlite_path(choice.config)
    elif choice.protocol == "vault":
        place, options = _vault_path(choice), {"lock_root": lock_root}
    return _Plan(choice.protocol, choice.why, backend, place, options)


def _load(protocol: str) -> type[StorageBackend]:
    try:
        backend = registry.get(protocol)
    except (Exception, SystemExit) as cause:
        # A plugin's import runs a stranger's code: whatever it throws is its failure, not ours.
        raise StorageSelectionError(
            f"storage backend '{shown(protocol)}' cannot be loaded: {_reason(cause)}; "
            "reinstall the plugin that provides it, or set storage.backend to another.",
            code="backend_load",
            backend=protocol,
        ) from cause
    if backend is None:
        raise StorageSelectionError(install_plugin_message(protocol), code="backend_unregistered", backend=protocol)
    return backend


def _vault_path(choice: _Choice) -> str:
    """$MEMORY_VAULT_PATH if that made the choice; else the plugin's key, the older key, the variable."""
    variable = os.environ.get(VAULT_ENV, "")
    keys = (settings.VAULT_PATH, settings.LEGACY_VAULT_PATH) if settings.STORAGE_BACKEND in choice.config else ()
    for key in keys:
        value = choice.config.get(key)
        if value:
            return _possible_vault(_absolute(key, value), key)
    if not variable:
        raise StorageSelectionError(
            "storage backend 'vault' is selected but no vault path is set; "
            f"type: agentm config --vault-path DIR, or set {VAULT_ENV}.",
            code="vault_path_missing",
            backend="vault",
        )
    return _possible_vault(_expand(variable), f"${VAULT_ENV}")


def _possible_vault(path: str, source: str) -> str:
    if not settings.could_be_folder(path):
        raise StorageSelectionError(
            f"the vault {shown(path)!r} (from {source}) is not a folder, nor is its parent; "
            "mount or create it, or name another with: agentm config --vault-path DIR.",
            code="vault_path_missing",
            backend="vault",
        )
    return path


def _sqlite_path(config: Mapping[str, Any]) -> str:
    value = config.get(settings.SQLITE_PATH)
    if not value:
        return _expand(os.path.join("~", ".agentm", "memory.db"))
    return _absolute(settings.SQLITE_PATH, value)


def _absolute(key: str, value: object) -> str:
    # A relative path would mean another store in every working directory.
    if not isinstance(value, str) or not os.path.isabs(os.path.expanduser(value)):
        raise StorageSelectionError(
            f"the config key {key} is {shown(repr(value))}, which is not an absolute path; "
            f"type: agentm config set {key} PATH.",
            code="store_path_invalid",
        )
    return _expand(value)


def _expand(path: StrPath) -> str:
    try:
        return settings.expand_path(os.fspath(path))
    except ConfigError as cause:
        raise StorageSelectionError(cause.message, code="store_path_invalid") from cause


def _check_declared(plan: _Plan, required: Capabilities | None) -> bool:
    """Refuse before anything is made, where the promise is known: it is one for all instances of our own stores."""
    if not plan.backend.__module__.startswith("agentm.backends."):
        return False
    _check(plan.protocol, plan.backend.__new__(plan.backend), required)
    return True


def _check(protocol: str, backend: StorageBackend, required: Capabilities | None) -> None:
    if required is None:
        return
    try:
        declared = backend.capabilities
    except Exception as cause:
        raise _unusable(protocol, cause) from cause
    wanted = [flag for flag in field_names(required) if getattr(required, flag)]
    unsatisfied = [name for name in wanted if not getattr(declared, name, False)]
    if unsatisfied:
        raise CapabilityMismatchError(protocol, unsatisfied)


def _unusable(protocol: str, cause: Exception) -> StorageSelectionError:
    return StorageSelectionError(
        f"storage backend '{shown(protocol)}' cannot be opened: {_reason(cause)}; "
        "mend that, or choose another with: agentm config --storage-backend NAME.",
        code="backend_unusable",
        backend=protocol,
    )


def _obstacle(plan: _Plan) -> str | None:
    """Why writing to the store would fail, as far as looking tells."""
    if plan.place is None:
        return None
    if os.path.lexists(plan.place):
        if os.path.isdir(plan.place) == (plan.protocol == "sqlite"):
            return "something else stands there; move it away"
        if os.access(plan.place, os.W_OK):
            return None
        return "it is not writable; check its owner and mode, and whether the disk is mounted read-only"
    parent = os.path.dirname(plan.place)
    while not os.path.lexists(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
    if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
        return None
    return f"it is not writable, because {shown(parent)} is not a directory that can be written to; check that"


def _reason(cause: BaseException) -> str:
    text = " ".join(shown(line) for line in str(cause).splitlines()) or type(cause).__name__
    return text.rstrip(".") if not isinstance(cause, StorageSelectionError) else text
