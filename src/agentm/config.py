"""The settings of this machine: one flat JSON object, `.agentm-config.json`, in the install prefix.

A file that is there but cannot be read is an error, never an empty one: taking it for empty would drop the
choice of a store and send memories somewhere else. Writing keeps every key it does not know, in its place.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from agentm.backends import _durable
from agentm.backends._mutex import Mutex, default_lock_root
from agentm.errors import AgentmError, ConfigError, LockLostError
from agentm.small_files import read_small

CONFIG_NAME = ".agentm-config.json"
STORAGE_BACKEND = "storage.backend"
VAULT_PATH = "plugins.obsidian-vault.vault_path"
LEGACY_VAULT_PATH = "vault_path"
SQLITE_PATH = "plugins.sqlite.path"
STATE_MODE = "state_mode"
IDENTITY_ACCOUNT = "identity.account"
IDENTITY_USER = "identity.user"

KNOWN_KEYS = {
    STORAGE_BACKEND: "the store to use: device-local, vault, sqlite, memory, or one that a plugin provides",
    VAULT_PATH: "the folder of the vault store",
    SQLITE_PATH: "the file of the sqlite store",
    IDENTITY_ACCOUNT: "the account that commands about memories act in",
    IDENTITY_USER: "the user whose memories they are",
    STATE_MODE: "where plan and progress files live",
    LEGACY_VAULT_PATH: f"the older name of {VAULT_PATH}, still read",
}

_PATH_KEYS = (VAULT_PATH, LEGACY_VAULT_PATH, SQLITE_PATH)
_FOLDER_KEYS = (VAULT_PATH, LEGACY_VAULT_PATH)

StrPath = str | os.PathLike[str]


def install_prefix(prefix: StrPath | None = None) -> str:
    """The directory that holds the config: the argument, else $AGENTM_INSTALL_PREFIX, else ~/.agentm."""
    chosen = os.fspath(prefix) if prefix is not None else ""
    return expand_path(chosen or os.environ.get("AGENTM_INSTALL_PREFIX") or os.path.join("~", ".agentm"))


def config_path(prefix: StrPath | None = None) -> str:
    """Where the config file is, or would be."""
    return os.path.join(install_prefix(prefix), CONFIG_NAME)


def cache_root() -> str:
    """Where what must stay on this machine lives: the locks, and the index."""
    return os.path.dirname(default_lock_root())


def expand_path(path: str) -> str:
    """An absolute path with ``~`` resolved; ConfigError when there is no such home, or no such path."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~") or "\0" in expanded:
        raise ConfigError(f"{path!r} cannot be made a path; set HOME, or write the path out in full.")
    return os.path.abspath(expanded)


def read_config(prefix: StrPath | None = None) -> dict[str, Any]:
    """Every key and value; ``{}`` when there is no file. ConfigError when there is one that cannot be read."""
    path = config_path(prefix)
    data = _read_bytes(path)
    config = {} if data is None else _parse(path, data)
    return {key: _modern(key, value) for key, value in config.items()}


def get_value(key: str, prefix: StrPath | None = None, default: Any = None) -> Any:
    """The value of one key, or the default when it is not set."""
    return read_config(prefix).get(key, default)


def set_values(values: Mapping[str, str], prefix: StrPath | None = None) -> dict[str, str]:
    """Write several keys in one step, and return them as they were written."""
    checked = {key: check_value(key, value) for key, value in values.items()}
    _change(prefix, lambda config: {**config, **checked})
    return checked


def unset_value(key: str, prefix: StrPath | None = None) -> bool:
    """Take a key out; False when it was not there, and then nothing is written."""
    if key not in read_config(prefix):
        return False
    _change(prefix, lambda config: {name: value for name, value in config.items() if name != key})
    return True


