"""`agentm forget`"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress

from agentm.cli.memories import Memories, add_caller_arguments, add_if_version, show_receipt
from agentm.cli.output import say
from agentm.cli.progress import progress
from agentm.context.front_matter import front_matter
from agentm.context.slugs import slug_of
from agentm.context.summarise import abstract_of
from agentm.context.uri import parse_uri
from agentm.errors import AgentmError

DESCRIPTION = """\
Take a memory away. It is no longer shown or found, and what pointed to it no longer does.
agentm undo brings it back, unless it was purged."""
EXAMPLES = """\
  agentm forget events/first-visit
  agentm forget events/first-visit --if-version 3
  agentm forget events/first-visit --purge        with its whole history, for good; only its address stays"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="which memory")
    parser.add_argument("--purge", action="store_true", help="remove its history too: it cannot be brought back")
    add_if_version(parser)
    add_caller_arguments(parser, writes=True)


def _so_far(done: int, total: int) -> str:
    return f"taking its words out of the index, {done:,} of {total:,}"


def run(options: Namespace) -> int:
    memories = Memories(options)
    uri = memories.address(options.address)
    is_telling = options.purge and _is_named_by_its_words(memories, uri)
    with memories.suggesting(uri), progress(_so_far) as told:
        receipt = memories.memory.forget(uri, if_version=options.if_version, purge=options.purge, progress=told)
    done = f"forgot {uri} for good" if options.purge else f"forgot {uri}"
    shown = show_receipt(receipt, done, options, purged=options.purge)
    if is_telling:
        say(
            "agentm: hint: its address stays, to tell every copy that it is gone, and was made from its words; "
            "agentm remember --slug gives a name that tells nothing.",
            sys.stderr,
        )
    return shown


def _is_named_by_its_words(memories: Memories, uri: str) -> bool:
    """Whether the name of a memory was made from what it said, in any version that is kept."""
    name = parse_uri(uri).name
    with suppress(AgentmError, OSError):  # what is broken can be purged too
        texts = (front_matter(version.content)[1] for version in memories.fs.history(uri, memories.ctx))
        return any(re.fullmatch(rf"{re.escape(slug_of(abstract_of(text)))}(-\d+)?", name) for text in texts)
    return False
