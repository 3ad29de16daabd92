"""`agentm reindex`"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from agentm.cli.memories import Memories, add_caller_arguments
from agentm.cli.output import print_json, say

DESCRIPTION = """\
Bring the index of what can be recalled up to date: what changed, or with --full everything anew (recall answers from
the old one meanwhile). It can be stopped at any time; the next run goes on where it was."""
EXAMPLES = """\
  agentm reindex
  agentm reindex --full
  agentm reindex --json"""

_EVERY = 0.2
"""Seconds."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="build it anew from nothing")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    with memories.memory as memory, _progress() as progress:
        caught = memory.reindex(progress=progress) if options.full else memory.catch_up(progress=progress)
        status = memory.status()["index"]
    if options.json:
        print_json({**asdict(caught), "index": status})
        return 0
    say(f"indexed {caught.changed} changed, {caught.gone} gone; {status['sources']} in all")
    if not status["lasting"]:
        say("agentm: hint: the index cannot be kept where it belongs, and was thrown away.", sys.stderr)
    if not caught.complete:
        say("agentm: hint: another process is writing to the index, and works off the rest.", sys.stderr)
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """On a terminal, a line that says how far it is, a few times a second; gone when it is done."""
    if not sys.stderr.isatty():
        yield None
        return
    due = 0.0

    def show(done: int, total: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _EVERY
            say(f"\r\033[Kagentm: indexed {done:,} of {total:,}; Ctrl-C does no harm", sys.stderr, end="")
            sys.stderr.flush()

    try:
        yield show
    finally:
        say("\r\033[K", sys.stderr, end="")
