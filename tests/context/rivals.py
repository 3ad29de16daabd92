"""Two changes at once, in an order that the test chooses: each runs in a thread of its own, and only one at a time.

Every call to the store is a step. The first change stops before one of its steps and lets the second one run, to its
end or up to one of its own steps; then the first goes on to its end, and the second after it. Where one waits for a
lock that the other holds, the other goes on until it lets go of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from agentm import Info, Locator
from agentm.errors import AgentmError
from agentm.seam import Held
from tests.context.recording import Died, Recording

_PATIENCE = 30.0


class Rivals(Recording):
    """A store on which `race` runs two changes."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.before = lambda verb, key: self._change()
        self.turn = 0
        self.steps = [0, 0]
        self._lives: list[float] = [inf, inf]
        self._stops: list[int | None] = [None, None]
        self._ended = [True, True]
        self._held: list[set[str]] = [set(), set()]
        self._wanted: list[set[str]] = [set(), set()]
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    def race(
        self,
        first: Callable[[], object],
        second: Callable[[], object],
        stop: int,
        second_stop: int | None = None,
        lives: tuple[float, float] = (inf, inf),
    ) -> list[str | None]:
        """The codes of the errors that the two ended with. ``lives``: how many changes each makes before it dies."""
        said: list[str | None] = [None, None]

        def run(number: int, change: Callable[[], object]) -> None:
            self._wait(number)
            try:
                change()
            except AgentmError as error:
                said[number] = error.code
            except Died:
                said[number] = "died"
            finally:
                with self._changed:
                    self._ended[number] = True
                    self._give_way(number)

        self.turn, self.steps, self._ended = 0, [0, 0], [False, False]
        self._stops, self._lives = [stop, second_stop], [*lives]
        self._threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate((first, second))]
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(_PATIENCE)
            assert not thread.is_alive(), "the two wait for each other"
        self._threads = []
        return said

    def step(self) -> None:
        if threading.current_thread() not in self._threads:
            return
        number = self._threads.index(threading.current_thread())
        with self._changed:
            if self.steps[number] == self._stops[number]:
                self._stops[number] = None
                self._give_way(number)
        self._wait(number)
        self.steps[number] += 1

    def _change(self) -> None:
        self.step()
        if threading.current_thread() in self._threads:
            number = self._threads.index(threading.current_thread())
            self._lives[number] -= 1
            if self._lives[number] < 0:
                raise Died

    def _give_way(self, number: int) -> None:
        other = 1 - number
        if not self._ended[other]:
            self.turn = other
            self._changed.notify_all()

    def _wait(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.turn == number or self._ended[1 - number], _PATIENCE)

    @contextmanager
    def lock(self, *locators: Locator) -> Iterator[Held]:
        if threading.current_thread() not in self._threads:
            with self.inner.lock(*locators) as held:
                yield held
            return
        number = self._threads.index(threading.current_thread())
        keys = {locator.key for locator in locators}
        self.step()
        self._wanted[number] = keys
        while keys & self._held[1 - number]:
            with self._changed:
                self._give_way(number)
            self._wait(number)
        self._wanted[number], self._held[number] = set(), keys
        try:
            with self.inner.lock(*locators) as held:
                yield held
        finally:
            self._held[number] = set()
            if keys & self._wanted[1 - number]:
                with self._changed:
                    self._give_way(number)
                self._wait(number)

    def read(self, locator: Locator) -> str:
        self.step()
        return super().read(locator)

    def list(self, locator: Locator) -> list[Locator]:
        self.step()
        return super().list(locator)

    def exists(self, locator: Locator) -> bool:
        self.step()
        return super().exists(locator)

    def info(self, locator: Locator) -> Info:
        self.step()
        return super().info(locator)

    def __getattr__(self, name: str) -> Any:
        if name == "read_versioned":
            self.step()
        return super().__getattr__(name)
