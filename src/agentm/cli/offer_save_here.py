"""`agentm offer-save-here`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.output import add_common_arguments, print_json
from agentm.cli.recall_here import add_directory_arguments, context_of
from agentm.cli.texts import file_text, stdin_text
from agentm.process import offer_save_here

DESCRIPTION = """\
Print what could be saved from here as a JSON list: the candidate with its project, its target and the phase that is
given. Nothing is saved. Prints [] and exits 0 when there is no memory, or no project."""
EXAMPLES = """\
  agentm offer-save-here --kind decision --slug use-tantivy --body-file decision.md
  echo 'FTS5 is slow at a million.' | agentm offer-save-here --kind decision --slug use-tantivy --body-file -"""


def add_arguments(parser: ArgumentParser) -> None:
    add_directory_arguments(parser, phase="what was being done, to be named in the offer (default: nothing is named)")
    parser.add_argument("--kind", required=True, metavar="KIND", help="what it is, such as decision")
    parser.add_argument("--slug", required=True, metavar="NAME", help="what it would be called")
    parser.add_argument("--body-file", metavar="FILE", help="the text; '-' is stdin")
    parser.add_argument("--confidence", type=float, metavar="X", help="how sure you are, from 0 to 1")
    parser.add_argument("--confidence-reason", metavar="TEXT", help="why")
    add_common_arguments(parser)


def run(options: Namespace) -> int:
    print_json(offer_save_here(context_of(options), _candidate(options)))
    return 0


def _candidate(options: Namespace) -> dict[str, object]:
    given = {name: getattr(options, name) for name in ("kind", "slug", "confidence", "confidence_reason")}
    candidate = {name: value for name, value in given.items() if value is not None}
    if options.body_file is not None:
        candidate["body"] = stdin_text() if options.body_file == "-" else file_text(options.body_file)
    return candidate
