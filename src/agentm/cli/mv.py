"""`agentm mv`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.memories import Memories, add_caller_arguments, add_if_version, show_receipt
from agentm.context.uri import Folder, parse_place

DESCRIPTION = "Give a memory another address. Its history goes with it, and what points to it follows."
EXAMPLES = """\
  agentm mv events/met-ada entities/ada
  agentm mv events/met-ada cases/            keeps its name
  agentm mv events/met-ada cases/ada --if-version 3"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="which memory")
    parser.add_argument("target", metavar="TO", help="its new address, or the folder it goes into")
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def run(options: Namespace) -> int:
    memories = Memories(options)
    source = memories.address(options.source)
    target = memories.place(options.target)
    if isinstance(parse_place(target), Folder):
        target = memories.address(f"{target}/{source.rpartition('/')[2]}")
    with memories.suggesting(source):
        receipt = memories.fs.move_node(source, target, memories.ctx, if_version=options.if_version)
    return show_receipt(receipt, f"moved {source} to {receipt.uri}", options, moved_from=source)
