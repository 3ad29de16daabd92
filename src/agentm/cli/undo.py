"""`agentm undo`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.memories import (
    Memories,
    add_caller_arguments,
    add_if_version,
    kept_versions,
    show_receipt,
    version_number,
)

DESCRIPTION = """\
Bring back an older version of a memory as a new one: nothing is lost, and an undo can be undone.
Works on what was forgotten too."""
EXAMPLES = """\
  agentm undo profile              the version before this one
  agentm undo profile --to 2
  agentm undo profile --to 2 --if-version 7"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory")
    parser.add_argument("--to", type=version_number, metavar="N", help="this version (default: the one before)")
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    kept_versions(memories, uri)
    receipt = memories.fs.undo(uri, memories.ctx, to=options.to, if_version=options.if_version)
    return show_receipt(receipt, f"brought back {uri}", options)
