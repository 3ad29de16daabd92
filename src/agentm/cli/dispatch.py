"""From arguments to a command, and from any error to one line and an exit status."""

from __future__ import annotations

import argparse
import keyword
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import NoReturn

from agentm.cli.output import OutputError, print_json, say
from agentm.errors import AgentmError, NodeConflictError

# Name → what it does. The module of the same name in this package (with a _ behind a word of Python's) is loaded only
# when the command is used; it has DESCRIPTION, EXAMPLES, add_arguments(parser) and run(options) -> exit status.
COMMANDS = {
    "remember": "write something down",
    "recall": "say what is known about something",
    "read": "print a memory",
    "ls": "list memories, one line each",
    "tree": "show folders and memories as a tree",
    "edit": "change the text of a memory",
    "mv": "give a memory another address",
    "forget": "take a memory away",
    "relate": "connect two memories, or list the connections of one",
    "history": "list the versions of a memory",
    "diff": "show what changed between two versions",
    "undo": "bring back an older version",
    "import": "bring in notes, chats and what other tools remember",
    "export": "write memories into a zip of plain files",
    "repair": "put right what a crash or a hand edit left behind",
    "reindex": "bring the index of what can be recalled up to date",
    "outbox": "what the index has yet to be told",
    "recall-here": "what memory holds for this directory, for a program that begins to work here",
    "offer-save-here": "what could be saved from here, without saving it",
    "state-path": "where the plan and the progress file of this project are",
    "hook": "let a coding agent begin its sessions with recall-here",
    "config": "read and change the settings of this machine",
    "conformance": "prove that a backend keeps the contract",
    "doctor": "say what is wrong here, and what to type next",
}

# What other tools call our commands.
_ELSEWHERE = {
    "add": "remember",
    "backup": "export",
    "cat": "read",
    "create": "remember",
    "delete": "forget",
    "dir": "ls",
    "find": "recall",
    "get": "read",
    "link": "relate",
    "list": "ls",
    "log": "history",
    "move": "mv",
    "new": "remember",
    "rename": "mv",
    "restore": "undo",
    "revert": "undo",
    "rm": "forget",
    "search": "recall",
    "save": "remember",
    "show": "read",
    "update": "edit",
    "view": "read",
    "write": "remember",
}

_REPORT = "it is a fault of agentm; run it again with AGENTM_DEBUG=1 and report what it prints"


class UsageError(Exception):
    """The command line makes no sense; the message says how it would."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, asked without the module that copies and packs files, which the parser's own
    way to ask loads on every call."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_width())


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours to print."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help.")

    def parse(self, args: list[str]) -> argparse.Namespace:
        """Options may stand between the other arguments, as in ``relate A --type about B``."""
        if self._subparsers is not None or "--" in args:  # those know only the plain order
            return self.parse_args(args)
        return self.parse_intermixed_args(args)


def run(args: list[str]) -> int:
    """Run a command line. Only an interrupt, or an output that cannot be written, gets out as an exception."""
    _make_printable()
    try:
        return _run_command(args)
    except UsageError as error:
        _complain(args, {"code": "usage", "message": str(error)})
        return 2
    except AgentmError as error:
        _complain(args, _described(error))
        return 1
    except OutputError as error:
        raise error.__cause__ or error from None
    except BrokenPipeError:
        raise
    except Exception as error:
        return _give_up(args, error)


def nearest(word: str, known: Iterable[str]) -> str:
    """A suggestion to put behind an error about an unknown word; empty when nothing is near."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _run_command(args: list[str]) -> int:
    if not args:
        say(_overview(), sys.stderr)
        return 2
    name = args[0]
    if name in ("-h", "--help", "help"):
        say(_overview())
        return 0
    if name not in COMMANDS:
        what = "option" if name.startswith("-") else "command"
        raise UsageError(f"there is no {what} {name!r}{_meant(name)}; see agentm --help.")
    command = import_module(f"agentm.cli.{name.replace('-', '_')}{'_' if keyword.iskeyword(name) else ''}")
    parser = Parser(
        prog=f"agentm {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    try:
        options = parser.parse(args[1:])
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    return int(command.run(options))


def _meant(name: str) -> str:
    return f" (did you mean {_ELSEWHERE[name]!r}?)" if name in _ELSEWHERE else nearest(name, COMMANDS)


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return (
        "usage: agentm COMMAND …\n\n"
        "An agent's memory as plain files its owner can read, on any store.\n\n"
        f"commands:\n{lines}\n\n"
        "agentm COMMAND --help explains a command, with examples; agentm --version tells the version.\n\n"
        "examples:\n"
        "  agentm remember 'The owner prefers green tea.' --category preferences\n"
        "  agentm ls\n"
        "  agentm config --vault-path ~/Notes\n"
        "  agentm doctor"
    )


def _described(error: AgentmError) -> dict[str, object]:
    context: dict[str, object] = {"backend": error.backend, "verb": error.verb, "locator": error.locator}
    if isinstance(error, NodeConflictError):
        context |= {"version": error.version, "diff": error.diff}
    context["kept"] = getattr(error, "kept", None)
    return {
        "code": error.code,
        "message": str(error),
        **{key: value for key, value in context.items() if value is not None},
    }


def _complain(args: list[str], error: dict[str, object]) -> None:
    if "--json" in args:
        print_json({"error": error}, sys.stderr)
    else:
        say(f"agentm: {error['code']}: {' '.join(str(error['message']).splitlines())}", sys.stderr)


def _give_up(args: list[str], error: Exception) -> int:
    if os.environ.get("AGENTM_DEBUG"):
        import traceback

        traceback.print_exception(error)
    _complain(args, {"code": "internal_error", "message": f"{type(error).__name__}: {error}; {_REPORT}."})
    return 1


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns) - 2
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns - 2 if sys.__stdout__ else 78
    except (OSError, ValueError):  # not a terminal, or closed
        return 78


def _make_printable() -> None:
    """Show what a terminal's encoding lacks as an escape; never die of it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
