"""Putting right what a crash, a full disk or an editor left behind.

What is on the store is observed, a pure function says what is to be done, and an executor does it under the node's
lock, after looking again. A write that is under way holds that lock, so it is never touched; a run that was cut short
can simply be run again; and where nothing is wrong nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agentm.context.decision import Action, decide
from agentm.context.mending import ACTOR, mend
from agentm.context.observed import is_healthy, observe
from agentm.context.uri import ContextUri
from agentm.context.walk import nodes
from agentm.errors import AgentmError
from agentm.seam import StorageBackend

QUIET_SECONDS = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was, or would be, done."""

    uri: str
    action: Action
    alert: bool = False
    why: str = ""
    """Set when it could not be done."""


@dataclass(slots=True)
class RepairReport:
    """What a run came to."""

    scanned: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def alerts(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.alert]


def repair(
    backend: StorageBackend,
    *,
    account: str | None = None,
    dry_run: bool = False,
    actor: str = ACTOR,
    quiet: float = QUIET_SECONDS,
    progress: Callable[[RepairReport], None] | None = None,
) -> RepairReport:
    """Go through every node and put right what is wrong; with ``dry_run`` only say what would be done.

    An edit made by hand is adopted once nobody has touched its file for ``quiet`` seconds. ``progress`` is called with
    the report so far after every node.
    """
    report = RepairReport()
    for address in nodes(backend, account):
        report.scanned += 1
        for finding in _mend_safely(backend, address, dry_run, actor, quiet):
            report.findings.append(finding)
            if finding.alert and not dry_run:
                log.warning("%s: %s; look at its files. %s", address, finding.action, finding.why)
        if progress is not None:
            progress(report)
    return report


def _mend_safely(
    backend: StorageBackend, address: ContextUri, dry_run: bool, actor: str, quiet: float
) -> Iterator[Finding]:
    """What is done about one node. One that cannot be mended does not keep the others from it."""
    action = Action.NOTHING
    try:
        if is_healthy(backend, address):
            return
        action = decide(observe(backend, address, quiet))
        if action is Action.NOTHING:
            return
        only_said = dry_run or action is Action.REPORT
        for done in [action] if only_said else mend(backend, address, actor=actor, quiet=quiet):
            yield Finding(str(address), done, alert=done in (Action.BREAK, Action.REPORT))
    except (AgentmError, OSError) as error:
        yield Finding(str(address), action, alert=True, why=str(error))
