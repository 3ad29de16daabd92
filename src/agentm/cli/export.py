"""`agentm export`"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import BinaryIO

from agentm.backends import _durable
from agentm.cli.memories import Memories, add_caller_arguments
from agentm.cli.output import print_json, say
from agentm.cli.progress import progress
from agentm.cli.texts import one_line
from agentm.context.folders import not_found
from agentm.context.uri import ContextUri, parse_place
from agentm.errors import AgentmError, AlreadyExistsError, store_error
from agentm.exporting import ExportReport, export
from agentm.records import as_dict

DESCRIPTION = """\
Write memories into a zip of plain files: each with its whole history, relations, tags and times, also those that were
forgotten and can still be brought back. agentm import brings it all back, on any store. The same memories always give
the same zip. Exits 1 if something was left out."""
EXAMPLES = """\
  agentm export backup.zip
  agentm export people.zip --place entities
  agentm export scout.zip --agent scout --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.zip", help="the zip to write")
    parser.add_argument("--place", metavar="PLACE", help="only what is at or below this address (default: all yours)")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    place = memories.place(options.place)
    if os.path.lexists(options.file) and not options.force:
        raise AlreadyExistsError(f"{options.file} is there already; choose another name, or replace it with --force.")
    with progress(_so_far) as told:
        report = _write(options.file, lambda file: _export(memories, place, file, told))
    if options.json:
        print_json({"file": options.file, **as_dict(report)})
        return 1 if report.left_out else 0
    for one in report.left_out:
        say(f"agentm: {one.code}: {one_line(one.message)}", sys.stderr)
    count = f"{report.exported:,} {'memory' if report.exported == 1 else 'memories'}"
    say(f"exported {count} of {report.place} to {one_line(options.file)}")
    return 1 if report.left_out else 0


def _export(memories: Memories, place: str, file: BinaryIO, told: Callable[[int], None] | None) -> ExportReport:
    report = export(memories.fs.backend, memories.ctx, place, file, told)
    address = parse_place(place)
    if isinstance(address, ContextUri) and not report.exported and not report.left_out:
        with memories.suggesting(place):
            raise not_found(address)
    return report


def _write(path: str, fill: Callable[[BinaryIO], ExportReport]) -> ExportReport:
    """Under another name until it is complete and survives a power cut."""
    directory = os.path.dirname(os.path.abspath(path))
    try:
        with _durable.Temp(directory) as temp:
            with open(temp.path, "r+b") as file:
                report = fill(file)
            temp.fill(b"")
            temp.settle()
            _durable.replace(temp.path, path)
            temp.placed = True
        _durable.sync_dir(directory)
    except OSError as cause:
        if isinstance(cause, AgentmError):
            raise
        raise store_error(cause, backend="agentm", verb="write", locator=path) from cause
    return report


def _so_far(done: int) -> str:
    return f"{done:,} written; Ctrl-C leaves nothing behind"
