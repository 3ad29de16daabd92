"""`agentm import`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from agentm.cli import INTERRUPTED
from agentm.cli.dispatch import UsageError, nearest
from agentm.cli.memories import Memories, add_caller_arguments, add_secrets_argument
from agentm.cli.output import print_json, say
from agentm.cli.progress import progress
from agentm.cli.texts import one_line
from agentm.importing.items import Kind
from agentm.importing.kinds import AGENTM, KINDS, detect
from agentm.importing.report import Action, ImportReport, Outcome, Progress
from agentm.records import as_dict

DESCRIPTION = f"""\
Bring in what other tools remember: one memory for each note or conversation, with where it came from. The kind of the
source is found out, or named with --from:

{chr(10).join(f"  {kind.name:<12}  {kind.what}" for kind in KINDS)}

A second run writes only what is new or has changed. What you edited or forgot here since stays as it is, unless --force
takes what the source says. Can be stopped at any time; run it again to finish. Exits 1 if something was left out."""
EXAMPLES = """\
  agentm import ~/Notes --dry-run
  agentm import ~/Notes --to entities
  agentm import CLAUDE.md
  agentm import memories.json --from mem0
  agentm import chatgpt-export.zip --json
  agentm import backup.zip"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a folder, a file or a zip")
    parser.add_argument("--from", dest="kind", metavar="KIND", help="what kind of source it is (default: found out)")
    parser.add_argument("--to", metavar="PLACE", help="the folder to put it into, as in entities (default: by kind)")
    parser.add_argument("--force", action="store_true", help="take what the source says, over your own edits too")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--of", metavar="USER", help="only what belongs to this user over there (mem0)")
    whose.add_argument("--everybody", action="store_true", help="what belongs to several users, into this one memory")
    add_secrets_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_caller_arguments(parser)


def run(options: Namespace) -> int:
    memories = Memories(options)
    kind = _named(options.kind) if options.kind is not None else detect(options.path)
    if options.kind is None and not options.json:
        say(f"agentm: hint: {one_line(options.path)} is {kind.what} ({kind.name}).", sys.stderr)
    report = ImportReport()
    try:
        with progress(_so_far) as told:
            _import(memories, kind, options, told, report)
    except KeyboardInterrupt:
        say(f"agentm: stopped; {report.written:,} imported so far. Run it again to go on.", sys.stderr)
        return INTERRUPTED
    report.outcomes.sort(key=lambda one: one.source)
    if options.json:
        print_json(_as_json(report, kind, options))
    else:
        _show(report, memories, options.dry_run)
    return 1 if report.of(Action.LEFT_OUT) else 0


def _import(memories: Memories, kind: Kind, options: Namespace, told: Progress | None, report: ImportReport) -> None:
    chosen: dict[str, Any] = {"force": options.force, "dry_run": options.dry_run, "progress": told, "report": report}
    if kind is AGENTM:
        from agentm.importing.restore import restore

        if options.to is not None:
            raise UsageError("what agentm exported goes back to where it was; leave out --to.")
        if options.of is not None or options.everybody:
            raise UsageError("what agentm exported goes back to its owners; leave out --of and --everybody.")
        restore(memories.fs, memories.ctx, options.path, **chosen)
        return
    from agentm.importing.run import import_from

    place = memories.place(options.to)
    chosen |= {"secrets": options.secrets, "of": options.of, "everybody": options.everybody}
    import_from(memories.fs, memories.ctx, kind, options.path, place, **chosen)


def _named(name: str) -> Kind:
    known = {kind.name: kind for kind in KINDS}
    if name not in known:
        raise UsageError(f"there is no kind {name!r}{nearest(name, known)}; it is one of {', '.join(known)}.")
    return known[name]


def _so_far(done: int, total: int) -> str:
    return f"{done:,} of {total:,}; Ctrl-C does no harm"


def _show(report: ImportReport, memories: Memories, dry_run: bool) -> None:
    """What needs a look; in a dry run, everything that would be done."""
    told = (Action.KEPT, Action.LEFT_OUT, *((Action.NEW, Action.CHANGED) if dry_run else ()))
    for one in report.outcomes:
        if one.action in told:
            say(_line(one, memories))
    counts = report.counts
    would = "would be " if dry_run else ""
    say(
        f"{counts[Action.NEW]} {would}new, {counts[Action.CHANGED]} {would}changed, {counts[Action.SAME]} unchanged, "
        f"{counts[Action.KEPT]} kept as they are here, {counts[Action.EMPTY]} empty, "
        f"{counts[Action.LEFT_OUT]} left out"
    )
    if len(report.owners) > 1:
        listed = ", ".join(f"{one_line(owner)} ({count})" for owner, count in report.owners.items())
        say(f"agentm: hint: the source holds memories of several users: {listed}.", sys.stderr)
    if report.edges_lost:
        say(f"agentm: hint: relations to memories that are not here were left out: {report.edges_lost}.", sys.stderr)


def _line(one: Outcome, memories: Memories) -> str:
    if one.action is Action.LEFT_OUT:
        return f"left out  {one_line(one.source)}  {one.code}: {one_line(one.message)}"
    why = f": {one_line(one.message)}" if one.message else ""
    return f"{one.action:<8}  {memories.short(one.uri)}  [from {one_line(one.source)}]{why}"


def _as_json(report: ImportReport, kind: Kind, options: Namespace) -> dict[str, object]:
    return {
        "kind": kind.name,
        "detected": options.kind is None,
        "dry_run": options.dry_run,
        "counts": report.counts,
        "edges_lost": report.edges_lost,
        "owners": report.owners,
        "items": [as_dict(one) for one in report.outcomes],
    }
