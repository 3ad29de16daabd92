"""`agentm tree`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from agentm.cli.listing import shown
from agentm.cli.memories import Memories, add_caller_arguments, node_fields
from agentm.cli.output import print_json, say
from agentm.cli.texts import one_line
from agentm.context.uri import Folder, parse_place

DESCRIPTION = """\
Show folders and memories as a tree, each memory with what it says in short.
Exits 1 if one of them cannot be read."""
EXAMPLES = """\
  agentm tree
  agentm tree events
  agentm tree ctx://local/users/alice --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="where it begins (default: the caller's space)")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    place = memories.place(options.folder)
    broken: list[str] = []
    tree = {"uri": place, "children": _children(memories, place, broken)}
    if options.json:
        print_json({**tree, "broken": broken})
        return 1 if broken else 0
    say(place)
    for line in _lines(tree["children"], ""):
        say(line)
    for why in broken:
        say(f"agentm: node_broken: {why}", sys.stderr)
    return 1 if broken else 0


def _children(memories: Memories, place: str, broken: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for child in memories.fs.list_children(place, memories.ctx):
        if isinstance(parse_place(child), Folder):
            children = _children(memories, child, broken)
            found += [{"uri": child, "children": children}] if children else []
        else:
            found += [node_fields(node) for node in shown(memories, child, broken)]
    broken += memories.fs.damaged_children(place, memories.ctx).values()
    return found


def _lines(children: Any, indent: str) -> list[str]:
    lines = []
    for number, child in enumerate(children, 1):
        last = number == len(children)
        name = child["uri"].rpartition("/")[2]
        text = f"{name}/" if "children" in child else f"{name}  {one_line(child['abstract'])}".rstrip()
        lines.append(f"{indent}{'└── ' if last else '├── '}{text}")
        lines += _lines(child.get("children", ()), indent + ("    " if last else "│   "))
    return lines
