"""A storage that keeps to a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from agentm.files._way import CrossedError, IsDenied
from agentm.files.base import Entries, Storage
from agentm.files.scope import READ, WRITE, ScopedStorageScope, check_scope

T = TypeVar("T")


@runtime_checkable
class Confinable(Protocol):
    """A storage in which a path can lead astray, and which can be kept from it."""

    def beneath(self, roots: Sequence[str], is_denied: IsDenied) -> Storage: ...


class ScopedStorage:
    """A storage of which only some paths can be read and written: what is denied first, then what is allowed.

    Over a storage of yours that follows links, have it say so with a method ``beneath``, as `FsStorage` has: a path
    that is compared as text is only as good as what the storage makes of it.
    """

    def __init__(self, inner: Storage, scope: ScopedStorageScope) -> None:
        self._scope = check_scope(scope)
        self._inner = inner.beneath(scope.roots, scope.is_denied) if isinstance(inner, Confinable) else inner

    @property
    def scope(self) -> ScopedStorageScope:
        return self._scope

    async def read(self, path: str) -> str | None:
        plain = self._scope.check(READ, path)
        return await self._within(READ, path, self._inner.read(plain))

    async def exists(self, path: str) -> bool:
        plain = self._scope.check(READ, path)
        return await self._within(READ, path, self._inner.exists(plain))

    async def mtime(self, path: str) -> int | None:
        plain = self._scope.check(READ, path)
        return await self._within(READ, path, self._inner.mtime(plain))

    async def list(self, path: str) -> list[str]:
        plain = self._scope.check(READ, path)
        return await self._within(READ, path, self._inner.list(plain))

    async def list_entries(self, path: str) -> Entries:
        plain = self._scope.check(READ, path)
        return await self._within(READ, path, self._inner.list_entries(plain))

    async def write(self, path: str, content: str, *, mode: int | None = None) -> None:
        plain = self._scope.check(WRITE, path)
        await self._within(WRITE, path, self._inner.write(plain, content, mode=mode))

    async def append(self, path: str, content: str) -> None:
        plain = self._scope.check(WRITE, path)
        await self._within(WRITE, path, self._inner.append(plain, content))

    async def write_atomic(self, path: str, content: str, *, mode: int | None = None) -> None:
        plain = self._scope.check(WRITE, path)
        await self._within(WRITE, path, self._inner.write_atomic(plain, content, mode=mode))

    async def mkdir(self, path: str) -> None:
        plain = self._scope.check(WRITE, path)
        await self._within(WRITE, path, self._inner.mkdir(plain))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        plain = self._scope.check_whole(WRITE, path)
        await self._within(WRITE, path, self._inner.remove(plain, recursive=recursive))

    async def rename(self, source: str, target: str) -> None:
        old, new = self._scope.check_move(source, target)
        await self._within(WRITE, source, self._inner.rename(old, new))

    async def _within(self, kind: str, path: str, call: Awaitable[T]) -> T:
        try:
            return await call
        except CrossedError:
            raise self._scope.refusal(kind, path) from None
