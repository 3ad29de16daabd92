"""`agentm remember`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from agentm.cli.dispatch import UsageError
from agentm.cli.memories import Memories, add_caller_arguments, add_if_version, rewritten, show_receipt
from agentm.cli.slugs import slug_of
from agentm.cli.texts import add_text_arguments, given_text
from agentm.context.contextfs import Receipt
from agentm.context.node import ContextNode
from agentm.context.summarise import abstract_of
from agentm.errors import InvalidUriError, NodeBrokenError, NodeConflictError, NodeNotFoundError

DESCRIPTION = """\
Write something down. Without an address it becomes a new memory, named after what it says; with one (--to) it is
written there, as a new version if something is there already."""
EXAMPLES = """\
  agentm remember 'Met Ada at the fair; she builds looms.'
  agentm remember 'Prefers green tea.' --category preferences --tag drinks
  agentm remember --to entities/ada --file ada.md
  git log -1 | agentm remember - --category cases --source git"""

MOST_ALIKE = 1_000
"""Memories of one name, told apart by numbers, before somebody has to find a better name."""

_ATTEMPTS = 20
"""How often somebody else may be faster, where the caller named no version."""


def add_arguments(parser: ArgumentParser) -> None:
    add_text_arguments(parser)
    parser.add_argument("--to", metavar="ADDRESS", help="where to write it, as in entities/ada or profile")
    parser.add_argument("--category", metavar="NAME", help="the category of a new memory (default: events)")
    parser.add_argument("--slug", metavar="NAME", help="the name of a new memory (default: made from the text)")
    parser.add_argument("--tag", action="append", default=[], metavar="T", help="a word to file it under; repeatable")
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def run(options: Namespace) -> int:
    memories = Memories(options)
    if options.to is not None:
        if options.category is not None or options.slug is not None:
            raise UsageError("--to is the whole address; leave out --category and --slug.")
        receipt = _write(memories, memories.address(options.to), options)
    elif options.slug is not None:
        receipt = _write(memories, _address(memories, options.slug, options), options)
    else:
        receipt = _write_new(memories, options)
    return show_receipt(receipt, f"remembered {receipt.uri}", options)


def _address(memories: Memories, slug: str, options: Namespace) -> str:
    category = options.category or "events"
    return memories.address(category if category == "profile" else f"{category}/{slug}")


def _write(memories: Memories, uri: str, options: Namespace) -> Receipt:
    text = given_text(options)
    for _ in range(_ATTEMPTS):
        try:
            return _write_over(memories, uri, text, options)
        except NodeConflictError:
            if options.if_version is not None:
                raise
    return _write_over(memories, uri, text, options)


def _write_over(memories: Memories, uri: str, text: str, options: Namespace) -> Receipt:
    """With the relations and tags that stand there; whoever changes them meanwhile is not written over."""
    try:
        standing = memories.fs.read_node(uri, memories.ctx)
    except NodeNotFoundError:
        standing = ContextNode(uri, text)
    node = replace(rewritten(standing, text), tags=tuple(options.tag) or standing.tags)
    expected = standing.version if options.if_version is None else options.if_version
    return memories.fs.write_node(node, memories.ctx, if_version=expected)


def _write_new(memories: Memories, options: Namespace) -> Receipt:
    if options.if_version:
        raise UsageError("a new memory has no version yet; say which memory you mean with --to.")
    memories.place(options.category or "events")  # a wrong category is worth saying before stdin is read
    text = given_text(options)
    slug = slug_of(abstract_of(text))
    if options.category == "profile":
        return memories.fs.write_node(ContextNode(_address(memories, slug, options), text), memories.ctx, if_version=0)
    for number in range(1, MOST_ALIKE):
        uri = _address(memories, slug if number == 1 else f"{slug}-{number}", options)
        try:
            if _was_ever(memories, uri):
                continue
            return memories.fs.write_node(ContextNode(uri, text, tags=tuple(options.tag)), memories.ctx, if_version=0)
        except (NodeConflictError, NodeBrokenError):
            continue
    raise InvalidUriError(
        f"there are {MOST_ALIKE} memories named {slug!r}; name this one with --slug.", code="uri_taken"
    )


def _was_ever(memories: Memories, uri: str) -> bool:
    """Whether a memory is there, or was and can still be brought back: its name is not for another one."""
    return memories.fs.exists(uri, memories.ctx) or bool(memories.fs.history(uri, memories.ctx))
