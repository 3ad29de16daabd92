"""Bringing back what `agentm export` wrote: every version, edge, tag and time as it was.

A node is written in the order of every write, its meta being the commit, and its older versions after that. What was
begun names another address, as the target of a move does: so a run that is cut short leaves whole memories, which the
next run completes, and beginnings, which the repair discards; nothing of it can pass for damage. Where a memory stands
already, nothing is written over it: with ``force`` the exported text becomes a new version on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from zipfile import ZipFile

from agentm.context import history, relations
from agentm.context.contextfs import ContextFS
from agentm.context.events import NO_EDGES, OutboxEvent, delete_context, upserts
from agentm.context.holding import QUIET_SECONDS, Hold, Holder, own_meta
from agentm.context.node import HISTORY, ContextNode, Meta, NodeStatus, RelationEdge, Version, dump_version
from agentm.context.reader import is_shown, read_meta, read_text
from agentm.context.spelling import Spellings
from agentm.context.summarise import DEFAULT
from agentm.context.tenancy import RequestContext, check
from agentm.context.uri import ContextUri, parse_uri
from agentm.context.writer import Draft, publish
from agentm.errors import (
    AccessDeniedError,
    InvalidNodeError,
    InvalidUriError,
    NodeBrokenError,
    NodeBusyError,
    NodeConflictError,
    NodeNotFoundError,
)
from agentm.exporting import LeftOut, Whole
from agentm.importing import archives, exported
from agentm.importing.known import ACTOR
from agentm.importing.report import Action, ImportReport, Outcome, Progress
from agentm.importing.sourced import SourcedFS
from agentm.records import replace
from agentm.seam import Locator, WriteMany, require

_BATCH = 256
_BATCH_BYTES = 16 << 20
_ABOUT_ONE = (AccessDeniedError, InvalidNodeError, InvalidUriError, NodeBrokenError, NodeBusyError, NodeConflictError)
_NEWER = "it has newer versions here; --force puts what was exported on top of them."
_FORGOTTEN = "it was forgotten or put away here since; --force brings it back."


def restore(
    fs: ContextFS,
    ctx: RequestContext,
    path: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    report: ImportReport | None = None,
) -> ImportReport:
    """Bring back every memory of an export, into the caller's own spaces; with ``dry_run`` only say what would be.

    A ``report`` that is given is filled as it goes: it tells how far one came that was stopped.
    """
    with archives.opened(path) as archive:
        exported.check_format(archive)
        found, strange = exported.nodes(archive)
        run = _Restoring(fs, ctx, force, dry_run, ImportReport() if report is None else report)
        for one in strange:
            run.report.leave_out(one)
        for group in _groups(archive, found, exported.Homes.of(found, ctx), ctx, run.report):
            run.take(group)
            if progress is not None:
                progress(len(run.report.outcomes) - len(strange), len(found))
        run.finish()
    return run.report


def _groups(
    archive: ZipFile,
    found: dict[ContextUri, exported.Files],
    homes: exported.Homes,
    ctx: RequestContext,
    report: ImportReport,
) -> Iterator[list[Whole]]:
    group: list[Whole] = []
    size = 0
    for address, files in found.items():
        try:
            check(ctx, homes.address(address), write=True)
            group.append(homes.bring(exported.whole(archive, address, files)))
        except _ABOUT_ONE as error:
            report.leave_out(LeftOut(str(address), error.code, error.message))
            continue
        size += sum(member.file_size for member in files.values())
        if len(group) >= _BATCH or size > _BATCH_BYTES:
            yield group
            group, size = [], 0
    yield group


class _Restoring:
    """One restore under way."""

    def __init__(self, fs: ContextFS, ctx: RequestContext, force: bool, dry_run: bool, report: ImportReport) -> None:
        self.report = report
        self._fs = SourcedFS(fs)
        self._backend = fs.backend
        self._ctx = replace(ctx, actor=ACTOR)
        self._force = force
        self._dry_run = dry_run
        self._spellings = Spellings(fs.backend)
        self._holder = Holder(fs.backend, self._spellings, QUIET_SECONDS, DEFAULT)
        self._edges: list[RelationEdge] = []
        self._waiting: list[RelationEdge] = []
        """Edges of what was put on top, to what was not there then."""

    def take(self, group: list[Whole]) -> None:
        if self._dry_run:
            for whole in group:
                self._foresee(whole)
            return
        try:
            forced = self._place(group)
        except _ABOUT_ONE as error:
            if len(group) > 1:
                for whole in group:
                    self.take([whole])
            else:
                self.report.leave_out(LeftOut(group[0].meta.uri, error.code, error.message), group[0].meta.uri)
            return
        for whole in forced:
            self._put_on_top(whole)

    def finish(self) -> None:
        """Edges to what is not here, because it was not exported, go: an edge never leads to nothing."""
        for edge in self._waiting:
            if self._fs.exists(edge.to_uri, self._ctx):
                self._fs.relate(edge, self._ctx)
        lost = [edge for edge in self._edges if not is_shown(self._backend, parse_uri(edge.to_uri))]
        relations.confirm(self._fs, lost, self._ctx)
        self.report.edges_lost = len(lost)

    def _foresee(self, whole: Whole) -> None:
        try:
            meta = own_meta(whole.address, read_meta(self._backend, whole.address.locator))
            self._say(self._outcome(whole, meta))
        except _ABOUT_ONE as error:
            self.report.leave_out(LeftOut(whole.meta.uri, error.code, error.message), whole.meta.uri)

    def _place(self, group: list[Whole]) -> list[Whole]:
        """Write what is new, complete what is there; what stands in the way of ``force`` is returned."""
        if not group:
            return []
        with self._holder.hold(*(whole.address for whole in group)) as hold:
            outcomes = [(whole, self._outcome(whole, hold.meta(whole.address))) for whole in group]
            new = [whole for whole, outcome in outcomes if outcome.action is Action.NEW]
            drafts = [self._draft(whole, hold) for whole in new]
            self._put([_beginning(whole) for whole in new if _has_a_past(whole)])
            publish(self._backend, drafts, hold.held)
            begun = [whole for whole, outcome in outcomes if outcome.action in (Action.NEW, Action.CHANGED)]
            self._put([missing for whole in begun for missing in self._missing(whole)])
        self._fs.tell([whole.meta.uri for whole in new])
        forced = []
        for whole, outcome in outcomes:
            if self._is_to_be_forced(whole, outcome):
                forced.append(whole)
            else:
                self._say(outcome)
        return forced

    def _outcome(self, whole: Whole, there: Meta | None) -> Outcome:
        meta = whole.meta
        if there is None:
            return Outcome(meta.uri, Action.NEW, meta.uri, meta.version)
        if (there.version, there.write_id) == (meta.version, meta.write_id):
            action = Action.CHANGED if self._missing(whole) else Action.SAME
            return Outcome(meta.uri, action, meta.uri, meta.version)
        ended = there.status is not NodeStatus.ACTIVE
        if ended or whole.address.locator.child(HISTORY, meta.history_name) in self._places(whole):
            why = _FORGOTTEN if ended else _NEWER
            return Outcome(meta.uri, Action.KEPT, meta.uri, there.version, message=why)
        why = f"{meta.uri} is another memory here, at version {there.version}; --force puts the exported one on top."
        return Outcome(meta.uri, Action.LEFT_OUT, meta.uri, there.version, "node_differs", why)

    def _is_to_be_forced(self, whole: Whole, outcome: Outcome) -> bool:
        in_the_way = outcome.action in (Action.KEPT, Action.LEFT_OUT)
        return self._force and in_the_way and whole.meta.status is NodeStatus.ACTIVE

    def _say(self, outcome: Outcome) -> None:
        self.report.outcomes.append(outcome)

    def _places(self, whole: Whole) -> list[Locator]:
        return history.places(self._backend, whole.address.locator)

    def _missing(self, whole: Whole) -> list[tuple[Locator, str]]:
        """Versions that the history here does not have, the current one only as its beginning."""
        there = set(self._places(whole))
        head = whole.address.locator.child(HISTORY, whole.meta.history_name)
        wanted = {head: dump_version(whole.version)} if _has_head(whole) else {}
        wanted |= {_place(whole, one): dump_version(one) for one in whole.history}
        return [
            (place, text)
            for place, text in wanted.items()
            if place not in there or (place == head and read_text(self._backend, place) != text)
        ]

    def _draft(self, whole: Whole, hold: Hold) -> Draft:
        address, version = whole.address, whole.version
        if hold.standing[address].meta is not None:
            raise InvalidUriError(
                f"the folder of {address} holds another memory, whose name this store cannot tell from it; "
                "move that one first.",
                code="uri_taken",
            )
        self._spellings.claim(address)
        edges = version.node().relations if version.meta.status is NodeStatus.ACTIVE else ()
        relations.announce(self._backend, edges)
        self._edges += edges
        kept = _has_a_past(whole) or not _has_head(whole)
        return Draft(address.locator, version, _events(whole), hold.standing[address].files, kept=kept)

    def _put(self, texts: list[tuple[Locator, str]]) -> None:
        if self._backend.capabilities.write_many:
            require(self._backend, WriteMany).write_many(texts)
        else:
            for place, text in texts:
                self._backend.write(place, text)

    def _put_on_top(self, whole: Whole) -> None:
        """The exported text as the next version of what stands there."""
        given = whole.version.node()
        edges = tuple(edge for edge in given.relations if self._fs.exists(edge.to_uri, self._ctx))
        self._waiting += [edge for edge in given.relations if edge not in edges]
        node = ContextNode(given.uri, given.content, given.abstract, given.overview, edges, given.tags)
        ctx = replace(self._ctx, sources=given.sources or (f"export:{given.uri}",))
        try:
            now = self._fs.read_node(given.uri, ctx)
        except NodeNotFoundError:
            now = replace(node, version=0)
        try:
            if now.version and _said(now) == _said(node):
                self._say(Outcome(given.uri, Action.SAME, given.uri, now.version))
                return
            version = self._fs.write_node(node, ctx, if_version=now.version).version
            self._say(Outcome(given.uri, Action.CHANGED, given.uri, version))
        except _ABOUT_ONE as error:
            self.report.leave_out(LeftOut(given.uri, error.code, error.message), given.uri)


def _place(whole: Whole, version: Version) -> Locator:
    return whole.address.locator.child(HISTORY, version.meta.history_name)


def _has_head(whole: Whole) -> bool:
    """Whether its current version is to lie in the history too."""
    return bool(whole.version.parts and whole.meta.write_id)


def _has_a_past(whole: Whole) -> bool:
    """Whether its beginning would pass for what is left of a memory: that of a first version does not."""
    return _has_head(whole) and whole.meta.version > 1


def _beginning(whole: Whole) -> tuple[Locator, str]:
    """The version as it lies in the history until it is committed."""
    begun = Version(replace(whole.meta, other_uri=whole.meta.uri), whole.version.parts)
    return _place(whole, begun), dump_version(begun)


def _said(node: ContextNode) -> tuple[object, ...]:
    """What its writer chooses."""
    return node.content, node.abstract, node.overview, node.relations, node.tags


def _events(whole: Whole) -> tuple[OutboxEvent, ...]:
    if whole.meta.status is NodeStatus.ACTIVE:
        return upserts(whole.version, NO_EDGES)
    return (delete_context(whole.version),)
