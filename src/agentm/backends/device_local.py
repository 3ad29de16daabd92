"""The default store: plain files in a directory of this machine, one writer process at a time.

Two processes that write at once still tear nothing and lose no compare-and-swap; the backend does not promise
more (`concurrent_writers` is False), because a plain write means that the last one wins.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from agentm.backends import _durable
from agentm.backends._batch import Batch
from agentm.backends._files import content, mode_of
from agentm.backends._locks import Locks
from agentm.backends._mutex import default_lock_root, lock_directory
from agentm.backends._tree import FileTree
from agentm.seam.abilities import Held
from agentm.seam.locator import Locator
from agentm.seam.types import Capabilities

PROTOCOL = "device-local"
CAPABILITIES = Capabilities(
    remove=True,
    rename=True,
    append=True,
    compare_and_swap=True,
    change_feed=True,
    lock=True,
    write_many=True,
)


class DeviceLocalBackend(FileTree):
    """Plain files below ``root`` (by default ``~/.agentm/memory``), which is made on construction."""

    protocol = PROTOCOL

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        super().__init__(os.path.join("~", ".agentm", "memory") if root is None else root, mode=0o700)
        _durable.sweep(self.root)

    def __reduce__(self) -> tuple[type[DeviceLocalBackend], tuple[str]]:
        return type(self), (self.root,)

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def lock(self, *locators: Locator) -> AbstractContextManager[Held]:
        return Locks(default_lock_root(), os.path.realpath(self.root), backend=PROTOCOL).hold(*locators)

    @contextmanager
    def _exclusive(self) -> Iterator[Callable[[], bool]]:
        with lock_directory(self.root):
            yield lambda: True  # nobody takes this lock away

    def _publish(self, path: str, data: bytes, if_version: str | None) -> None:
        if if_version is not None:
            self._expect(if_version, content(path))  # a cheap no before the costly flush
        parent = os.path.dirname(path)
        try:
            self._place(self.root, path, parent, data, if_version)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # Another file system is mounted below the root: there the temporary must lie beside its target.
            with lock_directory(self.root):
                self._directories.ensure(parent)
            _durable.sweep(parent)
            self._place(parent, path, parent, data, if_version)
        with _durable.settling():
            _durable.sync_dir(parent)

    def _place(self, temp_dir: str, path: str, parent: str, data: bytes, if_version: str | None) -> None:
        with _durable.Temp(temp_dir) as temp:
            temp.fill(data, mode_of(path))
            with lock_directory(self.root), self._directories.ensured(parent):
                if if_version is not None:
                    self._expect(if_version, content(path))
                _put(temp, path)

    def _place_some(self, batch: Batch, count: int) -> None:
        def put(temp: _durable.Ready, path: str, data: bytes, if_version: str | None) -> None:
            if if_version is not None:
                self._expect(if_version, content(path))
            _put(temp, path)

        try:
            with lock_directory(self.root):
                batch.place(count, put)
        finally:
            batch.settle()


def _put(temp: _durable.Ready, path: str) -> None:
    temp.settle()
    _durable.replace(temp.path, path)
    temp.placed = True
