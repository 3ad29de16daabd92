"""`agentm doctor`"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from agentm.cli.output import add_common_arguments, print_json, say
from agentm.doctor import confirm, diagnose
from agentm.errors import CapabilityMismatchError, StorageSelectionError

DESCRIPTION = "Say which store would be used and what is wrong with it. Exits 1 only if something says FAIL."
EXAMPLES = """\
  agentm doctor
  agentm doctor --json
  agentm doctor --requires concurrent_writers,compare_and_swap"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--requires", metavar="A,B", help="only check that the chosen store has these capabilities")
    add_common_arguments(parser)


def run(options: Namespace) -> int:
    if options.requires is not None:
        return _require(options)
    findings = diagnose(options.install_prefix)
    failed = any(finding.status == "fail" for finding in findings)
    if options.json:
        checks = [{"name": each.name, "status": each.status, "line": each.line} for each in findings]
        print_json({"status": "fail" if failed else "ok", "checks": checks})
    else:
        say("\n".join(finding.line for finding in findings))
    return 1 if failed else 0


def _require(options: Namespace) -> int:
    names = [name.strip() for name in options.requires.split(",") if name.strip()]
    unsatisfied: list[str] = []
    try:
        protocol = confirm(names, options.install_prefix)
        status, line = "pass", f"PASS: backend '{protocol}' satisfies required capabilities: {', '.join(names)}"
    except StorageSelectionError as refusal:
        if refusal.code == "capability_unknown":
            raise
        if isinstance(refusal, CapabilityMismatchError):
            unsatisfied = refusal.unsatisfied
        status, line = "fail", f"FAIL: {refusal}"
    if options.json:
        print_json({"status": status, "required": names, "unsatisfied": unsatisfied, "line": line})
    else:
        say(line)
    return 0 if status == "pass" else 1
