"""The whole tree in one SQLite file, for people who want one file.

Anyone may read it with plain SQLite, also while agentm writes. There is one table, and no other file at rest:

    entries(
        key     TEXT PRIMARY KEY  'notes/today.md'; the root is '' and is always there
        parent  TEXT              'notes'; NULL for the root only
        is_dir  INTEGER           1 or 0; every parent of an entry is an entry too
        version TEXT              of a file: 16 random hex digits, new ones with each write; NULL for a directory
        mtime   REAL              epoch seconds
        content BLOB              of a file: the UTF-8 bytes; NULL for a directory
    )

The header carries ``application_id`` 0x6167746d ("agtm") and the layout's number as ``user_version``. Whoever writes
``content`` from outside gives the row a new ``version``; it is the version token and the stamp of the change feed.
Versions are random and not counted, so that none comes again, also not after a backup was restored.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from agentm.backends import _refusals
from agentm.backends._locks import Locks
from agentm.backends._mutex import default_lock_root
from agentm.backends._sqlite_file import DatabaseFile, Layout
from agentm.backends._text import decode, encode
from agentm.errors import StoreError
from agentm.seam.abilities import Held
from agentm.seam.backend import StorageBackend
from agentm.seam.locator import ROOT, Locator, lies_in
from agentm.seam.types import ABSENT, Capabilities, Change, Info, Versioned

PROTOCOL = "sqlite"
CAPABILITIES = Capabilities(
    concurrent_writers=True,
    remove=True,
    rename=True,
    append=True,
    compare_and_swap=True,
    change_feed=True,
    watch=True,
    lock=True,
    write_many=True,
)

LAYOUT = Layout(
    application_id=0x6167746D,
    number=1,
    statements=(
        """CREATE TABLE entries (
            key TEXT PRIMARY KEY NOT NULL,
            parent TEXT,
            is_dir INTEGER NOT NULL CHECK (is_dir IN (0, 1)),
            version TEXT,
            mtime REAL NOT NULL,
            content BLOB,
            CHECK ((parent IS NULL) = (key = '')),
            CHECK (typeof(version) = CASE is_dir WHEN 1 THEN 'null' ELSE 'text' END),
            CHECK (typeof(content) = CASE is_dir WHEN 1 THEN 'null' ELSE 'blob' END)
        )""",
        # Children in order, and the feed, without touching a page that holds content.
        "CREATE INDEX entries_by_parent ON entries (parent, key, is_dir, version)",
        "INSERT INTO entries (key, is_dir, mtime) VALUES ('', 1, (julianday('now') - 2440587.5) * 86400.0)",
    ),
)


class SqliteBackend(StorageBackend):
    """A tree in the SQLite file at ``path``, which is made if it is missing.

    Any number of processes and threads may use it at once. ``patience`` is how many seconds a verb waits for others
    before LockTimeoutError.
    """

    protocol = PROTOCOL

    def __init__(self, path: str | os.PathLike[str], patience: float = 30.0) -> None:
        self.path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._patience = patience
        self._file = DatabaseFile(self.path, LAYOUT, backend=PROTOCOL, patience=patience)
        self._file.create()

    def __reduce__(self) -> tuple[type[SqliteBackend], tuple[str, float]]:
        return type(self), (self.path, self._patience)

    def close(self) -> None:
        """Let go of the file. The next verb opens it again."""
        self._file.close()

    def __enter__(self) -> SqliteBackend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def lock(self, *locators: Locator) -> AbstractContextManager[Held]:
        return Locks(default_lock_root(), os.path.realpath(self.path), backend=PROTOCOL).hold(*locators)

    def resolve(self, *parts: str) -> Locator:
        return Locator("/".join(parts))

    def read(self, locator: Locator) -> str:
        return self.read_versioned(locator).content

    def write(self, locator: Locator, content: str) -> Locator:
        self._put("write", locator, content, None)
        return locator

    def list(self, locator: Locator) -> list[Locator]:
        rows = self._file.query(
            "list", locator.key, "SELECT key FROM entries WHERE parent = ? ORDER BY key", locator.key
        )
        return [Locator(key) for (key,) in rows]

    def exists(self, locator: Locator) -> bool:
        return bool(self._file.query("exists", locator.key, "SELECT 1 FROM entries WHERE key = ?", locator.key))

    def info(self, locator: Locator) -> Info:
        rows = self._file.query(
            "info",
            locator.key,
            "SELECT is_dir, ifnull(length(content), 0), mtime FROM entries WHERE key = ?",
            locator.key,
        )
        if not rows:
            raise _refusal(errno.ENOENT, "info", locator)
        [(is_dir, size, mtime)] = rows
        return Info(locator, bool(is_dir), size, mtime)

    def mkdir(self, locator: Locator) -> Locator:
        _refusals.check_names(locator, backend=PROTOCOL, verb="mkdir")
        with self._file.change("mkdir", locator.key) as tree:
            if _standing(tree, locator.key) not in (_DIRECTORY, ABSENT):
                raise _refusal(errno.EEXIST, "mkdir", locator)
            _make_dirs(tree, "mkdir", locator, locator.key)
        return locator

    def remove(self, locator: Locator, *, if_version: str | None = None) -> None:
        if not locator.key:
            raise _refusals.is_root(backend=PROTOCOL, verb="remove")
        with self._file.change("remove", locator.key) as tree:
            standing = _standing(tree, locator.key)
            if standing == _DIRECTORY:
                _check_removable(tree, locator, if_version)
            else:
                _check_version("remove", locator, standing, if_version)
                if standing == ABSENT:
                    raise _refusal(errno.ENOENT, "remove", locator)
            tree.execute("DELETE FROM entries WHERE key = ?", (locator.key,))

    def rename(self, source: Locator, target: Locator, *, overwrite: bool = False) -> Locator:
        if not source.key:
            raise _refusals.is_root(backend=PROTOCOL, verb="rename")
        _refusals.check_names(target, backend=PROTOCOL, verb="rename")
        with self._file.change("rename", source.key) as tree:
            moved, replaced = _standing(tree, source.key), _standing(tree, target.key)
            _check_rename(source, moved, target, replaced, overwrite)
            if source != target:
                tree.execute("DELETE FROM entries WHERE key = ?", (target.key,))
                _make_dirs(tree, "rename", target, _parent(target.key))
                _move(tree, source.key, target.key)
        return target

    def append(self, locator: Locator, content: str) -> Locator:
        self._put("append", locator, content, None)
        return locator

    def read_versioned(self, locator: Locator) -> Versioned:
        rows = self._file.query("read", locator.key, "SELECT version, content FROM entries WHERE key = ?", locator.key)
        if not rows:
            raise _refusal(errno.ENOENT, "read", locator)
        [(version, content)] = rows
        if version is None:
            raise _refusal(errno.EISDIR, "read", locator)
        return Versioned(decode(content, backend=PROTOCOL, locator=locator.key), version)

    def write_versioned(self, locator: Locator, content: str, *, if_version: str) -> str:
        _refusals.check_token(if_version, backend=PROTOCOL, locator=locator)
        return self._put("write", locator, content, if_version)

    def changes(
        self, seen: Mapping[str, str], below: Locator = ROOT, *, skip: Collection[str] = ()
    ) -> Iterator[Change]:
        now = _stamps(self._file, "changes", below)
        for key, stamp in now.items():
            if stamp is not None and seen.get(key) != stamp and not (skip and lies_in(key, skip)):
                yield Change(Locator(key), stamp)
        prefix = f"{below.key}/" if below.key else ""
        for key in sorted(seen):
            if key.startswith(prefix) and now.get(key) is None:
                yield Change(Locator(key), None)

    def watch(self, below: Locator = ROOT) -> SqliteWatcher:
        return SqliteWatcher(DatabaseFile(self.path, LAYOUT, backend=PROTOCOL, patience=self._patience), below)

    def _put(self, verb: str, locator: Locator, content: str, if_version: str | None) -> str:
        data = encode(content, backend=PROTOCOL, verb=verb, locator=locator.key)
        _refusals.check_names(locator, backend=PROTOCOL, verb=verb)
        with self._file.change(verb, locator.key) as tree:
            return _put_row(tree, verb, locator, data, if_version)

    def write_many(
        self,
        *steps: Sequence[tuple[Locator, str]],
        if_versions: Mapping[Locator, str] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        """Each step in one transaction: here all of it lands, or nothing."""
        expected = dict(if_versions or {})
        rows = [
            [(at, encode(text, backend=PROTOCOL, verb="write", locator=at.key)) for at, text in step] for step in steps
        ]
        for at, _ in (row for step in rows for row in step):
            _refusals.check_names(at, backend=PROTOCOL, verb="write")
        unchecked = dict(expected)
        for number, step in enumerate(rows):
            if before is not None:
                before(number)
            if step:
                with self._file.change("write", step[0][0].key) as tree:
                    while unchecked:  # all of them before the first step is written
                        place, version = unchecked.popitem()
                        _check_version("write", place, _standing(tree, place.key), version)
                    for at, data in step:
                        _put_row(tree, "write", at, data, expected.pop(at, None))


class SqliteWatcher:
    """Looks every few hundredths of a second whether anybody has committed, and then at what differs."""

    interval = 0.03

    def __init__(self, file: DatabaseFile, below: Locator) -> None:
        # A connection of its own: SQLite does not tell a connection of its own commits.
        self._file = file
        self._below = below
        self._moment = file.moment("watch", below.key)
        self._stamps = self._look()

    def wait(self, timeout: float) -> tuple[Locator, ...]:
        deadline = time.monotonic() + timeout
        while True:
            moment = self._file.moment("watch", self._below.key)
            if moment != self._moment:
                # The moment is taken before the look: a commit between the two is looked at twice, never missed.
                self._moment, old, self._stamps = moment, self._stamps, self._look()
                if places := _differing(old, self._stamps):
                    return places
            left = deadline - time.monotonic()
            if left <= 0:
                return ()
            time.sleep(min(left, self.interval))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> SqliteWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self) -> dict[str, str | None]:
        return _stamps(self._file, "watch", self._below)


_DIRECTORY = "directory"
"""What stands at a key that is a directory; a file's version is sixteen hex digits, so they cannot be confused."""


