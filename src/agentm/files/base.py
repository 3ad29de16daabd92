"""The file interface: text files under absolute paths.

Nothing is relative to anything, and a storage manages no root: who uses it says the whole path. A missing file is the
common case and no error; every other failure raises.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Protocol, TypeVar, runtime_checkable

from agentm.errors import InvalidPathError, StoreError
from agentm.records import record_class

T = TypeVar("T")

_MOST_PERMISSIONS = 0o777


@record_class(frozen=True)
class DirEntry:
    """One name in a folder."""

    name: str
    is_dir: bool


Entries = list[DirEntry]
"""What is in a folder. A class with a verb of that name cannot say ``list`` itself."""


@runtime_checkable
class Storage(Protocol):
    """Text files under absolute paths."""

    async def read(self, path: str) -> str | None:
        """The text of a file.

        - nothing there: None
        - a folder: raises IsADirectoryError
        - bytes that are not UTF-8: raises, never returns something else
        """

    async def exists(self, path: str) -> bool:
        """Whether a file or a folder is there."""

    async def mtime(self, path: str) -> int | None:
        """When it was changed last, in milliseconds since 1970; None if nothing is there."""

    async def list(self, path: str) -> list[str]:
        """The names in a folder, sorted.

        - nothing there: ``[]``
        - a file: raises NotADirectoryError
        """

    async def list_entries(self, path: str) -> Entries:
        """As ``list``, and which of them are folders. What a link leads to is not looked at."""

    async def write(self, path: str, content: str, *, mode: int | None = None) -> None:
        """Write a whole file, durably.

        - the folder has to exist, where the store has folders that can be missing
        - a link is written through
        - ``mode``: POSIX permissions, in force before the first byte can be read; otherwise those of the file that is
          replaced, or what the umask leaves
        - a file that is there keeps its owner and group where the system allows it, and is left alone if it may not
          be written
        """

    async def append(self, path: str, content: str) -> None:
        """Add text at the end of a file, durably; the file is made if it is missing.

        - what fails leaves the old text
        """

    async def write_atomic(self, path: str, content: str, *, mode: int | None = None) -> None:
        """Write a file so that a reader, also after a crash, sees the whole old text or the whole new one.

        - through ``<path>.tmp.<pid>…`` and a rename; a link is replaced, not written through
        """

    async def mkdir(self, path: str) -> None:
        """Make a folder and those above it; one that is there is fine."""

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Take away a file, an empty folder, or with ``recursive`` a folder with all it holds.

        - nothing there: raises FileNotFoundError
        """

    async def rename(self, source: str, target: str) -> None:
        """Move a file or a folder. A file that is there is replaced.

        - nothing at the source: raises FileNotFoundError
        """


class BlockingStorage(Protocol):
    """The same verbs as plain calls, for programs without an event loop: ``FsStorage().blocking``."""

    def read(self, path: str) -> str | None: ...

    def exists(self, path: str) -> bool: ...

    def mtime(self, path: str) -> int | None: ...

    def list(self, path: str) -> list[str]: ...

    def list_entries(self, path: str) -> Entries: ...

    def write(self, path: str, content: str, *, mode: int | None = None) -> None: ...

    def append(self, path: str, content: str) -> None: ...

    def write_atomic(self, path: str, content: str, *, mode: int | None = None) -> None: ...

    def mkdir(self, path: str) -> None: ...

    def remove(self, path: str, *, recursive: bool = False) -> None: ...

    def rename(self, source: str, target: str) -> None: ...


class ThreadedStorage:
    """Plain calls behind the async interface: each runs in a thread, whole."""

    def __init__(self, blocking: BlockingStorage) -> None:
        self.blocking = blocking

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, call)

    async def _finish(self, call: Callable[[], None]) -> None:
        """A change that has begun ends before its caller goes on, also one who was cancelled: a write that was given
        up must not land over a later one."""
        begun = asyncio.ensure_future(self._run(call))
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            while not begun.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([begun])
            if not begun.cancelled():
                begun.exception()  # nobody is left to hear it
            raise

    async def read(self, path: str) -> str | None:
        return await self._run(partial(self.blocking.read, path))

    async def exists(self, path: str) -> bool:
        return await self._run(partial(self.blocking.exists, path))

    async def mtime(self, path: str) -> int | None:
        return await self._run(partial(self.blocking.mtime, path))

    async def list(self, path: str) -> list[str]:
        return await self._run(partial(self.blocking.list, path))

    async def list_entries(self, path: str) -> Entries:
        return await self._run(partial(self.blocking.list_entries, path))

    async def write(self, path: str, content: str, *, mode: int | None = None) -> None:
        await self._finish(partial(self.blocking.write, path, content, mode=mode))

    async def append(self, path: str, content: str) -> None:
        await self._finish(partial(self.blocking.append, path, content))

    async def write_atomic(self, path: str, content: str, *, mode: int | None = None) -> None:
        await self._finish(partial(self.blocking.write_atomic, path, content, mode=mode))

    async def mkdir(self, path: str) -> None:
        await self._finish(partial(self.blocking.mkdir, path))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        await self._finish(partial(self.blocking.remove, path, recursive=recursive))

    async def rename(self, source: str, target: str) -> None:
        await self._finish(partial(self.blocking.rename, source, target))


def check_path(path: object) -> str:
    """A path that can be one, or InvalidPathError."""
    if not isinstance(path, str):
        raise InvalidPathError(f"a path is text, not {type(path).__name__}; pass a str such as '/home/me/notes/a.md'.")
    if not path.startswith("/"):
        raise InvalidPathError(f"the path {path!r} is not absolute; write it from '/' on.", locator=path)
    if "\0" in path:
        raise InvalidPathError(f"the path {path!r} holds a NUL; leave it out.", locator=path)
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise InvalidPathError(
            f"character {cause.start} of the path {path!r} is half of a surrogate pair; choose plain characters.",
            locator=path,
        ) from cause
    return path


def check_mode(mode: object, path: str) -> None:
    """Permissions for owner, group and others, or None; else StoreError. As whom a program runs is not among them."""
    if mode is not None and (type(mode) is not int or not 0 <= mode <= _MOST_PERMISSIONS):
        given = oct(mode) if type(mode) is int else repr(mode)
        raise StoreError(
            f"{path!r} was not written: its mode {given} is none; pass a number from 0 to 0o777, such as 0o600.",
            code="invalid_mode",
            errno=errno.EINVAL,
            verb="write",
            locator=path,
        )


@lru_cache(maxsize=4096)
def segments(path: str) -> tuple[str, ...]:
    """The names that an absolute path leads through, with ``.``, ``..`` and empty ones taken out.

    Where no link is followed, this is the place that the path means.
    """
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)
