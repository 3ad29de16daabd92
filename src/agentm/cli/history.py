"""`agentm history`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.memories import Memories, add_caller_arguments, kept_versions, node_fields
from agentm.cli.output import print_json, say
from agentm.cli.texts import one_line
from agentm.context.node import ContextNode, NodeStatus

DESCRIPTION = "List the versions of a memory, oldest first: when, by whom, from what. Forgotten memories have one too."
EXAMPLES = """\
  agentm history events/first-visit
  agentm history profile --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    versions = kept_versions(memories, uri)
    if options.json:
        print_json({"uri": uri, "versions": [node_fields(node) for node in versions]})
        return 0
    width = max(len(one_line(node.actor)) for node in versions)
    for node in versions:
        say(_line(node, width))
    return 0


def _line(node: ContextNode, width: int) -> str:
    ended = node.status not in (NodeStatus.ACTIVE, NodeStatus.PENDING)
    what = f"({node.status.lower()})" if ended else one_line(node.abstract or "")
    sources = f"  [from {one_line(', '.join(node.sources))}]" if node.sources else ""
    return f"{node.version:>4}  {node.updated_at}  {one_line(node.actor):<{width}}  {what}{sources}".rstrip()
