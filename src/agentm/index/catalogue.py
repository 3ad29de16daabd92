"""What is indexed: one small SQLite file per account, the leader of the index.

The full-text index is a function of what stands here. A row is marked before the full-text index learns of it and the
mark goes once that is durable: whatever a crash tears apart, the marked rows are told again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from agentm.context.node import RelationEdge
    from agentm.index.prints import Print
    from agentm.index.sources import Source

LAYOUT = 5
NAME = "catalogue.db"
CURRENT = "current"
"""The folder of an account's index that is searched; beside it lie its lock, and one that is being built."""

_TABLES = """
CREATE TABLE sources (
    uri TEXT PRIMARY KEY, kind TEXT, version INTEGER, hash TEXT, space TEXT, category TEXT, tags TEXT, project TEXT,
    moment TEXT, written TEXT, who TEXT, title TEXT, thread TEXT, place TEXT, abstract TEXT, overview TEXT,
    told INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX by_thread ON sources (thread, place);
CREATE INDEX by_project ON sources (project, space, moment);
CREATE INDEX untold ON sources (told) WHERE told = 0;
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uri TEXT, level INTEGER, number INTEGER, start INTEGER, finish INTEGER,
    heading TEXT, text TEXT
);
CREATE INDEX of_source ON records (uri);
CREATE TABLE gone (uri TEXT PRIMARY KEY);
CREATE TABLE edges (source TEXT, target TEXT, type TEXT, weight REAL, PRIMARY KEY (source, target, type));
CREATE INDEX to_target ON edges (target);
CREATE TABLE prints (uri TEXT PRIMARY KEY, exact TEXT, near BLOB);
CREATE INDEX by_exact ON prints (exact);
CREATE TABLE print_groups (number INTEGER, uri TEXT, PRIMARY KEY (number, uri)) WITHOUT ROWID;
CREATE INDEX groups_of ON print_groups (uri);
CREATE TABLE stamps (key TEXT PRIMARY KEY, stamp TEXT) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);
"""

PURGED = "purged"
"""The fact that words of what was purged are to be taken out of the full-text index."""
AROUND = 2
"""How many neighbours on either side an entry is also found by."""
_EMBEDDED = "embedded by "
_UNREADABLE = "unreadable "
_NEW = 0.3
"""An abstract or overview is a record of its own if more than this share of it is not in the content."""


class Held(NamedTuple):
    """What is held of a source, beside its records."""

    uri: str
    kind: str
    version: int
    hash: str
    space: str
    category: str
    tags: tuple[str, ...]
    project: str
    moment: str
    written: str
    who: str
    title: str
    thread: str
    place: str
    abstract: str
    overview: str


_COLUMNS = ", ".join(Held._fields)


Edge = tuple[str, str, str, float]
"""From, to, type, weight."""


class Row(NamedTuple):
    """One record: an abstract, an overview, or a passage."""

    id: int
    uri: str
    level: int
    number: int
    start: int
    end: int
    heading: str
    text: str


_RECORD = "id, uri, level, number, start, finish, heading, text"


