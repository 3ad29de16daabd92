"""Starting the processes of `worker.py`, and talking to them over pipes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import agentm
from agentm.conformance.crashsim import scratch
from agentm.seam import Locator
from tests.race.worker import open_store

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))


class Worker:
    """One process; every wait ends in an answer or in a failure that says what it was waiting for."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        )
        self._heard = b""

    def hear(self, expected: str, *, within: float = 120.0) -> str:
        """The rest of the next line, which must begin with a certain word."""
        word, _, rest = self.hear_line(within=within).partition(" ")
        assert word == expected, f"said {word} {rest} instead of {expected}"
        return rest

    def hear_line(self, *, within: float = 120.0) -> str:
        deadline = time.monotonic() + within
        outlet = self._process.stdout
        assert outlet is not None
        while b"\n" not in self._heard:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([outlet], [], [], left)[0]:
                raise AssertionError(f"said nothing for {within} s")
            said = os.read(outlet.fileno(), 1 << 16)
            if not said:
                raise AssertionError(f"ended instead of answering: {self._complaint()}")
            self._heard += said
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait_until_stopped(self) -> None:
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it did not stop: {status}"

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.communicate()

    def _complaint(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()[-2000:]


@contextmanager
def workers(*each: tuple[str, ...], **environment: str) -> Iterator[list[Worker]]:
    started: list[Worker] = []
    try:
        for arguments in each:
            started.append(Worker(*arguments, **environment))
        yield started
    finally:
        for worker in started:
            worker.close()


def race(started: list[Worker]) -> None:
    """Let all go at once, and wait until all are done."""
    for worker in started:
        worker.hear("ready")
    for worker in started:
        worker.tell("go")
    for worker in started:
        worker.hear("done", within=600)


@contextmanager
def place() -> Iterator[str]:
    """A directory for a store and its locks. In memory: these tests are about order, not about the disk."""
    with scratch() as directory:
        os.makedirs(f"{directory}/root")
        yield directory


def store_with_note(store: str, directory: str, text: str = "old") -> Any:
    backend = open_store(store, directory)
    backend.write(Locator("a/note"), text)
    return backend


def note(directory: str) -> str:
    with open(f"{directory}/root/a/note", encoding="utf-8") as file:
        return file.read()
