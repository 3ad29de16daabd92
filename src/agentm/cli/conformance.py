"""`agentm conformance`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.conformance import command

DESCRIPTION = """\
Prove that a backend keeps the contract, on stores of its own that are gone afterwards.
Exits 0 if it does, 1 if it does not, 2 if there is no such backend."""
EXAMPLES = """\
  agentm conformance device-local
  agentm conformance mypkg.store:MyBackend
  agentm conformance mypkg.store:make_backend --json
  agentm conformance vault --no-processes --no-crashes     quicker"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="BACKEND", help="a protocol name, module:Class, or module:function")
    parser.add_argument("--only", metavar="A,B", help="only the checks of these names")
    parser.add_argument("--routing", action="store_true", help="also keep a repository registry in it")
    parser.add_argument("--no-processes", action="store_true", help="leave out the checks with several processes")
    parser.add_argument("--no-crashes", action="store_true", help="leave out the checks with injected crashes")
    parser.add_argument("--json", action="store_true", help="print JSON, errors too (on stderr)")


def run(options: Namespace) -> int:
    only = None if options.only is None else [name.strip() for name in options.only.split(",") if name.strip()]
    return command.run(
        options.target,
        json=options.json,
        only=only,
        include_routing=options.routing,
        processes=not options.no_processes,
        crashes=not options.no_crashes,
    )