class Catalogue:
    """The rows of one account. One process writes at a time; readers are never kept waiting."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)
        self._db = sqlite3.connect(self.path, isolation_level=None, timeout=5.0, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        # A mark must be on the disk before the full-text index knows what it marks.
        self._db.execute("PRAGMA synchronous=FULL")
        # What was purged is not to be read from a page that is free.
        self._db.execute("PRAGMA secure_delete=ON")
        # What a question finds lies all over the file, and much of the way to it is the same: 16 MB instead of two.
        self._db.execute("PRAGMA cache_size=-16000")
        layout = self._db.execute("PRAGMA user_version").fetchone()[0]
        found = os.stat(self.path)
        self._identity = (found.st_dev, found.st_ino)
        if layout == 0:
            self._make()
        elif layout != LAYOUT:
            self._db.close()
            raise sqlite3.DatabaseError(f"it has layout {layout}, not {LAYOUT}")

    def _make(self) -> None:
        with self.change():
            if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:  # somebody may have been faster
                for statement in _TABLES.split(";\n"):
                    if statement.strip():
                        self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={LAYOUT}")

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction, durable when the block ends."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._db.close()

    def settle(self) -> bool:
        """Bring everything into the one file: some read only that. False if a reader is in the way of some of it."""
        with suppress(sqlite3.OperationalError):
            [(is_busy, *_)] = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not is_busy
        return False

    def is_at(self, directory: str) -> bool:
        """Whether this is the file that lies in a directory now."""
        try:
            found = os.stat(os.path.join(directory, NAME))
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    # What stands there.

    def known(self, uri: str) -> tuple[int, str] | None:
        """Version and hash of a source, None if it is not indexed."""
        row = self._db.execute("SELECT version, hash FROM sources WHERE uri = ?", (uri,)).fetchone()
        return None if row is None else (row[0], row[1])

    def uris(self, kind: str | None = None) -> Iterator[str]:
        where, values = ("WHERE kind = ?", (kind,)) if kind else ("", ())
        yield from (row[0] for row in self._db.execute(f"SELECT uri FROM sources {where} ORDER BY uri", values))

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM sources").fetchone()[0])

    def source(self, uri: str) -> Held:
        return _held(self._db.execute(f"SELECT {_COLUMNS} FROM sources WHERE uri = ?", (uri,)).fetchone())

    def records(self, uri: str) -> list[Row]:
        sql = f"SELECT {_RECORD} FROM records WHERE uri = ? ORDER BY id"
        return [Row(*row) for row in self._db.execute(sql, (uri,))]

    def found(self, ids: Iterable[int]) -> dict[int, tuple[Row, Held]]:
        """The records with these numbers, each with its source; those that were replaced meanwhile are missing."""
        wanted = list(ids)
        marks = ",".join("?" * len(wanted))
        sql = f"SELECT {_RECORD}, {_COLUMNS} FROM records JOIN sources USING (uri) WHERE id IN ({marks})"
        many = len(Row._fields)
        return {row[0]: (Row(*row[:many]), _held(row[many:])) for row in self._db.execute(sql, wanted)}

    def count_records(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM records").fetchone()[0])

    def record_ids(self) -> list[int]:
        return [row[0] for row in self._db.execute("SELECT id FROM records ORDER BY id")]

    def neighbours(self, uri: str) -> tuple[list[str], list[str]]:
        """Those of the same thread just before and just after a source, in their order."""
        row = self._db.execute("SELECT thread, place FROM sources WHERE uri = ?", (uri,)).fetchone()
        if row is None:
            return [], []
        before = "SELECT uri FROM sources WHERE thread = ? AND place < ? ORDER BY place DESC LIMIT ?"
        after = "SELECT uri FROM sources WHERE thread = ? AND place > ? ORDER BY place LIMIT ?"
        found = [[near[0] for near in self._db.execute(sql, (*row, AROUND))] for sql in (before, after)]
        return found[0][::-1], found[1]

    def edges(self, uris: Iterable[str]) -> list[Edge]:
        """Every edge from or to one of these."""
        wanted = list(uris)
        marks = ",".join("?" * len(wanted))
        sql = f"SELECT source, target, type, weight FROM edges WHERE source IN ({marks}) OR target IN ({marks})"
        return list(self._db.execute(sql, wanted + wanted))

    def untold(self, limit: int) -> tuple[list[str], list[str]]:
        """What the full-text index may not know: sources that changed, and sources that are gone; so many at most."""
        changed = "SELECT uri FROM sources WHERE told = 0 LIMIT ?"
        gone = "SELECT uri FROM gone LIMIT ?"
        return tuple([row[0] for row in self._db.execute(sql, (limit,))] for sql in (changed, gone))  # type: ignore[return-value]

    def count_untold(self) -> int:
        sql = "SELECT (SELECT count(*) FROM sources WHERE told = 0) + (SELECT count(*) FROM gone)"
        return int(self._db.execute(sql).fetchone()[0])

    def is_behind(self) -> bool:
        """Whether the full-text index may not know something, or know what it must not."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM sources WHERE told = 0) OR EXISTS (SELECT 1 FROM gone)"
            " OR EXISTS (SELECT 1 FROM facts WHERE name = ?)"
        )
        return bool(self._db.execute(sql, (PURGED,)).fetchone()[0])

    # Changing it, inside `change`.

    def put(self, source: Source) -> None:
        """Hold a source instead of what was held of it; it, and its old and new neighbours, are marked."""
        self._mark_around(source.uri)
        self._drop(source.uri)
        values = (
            source.uri, source.kind, source.version, source.hash, source.space, source.category,
            json.dumps(source.tags, ensure_ascii=False), source.project, source.when, source.written, source.who,
            source.title, source.thread, source.place, source.abstract, source.overview,
        )  # fmt: skip
        marks = ",".join("?" * len(values))
        self._db.execute(f"INSERT INTO sources ({_COLUMNS}) VALUES ({marks})", values)
        self._db.executemany(
            "INSERT INTO records (uri, level, number, start, finish, heading, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(source.uri, *record) for record in _records(source)],
        )
        self._db.executemany("INSERT OR REPLACE INTO edges VALUES (?, ?, ?, ?)", map(_edge, source.edges))
        self._db.execute("DELETE FROM gone WHERE uri = ?", (source.uri,))
        self._put_print(source)
        self._mark_around(source.uri)

    def _put_print(self, source: Source) -> None:
        made = source.print
        self._db.execute("INSERT INTO prints VALUES (?, ?, ?)", (source.uri, made.exact, made.near))
        self._db.executemany("INSERT INTO print_groups VALUES (?, ?)", ((one, source.uri) for one in made.groups))

    def alike(self, made: Print, space: str) -> list[str]:
        """The sources of a space that say the same, and then those that nearly do."""
        groups = made.groups
        marks = ",".join("?" * len(groups))
        sql = (
            "SELECT prints.uri, exact, near FROM prints JOIN sources ON sources.uri = prints.uri WHERE space = ? "
            f"AND (exact = ? OR prints.uri IN (SELECT uri FROM print_groups WHERE number IN ({marks})))"
        )
        rows = list(self._db.execute(sql, (space, made.exact, *groups)))
        same = sorted(uri for uri, exact, _ in rows if exact == made.exact)
        near = sorted(uri for uri, exact, near in rows if exact != made.exact and made.is_near(near))
        return same + near

    def forget(self, uri: str) -> None:
        """Hold nothing of a source any more."""
        if self.known(uri) is not None:
            self._mark_around(uri)
            self._drop(uri)
            self._db.execute("INSERT OR IGNORE INTO gone VALUES (?)", (uri,))

    def _drop(self, uri: str) -> None:
        self._db.execute("DELETE FROM sources WHERE uri = ?", (uri,))
        self._db.execute("DELETE FROM records WHERE uri = ?", (uri,))
        self._db.execute("DELETE FROM edges WHERE source = ?", (uri,))
        self._db.execute("DELETE FROM prints WHERE uri = ?", (uri,))
        self._db.execute("DELETE FROM print_groups WHERE uri = ?", (uri,))

    def _mark_around(self, uri: str) -> None:
        """The neighbours of a source are found through its words, so they change with it."""
        for near in (one for side in self.neighbours(uri) for one in side):
            self._db.execute("UPDATE sources SET told = 0 WHERE uri = ?", (near,))

    def mark_untold(self, records: Iterable[int] | None = None) -> None:
        """The full-text index is to be told once more of the sources of these records; for None, of all."""
        if records is None:
            self._db.execute("UPDATE sources SET told = 0")
            return
        again = "UPDATE sources SET told = 0 WHERE uri = (SELECT uri FROM records WHERE id = ?)"
        self._db.executemany(again, ((record,) for record in records))

    def mark_told(self, changed: Iterable[str], gone: Iterable[str]) -> None:
        self._db.executemany("UPDATE sources SET told = 1 WHERE uri = ?", ((uri,) for uri in changed))
        self._db.executemany("DELETE FROM gone WHERE uri = ?", ((uri,) for uri in gone))

    # What an embedder has seen.

    def unembedded(self, embedder: str, limit: int) -> list[tuple[int, str]]:
        """Records without a vector of this embedder, the oldest first, and what is to be embedded of them."""
        sql = "SELECT id, trim(heading || ' ' || text) FROM records WHERE id > ? ORDER BY id LIMIT ?"
        return list(self._db.execute(sql, (self.embedded(embedder), limit)))

    def embedded(self, embedder: str) -> int:
        """The record up to which all have a vector of this embedder."""
        return int(self.fact(f"{_EMBEDDED}{embedder}") or 0)

    def mark_embedded(self, embedder: str, last: int) -> None:
        """All records up to this one have a vector. Numbers only grow, so later ones have none."""
        self.put_fact(f"{_EMBEDDED}{embedder}", str(last))

    def drop_other_embedders(self, embedder: str) -> None:
        for name in self.facts():
            if name.startswith(_EMBEDDED) and name != f"{_EMBEDDED}{embedder}":
                self.drop_fact(name)

    # What could not be read.

    def unreadable(self) -> list[str]:
        """Sources that are damaged, or no text."""
        return _unreadable(self._db)

    def mark_unreadable(self, uri: str) -> None:
        self.put_fact(f"{_UNREADABLE}{uri}", "")

    def mark_readable(self, uri: str) -> None:
        self.drop_fact(f"{_UNREADABLE}{uri}")

    # What the change feed has seen.

    def stamps(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT key, stamp FROM stamps"))

    def put_stamps(self, changed: Iterable[tuple[str, str | None]]) -> None:
        for key, stamp in changed:
            if stamp is None:
                self._db.execute("DELETE FROM stamps WHERE key = ?", (key,))
            else:
                self._db.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?)", (key, stamp))

    def fact(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def facts(self) -> list[str]:
        """The names of all."""
        return [row[0] for row in self._db.execute("SELECT name FROM facts ORDER BY name")]

    def put_fact(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def drop_fact(self, name: str) -> None:
        self._db.execute("DELETE FROM facts WHERE name = ?", (name,))

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Everything that is held, in an order of its own and without numbers: two indexes of one store are equal."""
        yield from self._db.execute(f"SELECT {_COLUMNS} FROM sources ORDER BY uri")
        yield from self._db.execute(
            "SELECT uri, level, number, start, finish, heading, text FROM records ORDER BY uri, level, number"
        )
        yield from self._db.execute("SELECT * FROM edges ORDER BY 1, 2, 3")


def unreadable_in(directory: str) -> list[str]:
    """What could not be read for the index in a directory, without touching that; nothing if it cannot be asked."""
    path = os.path.join(directory, NAME)
    if not os.path.isfile(path):
        return []
    from urllib.parse import quote

    try:
        with closing(sqlite3.connect(f"file:{quote(os.path.abspath(path))}?immutable=1", uri=True)) as db:
            return _unreadable(db)
    except sqlite3.Error:
        return []


def _unreadable(db: sqlite3.Connection) -> list[str]:
    after = _UNREADABLE[:-1] + chr(ord(_UNREADABLE[-1]) + 1)
    rows = db.execute("SELECT name FROM facts WHERE name >= ? AND name < ? ORDER BY name", (_UNREADABLE, after))
    return [row[0].removeprefix(_UNREADABLE) for row in rows]


def _held(row: Sequence[Any]) -> Held:
    uri, kind, version, hashed, space, category, tags, *rest = row
    return Held(uri, kind, version, hashed, space, category, tuple(json.loads(tags)), *rest)


def _records(source: Source) -> Iterator[tuple[int, int, int, int, str, str]]:
    """Level, number, start, end, heading, text. What only repeats the content would find nothing more."""
    from agentm.context.prose import words

    said = " ".join(one.text for one in source.passages)
    for level, text in ((0, source.abstract), (1, source.overview)):
        lines = [line.strip("#-*> .…\t") for line in text.splitlines()]
        new = sum(len(line) for line in lines if line not in said)
        if new > len(text) * _NEW and len(words(text) - words(said)) > len(words(text)) * _NEW:
            yield level, 0, 0, 0, "", text
    for passage in source.passages:
        yield 2, passage.number, passage.start, passage.end, passage.heading, passage.text


def _edge(edge: RelationEdge) -> Edge:
    return edge.from_uri, edge.to_uri, edge.relation_type, edge.weight
