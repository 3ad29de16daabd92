"""The memory of accounts: nodes that are written, read, changed and found by their addresses.

Each method takes a `RequestContext` and refuses what is not the caller's before it looks at anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from agentm.context import folders, history, relations, transitions
from agentm.context.drafting import new_version, new_write_id, utc_now
from agentm.context.events import NO_EDGES, upserts
from agentm.context.folders import not_found
from agentm.context.holding import QUIET_SECONDS, Hold, Holder, own_meta
from agentm.context.mending import mend_held
from agentm.context.names import folded
from agentm.context.node import CONTENT, RELATIONS, ContextNode, Meta, NodeStatus, RelationEdge, Version, check_content
from agentm.context.reader import is_shown, is_visible, read_meta, read_version
from agentm.context.spelling import Spellings
from agentm.context.summarise import DEFAULT, Summariser, checked_abstract
from agentm.context.tenancy import RequestContext, check, may
from agentm.context.uri import ContextUri, parse_place, parse_uri
from agentm.context.writer import Draft, Progress, part_of, publish
from agentm.errors import (
    AgentmError,
    InvalidNodeError,
    InvalidUriError,
    NodeNotFoundError,
)
from agentm.records import record_class, replace
from agentm.seam import Remove, StorageBackend, require

LARGEST_BATCH = 1024
"""Nodes written together; each of them is locked meanwhile."""


@record_class(frozen=True)
class Receipt:
    """What became of a change. ``indexed`` is ``pending`` until the index has heard, ``failed`` if it cannot yet."""

    uri: str
    version: int
    durable: bool = True
    indexed: str = "pending"
    duplicates: tuple[str, ...] = ()
    """Memories that say the same, or nearly; this one was written all the same."""
    redacted: tuple[str, ...] = ()
    """Kinds of secrets that were taken out of the text."""


class ContextFS:
    """Nodes on a store."""

    def __init__(
        self,
        backend: StorageBackend,
        *,
        summariser: Summariser = DEFAULT,
        keep_versions: int = 100,
        keep_days: float | None = None,
        quiet: float = QUIET_SECONDS,
        clock: Callable[[], str] = utc_now,
        changed: Callable[[Sequence[str]], None] = lambda uris: None,
    ) -> None:
        """``changed`` hears of every memory that was changed through this object, once it is: an index may look there.

        Repair, hand edits and other programs change memories too.
        """
        require(backend, Remove)  # a memory that can never be taken away, or whose beginnings stay, is none
        self.backend = backend
        self.clock = clock
        self._changed = changed
        self._spellings = Spellings(backend)
        self._holder = Holder(backend, self._spellings, quiet, summariser)
        self._summariser = summariser
        self._retention = history.Retention(keep_versions, keep_days)
        self._retention.check()

    def write_node(self, node: ContextNode, ctx: RequestContext, *, if_version: int | None = None) -> Receipt:
        """Write a memory, new or changed, and say its version.

        With ``if_version`` only if it still has that one (0: only if there is none), else NodeConflictError with the
        version that stands there and a diff. What a caller says about status, version or times is not listened to.
        """
        uri = parse_uri(node.uri)
        check(ctx, uri, write=True)
        relations.admit(self, node, ctx)
        node = self._summed_up(node)
        with self._holder.hold(uri) as hold:
            draft = self._draft(node, uri, ctx, if_version, hold)
            publish(self.backend, [draft], hold.held)
            history.prune(self.backend, draft.node, draft.version.meta, self._retention)
        self._settle_edges(lambda: relations.confirm(self, draft.added, ctx))
        return self._receipts(draft)[0]

    def write_nodes(
        self,
        nodes: Sequence[ContextNode],
        ctx: RequestContext,
        *,
        if_versions: Mapping[str, int] | None = None,
        progress: Progress | None = None,
    ) -> list[Receipt]:
        """Write many memories, step by step together: all contents durable, then all relations, and so on.

        ``if_versions`` holds, by URI, the versions that some of them must still have. ``progress`` is called after
        every step, with how many of the memories that is worth, and how many there are.
        """
        uris = [parse_uri(node.uri) for node in nodes]
        for uri in uris:
            check(ctx, uri, write=True)
        together = frozenset(map(str, uris))
        expected = {str(parse_uri(uri)): version for uri, version in (if_versions or {}).items()}
        _refuse_odd_batch(uris, expected)
        for node in nodes:
            relations.admit(self, node, ctx, together)
        nodes = [self._summed_up(node) for node in nodes]
        written: list[Draft] = []
        try:
            for start in range(0, len(nodes), LARGEST_BATCH):
                batch = slice(start, start + LARGEST_BATCH)
                with self._holder.hold(*uris[batch]) as hold:
                    pairs = zip(nodes[batch], uris[batch], strict=True)
                    drafts = [self._draft(node, uri, ctx, expected.get(str(uri)), hold) for node, uri in pairs]
                    written += drafts
                    publish(self.backend, drafts, hold.held, part_of(progress, start, len(drafts), len(nodes)))
                    for draft in drafts:
                        history.prune(self.backend, draft.node, draft.version.meta, self._retention)
        finally:  # also when what the last of them were to lead to could not be written
            self._settle_edges(lambda: relations.confirm(self, [one for draft in written for one in draft.added], ctx))
        return self._receipts(*written)

    def read_node(self, uri: str, ctx: RequestContext, *, version: int | None = None) -> ContextNode:
        """One whole version of a memory: the current one, or one from its history."""
        address = parse_uri(uri)
        check(ctx, address)
        current = self._current(address)
        if version is None or version == current.meta.version:
            return replace(current.node(), status=NodeStatus.ACTIVE)
        return history.version_at(self.backend, address, current.meta, version).node()

    def exists(self, uri: str, ctx: RequestContext) -> bool:
        """Whether a memory is there and may be seen. Another tenant's is not there."""
        address = parse_uri(uri)
        return may(ctx, address, write=False) and is_shown(self.backend, address)

    def list_children(self, uri: str, ctx: RequestContext) -> list[str]:
        """The memories, or the folders, right below a folder, as far as the caller may see them."""
        folder = parse_place(uri)
        check(ctx, folder)
        if isinstance(folder, ContextUri) or self._spellings.is_anothers(folder):
            return []
        seen = [child for child in folders.children(self.backend, folder) if may(ctx, child, write=False)]
        return [str(child) for child in seen if folders.is_there(self.backend, child)]

    def damaged_children(self, uri: str, ctx: RequestContext) -> dict[str, str]:
        """The memories right below a folder that are there and cannot be shown, with the reason."""
        folder = parse_place(uri)
        check(ctx, folder)
        if isinstance(folder, ContextUri) or self._spellings.is_anothers(folder):
            return {}
        seen = [child for child in folders.children(self.backend, folder) if may(ctx, child, write=False)]
        found = {str(child): folders.damage(self.backend, child) for child in seen if isinstance(child, ContextUri)}
        return {child: why for child, why in found.items() if why}

    def delete_node(
        self, uri: str, ctx: RequestContext, *, if_version: int | None = None, purge: bool = False
    ) -> Receipt:
        """Take a memory away. It can be brought back by `undo`, unless it is purged with its history."""
        return self._end(uri, ctx, NodeStatus.DELETED, if_version, purge)

    def archive_node(self, uri: str, ctx: RequestContext, *, if_version: int | None = None) -> Receipt:
        """Put a memory away: it is no longer shown or found, and `undo` brings it back."""
        return self._end(uri, ctx, NodeStatus.ARCHIVED, if_version, False)

    def move_node(self, uri: str, new_uri: str, ctx: RequestContext, *, if_version: int | None = None) -> Receipt:
        """Give a memory another address. At every instant it is in exactly one of the two places."""
        source, target = parse_uri(uri), parse_uri(new_uri)
        check(ctx, source, write=True)
        check(ctx, target, write=True)
        if source == target:
            raise InvalidUriError(f"{uri} is to move onto itself; give another address.")
        with self._holder.hold(source, target) as hold:
            current = self._current(source)
            history.expect(source, current, if_version, current.parts[CONTENT])
            self._refuse_taken(target, hold)
            self._take_name(target, hold)
            edges = transitions.led_elsewhere(current.node().relations, str(source), str(target))
            relations.announce(self.backend, edges)
            try:
                draft = transitions.move(
                    self.backend, current, hold.standing, source, target, self._stamp(ctx), hold.held
                )
            except BaseException:
                with suppress(AgentmError, OSError):  # what cannot be taken back now is left to the repair
                    if hold.held.ours():
                        mend_held(self.backend, target, hold.held, actor="process:agentm", source=str(source))
                raise
        self._settle_edges(lambda: relations.follow_move(self, source, target, ctx))
        self._settle_edges(lambda: relations.confirm(self, edges, ctx))
        self._changed([uri])
        return self._receipts(draft)[0]

    def relate(self, edge: RelationEdge, ctx: RequestContext, *, if_version: int | None = None) -> Receipt:
        """Add an edge, or change the one with the same ends and type."""
        return relations.relate(self, edge, ctx, if_version)

    def unrelate(
        self,
        from_uri: str,
        to_uri: str,
        ctx: RequestContext,
        *,
        relation_type: str = "related_to",
        if_version: int | None = None,
    ) -> Receipt:
        """Take an edge away; NodeNotFoundError if there is none with these ends and this type."""
        return relations.unrelate(self, from_uri, to_uri, relation_type, ctx, if_version)

    def relations(self, uri: str, ctx: RequestContext, *, direction: str = "both") -> list[RelationEdge]:
        """The edges that lead away from a memory (``out``), to it (``in``), or both."""
        return relations.edges_of(self, uri, ctx, direction)

    def history(self, uri: str, ctx: RequestContext) -> list[ContextNode]:
        """The kept versions of a memory, oldest first, with who wrote each and from what."""
        address = parse_uri(uri)
        check(ctx, address)
        return history.versions(self.backend, address, self._meta(address))

    def diff(self, uri: str, ctx: RequestContext, old: int, new: int) -> str:
        """What changed in the text between two versions."""
        address = parse_uri(uri)
        check(ctx, address)
        meta = self._meta(address)
        before, after = (history.version_at(self.backend, address, meta, number) for number in (old, new))
        return history.unified_diff(before.parts[CONTENT], after.parts[CONTENT], f"{uri} v{old}", f"{uri} v{new}")

    def undo(self, uri: str, ctx: RequestContext, *, to: int | None = None, if_version: int | None = None) -> Receipt:
        """Bring back an older version (by default the one before) as a new version of its own."""
        address = parse_uri(uri)
        check(ctx, address, write=True)
        with self._holder.hold(address, even_broken=True) as hold:
            wanted = history.version_before(self.backend, address, hold.meta(address), to).node()
            wanted = relations.standing(self, wanted, address)
            draft = self._draft(wanted, address, ctx, if_version, hold)
            publish(self.backend, [draft], hold.held)
        self._settle_edges(lambda: relations.confirm(self, draft.added, ctx))
        return self._receipts(draft)[0]

    def _current(self, address: ContextUri) -> Version:
        """The version that is shown at an address; NodeNotFoundError if none is."""
        found = read_version(self.backend, address.locator)
        if found is None or found.meta.uri != str(address):
            meta = self._meta(address)
            raise not_found(address, is_broken=meta is not None and meta.status is NodeStatus.BROKEN)
        return found

    def _change(
        self,
        address: ContextUri,
        ctx: RequestContext,
        change: Callable[[ContextNode], ContextNode],
        afterwards: Callable[[], None],
    ) -> None:
        """Rewrite a memory, if it is there, on behalf of agentm itself; ``afterwards`` is done before it is let go."""
        with self._holder.hold(address, even_broken=True) as hold:
            added = self._rewrite(address, ctx, change, hold)
            afterwards()
        relations.confirm(self, added, ctx)

    def _rewrite(
        self, address: ContextUri, ctx: RequestContext, change: Callable[[ContextNode], ContextNode], hold: Hold
    ) -> tuple[RelationEdge, ...]:
        """The edges that came with the change."""
        try:
            now = self._current(address).node()
        except NodeNotFoundError:
            return ()
        wanted = change(now)
        if wanted == now:
            return ()
        draft = self._draft(wanted, address, ctx, None, hold)
        publish(self.backend, [draft], hold.held)
        self._changed([str(address)])
        return draft.added

    def _reserve(self, address: ContextUri) -> None:
        """Take the name of a memory that is about to be written."""
        with self._holder.hold(address) as hold:
            self._take_name(address, hold)

    def _end(self, uri: str, ctx: RequestContext, status: NodeStatus, if_version: int | None, purge: bool) -> Receipt:
        address = parse_uri(uri)
        check(ctx, address, write=True)
        with self._holder.hold(address, even_broken=purge) as hold:
            current = self._to_end(address, hold, purge)
            history.expect(address, current, if_version, current.parts.get(CONTENT, ""))
            there = hold.standing[address]
            draft = transitions.end(self.backend, current, there, status, self._stamp(ctx), hold.held, purge=purge)
        self._settle_edges(lambda: relations.forget(self, address, ctx))
        return self._receipts(draft)[0]

    def _settle_edges(self, settle: Callable[[], None]) -> None:
        """What concerns other memories, once a change is committed; what cannot be done is left to the repair."""
        with suppress(AgentmError, OSError):
            settle()

    def _summed_up(self, node: ContextNode) -> ContextNode:
        """With its abstract and overview, made before anything is held: a model may take its time."""
        check_content(node.content)
        if node.abstract is None:
            node = replace(node, abstract=checked_abstract(self._summariser.abstract(node.content)))
        return node if node.overview is not None else replace(node, overview=self._summariser.overview(node.content))

    def _to_end(self, address: ContextUri, hold: Hold, purge: bool) -> Version:
        """What is to be ended: what is shown, or, to be purged, what was ended already."""
        meta = hold.meta(address)
        ended = (NodeStatus.DELETED, NodeStatus.ARCHIVED, NodeStatus.BROKEN)
        if purge and meta is not None and meta.status in ended:
            return Version(meta, {})
        return self._current(address)

    def _draft(
        self, node: ContextNode, uri: ContextUri, ctx: RequestContext, if_version: int | None, hold: Hold
    ) -> Draft:
        """The next version of a node, on top of what stands there."""
        files, meta = hold.standing[uri].files, hold.meta(uri)
        live = meta is not None and is_visible(self.backend, meta)
        if if_version is not None:
            current = read_version(self.backend, uri.locator) if live else None
            history.expect(uri, current, if_version, node.content)
        version = new_version(
            node,
            uri,
            actor=ctx.author,
            sources=tuple(ctx.sources),
            before=meta,
            continues=live,
            now=self.clock(),
        )
        self._take_name(uri, hold)
        edges = files[RELATIONS].text if live else NO_EDGES
        added = relations.added(version.node().relations, edges)
        relations.announce(self.backend, added)
        return Draft(uri.locator, version, upserts(version, edges), files, added=added)

    def _receipts(self, *drafts: Draft) -> list[Receipt]:
        self._changed([draft.version.meta.uri for draft in drafts])
        return [
            Receipt(draft.version.meta.uri, draft.version.meta.version, True, "pending" if draft.told else "failed")
            for draft in drafts
        ]

    def _stamp(self, ctx: RequestContext) -> dict[str, object]:
        return {
            "updated_at": self.clock(),
            "actor": ctx.author,
            "sources": tuple(ctx.sources),
            "write_id": new_write_id(),
        }

    def _meta(self, uri: ContextUri) -> Meta | None:
        return own_meta(uri, read_meta(self.backend, uri.locator))

    def _refuse_taken(self, target: ContextUri, hold: Hold) -> None:
        """A move goes to where nothing is, and nothing can be brought back: two histories have no common order."""
        if is_visible(self.backend, hold.meta(target)):
            raise InvalidUriError(f"{target} is taken; choose another address.", code="uri_taken")
        if history.places(self.backend, target.locator):
            raise InvalidUriError(
                f"{target} still has the versions of a memory that was put away; agentm undo brings it back, "
                "agentm forget --purge lets it go; or choose another address.",
                code="uri_taken",
            )

    def _take_name(self, uri: ContextUri, hold: Hold) -> None:
        """See to it that a new node does not come to lie where this store, or another, cannot tell it apart."""
        if hold.meta(uri) is not None:
            return
        self._spellings.claim(uri)
        if hold.standing[uri].meta is not None:
            raise InvalidUriError(
                f"the folder of {uri} holds another memory: a copy, which agentm repair makes one of its own, or one "
                "whose name this store cannot tell from it; choose another name.",
                code="uri_taken",
            )


def _refuse_odd_batch(uris: Sequence[ContextUri], expected: Mapping[str, int]) -> None:
    """The same memory twice, or a version for one that is not among them."""
    spelt: dict[str, str] = {}
    for uri in map(str, uris):
        if folded(uri) in spelt:
            raise InvalidNodeError(
                f"{uri} and {spelt[folded(uri)]} are one memory; write its versions one after the other."
            )
        spelt[folded(uri)] = uri
    strange = sorted(set(expected) - set(map(str, uris)))
    if strange:
        raise InvalidNodeError(f"if_versions names {strange[0]}, which is not among the memories; name one that is.")
