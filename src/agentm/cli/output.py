"""What every command prints with, and the arguments that all of them take."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any, TextIO


class OutputError(Exception):
    """What was to be said cannot be written; the cause is the system's error."""


def say(text: str, stream: TextIO | None = None, *, end: str = "\n") -> None:
    """Print one text. A full disk behind stdout is not a fault of the command."""
    try:
        print(text, file=stream or sys.stdout, end=end)
    except BrokenPipeError:
        raise
    except OSError as cause:
        raise OutputError from cause


def print_json(value: Any, stream: TextIO | None = None) -> None:
    """One JSON value, in ASCII so that no terminal's encoding can spoil it."""
    import json

    say(json.dumps(value, indent=2), stream)


def add_common_arguments(parser: ArgumentParser) -> None:
    """What every command that reads the settings takes."""
    parser.add_argument("--json", action="store_true", help="print JSON, errors too (on stderr)")
    parser.add_argument(
        "--install-prefix",
        metavar="DIR",
        help="the directory with .agentm-config.json (default: $AGENTM_INSTALL_PREFIX, else ~/.agentm)",
    )