def _standing(tree: sqlite3.Connection, key: str) -> str:
    """The version of the file at a key, or that it is a directory, or ABSENT."""
    try:
        rows = tree.execute("SELECT version FROM entries WHERE key = ?", (key,)).fetchall()
    except UnicodeEncodeError:
        return ABSENT
    if not rows:
        return ABSENT
    return _DIRECTORY if rows[0][0] is None else str(rows[0][0])


def _content(tree: sqlite3.Connection, key: str) -> bytes:
    [(content,)] = tree.execute("SELECT content FROM entries WHERE key = ?", (key,)).fetchall()
    return bytes(content)


def _insert(tree: sqlite3.Connection, key: str, version: str | None, content: bytes | None) -> None:
    tree.execute(
        "INSERT INTO entries (key, parent, is_dir, version, mtime, content) VALUES (?, ?, ?, ?, ?, ?)",
        (key, _parent(key), version is None, version, time.time(), content),
    )


def _make_dirs(tree: sqlite3.Connection, verb: str, locator: Locator, key: str) -> None:
    """Make a directory and its missing parents, unless a file is in the way."""
    missing = []
    while (standing := _standing(tree, key)) == ABSENT:
        missing.append(key)
        key = _parent(key)
    if standing != _DIRECTORY:
        raise _refusal(errno.ENOTDIR, verb, locator)
    for directory in reversed(missing):
        _insert(tree, directory, None, None)


