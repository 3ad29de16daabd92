"""Many files made durable with two flushes of the whole file system instead of two for each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from agentm.backends import _durable
from agentm.backends._files import mode_of

LARGEST_BATCH = 256
"""Each file of a batch keeps a descriptor open until it is in place."""


class Batch:
    """Temporary files that are filled, flushed together, put in place one by one, and flushed together again."""

    def __init__(self, directory: str, directories: _durable.Directories, file_system: int) -> None:
        self._directory = directory
        self._directories = directories
        self._file_system = file_system
        self._temps: list[tuple[_durable.Temp, str, bytes]] = []

    def fill(self, path: str, data: bytes) -> None:
        temp = _durable.Temp(self._directory)
        self._temps.append((temp, path, data))
        temp.fill(data, mode_of(path), flush=False)
        self._directories.ensure(os.path.dirname(path), flush=False)

    def flush(self) -> None:
        """Before the files are put in place, and again afterwards."""
        _durable.sync_file_system(self._file_system)

    def __iter__(self) -> Iterator[tuple[_durable.Temp, str, bytes]]:
        return iter(self._temps)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *error: object) -> None:
        for temp, _, _ in self._temps:
            temp.__exit__(None, None, None)
        with suppress(OSError):
            os.close(self._file_system)
