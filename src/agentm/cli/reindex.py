"""`agentm reindex`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from agentm.cli.memories import Memories, add_caller_arguments
from agentm.cli.output import print_json, say
from agentm.cli.progress import progress
from agentm.cli.texts import one_line
from agentm.records import as_dict

DESCRIPTION = """\
Bring the index of what can be recalled up to date: what changed, or with --full everything anew (recall answers from
the old one meanwhile). It can be stopped at any time; the next run goes on where it was."""
EXAMPLES = """\
  agentm reindex
  agentm reindex --full
  agentm reindex --json"""

_NAMED = 3
"""Of what cannot be read, how many are named."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="build it anew from nothing")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    with memories.memory as memory, progress(_so_far) as told:
        caught = memory.reindex(progress=told) if options.full else memory.catch_up(progress=told)
        status = memory.status()["index"]
    if options.json:
        print_json({**as_dict(caught), "index": status})
        return 0
    say(f"indexed {caught.changed} changed, {caught.gone} gone; {status['sources']} in all")
    if status["obstacle"]:
        say(f"agentm: hint: this index was thrown away: {one_line(status['obstacle'])}.", sys.stderr)
    if status["unreadable"]:
        say(f"agentm: hint: {_unreadable(status['unreadable'])}.", sys.stderr)
    if not caught.complete:
        say("agentm: hint: another process is writing to the index, and works off the rest.", sys.stderr)
    return 0


def _unreadable(uris: list[str]) -> str:
    named = ", ".join(one_line(uri) for uri in uris[:_NAMED]) + (" …" if len(uris) > _NAMED else "")
    return f"{len(uris)} cannot be read ({named}): save notes as UTF-8; for memories type: agentm repair --dry-run"


def _so_far(done: int, total: int) -> str:
    if not total:
        return "waiting for another process that writes to the index; Ctrl-C does no harm"
    return f"indexed {done:,} of {total:,}; Ctrl-C does no harm"
