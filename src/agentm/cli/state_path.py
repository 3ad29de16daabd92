"""`agentm state-path`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.output import add_common_arguments, print_json, say
from agentm.cli.recall_here import context_of
from agentm.process import state_path

DESCRIPTION = """\
Print where the plan or the progress file of the active plan is, or would be: in the project's folder of a synced store,
else in .harness of the project itself. Reads only. Exits 1 when .harness/active-plan leads nowhere."""
EXAMPLES = """\
  agentm state-path plan
  agentm state-path progress --plan parser-rewrite"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("which", choices=("plan", "progress"), help="which of the two files")
    parser.add_argument("--cwd", metavar="DIR", help="a directory of the project (default: the current one)")
    parser.add_argument("--plan", metavar="NAME", help="the plan of this name (default: the active one)")
    add_common_arguments(parser)


def run(options: Namespace) -> int:
    path = str(state_path(context_of(options), options.which))
    if options.json:
        print_json({"path": path})
    else:
        say(path)
    return 0
