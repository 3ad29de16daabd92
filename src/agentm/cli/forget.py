"""`agentm forget`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.memories import Memories, add_caller_arguments, add_if_version, show_receipt
from agentm.cli.progress import progress

DESCRIPTION = """\
Take a memory away. It is no longer shown or found, and what pointed to it no longer does.
agentm undo brings it back, unless it was purged."""
EXAMPLES = """\
  agentm forget events/first-visit
  agentm forget events/first-visit --if-version 3
  agentm forget events/first-visit --purge        with its whole history, for good"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory")
    parser.add_argument("--purge", action="store_true", help="remove its history too: it cannot be brought back")
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def _so_far(done: int, total: int) -> str:
    return f"taking its words out of the index, {done:,} of {total:,}"


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    with memories.suggesting(uri), progress(_so_far) as told:
        receipt = memories.memory.forget(uri, if_version=options.if_version, purge=options.purge, progress=told)
    done = f"forgot {uri} for good" if options.purge else f"forgot {uri}"
    return show_receipt(receipt, done, options, purged=options.purge)
