"""A whole memory in one JSON file, for one writer.

Every change writes the file anew beside the old one and puts it in its place in one step, so that a crash leaves
the old tree or the new one. That makes removing and renaming a single step too, and both are declared. Two
processes that change it at once could lose each other's change, so `concurrent_writers` stays False.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from typing import Any

from agentm.seam import Capabilities, Info, Locator, StorageBackend, unsupported

# Key → [text, mtime] of a file, or [None, mtime] of a directory.
Tree = dict[str, list[Any]]


class JsonFileBackend(StorageBackend):
    """The tree in the file at ``path``: by default $AGENTM_JSONFILE, else ``~/.agentm/memory.json``."""

    protocol = "jsonfile"

    def __init__(self, path: str | None = None) -> None:
        chosen = path or os.environ.get("AGENTM_JSONFILE") or os.path.join("~", ".agentm", "memory.json")
        self.path = os.path.abspath(os.path.expanduser(chosen))
        os.makedirs(os.path.dirname(self.path), exist_ok=True)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(remove=True, rename=True)

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        text: str | None = _entry(self._load(), "read", locator)[0]
        if text is None:
            raise _refusal(IsADirectoryError, errno.EISDIR, "read", locator)
        return text

    def write(self, locator: Locator, content: str) -> Locator:
        def put(tree: Tree) -> None:
            if _is_dir(tree, locator.key):
                raise _refusal(IsADirectoryError, errno.EISDIR, "write", locator)
            _make_dirs(tree, "write", locator.parent)
            tree[locator.key] = [content, time.time()]

        self._change(put)
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        prefix = f"{locator.key}/" if locator.key else ""
        keys = (key for key in self._load() if key and key.startswith(prefix))
        return [Locator(key) for key in sorted(keys) if "/" not in key[len(prefix) :]]

    def exists(self, locator: Locator) -> bool:
        return locator.key in self._load()

    def info(self, locator: Locator) -> Info:
        text, mtime = _entry(self._load(), "look at", locator)
        size = 0 if text is None else len(text.encode("utf-8", "surrogatepass"))
        return Info(locator, text is None, size, mtime)

    def mkdir(self, locator: Locator) -> Locator:
        self._change(lambda tree: _make_dirs(tree, "make", locator))
        return locator

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        if if_version is not None:
            raise unsupported(self.protocol, "compare_and_swap")

        def take(tree: Tree) -> None:
            _entry(tree, "remove", locator)
            if any(key.startswith(f"{locator.key}/") for key in tree):
                raise _refusal(OSError, errno.ENOTEMPTY, "remove", locator)
            if not locator.key:
                raise _refusal(PermissionError, errno.EPERM, "remove", locator)
            del tree[locator.key]

        self._change(take)

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        def move(tree: Tree) -> None:
            _entry(tree, "rename", source)
            if not source.key or f"{target.key}/".startswith(f"{source.key}/"):
                raise _refusal(OSError, errno.EINVAL, "rename", source)
            replaces = overwrite and not _is_dir(tree, source.key) and not _is_dir(tree, target.key)
            if target.key in tree and not replaces:
                raise _refusal(FileExistsError, errno.EEXIST, "rename", target)
            _make_dirs(tree, "rename", target.parent)
            for key in [key for key in tree if f"{key}/".startswith(f"{source.key}/")]:
                tree[target.key + key[len(source.key) :]] = tree.pop(key)

        self._change(move)
        return target

    def _load(self) -> Tree:
        try:
            with open(self.path, encoding="utf-8") as file:
                tree: Tree = json.load(file)
        except FileNotFoundError:
            return {"": [None, time.time()]}
        return tree

    def _change(self, change: Callable[[Tree], None]) -> None:
        """Read the tree, change it, and put the whole of it back, durably. A refused change leaves it alone."""
        tree = self._load()
        change(tree)
        temporary = f"{self.path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(json.dumps(tree))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        _sync_directory(os.path.dirname(self.path))


def _entry(tree: Tree, verb: str, locator: Locator) -> list[Any]:
    if locator.key not in tree:
        raise _refusal(FileNotFoundError, errno.ENOENT, verb, locator)
    return tree[locator.key]


def _is_dir(tree: Tree, key: str) -> bool:
    return key in tree and tree[key][0] is None


def _make_dirs(tree: Tree, verb: str, locator: Locator) -> None:
    place = Locator()
    for part in locator.parts:
        place = place.child(part)
        if not _is_dir(tree, tree.setdefault(place.key, [None, time.time()]) and place.key):
            raise _refusal(NotADirectoryError, errno.ENOTDIR, verb, locator)


def _refusal(kind: type[OSError], number: int, verb: str, locator: Locator) -> OSError:
    return kind(number, f"jsonfile could not {verb} it: {os.strerror(number)}", locator.key)


def _sync_directory(path: str) -> None:
    """The new name has to survive a power cut as well. Windows cannot do this, and does not need it."""
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
