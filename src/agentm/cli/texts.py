"""Text that comes in from an argument, a file or stdin, and text that goes out to a terminal."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from typing import BinaryIO

from agentm.cli.dispatch import UsageError
from agentm.cli.output import say
from agentm.context.node import LARGEST_CONTENT
from agentm.errors import InvalidNodeError, NotTextError, store_error

# What a terminal would obey; line ends and tabs it may.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


def add_text_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the text; '-' reads it from stdin")
    parser.add_argument("--file", metavar="FILE", help="read the text from this file; '-' is stdin")


def has_text(options: Namespace) -> bool:
    return bool(options.text) or options.file is not None


def given_text(options: Namespace) -> str:
    """The text that was given, as it is; one from the command line becomes a line."""
    if options.text and options.file is not None:
        raise UsageError("give either a text or --file, not both.")
    if not has_text(options):
        raise UsageError("there is no text; give it as an argument, with --file, or on stdin with '-'.")
    if options.file == "-" or options.text == ["-"]:
        text = stdin_text()
    elif options.file is not None:
        text = file_text(options.file)
    else:
        text = _argument_text(" ".join(options.text))
    if not text.strip():
        raise InvalidNodeError("the text is empty, so nothing was written; agentm forget removes a memory.")
    return text


def file_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return _decoded(file, path)
    except OSError as cause:
        if isinstance(cause, NotTextError):
            raise
        raise store_error(cause, backend="agentm", verb="read", locator=path) from cause


def show_text(text: str) -> None:
    """Print a text: byte for byte into a pipe or file, harmless and with an end of line on a terminal."""
    if sys.stdout.isatty():
        say(harmless(text).removesuffix("\n"))
    else:
        say(text, end="")


def harmless(text: str) -> str:
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(text: str) -> str:
    return harmless(" ".join(text.split()))


def stdin_text() -> str:
    if sys.stdin is None:
        raise UsageError("there is no stdin to read from; give the text as an argument or with --file.")
    if sys.stdin.isatty():
        say("agentm: hint: type the text, and end it with Ctrl-D on a line of its own.", sys.stderr)
    return _decoded(sys.stdin.buffer, "stdin")


def _argument_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise NotTextError("the text is not UTF-8; convert it, or set a UTF-8 locale.") from cause
    return text if not text.strip() or text.endswith("\n") else f"{text}\n"


def _decoded(stream: BinaryIO, what: str) -> str:
    data = stream.read(LARGEST_CONTENT + 1)
    if len(data) > LARGEST_CONTENT:
        raise InvalidNodeError(
            f"{what} has more than {LARGEST_CONTENT:,} bytes, the most a memory may have; "
            "keep it elsewhere and link to it.",
            code="content_too_big",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as cause:
        raise NotTextError(
            f"{what} is not UTF-8 (byte {cause.start}); convert it first, for example with iconv."
        ) from cause