def check_value(key: str, value: str) -> str:
    """The value as it should be stored; ConfigError when a known key cannot have it."""
    if not isinstance(key, str) or not key.strip():
        raise ConfigError(f"a config key is a non-empty text, not {key!r}; see them with: agentm config list.")
    if not isinstance(value, str):
        raise ConfigError(f"the value of {key} is a text, not {type(value).__name__}; pass a str.")
    if key in KNOWN_KEYS and not value.strip():
        raise ConfigError(f"the value of {key} is empty; to remove the key type: agentm config unset {key}.")
    if key in _PATH_KEYS:
        value = expand_path(value)
    if key in _FOLDER_KEYS and not could_be_folder(value):
        raise ConfigError(
            f"{value!r} is not a folder, nor is its parent, so the path may be mistyped or its drive not mounted; "
            f"check it, or first type: mkdir -p {_quoted(value)}.",
            code="vault_path_missing",
        )
    return str(_modern(key, value))


def could_be_folder(path: str) -> bool:
    """Whether a folder is there, or one could be made in a folder that is.

    Making more than one would turn a mistyped path, or a drive that is not mounted, into an empty memory.
    """
    return os.path.isdir(path) or (not os.path.lexists(path) and os.path.isdir(os.path.dirname(path)))


def nearest_key(key: str) -> str | None:
    """The known key that this one is probably a slip of; None for a known key, or one of its own."""
    import difflib

    if key in KNOWN_KEYS:
        return None
    by_fold = {_fold(known): known for known in KNOWN_KEYS}
    near = difflib.get_close_matches(_fold(key), by_fold, n=1, cutoff=0.85)
    return by_fold[near[0]] if near else None


def nested_keys(config: Mapping[str, Any], below: str = "") -> list[str]:
    """Known keys that stand inside objects, where nobody reads them: keys are flat, with dots."""
    found = []
    for name, value in config.items():
        dotted = f"{below}.{name}" if below else name
        if isinstance(value, dict):
            found += nested_keys(value, dotted)
        elif below and dotted in KNOWN_KEYS:
            found.append(dotted)
    return found


def _fold(key: str) -> str:
    return key.casefold().replace("_", "").replace("-", "").replace(".", "")


def _modern(key: str, value: Any) -> Any:
    """`vault` is the older name of the state mode that is called `backend` now."""
    return "backend" if key == STATE_MODE and value == "vault" else value


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def _unreadable(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"the config file {path!r} is there but cannot be read: {why}; repair it, or move it away to start afresh.",
        code="config_unreadable",
    )


def _read_bytes(path: str) -> bytes | None:
    try:
        return read_small(path)
    except OSError as cause:
        if cause.errno == errno.ENOENT and not os.path.islink(path):
            return None
        raise _unreadable(path, cause.strerror or str(cause)) from cause


def _parse(path: str, data: bytes) -> dict[str, Any]:
    try:
        # Editors on Windows may begin the file with a byte-order mark.
        config = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique)
    except UnicodeDecodeError as cause:
        raise _unreadable(path, f"byte {cause.start} is not UTF-8") from cause
    except (ValueError, RecursionError) as cause:
        raise _unreadable(path, f"it is not JSON ({cause})") from cause
    if not isinstance(config, dict):
        raise _unreadable(path, "it holds no JSON object")
    return config


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _change(prefix: StrPath | None, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    # A config that is a link into somebody's dotfiles stays one: what it points to is replaced.
    path = os.path.realpath(config_path(prefix))
    try:
        with _lock(path).hold() as held:
            data = _encode(change(read_config(prefix)))
            if not held.ours():
                raise LockLostError(f"another process changed {path!r} while this one slept; try again.")
            _durable.make_dirs(os.path.dirname(path))
            _durable.write_file(path, data)
    except AgentmError:
        raise
    except _durable.Unsettled as cause:
        raise ConfigError(
            f"the config file {path!r} is written but may not survive a power cut ({cause.strerror}); write it again.",
            code="outcome_unknown",
        ) from cause
    except OSError as cause:
        raise ConfigError(
            f"the config file {path!r} cannot be written ({cause.strerror or cause}); "
            "check owner, mode and free space of its directory and of the cache directory.",
            code="config_unwritable",
        ) from cause


def _encode(config: dict[str, Any]) -> bytes:
    try:
        return f"{json.dumps(config, indent=2, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:
        # A path that is not UTF-8 has no other form in JSON than escapes.
        return f"{json.dumps(config, indent=2)}\n".encode()


def _lock(path: str) -> Mutex:
    import hashlib

    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Mutex(os.path.join(default_lock_root(), f"config-{name}.lock"))
