"""Where the places of a store really lie, if it is a folder of files that follows links when it reads."""

from __future__ import annotations

import os

from agentm.errors import store_error
from agentm.files._way import Beneath, IsDenied
from agentm.seam import StorageBackend, protocol_of
from agentm.seam.links import folder_of


class Ground:
    """What is below the places of a store. One that is no folder of files has nothing there to go wrong."""

    def __init__(self, backend: StorageBackend, is_denied: IsDenied) -> None:
        self._protocol = protocol_of(backend)
        self._folder = folder_of(backend)
        self._is_denied = is_denied
        self._folders = set() if self._folder is None else {self._folder, os.path.realpath(self._folder)}
        self._way = None if self._folder is None else Beneath([self._folder], is_denied)

    def strays(self, key: str, *, whole: bool = False, itself: bool = True) -> bool:
        """Whether what is at a key is not, or not only, that place, or is denied where it lies (`Beneath.strays`)."""
        if self._way is None or self._folder is None:
            return False
        try:
            return self._way.strays(f"{self._folder}/{key}", whole=whole, itself=itself)
        except OSError as cause:
            if not os.path.isdir(self._folder):
                return False  # the store itself says so best
            raise store_error(cause, backend=self._protocol, verb="look at", locator=key) from cause

    def hides(self, key: str) -> bool:
        """Whether a key is denied by where it lies, as far as the names tell: it is not even shown."""
        return any(self._is_denied(f"{folder}/{key}") for folder in self._folders)
