"""`agentm recall-here`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from agentm.cli.output import add_common_arguments, print_json, say
from agentm.process import recall_here
from agentm.recall.budget import tokens
from agentm.recall.phases import BUDGETS

DESCRIPTION = f"""\
Print what memory holds for the project of a directory: your standing notes, the project's notes for the phase, then
what an index ranks. Prints nothing, and exits 0, when there is no memory. Reads only.

phases: {", ".join(BUDGETS)}; any other means work. $HARNESS_RECALL_BUDGET_<PHASE> sets the tokens of one."""
EXAMPLES = """\
  agentm recall-here
  agentm recall-here --phase plan --limit 2000
  agentm recall-here --cwd ~/code/loom --query 'why tantivy'"""


def add_arguments(parser: ArgumentParser) -> None:
    add_directory_arguments(parser)
    parser.add_argument("--query", metavar="TEXT", help="rank what an index finds by this")
    parser.add_argument("--limit", type=int, metavar="N", help="the most tokens to print (default: the phase's)")
    add_common_arguments(parser)


def add_directory_arguments(parser: ArgumentParser, phase: str = "what is about to be done (default: work)") -> None:
    parser.add_argument("--cwd", metavar="DIR", help="a directory of the project (default: the current one)")
    parser.add_argument("--phase", metavar="PHASE", help=phase)


def run(options: Namespace) -> int:
    text = recall_here(context_of(options), query=options.query, limit=options.limit)
    if options.json:
        print_json({"text": text, "tokens": tokens(text)})
    elif text:
        say(_shown(text))
    return 0


def _shown(text: str) -> str:
    """For a person's terminal, without what it would obey; for a program, as it is."""
    if not sys.stdout.isatty():
        return text
    from agentm.cli.texts import harmless

    return harmless(text)


def context_of(options: Namespace) -> dict[str, str]:
    """What the functions are to know, as far as it was given."""
    given = {name: getattr(options, name, None) for name in ("cwd", "phase", "plan", "install_prefix")}
    return {name: value for name, value in given.items() if value is not None}