def _put_row(tree: sqlite3.Connection, verb: str, locator: Locator, data: bytes, if_version: str | None) -> str:
    standing = _standing(tree, locator.key)
    if standing == _DIRECTORY:
        raise _refusal(errno.EISDIR, verb, locator)
    _check_version(verb, locator, standing, if_version)
    version = os.urandom(8).hex()
    if standing == ABSENT:
        _make_dirs(tree, verb, locator, _parent(locator.key))
        _insert(tree, locator.key, version, data)
    else:
        old = _content(tree, locator.key) if verb == "append" else b""
        tree.execute(
            "UPDATE entries SET version = ?, mtime = ?, content = ? WHERE key = ?",
            (version, time.time(), old + data, locator.key),
        )
    return version


def _move(tree: sqlite3.Connection, source: str, target: str) -> None:
    tree.execute("UPDATE entries SET key = ?, parent = ? WHERE key = ?", (target, _parent(target), source))
    tree.execute(
        "UPDATE entries SET key = ? || substr(key, ?), parent = ? || substr(parent, ?) WHERE key > ? AND key < ?",
        (target, len(source) + 1, target, len(source) + 1, *_range(source)),
    )


def _range(key: str) -> tuple[str, str]:
    """The bounds of everything below a key; '0' is the character after '/'."""
    return f"{key}/", f"{key}0"


def _parent(key: str) -> str:
    return key.rpartition("/")[0]


def _stamps(file: DatabaseFile, verb: str, below: Locator) -> dict[str, str | None]:
    """Key to version of everything below a place, in order; None for a directory."""
    if not below.key:
        return dict(file.query(verb, "", "SELECT key, version FROM entries WHERE key != '' ORDER BY key"))
    sql = "SELECT key, version FROM entries WHERE key > ? AND key < ? ORDER BY key"
    return dict(file.query(verb, below.key, sql, *_range(below.key)))


def _differing(old: dict[str, str | None], new: dict[str, str | None]) -> tuple[Locator, ...]:
    keys = {key for key in old.keys() | new.keys() if key not in old or key not in new or old[key] != new[key]}
    return tuple(Locator(key) for key in sorted(keys))


def _check_version(verb: str, locator: Locator, current: str, if_version: str | None) -> None:
    if if_version is not None and if_version != current:
        raise _refusals.changed(backend=PROTOCOL, verb=verb, locator=locator, current=current, expected=if_version)


def _check_removable(tree: sqlite3.Connection, locator: Locator, if_version: str | None) -> None:
    if if_version is not None:
        raise _refusal(errno.EISDIR, "remove", locator)
    if tree.execute("SELECT 1 FROM entries WHERE parent = ? LIMIT 1", (locator.key,)).fetchall():
        raise _refusal(errno.ENOTEMPTY, "remove", locator)


def _check_rename(source: Locator, moved: str, target: Locator, replaced: str, overwrite: bool) -> None:
    if moved == ABSENT:
        raise _refusal(errno.ENOENT, "rename", source)
    if moved == _DIRECTORY and target.key.startswith(f"{source.key}/"):
        raise _refusals.into_itself(backend=PROTOCOL, source=source)
    if replaced != ABSENT and not (overwrite and _DIRECTORY not in (moved, replaced)):
        raise _refusal(errno.EEXIST, "rename", target)


def _refusal(number: int, verb: str, locator: Locator) -> StoreError:
    return _refusals.refusal(number, backend=PROTOCOL, verb=verb, locator=locator)
