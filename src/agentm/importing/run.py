"""An import from beginning to end: read, plan, write in batches. What is cut short leaves whole memories."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from agentm.context.contextfs import ContextFS
from agentm.context.secrets import REFUSE, without_secrets
from agentm.context.tenancy import RequestContext, check
from agentm.context.uri import Folder, parse_place
from agentm.errors import (
    InvalidNodeError,
    InvalidUriError,
    NodeBrokenError,
    NodeBusyError,
    NodeConflictError,
    NodeNotFoundError,
    SecretFoundError,
    store_error,
)
from agentm.exporting import LeftOut
from agentm.importing.items import Item, Kind, Nothing, Read
from agentm.importing.known import ACTOR, look
from agentm.importing.planning import Planned, Planner
from agentm.importing.report import Action, ImportReport, Outcome, Progress
from agentm.importing.sourced import SourcedFS
from agentm.records import replace

BATCH = 256
"""Items that are written together, where they do not point at each other."""
_BATCH_CHARACTERS = 16 << 20

_NAMED = 10
"""Owners that are named, of how many there may be."""
_ABOUT_ONE = (NodeConflictError, NodeBrokenError, NodeBusyError, NodeNotFoundError, InvalidNodeError, InvalidUriError)
"""Errors that concern one memory, and not the store."""


def import_from(
    fs: ContextFS,
    ctx: RequestContext,
    kind: Kind,
    path: str,
    to: str,
    *,
    force: bool = False,
    secrets: str = REFUSE,
    of: str | None = None,
    everybody: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    report: ImportReport | None = None,
) -> ImportReport:
    """Bring in everything at a path, into the folder ``to``; with ``dry_run`` only say what would be done.

    What holds a secret is left out, or comes without it (``secrets="redact"``), or as it is (``"allow"``). What is
    known about several people is refused, unless it is said ``of`` whom, or that ``everybody`` is meant. A ``report``
    that is given is filled as it goes: it tells how far an import came that was stopped.
    """
    target = _target(to)
    check(ctx, target, write=True)
    _refuse_absent(path)
    report = ImportReport() if report is None else report
    report.owners = _owners(kind, path)
    _refuse_strangers(report.owners, path, of, everybody)
    run = _Run(fs, replace(ctx, actor=ACTOR, sources=()), target, force, dry_run, progress, report)
    wanted = (one for one in kind.read(path) if of is None or not isinstance(one, Item) or one.owner == of)
    for group in _groups((_without_secrets(one, secrets) for one in wanted), kind.linked):
        run.take(group)
    return report


def _owners(kind: Kind, path: str) -> dict[str, int]:
    """Whose memories a source holds, most first; it is read once more for that, before anything is written."""
    if not kind.owned:
        return {}
    return dict(Counter(one.owner for one in kind.read(path) if isinstance(one, Item) and one.owner).most_common())


def _refuse_strangers(owners: dict[str, int], path: str, of: str | None, everybody: bool) -> None:
    """What is known about one person is not to become what is known about another, unless somebody wants that."""
    source = os.path.basename(path)
    listed = ", ".join(f"{owner!r} ({count})" for owner, count in islice(owners.items(), _NAMED))
    if of is not None and of not in owners:
        raise InvalidNodeError(
            f"{source!r} holds nothing of {of!r}; it has {listed or 'nothing that says whose it is'}.",
            code="import_owner_unknown",
        )
    if len(owners) > 1 and of is None and not everybody:
        raise InvalidNodeError(
            f"{source!r} holds memories of {len(owners)} users: {listed}; bring in one of them with --of "
            f"{next(iter(owners))}, or all into this one memory with --everybody.",
            code="import_several_owners",
        )


def _without_secrets(one: Read, policy: str) -> Read:
    if not isinstance(one, Item):
        return one
    try:
        return replace(one, content=without_secrets(one.content, policy)[0])
    except SecretFoundError as error:
        return LeftOut(one.source, error.code, error.message)


def _refuse_absent(path: str) -> None:
    try:
        os.stat(path)
    except OSError as cause:
        raise store_error(cause, backend="agentm", verb="read", locator=path) from cause


def _target(to: str) -> Folder:
    target = parse_place(to)
    if not isinstance(target, Folder) or target.owner_space is None:
        raise InvalidUriError(f"{to} holds no memories of one owner; name a folder such as entities, or agents/scout.")
    return target


def _groups(read: Iterator[Read], linked: bool) -> Iterator[list[Read]]:
    """What is planned together: everything that points at each other, else as much as is written at once."""
    group: list[Read] = []
    size = 0
    for one in read:
        group.append(one)
        size += len(one.content) if isinstance(one, Item) else 0
        if not linked and (len(group) >= BATCH or size > _BATCH_CHARACTERS):
            yield group
            group, size = [], 0
    yield group


class _Run:
    """One import under way."""

    def __init__(
        self,
        fs: ContextFS,
        ctx: RequestContext,
        target: Folder,
        force: bool,
        dry_run: bool,
        progress: Progress | None,
        report: ImportReport,
    ) -> None:
        self.report = report
        self._fs = SourcedFS(fs)
        self._ctx = ctx
        self._dry_run = dry_run
        self._progress = progress
        owner = parse_place(f"ctx://{target.account}/{'/'.join(target.path[:2])}")
        assert isinstance(owner, Folder)
        self._planner = Planner(self._fs, ctx, target, look(fs.backend, ctx, owner, settle=not dry_run), force)

    def take(self, group: list[Read]) -> None:
        for one in group:
            if isinstance(one, LeftOut):
                self.report.leave_out(one)
            elif isinstance(one, Nothing):
                self.report.outcomes.append(Outcome(one.source, Action.EMPTY))
        items = [one for one in group if isinstance(one, Item)]
        planned = self._planner.plan(items, self.report.leave_out)
        to_write = [] if self._dry_run else [one for one in planned if one.node is not None]
        for plan in planned:
            if plan.node is None or self._dry_run:
                self._done(plan, plan.expected)
        if to_write:
            self._write(to_write)

    def _write(self, planned: list[Planned]) -> None:
        """All of them together; one that cannot be written does not keep the others from it."""
        self._fs.items = {one.uri: one.item for one in planned}
        nodes = [one.node for one in planned if one.node is not None]
        expected = {one.uri: one.expected for one in planned}
        before = len(self.report.outcomes)

        def tell(done: int, total: int) -> None:
            self.report.under_way = done
            if self._progress is not None:
                self._progress(before + done, before + total)

        try:
            receipts = self._fs.write_nodes(nodes, self._ctx, if_versions=expected, progress=tell)
            self.report.under_way = 0
        except _ABOUT_ONE:
            self.report.under_way = 0
            for one in planned:
                self._write_alone(one)
        else:
            for one, receipt in zip(planned, receipts, strict=True):
                self._done(one, receipt.version)

    def _write_alone(self, one: Planned) -> None:
        """With the edges that lead somewhere now; the next run adds what is missing."""
        assert one.node is not None
        try:
            version = self._landed(one)
            if version is None:
                edges = tuple(edge for edge in one.node.relations if self._fs.exists(edge.to_uri, self._ctx))
                node = replace(one.node, relations=edges)
                version = self._fs.write_node(node, self._ctx, if_version=one.expected).version
        except NodeConflictError as error:
            why = f"{one.uri} was changed by somebody else meanwhile; run the import again."
            self.report.leave_out(LeftOut(one.item.source, error.code, why), one.uri)
        except _ABOUT_ONE as error:
            self.report.leave_out(LeftOut(one.item.source, error.code, error.message), one.uri)
        else:
            self._done(one, version)

    def _landed(self, one: Planned) -> int | None:
        """The version, if it was written before the others could not be."""
        try:
            now = self._fs.read_node(one.uri, self._ctx)
        except NodeNotFoundError:
            return None
        ours = now.version > one.expected and now.sources == (one.item.source,) and now.content == one.item.content
        return now.version if ours else None

    def _done(self, one: Planned, version: int) -> None:
        self.report.outcomes.append(Outcome(one.item.source, one.action, one.uri, version, message=one.why))
