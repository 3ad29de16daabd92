"""`agentm remember`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.dispatch import UsageError
from agentm.cli.memories import Memories, add_caller_arguments, add_if_version, add_secrets_argument, show_receipt
from agentm.cli.texts import add_text_arguments, given_text

DESCRIPTION = """\
Write something down. Without an address it becomes a new memory, named after what it says; with one (--to) it is
written there, as a new version if something is there already."""
EXAMPLES = """\
  agentm remember 'Met Ada at the fair; she builds looms.'
  agentm remember 'Prefers green tea.' --category preferences --tag drinks
  agentm remember --to entities/ada --file ada.md
  git log -1 | agentm remember - --category cases --source git"""


def add_arguments(parser: ArgumentParser) -> None:
    add_text_arguments(parser)
    parser.add_argument("--to", metavar="ADDRESS", help="where to write it, as in entities/ada or profile")
    parser.add_argument("--category", metavar="NAME", help="the category of a new memory (default: events)")
    parser.add_argument("--slug", metavar="NAME", help="the name of a new memory (default: made from the text)")
    parser.add_argument("--tag", action="append", default=[], metavar="T", help="a word to file it under; repeatable")
    parser.add_argument(
        "--project", metavar="NAME", help="the project it belongs to: agentm recall-here shows it there"
    )
    parser.add_argument("--when", metavar="DATE", help="the moment it is about, as in 2026-03-15 (default: now)")
    parser.add_argument("--who", metavar="NAMES", help="whom it is about, or who said it")
    add_secrets_argument(parser)
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def run(options: Namespace) -> int:
    memories = Memories(options)
    if options.to is not None and (options.category is not None or options.slug is not None):
        raise UsageError("--to is the whole address; leave out --category and --slug.")
    if options.if_version and options.to is None and options.slug is None:
        raise UsageError("a new memory has no version yet; say which memory you mean with --to.")
    category = options.category or "events"
    # A wrong address is worth saying before stdin is read, or a store is opened.
    if options.to is not None:
        memories.address(options.to)
    elif options.slug is not None and category != "profile":
        memories.address(f"{category}/{options.slug}")
    else:
        memories.place(category)
    text = given_text(options)
    receipt = memories.memory.remember(
        text,
        to=options.to,
        slug=options.slug,
        category=category,
        tags=options.tag,
        project=options.project,
        when=options.when,
        who=options.who,
        secrets=options.secrets,
        if_version=0 if options.to is None and options.slug is None and category == "profile" else options.if_version,
    )
    return show_receipt(receipt, f"remembered {receipt.uri}", options)
