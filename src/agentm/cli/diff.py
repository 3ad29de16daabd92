"""`agentm diff`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from agentm.cli.memories import Memories, add_caller_arguments, kept_versions, version_number
from agentm.cli.output import print_json, say
from agentm.cli.texts import show_text

DESCRIPTION = """\
Show what changed in the text of a memory: between the last two versions, from one version to the last, or between
any two. Exits 0 whether they differ or not."""
EXAMPLES = """\
  agentm diff profile
  agentm diff profile 2
  agentm diff profile 2 5"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory")
    parser.add_argument("old", nargs="?", type=version_number, metavar="OLD", help="default: the one before NEW")
    parser.add_argument("new", nargs="?", type=version_number, metavar="NEW", help="default: the last version")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    numbers = [node.version for node in kept_versions(memories, uri)]
    new = options.new if options.new is not None else numbers[-1]
    old = options.old if options.old is not None else numbers[-2:][0]
    diff = memories.fs.diff(uri, memories.ctx, old, new)
    if options.json:
        print_json({"uri": uri, "old": old, "new": new, "diff": diff})
    elif diff:
        show_text(f"{diff}\n")
    else:
        say(f"agentm: hint: the texts of version {old} and version {new} are the same.", sys.stderr)
    return 0
