"""What a path in a store can lead to, where the store is a folder of files that follows links when it reads."""

from __future__ import annotations

import os
from collections.abc import Callable

from agentm.backends._tree import FileTree
from agentm.errors import store_error
from agentm.files._way import Beneath, IsDenied
from agentm.seam import StorageBackend, protocol_of


def straying(backend: StorageBackend, is_denied: IsDenied) -> Callable[[str], bool]:
    """Tells whether ``/a/b`` is not, or not only, the place ``a/b`` of this store.

    That is so for links, for files with a second name, and for names that the disk takes for those of others. A store
    that is no folder of files has none of these.
    """
    if not isinstance(backend, FileTree):
        return lambda path: False
    root = backend.root
    way = Beneath([root], is_denied)

    def strays(path: str) -> bool:
        try:
            return way.strays(f"{root}/{path}")
        except OSError as cause:
            if not os.path.isdir(root):
                return False  # the store itself says so best
            raise store_error(cause, backend=protocol_of(backend), verb="look at", locator=path) from cause

    return strays
