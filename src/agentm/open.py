"""The composition root: from what is configured to the parts of a memory, in one visible function."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from agentm import config as settings
from agentm.context.names import checked_name
from agentm.context.tenancy import RequestContext
from agentm.errors import ConfigError
from agentm.index import todo
from agentm.records import record_class
from agentm.seam import StorageBackend, protocol_of

if TYPE_CHECKING:
    from agentm.context.contextfs import ContextFS
    from agentm.files.scope import ScopedStorageScope
    from agentm.index.account import AccountIndex
    from agentm.index.duplicates import Duplicates
    from agentm.index.embed import Embedder
    from agentm.recall.reach import Reach

ACCOUNT = "local"
INDEX = "index"

StrPath = str | os.PathLike[str]


@record_class(frozen=True)
class Opened:
    """The parts that a memory is made of. What writes and what searches are loaded by those who do."""

    backend: StorageBackend
    fs: Callable[[], ContextFS]
    index: Callable[[], AccountIndex]
    duplicates: Callable[[], Duplicates]
    note: Callable[[Iterable[str]], None]
    """What was written, for the index: memories by their addresses, notes by their keys."""
    reach: Reach | None
    """What may be shown of the index, where a scope is around the store."""


def open_store(
    store: StorageBackend | StrPath | None,
    ctx: RequestContext,
    *,
    install_prefix: StrPath | None = None,
    index_root: StrPath | None = None,
    embedder: Embedder | None = None,
    notes: bool | None = None,
    scope: ScopedStorageScope | None = None,
) -> Opened:
    """A store (a backend, a folder of plain files, or for None the configured one) and a caller's index of it.

    The index is that of the whole store, kept for all; what a ``scope`` covers is all that is read and written.
    """
    whole = _backend(store, install_prefix)
    backend = whole if scope is None else _scoped(whole, scope)
    home = _IndexHome(index_directory(whole, ctx.account_id, install_prefix, index_root))
    return Opened(
        backend,
        fs=partial(_fs, backend, home),
        index=partial(
            _index,
            home,
            backend=whole,
            account=ctx.account_id,
            notes=ctx.account_id == caller(install_prefix=install_prefix).account_id if notes is None else notes,
            embedder=embedder,
        ),
        duplicates=partial(_duplicates, home.directory, backend),
        reach=None if scope is None else _reach(backend, scope),
        note=home.note,
    )


class _IndexHome:
    """Where an index lies: in a directory that lasts, or, where there is none to be had, in one of the process."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory
        self._passing: str | None = None

    def passing(self) -> str:
        if self._passing is None:
            self._passing = _temporary()
        return self._passing

    def note(self, uris: Iterable[str]) -> None:
        """What is written is noted for the index, wherever that is."""
        uris = list(uris)
        if self.directory is not None:
            todo.note(self.directory, uris)
        if self.directory is None or self._passing is not None:
            todo.note(self.passing(), uris)


def _scoped(backend: StorageBackend, scope: ScopedStorageScope) -> StorageBackend:
    from agentm.layers.scoped import ScopedBackend

    return ScopedBackend(backend, scope)


def _reach(backend: StorageBackend, scope: ScopedStorageScope) -> Reach:
    from agentm.recall.reach import Reach

    return Reach(scope, backend)


def _duplicates(directory: str | None, backend: StorageBackend) -> Duplicates:
    from agentm.index.duplicates import Duplicates

    return Duplicates(directory, backend)


def _fs(backend: StorageBackend, home: _IndexHome) -> ContextFS:
    from agentm.context.contextfs import ContextFS

    return ContextFS(backend, changed=home.note)


def _index(home: _IndexHome, **parts: Any) -> AccountIndex:
    """An index that cannot be kept where it should be lasts as long as the process: with what can be read of it."""
    import sqlite3

    from agentm.index.account import AccountIndex

    directory = home.directory
    if directory is None:
        return AccountIndex(home.passing(), **parts)
    from agentm.index.obstacle import obstacle

    why = None
    try:
        if not os.path.isdir(directory) or os.access(directory, os.W_OK):
            return AccountIndex(directory, **parts)
    except (OSError, sqlite3.OperationalError) as cause:
        why = f"the index cannot be kept in {directory}: {cause}"
    passing = _borrowed(directory, home.passing(), vectors=parts["embedder"] is not None) or home.passing()
    return AccountIndex(passing, **parts, lasting=False, obstacle=obstacle(directory) or why)


def _borrowed(directory: str, new: str, *, vectors: bool) -> str | None:
    """A directory with the index that lies in one which may only be read; None if there is none."""
    from agentm.index.borrowed import borrow, is_read_only

    if not is_read_only(directory):
        return None
    try:
        borrow(directory, new, vectors=vectors)
    except OSError:
        return None  # it is gone, or may not even be read
    return new


def _temporary() -> str:
    import atexit
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="agentm-index-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def caller(
    account: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    *,
    actor: str | None = None,
    sources: tuple[str, ...] = (),
    visible: tuple[str, ...] = (),
    install_prefix: StrPath | None = None,
) -> RequestContext:
    """Who asks: as named, else as configured, else the login name in the account ``local``."""
    config = settings.read_config(install_prefix)
    return RequestContext(
        account_id=checked_name(_chosen(account, config, settings.IDENTITY_ACCOUNT) or ACCOUNT, "account"),
        user_id=checked_name(_chosen(user, config, settings.IDENTITY_USER) or _login(), "user"),
        agent_id=checked_name(agent, "agent") if agent is not None else None,
        visible=visible,
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


def _chosen(given: str | None, config: dict[str, object], key: str) -> str | None:
    """An empty name is nobody's, and must not become everybody's."""
    if given is not None and (not isinstance(given, str) or not given.strip()):
        raise ConfigError(f"the name {given!r} is empty; leave it out for the one that is configured, or give one.")
    return given if given is not None else _setting(config, key)


def _setting(config: dict[str, object], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"the setting {key} is not a text; type: agentm config set {key} NAME.")
    return value


def _login() -> str:
    import getpass

    from agentm.context.slugs import slug_of

    try:
        return slug_of(getpass.getuser(), "me")
    except (OSError, KeyError, ImportError):  # a process whose user has no name, as in a container
        return "me"
