"""Everything below a directory, so that a test can say: nothing appeared, nothing went, nothing changed."""

from __future__ import annotations

import os


def snapshot(root: str) -> dict[str, object]:
    """Relative path → what is there: the bytes of a file, the target of a link, or its mode."""
    found: dict[str, object] = {}
    for directory, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(directory, name)
            found[os.path.relpath(path, root)] = _what(path)
    return found


def _what(path: str) -> object:
    if os.path.islink(path):
        return os.readlink(path)
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read()
    return os.lstat(path).st_mode
