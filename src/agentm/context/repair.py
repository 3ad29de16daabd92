"""Putting right what a crash, a full disk or an editor left behind.

What is on the store is observed, a pure function says what is to be done, and an executor does it under the node's
lock, after looking again. A write that is under way holds that lock, so it is never touched; a run that was cut short
can simply be run again; and where nothing is wrong nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from agentm.context import relations
from agentm.context.contextfs import ContextFS
from agentm.context.decision import Action, decide
from agentm.context.holding import QUIET_SECONDS
from agentm.context.mending import ACTOR, mend
from agentm.context.node import DAMAGED, NodeStatus
from agentm.context.observed import is_healthy, observe
from agentm.context.summarise import DEFAULT, Summariser
from agentm.context.tenancy import RequestContext
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.walk import nodes
from agentm.errors import AgentmError, InvalidUriError
from agentm.records import field, record_class
from agentm.seam import Locator, Remove, StorageBackend, require

log = logging.getLogger(__name__)


@record_class(frozen=True)
class Finding:
    """One thing that was, or would be, done."""

    uri: str
    action: Action
    alert: bool = False
    why: str = ""
    """What a person should know about it, as why it could not be done."""


@record_class()
class RepairReport:
    """What a run came to."""

    scanned: int = 0
    waiting: int = 0
    """Nodes that somebody is editing by hand: the next run adopts what is saved."""
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
    summariser: Summariser = DEFAULT,
    progress: Callable[[RepairReport], None] | None = None,
) -> RepairReport:
    """Go through every node and put right what is wrong; with ``dry_run`` only say what would be done.

    An edit made by hand is adopted once nobody has touched its file for ``quiet`` seconds. ``progress`` is called with
    the report so far after every node.
    """
    require(backend, Remove)
    report = RepairReport()

    def stray(place: Locator, error: InvalidUriError) -> None:
        report.findings.append(Finding(place.key, Action.REPORT, alert=True, why=f"rename the folder: {error.message}"))

    for address in nodes(backend, account, stray=stray):
        report.scanned += 1
        for finding in _mend_safely(backend, address, dry_run, actor, quiet, summariser):
            if finding.action is Action.WAIT:
                report.waiting += 1
                continue
            report.findings.append(finding)
            if finding.alert and not dry_run:
                log.warning("%s: %s; look at its files. %s", address, finding.action, finding.why)
        if progress is not None:
            progress(report)
    return report


def _mend_safely(
    backend: StorageBackend, address: ContextUri, dry_run: bool, actor: str, quiet: float, summariser: Summariser
) -> Iterator[Finding]:
    """What is done about one node. One that cannot be mended does not keep the others from it."""
    action = Action.NOTHING
    try:
        if is_healthy(backend, address):
            return
        seen = observe(backend, address, quiet)
        action = decide(seen)
        if action is Action.NOTHING:
            return
        only_said = dry_run or action in (Action.REPORT, Action.WAIT)
        for done in [action] if only_said else _mend(backend, address, actor, quiet, summariser):
            aside = ", ".join(f"{name}{DAMAGED}" for name in seen.damaged) if done is Action.RESTORE else ""
            why = f"what was no UTF-8 text is kept as {aside}" if aside else ""
            yield Finding(str(address), done, alert=bool(why) or done in (Action.BREAK, Action.REPORT), why=why)
    except (AgentmError, OSError) as error:
        yield Finding(str(address), action, alert=True, why=str(error))


def _mend(
    backend: StorageBackend, address: ContextUri, actor: str, quiet: float, summariser: Summariser
) -> list[Action]:
    meta = observe(backend, address, quiet).meta
    done = mend(backend, address, actor=actor, quiet=quiet, summariser=summariser)
    concerned = [address]
    if meta is not None and Action.REHOME in done:
        concerned.append(parse_uri(meta.uri))
    return done + [Action.RELINK for one in concerned if _relink(backend, one, actor, quiet)]


def _relink(backend: StorageBackend, address: ContextUri, actor: str, quiet: float) -> bool:
    """Changes other nodes, each under its own lock: nobody may hold one and ask for another."""
    seen = observe(backend, address, quiet)
    if decide(seen) is not Action.RELINK:
        return False
    fs, ctx = ContextFS(backend), RequestContext(address.account, actor=actor)
    if seen.meta is not None and seen.meta.status is NodeStatus.MOVED and seen.meta.other_uri:
        relations.follow_move(fs, address, parse_uri(seen.meta.other_uri), ctx)
    else:
        relations.forget(fs, address, ctx)
    return True
