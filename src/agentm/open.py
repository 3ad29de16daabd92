"""The composition root: from what is configured to the parts of a memory, in one visible function."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agentm import config as settings
from agentm.context.contextfs import ContextFS
from agentm.context.names import checked_name
from agentm.context.slugs import slug_of
from agentm.context.tenancy import RequestContext
from agentm.errors import ConfigError
from agentm.index import todo
from agentm.seam import StorageBackend, protocol_of

if TYPE_CHECKING:
    from agentm.index.account import AccountIndex
    from agentm.index.embed import Embedder

ACCOUNT = "local"
INDEX = "index"

StrPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts that a memory is made of."""

    fs: ContextFS
    index: Callable[[], AccountIndex]
    """Loaded only by those who search: it costs more than all the rest."""


def open_store(
    store: StorageBackend | StrPath | None,
    ctx: RequestContext,
    *,
    install_prefix: StrPath | None = None,
    index_root: StrPath | None = None,
    embedder: Embedder | None = None,
) -> Opened:
    """A store (a backend, a folder of plain files, or for None the configured one) and a caller's index of it."""
    backend = _backend(store, install_prefix)
    directory = index_directory(backend, ctx.account_id, install_prefix, index_root)
    fs = ContextFS(backend) if directory is None else ContextFS(backend, changed=partial(todo.note, directory))
    return Opened(fs, partial(_index, directory, fs, ctx, embedder))


def _index(directory: str | None, fs: ContextFS, ctx: RequestContext, embedder: Embedder | None) -> AccountIndex:
    from agentm.index.account import AccountIndex

    if directory is None:
        directory = tempfile.mkdtemp(prefix="agentm-index-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return AccountIndex(directory, fs, ctx.account_id, notes=f"user:{ctx.user_id}", embedder=embedder)


def caller(
    account: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    *,
    actor: str | None = None,
    sources: tuple[str, ...] = (),
    install_prefix: StrPath | None = None,
) -> RequestContext:
    """Who asks: as named, else as configured, else the login name in the account ``local``."""
    config = settings.read_config(install_prefix)
    return RequestContext(
        account_id=checked_name(account or _setting(config, settings.IDENTITY_ACCOUNT) or ACCOUNT, "account"),
        user_id=checked_name(user or _setting(config, settings.IDENTITY_USER) or _login(), "user"),
        agent_id=checked_name(agent, "agent") if agent is not None else None,
        actor=actor,
        sources=sources,
    )


def index_directory(
    backend: StorageBackend, account: str, install_prefix: StrPath | None, index_root: StrPath | None
) -> str | None:
    """Where the index of an account lies: on this machine, outside of the store.

    None for a store that cannot say where it is: it has an index for as long as the process lives.
    """
    place = getattr(backend, "root", None) or getattr(backend, "path", None)
    if not isinstance(place, str | os.PathLike):
        return None
    root = index_root if index_root is not None else os.path.join(settings.install_prefix(install_prefix), INDEX)
    store = f"{protocol_of(backend)}:{os.path.realpath(place)}"
    return os.path.join(os.path.expanduser(root), hashlib.sha256(store.encode()).hexdigest()[:16], account)


def _backend(store: StorageBackend | StrPath | None, install_prefix: StrPath | None) -> StorageBackend:
    if isinstance(store, StorageBackend):
        return store
    if store is not None:
        from agentm.backends.device_local import DeviceLocalBackend

        return DeviceLocalBackend(store)
    from agentm.selection import select_backend

    return select_backend(install_prefix=install_prefix)


def _setting(config: dict[str, object], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"the setting {key} is not a text; type: agentm config set {key} NAME.")
    return value


def _login() -> str:
    import getpass

    try:
        return slug_of(getpass.getuser(), "me")
    except (OSError, KeyError, ImportError):  # a process whose user has no name, as in a container
        return "me"
