"""`agentm repair`"""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser, Namespace

from agentm.cli.memories import configured_store
from agentm.cli.output import add_common_arguments, print_json, say
from agentm.cli.progress import progress
from agentm.cli.texts import one_line
from agentm.context.repair import Finding, RepairReport, repair

DESCRIPTION = """\
Put right what a crash, a full disk or an edit by hand left behind, in every memory of the store. Can be stopped and run
again at any time, beside programs that write. Exits 1 if something needs a person."""
EXAMPLES = """\
  agentm repair --dry-run
  agentm repair
  agentm repair --account acme --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--account", metavar="NAME", help="only this account (default: all of them)")
    add_common_arguments(parser)


def run(options: Namespace) -> int:
    # What the log says about alerts is said below, once.
    logging.getLogger("agentm.context").addHandler(logging.NullHandler())
    with progress(_so_far) as told:
        report = repair(configured_store(options), account=options.account, dry_run=options.dry_run, progress=told)
    if options.json:
        print_json(_as_json(report, options.dry_run))
    else:
        _show(report, options.dry_run)
    return 1 if report.alerts else 0


def _so_far(report: RepairReport) -> str:
    found = f", {len(report.findings):,} with something to do" if report.findings else ""
    return f"looked at {report.scanned:,}{found}; Ctrl-C does no harm"


def _show(report: RepairReport, dry_run: bool) -> None:
    for finding in report.findings:
        say(_line(finding, dry_run))
    mended = len(report.findings) - len(report.alerts)
    done = "would be repaired" if dry_run else "repaired"
    say(f"looked at {report.scanned}: {mended} {done}, {len(report.alerts)} for you to look at")
    if report.waiting:
        say(f"agentm: hint: {report.waiting} edited just now; run it again in a moment to adopt that.", sys.stderr)


def _line(finding: Finding, dry_run: bool) -> str:
    mark = "ALERT" if finding.alert else ("would" if dry_run else "did")
    if finding.alert and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        mark = f"\033[1;31m{mark}\033[0m"
    why = f" ({one_line(finding.why)})" if finding.why else ""
    return f"{mark}  {finding.uri}  {finding.action}{why}"


def _as_json(report: RepairReport, dry_run: bool) -> dict[str, object]:
    findings = [
        {
            "uri": one.uri,
            "action": one.action.name.lower(),
            "what": str(one.action),
            "alert": one.alert,
            "why": one.why,
        }
        for one in report.findings
    ]
    return {
        "scanned": report.scanned,
        "dry_run": dry_run,
        "waiting": report.waiting,
        "findings": findings,
        "alerts": len(report.alerts),
    }
