"""`agentm edit`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from agentm.cli import editor
from agentm.cli.memories import (
    Memories,
    add_caller_arguments,
    add_if_version,
    add_secrets_argument,
    rewritten,
    show_receipt,
)
from agentm.cli.output import print_json, say
from agentm.cli.texts import add_text_arguments, given_text, harmless, has_text
from agentm.context.contextfs import Receipt
from agentm.context.front_matter import with_fields_of
from agentm.context.node import ContextNode
from agentm.context.secrets import without_secrets
from agentm.errors import InvalidNodeError, NodeConflictError

DESCRIPTION = """\
Change the text of a memory: in your editor ($VISUAL or $EDITOR), or to a text that is given. If somebody else changed
it meanwhile nothing is written, the difference is shown, and your text is kept in a file that is named."""
EXAMPLES = """\
  agentm edit profile
  EDITOR='code --wait' agentm edit events/first-visit
  agentm edit profile 'Lives in Zürich.'
  agentm edit profile --file profile.md --if-version 3
  agentm read profile | sed s/tea/coffee/ | agentm edit profile -"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory")
    add_text_arguments(parser)
    add_secrets_argument(parser)
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    with memories.suggesting(uri):
        node = memories.fs.read_node(uri, memories.ctx)
    if has_text(options):
        text = with_fields_of(given_text(options), node.content)
        with editor.keeping(text, options.file, json=options.json):
            receipt = _write(memories, node, text, options)
    else:
        with editor.copy_of(node.content, json=options.json) as draft:
            text = draft.edited()
            receipt = _write(memories, node, text, options)
    if receipt is None:
        return _unchanged(node, options)
    return show_receipt(receipt, f"changed {uri}", options)


def _write(memories: Memories, node: ContextNode, text: str, options: Namespace) -> Receipt | None:
    """The new version, or None if the text is what it was."""
    if not text.strip():
        raise InvalidNodeError("the text is empty, so nothing was written; agentm forget removes a memory.")
    if text != node.content:
        text, _ = without_secrets(text, options.secrets)
    expected = node.version if options.if_version is None else options.if_version
    if text == node.content and expected == node.version:
        return None
    try:
        return memories.fs.write_node(rewritten(node, text), memories.ctx, if_version=expected)
    except NodeConflictError as conflict:
        if not options.json:  # there it is part of the error
            say(harmless(conflict.diff), sys.stderr)
        raise


def _unchanged(node: ContextNode, options: Namespace) -> int:
    if options.json:
        print_json({"uri": node.uri, "version": node.version, "changed": False})
    else:
        say(f"unchanged {node.uri} (version {node.version})")
    return 0
