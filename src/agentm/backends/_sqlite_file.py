"""One SQLite file: opened once per process, waited for patiently, and only if it is ours.

- Rollback journal and ``synchronous=EXTRA``: a commit is on the medium when it returns, the removal of the journal
  included, and at rest there is one file with nothing beside it.
- The threads of a process take turns on one connection. A connection never crosses a fork: a fork waits until nothing
  is under way, and the child opens its own.
- The file at the path is looked at before each use. If it was replaced (a restored backup), the new one is opened; if
  it is gone, nothing is made in its place: a store that vanished is not an empty one.
- The database must not be opened with a plain ``open`` in a process that uses it: closing such a descriptor drops
  the locks that SQLite holds on the file.
"""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakSet

from agentm.backends import _durable
from agentm.backends._sqlite_errors import Refused, Unsettled, Waited, is_busy, is_unsettled, reporting
from agentm.records import record_class

T = TypeVar("T")

# SQLite's own waiting sleeps up to 100 ms at a time, which starves one waiter among many.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0003, 0.004

_SETTINGS = ("journal_mode=DELETE", "synchronous=EXTRA", "fullfsync=ON", "trusted_schema=OFF")


@record_class(frozen=True, slots=False)
class Layout:
    """What makes a database ours: the id and number in its header, and the statements that lay it out."""

    application_id: int
    number: int
    statements: tuple[str, ...]


