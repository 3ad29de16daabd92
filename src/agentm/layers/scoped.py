"""A store of which only some places can be read and written.

The scope is that of files: ``/notes`` covers the place ``notes`` and all below it. What lies on the way to a readable
place can be listed, and shows nothing but the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from agentm.files._stores import Ground
from agentm.files.scope import READ, WRITE, ScopedStorageScope, check_scope
from agentm.seam import ROOT, Change, ConcurrentModificationError, Info, Locator, StorageBackend, Versioned, Watcher
from agentm.seam.layer import Layer


class ScopedBackend(Layer):
    """Deny first, then allow by kind, then the store inside.

    ``always_deny`` names places of the store, and where the store is a folder of files also paths of the machine, as
    the floor does: what the machine denies is denied where it really lies, whatever the store calls it.

    Locks are not checked: they keep others from the same place and show nothing. Over a folder of files, links, files
    with a second name and other spellings are refused as they are met; where somebody may swap one in at that very
    moment, a `ScopedStorage` over `FsStorage` holds against that too.
    """

    def __init__(self, inner: StorageBackend, scope: ScopedStorageScope) -> None:
        super().__init__(inner)
        self._scope = check_scope(scope).for_places()
        self._ground = Ground(inner, scope.is_denied)

    def is_link(self, locator: Locator) -> bool:
        """Whether it leads elsewhere, or is refused for some such reason: nobody goes on from there."""
        if not self._is_shown(locator):
            raise self._scope.refusal(READ, _path(locator))
        return self._ground.strays(locator.key)

    def check_whole(self, locator: Locator) -> None:
        self._scope.check_whole(WRITE, _path(locator))
        if self._ground.strays(locator.key, whole=True, itself=False):
            raise self._scope.refusal(WRITE, _path(locator))
        super().check_whole(locator)

    def read(self, locator: Locator) -> str:
        self._check(READ, locator)
        return super().read(locator)

    def write(self, locator: Locator, content: str) -> Locator:
        self._check(WRITE, locator)
        with self._versions_kept():
            return super().write(locator, content)

    def list(self, locator: Locator) -> list[Locator]:
        self._check_look(locator)
        return [child for child in super().list(locator) if self._is_shown(child)]

    def exists(self, locator: Locator) -> bool:
        self._check_look(locator)
        return super().exists(locator)

    def info(self, locator: Locator) -> Info:
        self._check_look(locator)
        return super().info(locator)

    def mkdir(self, locator: Locator) -> Locator:
        self._check(WRITE, locator)
        return super().mkdir(locator)

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        self.check_whole(locator)
        if if_version is not None:
            self._check(WRITE, locator)  # whose version it would be that is compared
        with self._versions_kept():
            super().remove(locator, if_version=if_version)

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        self._scope.check_move(_path(source), _path(target))
        for place in (source, target):
            if self._ground.strays(place.key, whole=True):
                raise self._scope.refusal(WRITE, _path(place))
        with self._versions_kept():
            return super().rename(source, target, overwrite=overwrite)

    def append(self, locator: Locator, content: str) -> Locator:
        self._check(WRITE, locator)
        with self._versions_kept():
            return super().append(locator, content)

    def read_versioned(self, locator: Locator) -> Versioned:
        self._check(READ, locator)
        return super().read_versioned(locator)

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        self._check(WRITE, locator)
        with self._versions_kept():
            return super().write_versioned(locator, content, if_version=if_version)

    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        self._check_look(below)
        return (change for change in super().changes(seen, below, skip=skip) if self._can_be_read(change.locator))

    def watch(self, below: Locator = ROOT) -> Watcher:
        self._check_look(below)
        return _ScopedWatcher(super().watch(below), self._is_shown)

    def write_many(
        self,
        *steps: Sequence[tuple[Locator, str]],
        if_versions: Mapping[Locator, str] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        taken = [list(step) for step in steps]  # one that can be gone through only once would be used up
        for place in [*(place for step in taken for place, _ in step), *(if_versions or ())]:
            self._check(WRITE, place)
        with self._versions_kept():
            super().write_many(*taken, if_versions=if_versions, before=before)

    def _check(self, kind: str, place: Locator) -> None:
        self._scope.check(kind, _path(place))
        if self._ground.strays(place.key):
            raise self._scope.refusal(kind, _path(place))

    def _check_look(self, place: Locator) -> None:
        if not self._is_shown(place) or self._ground.strays(place.key):
            raise self._scope.refusal(READ, _path(place))

    def _is_shown(self, place: Locator) -> bool:
        on_the_way = self._scope.covers(READ, place.parts) or self._scope.leads_to(READ, place.parts)
        return on_the_way and not self._scope.is_denied(_path(place)) and not self._ground.hides(place.key)

    def _can_be_read(self, place: Locator) -> bool:
        return (
            self._scope.covers(READ, place.parts)
            and not self._scope.is_denied(_path(place))
            and not self._ground.strays(place.key)
        )

    @contextmanager
    def _versions_kept(self) -> Iterator[None]:
        """The version of now tells whether a text is the one that somebody guessed: only who may read it hears it."""
        try:
            yield
        except ConcurrentModificationError as refused:
            if refused.locator is None or not self._can_be_read(Locator(refused.locator)):
                refused.current = refused.expected = None  # what was expected may be what stood there when it began
            raise


class _ScopedWatcher:
    """Says "look again" only for what may be looked at."""

    def __init__(self, inner: Watcher, is_shown: Callable[[Locator], bool]) -> None:
        self._inner = inner
        self._is_shown = is_shown

    def wait(self, timeout: float) -> tuple[Locator, ...]:
        deadline = time.monotonic() + timeout
        while places := self._inner.wait(max(0.0, deadline - time.monotonic())):
            shown = tuple(place for place in places if self._is_shown(place))
            if shown or time.monotonic() >= deadline:
                return shown
        return ()

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _path(place: Locator) -> str:
    return f"/{place.key}"
