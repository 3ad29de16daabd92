"""`agentm recall`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from typing import TYPE_CHECKING

from agentm.cli.memories import Memories, add_caller_arguments
from agentm.cli.output import print_json, say
from agentm.cli.texts import one_line, stdin_text
from agentm.records import as_dict

if TYPE_CHECKING:
    from agentm.recall.results import Recall

DESCRIPTION = """\
Say what is known about something, best first. What is printed is quoted, says where it is from, and never exceeds the
budget: it can be handed to a model as it is. Without a model, a server or a network."""
EXAMPLES = """\
  agentm recall 'what does Alice drink'
  agentm recall 'loom prices' --category cases --since 2026-01-01 --limit 3
  agentm recall 'deploy' --budget 500 --explain
  git diff --stat | agentm recall - --json"""


_PATIENCE = 1.0
"""Seconds: who types a question can wait a moment for what was just written."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", metavar="QUERY", help="what it is about, in any words (-: stdin)")
    parser.add_argument(
        "--budget", type=_number, metavar="TOKENS", default=2_000, help="how much to print at most (default: 2000)"
    )
    parser.add_argument("--limit", type=_number, metavar="N", default=10, help="how many at most (default: 10)")
    what = parser.add_argument_group("only those")
    what.add_argument("--category", metavar="NAME", help="of this category")
    what.add_argument("--tag", metavar="T", help="with this tag")
    what.add_argument("--project", metavar="NAME", help="of this project")
    what.add_argument("--owner", metavar="SPACE", help="of this space, as in user:alice")
    what.add_argument("--since", metavar="DATE", help="from this day on")
    what.add_argument("--until", metavar="DATE", help="up to this day")
    parser.add_argument(
        "--patience",
        type=_seconds,
        metavar="SECONDS",
        help="how long it may take; then it answers from what it has (default: about 1, and longer for a hand edit)",
    )
    parser.add_argument("--explain", action="store_true", help="say why each of them is there")
    parser.add_argument("--plain", action="store_true", help="by relevance alone: neither recency nor relations count")
    add_caller_arguments(parser)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no number; give one such as 10")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number of seconds; give one such as 0.5") from None


def run(options: Namespace) -> int:
    query = " ".join(options.query)
    if query == "-":
        query = stdin_text()
    memories = Memories(options)
    with memories.memory as memory:
        asked = partial(
            memory.recall,
            query,
            budget=options.budget,
            limit=options.limit,
            category=options.category,
            tag=options.tag,
            project=options.project,
            owner=options.owner,
            since=options.since,
            until=options.until,
            recency=not options.plain,
            related=not options.plain,
            patience=_PATIENCE if options.patience is None else options.patience,
        )
        found = asked()
        if found.being_edited and options.patience is None:
            _wait_for_the_editor()
            found = asked()
    if options.json:
        print_json(as_dict(found))
    else:
        _show(found, memories, explain=options.explain)
    return 0


def _wait_for_the_editor() -> None:
    """Until what was just saved by hand is surely saved: whoever edits and then asks means the new words."""
    import time

    from agentm.context.holding import QUIET_SECONDS

    time.sleep(QUIET_SECONDS)


def _explain(found: Recall, memories: Memories) -> None:
    from agentm.recall.reasons import reasons

    addresses = [one_line(memories.short(entry.uri)) for entry in found]
    width = max(map(len, addresses), default=0)
    for entry, address in zip(found, addresses, strict=True):
        say(f"{entry.score:5.2f}  {address:<{width}}  {one_line('; '.join(reasons(entry, found.query)))}", sys.stderr)


def _show(found: Recall, memories: Memories, *, explain: bool) -> None:
    if found.markdown:
        say(found.markdown, end="")
    if explain:
        _explain(found, memories)
    if found.left_out and not found.entries:
        say(
            f"agentm: hint: {found.left_out} found, none fits into {found.budget} tokens; give a larger --budget.",
            sys.stderr,
        )
    elif not found.entries:
        say("agentm: nothing is known about that.", sys.stderr)
    if found.being_edited:
        say(f"agentm: hint: {found.being_edited} edited by hand just now; ask again in a moment.", sys.stderr)
    elif not found.complete and not found.entries:
        say("agentm: hint: the index may not know the latest; agentm reindex brings it up to date.", sys.stderr)
    if found.unreadable:
        say(
            f"agentm: hint: memories and notes that cannot be read: {found.unreadable}; agentm reindex says which.",
            sys.stderr,
        )