class DatabaseFile:
    """A file that holds a database of one layout; every call to SQLite goes through here."""

    def __init__(self, path: str, layout: Layout, *, backend: str, patience: float) -> None:
        self.path = path
        self._layout = layout
        self._backend = backend
        self._patience = patience
        self._session = _Session()

    def create(self) -> None:
        """Make the file and its directory, durably, unless it is there; refuse one that is not ours."""
        with reporting(self.path, backend=self._backend, verb="open", locator=self.path):
            _durable.make_dirs(os.path.dirname(self.path), 0o700)
            if os.path.isdir(self.path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with suppress(FileExistsError):  # SQLite would let everybody read it
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            deadline = self._deadline()
            self._patiently(deadline, lambda: self._lay_out(deadline))

    def query(self, verb: str, locator: str, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows of one SELECT: one moment of the tree, and no lock is kept afterwards."""
        deadline = self._deadline()

        def select() -> list[tuple[Any, ...]]:
            with self._turn(deadline) as connection:
                return connection.execute(sql, arguments).fetchall()

        with reporting(self.path, backend=self._backend, verb=verb, locator=locator):
            try:
                return self._patiently(deadline, select)
            except UnicodeEncodeError:
                return []  # a key without a UTF-8 form cannot be in the file

    @contextmanager
    def change(self, verb: str, locator: str) -> Iterator[sqlite3.Connection]:
        """A transaction: committed and durable when the block ends, undone when it raises."""
        deadline = self._deadline()
        with reporting(self.path, backend=self._backend, verb=verb, locator=locator), ExitStack() as turn:
            connection = self._patiently(deadline, lambda: self._begin(deadline, turn))
            yield connection
            self._commit(connection, deadline)

    def moment(self, verb: str, locator: str) -> tuple[int, int]:
        """A value that is another one after each commit through any other connection."""
        [(version,)] = self.query(verb, locator, "PRAGMA data_version")
        return self._session.openings, version

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        with self._session.lock:
            self._session.drop()

    def _deadline(self) -> float:
        return time.monotonic() + self._patience

    def _patiently(self, deadline: float, action: Callable[[], T]) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
                if time.monotonic() > deadline:
                    raise Waited(f"{self._patience:g}") from error
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    @contextmanager
    def _turn(self, deadline: float, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """This thread's turn on the connection; after an error nothing stays under way."""
        session = self._session
        if not session.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Waited(f"{self._patience:g}")
        try:
            yield self._opened(create)
        except BaseException as error:
            session.recover(error)
            raise
        finally:
            session.lock.release()

    def _begin(self, deadline: float, turn: ExitStack) -> sqlite3.Connection:
        # Between two tries the turn is given up: other threads may read while another process writes.
        with ExitStack() as attempt:
            connection = attempt.enter_context(self._turn(deadline))
            connection.execute("BEGIN IMMEDIATE")
            turn.push(attempt.pop_all())
        return connection

    def _commit(self, connection: sqlite3.Connection, deadline: float) -> None:
        try:
            # Readers can hold a commit up; the transaction stays open meanwhile and new readers wait.
            self._patiently(deadline, lambda: connection.execute("COMMIT"))
        except sqlite3.Error as error:
            if is_unsettled(error):
                raise Unsettled(str(error)) from error
            raise

    def _opened(self, create: bool) -> sqlite3.Connection:
        session = self._session
        there = _identity(self.path)
        if session.connection is None or session.file != there:
            session.drop()
            if there is None and not create:
                raise Refused("store_missing", "the database file is gone", "put it back, or open the store anew")
            session.adopt(self._open(create), _identity(self.path))
        assert session.connection is not None
        return session.connection

    def _open(self, create: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            if self._is_blank(connection) and not create:
                raise Refused("store_missing", "the database file is empty", "put it back, or open the store anew")
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_blank(self, connection: sqlite3.Connection) -> bool:
        """True for a new file, False for one of ours; anything else is refused, untouched."""
        [(application_id, number, objects)] = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
            " FROM pragma_application_id, pragma_user_version"
        ).fetchall()
        if (application_id, number, objects) == (0, 0, 0):
            return True
        if application_id != self._layout.application_id:
            raise Refused("store_foreign", "it is the database of another program", "choose another path")
        if number != self._layout.number:
            raise Refused("store_layout", f"this agentm does not know its layout {number}", "upgrade agentm")
        return False

    def _lay_out(self, deadline: float) -> None:
        with self._turn(deadline, create=True) as connection:
            if not self._is_blank(connection):
                return
            connection.execute("BEGIN IMMEDIATE")
            if self._is_blank(connection):  # still: another process may have been faster
                for statement in self._layout.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={self._layout.application_id}")
                connection.execute(f"PRAGMA user_version={self._layout.number}")
            self._commit(connection, deadline)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        there = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return there.st_dev, there.st_ino


class _Session:
    """One process's connection to one file, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        self.file: tuple[int, int] | None = None
        self.openings = 0
        with _forking:
            _sessions.add(self)

    def adopt(self, connection: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        self.connection, self.file = connection, file
        self.openings += 1

    def drop(self) -> None:
        if self.connection is not None:
            with suppress(sqlite3.Error):
                self.connection.close()
            self.connection = None

    def recover(self, error: BaseException) -> None:
        """After an error in a turn: undo what was begun, and do not trust a connection that failed."""
        if isinstance(error, Unsettled) or (isinstance(error, sqlite3.Error) and not is_busy(error)):
            self.drop()
        elif self.connection is not None and self.connection.in_transaction:
            try:
                self.connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.drop()

    def disown(self) -> None:
        """In a forked child: neither use nor ever close what the parent goes on using."""
        if self.connection is not None:
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.connection))
            self.connection = None
        self.lock = threading.Lock()

    def __del__(self) -> None:
        self.drop()


# SQLite keeps per process which locks it holds on a file. A child that inherited such a note while a statement was
# under way would read and write without really holding the lock, so every turn ends before a fork.
_forking = threading.Lock()
_sessions: WeakSet[_Session] = WeakSet()
_held: list[_Session] = []


def _before_fork() -> None:
    _forking.acquire()
    _held[:] = sorted(_sessions, key=id)
    for session in _held:
        session.lock.acquire()


def _after_fork_in_parent() -> None:
    for session in _held:
        session.lock.release()
    _held.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    for session in _held:
        session.disown()
    _held.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
