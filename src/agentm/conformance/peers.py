"""Other processes that have the same store open.

A peer is a fresh interpreter, so nothing of this process (open connections, threads, random state) is shared
with it. It runs one job, a function of this package that is given the store's address and a line to talk through.
Only where a backend cannot be sent to a fresh interpreter, but can be opened again by a function that was given,
is this process forked instead.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import IO, Any, Protocol

from agentm.conformance.expect import Failed, Skipped, describe
from agentm.conformance.trial import Trial
from agentm.records import record_class
from agentm.seam import StorageBackend

PATIENCE = 120.0
"""Seconds that a peer may take for one answer; only a hang takes so long."""

Reopen = Callable[[StorageBackend], StorageBackend]


class Address(Protocol):
    """How another process gets at the same store."""

    def prepare(self) -> None:
        """Load what `open` will need, without opening anything."""

    def open(self) -> StorageBackend: ...


@record_class(frozen=True, slots=False)
class PickledAddress:
    payload: bytes
    module: str

    def prepare(self) -> None:
        with suppress(ImportError):
            import_module(self.module)

    def open(self) -> StorageBackend:
        try:
            reopen, backend = pickle.loads(self.payload)
        except (ModuleNotFoundError, AttributeError) as cause:
            raise Skipped(f"another process cannot import the backend: {describe(cause)}") from cause
        return reopen(backend) if reopen else backend  # type: ignore[no-any-return]


@record_class(frozen=True, slots=False)
class LiveAddress:
    """For a ``reopen`` or a backend that only a forked process can use."""

    reopen: Reopen
    backend: StorageBackend

    def prepare(self) -> None:
        """A forked process has everything."""

    def open(self) -> StorageBackend:
        return self.reopen(self.backend)


def find_address(trial: Trial) -> Address:
    """The address of a trial's store, or Skipped with the reason why it has none."""
    backend, reopen = trial.backend, trial.setup.reopen
    try:
        if reopen is None:
            _refuse_copies(trial)
        address = PickledAddress(pickle.dumps((reopen, backend)), type(backend).__module__)
    except (pickle.PicklingError, TypeError, AttributeError) as cause:
        if reopen is not None and hasattr(os, "fork"):
            return LiveAddress(reopen, backend)
        raise Skipped(f"only this process can open the store ({cause}); pass reopen= if there is a way") from cause
    if b"__main__" in address.payload and hasattr(os, "fork"):
        # A fresh interpreter does not have the running script's classes; a forked one does.
        return LiveAddress(lambda _: address.open(), backend)
    return address


def second_address(trial: Trial) -> Address | None:
    """The address of a trial's store; None if only this instance can use it."""
    try:
        return find_address(trial)
    except Skipped:
        return None


def _refuse_copies(trial: Trial) -> None:
    """A backend whose texts travel in the pickle arrives as a copy of the store, not as the store."""
    marker = f"marker {os.urandom(8).hex()}"
    trial.put("agentm-address", marker)
    copied = marker.encode() in pickle.dumps(trial.backend)
    if trial.capabilities.remove:
        with suppress(Exception):
            trial.backend.remove(trial.at("agentm-address"))  # type: ignore[attr-defined]
    if copied:
        raise Skipped("the backend pickles with its content, so another process would get a copy; pass reopen=")


class Line:
    """Values to and from another process, over two pipes."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, value: object) -> None:
        self._writer.write(pickle.dumps(value))
        self._writer.flush()

    def hear(self) -> Any:
        """The next value; EOFError when the other side is gone."""
        try:
            return pickle.load(self._reader)
        except (pickle.UnpicklingError, OSError) as cause:
            raise EOFError(str(cause)) from cause

    def close(self) -> None:
        for end in (self._writer, self._reader):
            with suppress(OSError):
                end.close()


Job = Callable[..., None]
"""``job(address, line, *args)``; it runs in the peer."""


class Peer:
    """A process that does one job. Leaving the block ends it."""

    def __init__(self, line: Line, kill: Callable[[], None], wait: Callable[[], int]) -> None:
        self._line = line
        self._kill = kill
        self._wait = wait
        self._overdue = False

    def say(self, value: object) -> None:
        with suppress(OSError):  # a peer that died says so by not answering
            self._line.say(value)

    def hear(self, patience: float = PATIENCE) -> Any:
        """The peer's next answer; its failure, its death and its silence are raised as Failed."""
        try:
            value = self.hear_any(patience)
        except EOFError as cause:
            if self._overdue:
                raise Failed(f"another process gave no answer within {patience:.0f} s") from cause
            raise Failed(f"another process ended with code {self._wait()} before it answered") from cause
        if isinstance(value, Failed | Skipped):
            raise value
        return value

    def hear_any(self, patience: float = PATIENCE) -> Any:
        """The next value whatever it is; EOFError when there is none."""
        timer = threading.Timer(patience, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            return self._line.hear()
        finally:
            timer.cancel()
            timer.join()  # a thread that is still ending would be in the way of a fork

    def _give_up(self) -> None:
        self._overdue = True
        self.kill()

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._kill()
        self._wait()

    def code(self) -> int | None:
        """Its exit code once it has ended; None if it had to be ended."""
        code = self._wait()
        return None if self._overdue else code

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()
        self._line.close()


def start(address: Address, job: Job, *args: object) -> Peer:
    """Start a process that runs a job on the store."""
    if isinstance(address, PickledAddress):
        return _spawn(address, job, args)
    return _fork(address, job, args)


_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from agentm.conformance.peers import main; sys.exit(main())"
)


def _spawn(address: Address, job: Job, args: tuple[object, ...]) -> Peer:
    path = [entry or os.getcwd() for entry in sys.path]
    # In a session of its own: Ctrl-C on the terminal is for the run, which ends its peers itself.
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    peer = Peer(Line(process.stdout, process.stdin), process.kill, process.wait)
    peer.say((address, job, args))
    return peer


def main() -> int:
    """A spawned peer. Its standard output is the line, so what a backend prints goes elsewhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run itself ends its peers on Ctrl-C
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    line = Line(sys.stdin.buffer, output)
    try:
        address, job, args = line.hear()
    except EOFError:
        return 1  # the run was given up before it had said what to do
    except (ImportError, AttributeError) as cause:
        line.say(Skipped(f"another process cannot be told what to do: {describe(cause)}"))
        return 1
    return perform(address, line, job, args)


def perform(address: Address, line: Line, job: Job, args: tuple[object, ...]) -> int:
    """Run a job; what goes wrong in it is said, not thrown away with the process."""
    try:
        job(address, line, *args)
    except (Failed, Skipped) as verdict:
        line.say(verdict)
    except EOFError:
        return 1
    except BaseException as error:
        line.say(Failed(f"in another process: {describe(error)}"))
        return 1
    return 0


def _fork(address: Address, job: Job, args: tuple[object, ...]) -> Peer:
    to_child, from_child = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.close(to_child[1])
            os.close(from_child[0])
            line = _line(to_child[0], from_child[1])
            code = perform(address, line, job, args)
            line.close()
        finally:
            os._exit(code)
    os.close(to_child[0])
    os.close(from_child[1])
    process = _Forked(pid)
    return Peer(_line(from_child[0], to_child[1]), process.kill, process.wait)


class _Forked:
    """Ending and awaiting a forked process, each as often as one likes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def kill(self) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code


def _line(reader: int, writer: int) -> Line:
    return Line(open(reader, "rb"), open(writer, "wb"))
