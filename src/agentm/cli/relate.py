"""`agentm relate`"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from agentm.cli.dispatch import UsageError
from agentm.cli.memories import Memories, add_caller_arguments, add_if_version, show_receipt
from agentm.cli.output import print_json, say
from agentm.cli.texts import one_line
from agentm.context.node import RelationEdge
from agentm.records import as_dict

DESCRIPTION = """\
Connect one memory to another, or change that connection. With --remove, take the connection away. With --list,
say what a memory is connected to, in both directions."""
EXAMPLES = """\
  agentm relate events/met-ada entities/ada
  agentm relate cases/loom entities/ada --type solved_by --weight 0.8 --reason 'she fixed it'
  agentm relate cases/loom entities/ada --type solved_by --remove
  agentm relate entities/ada --list"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="the memory that the connection leads away from")
    parser.add_argument("target", nargs="?", metavar="TO", help="the memory that it leads to")
    parser.add_argument("--list", action="store_true", help="list the connections of FROM instead")
    parser.add_argument("--remove", action="store_true", help="take the connection of this type away instead")
    parser.add_argument("--type", default="related_to", metavar="T", help="what kind (default: related_to)")
    parser.add_argument("--weight", type=_weight, default=1.0, metavar="W", help="how strong, 0 to 1 (default: 1)")
    parser.add_argument("--reason", default="", metavar="R", help="why")
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def run(options: Namespace) -> int:
    if options.list == (options.target is not None) or (options.list and options.remove):
        raise UsageError("name two memories to connect or --remove, or one to --list; see agentm relate --help.")
    memories = Memories(options)
    source = memories.address(options.source)
    if options.list:
        return _list(memories, source, options)
    target = memories.address(options.target)
    if options.remove:
        return _remove(memories, source, target, options)
    edge = RelationEdge(source, target, options.type, options.weight, options.reason)
    with memories.suggesting(source, target):
        receipt = memories.fs.relate(edge, memories.ctx, if_version=options.if_version)
    return show_receipt(receipt, f"related {source} to {target}", options, relation=as_dict(edge))


def _remove(memories: Memories, source: str, target: str, options: Namespace) -> int:
    with memories.suggesting(source, target):
        receipt = memories.fs.unrelate(
            source, target, memories.ctx, relation_type=options.type, if_version=options.if_version
        )
    removed = {"from_uri": source, "to_uri": target, "relation_type": options.type}
    return show_receipt(receipt, f"{source} is no longer related to {target}", options, removed=removed)


def _list(memories: Memories, uri: str, options: Namespace) -> int:
    with memories.suggesting(uri):
        edges = memories.fs.relations(uri, memories.ctx)
    if options.json:
        print_json({"uri": uri, "relations": [as_dict(edge) for edge in edges]})
        return 0
    for edge in edges:
        arrow, other = ("→", edge.to_uri) if edge.from_uri == uri else ("←", edge.from_uri)
        reason = f"  {one_line(edge.reason)}" if edge.reason else ""
        say(f"{arrow} {memories.short(other)}  {one_line(edge.relation_type)} {edge.weight:g}{reason}")
    if not edges:
        say(f"agentm: hint: nothing is connected to {uri} yet.", sys.stderr)
    return 0


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0.0 <= weight <= 1.0:
        raise ArgumentTypeError(f"{text!r} is no weight; it is a number from 0 to 1")
    return weight
