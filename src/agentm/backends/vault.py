"""A folder that a sync client replicates: an Obsidian vault, a Drive or Dropbox folder.

Two kinds of rivals write here. Other agentm processes keep to the mutex. The sync client, an editor or another
device do not; against them every change goes through `Swap`, which never destroys a text it has not read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from agentm.backends import _durable
from agentm.backends._batch import Batch
from agentm.backends._files import content, mode_of
from agentm.backends._locks import Locks
from agentm.backends._mutex import Held, Mutex, default_lock_root, lost
from agentm.backends._swap import Swap, recover
from agentm.backends._tree import FileTree
from agentm.errors import ConfigError, StoreError, could_not
from agentm.seam import abilities as seam
from agentm.seam.locator import Locator
from agentm.seam.types import Capabilities

PROTOCOL = "vault"
CAPABILITIES = Capabilities(
    concurrent_writers=True,
    conflict_files=True,
    sync=True,
    remove=True,
    rename=True,
    append=True,
    compare_and_swap=True,
    change_feed=True,
    lock=True,
    write_many=True,
)


class VaultBackend(FileTree):
    """Plain files below ``root``; locks live under ``lock_root``, never in the vault."""

    protocol = PROTOCOL

    lock_patience = 10.0
    """Seconds that a holder may keep others waiting before it loses the lock."""

    def __init__(self, root: str | os.PathLike[str], *, lock_root: str | os.PathLike[str] | None = None) -> None:
        self.lock_root = os.path.abspath(os.path.expanduser(os.fspath(lock_root or default_lock_root())))
        self._mutex = Mutex(_lock_path(os.fspath(root), self.lock_root), patience=self.lock_patience)
        self._refuse_vanished(root)
        super().__init__(root, mode=0o777)
        _durable.can_exchange()
        self._clear_up()

    def _refuse_vanished(self, root: str | os.PathLike[str]) -> None:
        """A vault that was written to before and is gone is a drive that is not mounted, not an empty vault."""
        path = os.path.abspath(os.path.expanduser(os.fspath(root)))
        self._known = os.path.exists(self._mark)
        if self._known and not os.path.isdir(path):
            raise StoreError(
                f"{could_not(PROTOCOL, 'open', path)}: it was there before and is not there now; mount it or put it "
                f"back, or remove {self._mark!r} to begin a new one.",
                code="store_missing",
                errno=errno.ENOENT,
                backend=PROTOCOL,
                verb="open",
                locator=path,
            )

    @property
    def _mark(self) -> str:
        """Beside the lock: that something was written to this vault, and is durable."""
        return f"{self._mutex.path}.known"

    def _remember(self) -> None:
        if not self._known:
            with suppress(OSError):
                os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
            self._known = True

    def __reduce__(self) -> tuple[Callable[..., VaultBackend], tuple[object, ...]]:
        return _reopen, (type(self), self.root, self.lock_root)

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def conflict_strategy(self) -> str:
        """A whole file is what conflicts; both sides are shown, nothing is merged silently."""
        return "whole-file"

    def lock(self, *locators: Locator) -> AbstractContextManager[seam.Held]:
        vault = os.path.basename(self._mutex.path)  # the same by whatever path it, or the lock folder, is reached
        return Locks(self.lock_root, vault, backend=PROTOCOL, patience=self.lock_patience).hold(*locators)

    @contextmanager
    def _exclusive(self) -> Iterator[Callable[[], bool]]:
        with self._mutex.hold() as held:
            yield held.ours

    def _publish(self, path: str, data: bytes, if_version: str | None) -> None:
        if if_version is not None:
            self._expect(if_version, content(path))  # a cheap no before waiting for the lock
        try:
            self._put(self.root, path, data, if_version)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # Another file system is mounted below the root: there the temporary must lie beside its target.
            with self._mutex.hold():
                self._directories.ensure(os.path.dirname(path))
                recover(self.root, os.path.dirname(path))
            self._put(os.path.dirname(path), path, data, if_version)

    def _put(self, temp_dir: str, path: str, data: bytes, if_version: str | None) -> None:
        """Flushes may take long on a busy disk, and who holds the lock for long loses it: they are outside of it."""
        parent = os.path.dirname(path)
        with _durable.Temp(temp_dir) as temp:
            temp.fill(data, mode_of(path))
            with self._mutex.hold() as held, self._directories.ensured(parent):
                base = content(path)
                if if_version is not None:
                    self._expect(if_version, base)
                swap = Swap(self.root, temp_dir, path, base, data)
                _exchange(held, swap, temp)
        with _durable.settling():
            _durable.sync_dir(parent)
        swap.accept()
        self._remember()

    def _place_some(self, batch: Batch, count: int) -> None:
        done: list[Swap] = []

        def put(temp: _durable.Ready, path: str, data: bytes, if_version: str | None) -> None:
            base = content(path)
            if if_version is not None:
                self._expect(if_version, base)
            swap = Swap(self.root, self.root, path, base, data)
            _exchange(held, swap, temp)
            done.append(swap)

        try:
            with self._mutex.hold() as held:
                batch.place(count, put)
        finally:
            batch.settle()
            for swap in done:
                swap.accept()
        self._remember()

    def _remove_file(self, path: str, if_version: str | None, ours: Callable[[], bool]) -> None:
        if if_version is None and not stat.S_ISREG(os.lstat(path).st_mode):
            self._unlink(path)  # a link or the like: there is no text to be spared
            return
        base = content(path)
        if if_version is not None:
            self._expect(if_version, base)
        try:
            swap = Swap(self.root, self.root, path, base, None)
            swap.take(ours)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            swap = Swap(self.root, os.path.dirname(path), path, base, None)
            swap.take(ours)
        with _durable.settling():
            _durable.sync_dir(os.path.dirname(path))
        swap.accept()

    def _clear_up(self) -> None:
        if not list(_durable.dead_temps(self.root)):
            return  # whoever only looks leaves no trace, not even a lock file
        # Whoever holds the lock now is alive, and what lies about may be its own: leave it to the next start.
        with suppress(OSError):
            held = self._mutex.try_hold()
            if held is not None:
                try:
                    recover(self.root, self.root)
                finally:
                    held.release()


def _reopen(cls: type[VaultBackend], root: str, lock_root: str) -> VaultBackend:
    return cls(root, lock_root=lock_root)


def _exchange(held: Held, swap: Swap, temp: _durable.Ready) -> None:
    if not held.ours():
        raise lost()
    temp.settle()
    swap.put(temp, held.ours)


def _lock_path(root: str, lock_root: str) -> str:
    """One lock for one vault, by whatever path it is reached."""
    real = os.path.normcase(os.path.realpath(os.path.expanduser(root)))
    locks = os.path.normcase(os.path.realpath(lock_root))
    if f"{locks}{os.sep}".startswith(f"{real.rstrip(os.sep)}{os.sep}"):
        raise ConfigError(
            f"the lock folder {lock_root!r} lies inside the vault {root!r}, where it would be synced; "
            "choose a lock_root outside of it.",
            code="lock_root_in_vault",
            backend=PROTOCOL,
        )
    return os.path.join(lock_root, f"{hashlib.sha256(os.fsencode(real)).hexdigest()[:32]}.lock")
