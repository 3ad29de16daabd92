"""How far a long command is: on a terminal one line, a few times a second, gone when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

from agentm.cli.output import say

P = ParamSpec("P")

_EVERY = 0.2
"""Seconds."""


@contextmanager
def progress(line: Callable[P, str]) -> Iterator[Callable[P, None] | None]:
    """What to call with how far it is; ``line`` says it. None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    due = time.monotonic() + _EVERY

    def show(*args: P.args, **options: P.kwargs) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _EVERY
            say(f"\r\033[Kagentm: {line(*args, **options)}", sys.stderr, end="")
            sys.stderr.flush()

    try:
        yield show
    finally:
        say("\r\033[K", sys.stderr, end="")
