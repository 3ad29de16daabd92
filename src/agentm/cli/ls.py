"""`agentm ls`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from agentm.cli.listing import below
from agentm.cli.memories import Memories, add_caller_arguments, node_fields
from agentm.cli.output import print_json, say
from agentm.cli.texts import one_line

DESCRIPTION = """\
List the memories below a folder, one line each: its address and what it says in short.
Exits 1 if one of them cannot be read."""
EXAMPLES = """\
  agentm ls
  agentm ls preferences
  agentm ls --agent scout
  agentm ls events --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="a category or other folder (default: everything)")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    place = memories.place(options.folder)
    broken: list[str] = []
    found = list(below(memories, place, broken))
    if options.json:
        print_json({"place": place, "memories": [node_fields(node) for node in found], "broken": broken})
        return 1 if broken else 0
    names = [memories.short(node.uri) for node in found]
    width = max(map(len, names), default=0)
    for name, node in zip(names, found, strict=True):
        say(f"{name:<{width}}  {one_line(node.abstract or '')}".rstrip())
    if not found and not broken:
        say(f"agentm: hint: there is nothing in {place} yet; agentm remember adds to it.", sys.stderr)
    for why in broken:
        say(f"agentm: node_broken: {why}", sys.stderr)
    return 1 if broken else 0
