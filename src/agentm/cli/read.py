"""`agentm read`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.memories import Memories, add_caller_arguments, version_number
from agentm.cli.output import print_json, say
from agentm.cli.texts import one_line, show_text
from agentm.context.node import ContextNode
from agentm.records import as_dict

DESCRIPTION = "Print a memory: its text as it is, or what is known about it."
EXAMPLES = """\
  agentm read events/first-visit
  agentm read profile --meta
  agentm read events/first-visit --version 1
  agentm read ctx://local/users/alice/memories/entities/ada --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory, as in events/first-visit")
    parser.add_argument("--version", type=version_number, metavar="N", help="an older version of it")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--meta", action="store_true", help="who wrote it, when and from what, instead of the text")
    part.add_argument("--overview", action="store_true", help="its outline instead of the text")
    part.add_argument("--abstract", action="store_true", help="one line instead of the text")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    with memories.suggesting(uri):
        node = memories.fs.read_node(uri, memories.ctx, version=options.version)
    if options.json:
        print_json(as_dict(node))
    elif options.meta:
        say(_meta(node))
    elif options.abstract:
        say(one_line(node.abstract or ""))
    else:
        show_text((node.overview or "") if options.overview else node.content)
    return 0


def _meta(node: ContextNode) -> str:
    lines = {
        "uri": node.uri,
        "version": node.version,
        "created": node.created_at,
        "updated": node.updated_at,
        "by": node.actor,
        "from": ", ".join(node.sources),
        "tags": ", ".join(node.tags),
        "abstract": node.abstract,
    }
    return "\n".join(f"{name:<9} {one_line(str(value))}" for name, value in lines.items() if value)
