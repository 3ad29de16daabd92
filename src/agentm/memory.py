"""`Memory`: an agent's memory in one object. Remember, recall, read, and the rest, on behalf of one caller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from agentm.context.addresses import full_address, own_space
from agentm.context.front_matter import with_fields_of
from agentm.context.given import (
    all_of,
    check_callable,
    check_flag,
    check_number,
    check_path,
    check_seconds,
    check_text,
    check_texts,
)
from agentm.context.node import ContextNode, RelationEdge
from agentm.context.tenancy import RequestContext
from agentm.context.uri import parse_place, parse_uri
from agentm.errors import (
    ConfigError,
    InvalidNodeError,
    InvalidQueryError,
    InvalidUriError,
    NodeBrokenError,
    NodeConflictError,
    NodeNotFoundError,
)
from agentm.open import Opened, caller, open_store
from agentm.records import record_class, replace
from agentm.seam import StorageBackend, protocol_of

if TYPE_CHECKING:
    import os

    from agentm.context.contextfs import ContextFS, Receipt
    from agentm.files.scope import ScopedStorageScope
    from agentm.index.account import AccountIndex, Caught, Progress
    from agentm.index.duplicates import Duplicates
    from agentm.index.embed import Embedder
    from agentm.recall.results import Recall

MOST_ALIKE = 1_000
"""Memories of one name, told apart by numbers, before somebody has to find a better name."""

_ATTEMPTS = 20
"""How often somebody else may be faster, where the caller named no version."""

PROJECT_TAG = "project:"

Moment = str | date | datetime


@record_class(frozen=True)
class Note:
    """Something to remember, one of many."""

    text: str
    slug: str | None = None
    category: str = "events"
    tags: tuple[str, ...] = ()
    when: Moment | None = None
    who: str | None = None
    sources: tuple[str, ...] = ()
    relations: tuple[RelationEdge, ...] = ()


class Memory:
    """The memory of one caller on one store. Addresses may be short: ``events/visit`` is the caller's own.

    Every change says the new version and takes the one it expects (``if_version``). What is written is durable when
    the call returns, and found by the next `recall`, in this process or another.
    """

    def __init__(self, opened: Opened, ctx: RequestContext) -> None:
        self.ctx = ctx
        self._opened = opened

    @cached_property
    def fs(self) -> ContextFS:
        """The memories themselves."""
        return self._opened.fs()

    @cached_property
    def _duplicates(self) -> Duplicates:
        return self._opened.duplicates()

    @cached_property
    def _index(self) -> AccountIndex:
        """Opened when it is first needed: what only writes need not wait for it."""
        return self._opened.index()

    @classmethod
    def open(
        cls,
        store: StorageBackend | str | os.PathLike[str] | None = None,
        *,
        account: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        actor: str | None = None,
        visible: Sequence[str] = (),
        install_prefix: str | os.PathLike[str] | None = None,
        index_root: str | os.PathLike[str] | None = None,
        embedder: Embedder | None = None,
        notes: bool | None = None,
        scope: ScopedStorageScope | None = None,
    ) -> Memory:
        """The memory on a store: a backend, a folder, or (for none) the one that is configured.

        ``visible`` names spaces of others (``user:bob``) that may be read too. An ``embedder`` adds what only a model
        knows to what the words say; none is needed. Plain ``notes`` of the store belong to no account: they are
        recalled in the one that is configured for this machine, unless this says else. A ``scope`` keeps reading,
        writing and recalling to the places of the store that it covers.
        """
        check_path(ConfigError, install_prefix=install_prefix, index_root=index_root)
        if not isinstance(store, StorageBackend):
            check_path(ConfigError, store=store)
        check_texts(ConfigError, visible=visible)
        check_text(ConfigError, actor=actor)
        if notes is not None:
            check_flag(ConfigError, notes=notes)
        _check_embedder(embedder)
        _check_scope(scope)
        ctx = caller(account, user, agent, actor=actor, visible=tuple(visible), install_prefix=install_prefix)
        opened = open_store(
            store,
            ctx,
            install_prefix=install_prefix,
            index_root=index_root,
            embedder=embedder,
            notes=notes,
            scope=scope,
        )
        return cls(opened, ctx)

    def remember(
        self,
        text: str,
        *,
        to: str | None = None,
        slug: str | None = None,
        category: str = "events",
        tags: Sequence[str] = (),
        project: str | None = None,
        when: Moment | None = None,
        who: str | None = None,
        sources: Sequence[str] = (),
        if_version: int | None = None,
        secrets: str = "refuse",
        duplicates: bool = True,
        wait: bool = False,
    ) -> Receipt:
        """Write something down.

        Without an address it becomes a new memory, named after what it says (or ``slug``); with one (``to``) it is
        written there, as a new version if something is there already. ``when`` and ``who`` say what it is about, and
        stand above the text; a ``project`` is kept as a tag. With ``wait`` it is indexed before this returns, else by
        the next recall.

        What looks like a secret is refused, or with ``secrets="redact"`` taken out, or with ``"allow"`` kept. The
        receipt names ``duplicates``: what says the same, or nearly; they are looked for unless that is False.
        """
        from agentm.context.secrets import without_secrets

        _check_given(text, slug, category, tags, who, sources)
        check_text(InvalidNodeError, project=project)
        check_number(InvalidNodeError, if_version=if_version)
        check_flag(InvalidNodeError, duplicates=duplicates, wait=wait)
        tags = tags if project is None else [*tags, f"{PROJECT_TAG}{project}"]
        ctx = self._from(sources)
        text, redacted = without_secrets(text, _policy(secrets))
        who = None if who is None else without_secrets(who, _policy(secrets))[0]
        content = _headed(text, when, who)
        if to is not None:
            receipt = self._write_at(self.address(to), content, ctx, tuple(tags), if_version)
        elif slug is not None or category == "profile":
            uri = self.address(category if category == "profile" else f"{category}/{slug}")
            receipt = self._write_at(uri, content, ctx, tuple(tags), if_version)
        else:
            receipt = self._write_new(content, text, category, ctx, tuple(tags), if_version)
        if redacted or duplicates:
            alike = self._duplicates.of(text, receipt.uri) if duplicates else ()
            receipt = replace(receipt, redacted=redacted, duplicates=alike)
        return self._indexed(receipt) if wait else receipt

    def _indexed(self, receipt: Receipt, progress: Progress | None = None) -> Receipt:
        """Indexed before it is handed out, unless another process is writing to the index just now."""
        if receipt.indexed == "pending" and self._index.update([receipt.uri], progress):
            return replace(receipt, indexed="yes")
        return receipt

    def remember_many(
        self, notes: Iterable[Note], *, secrets: str = "refuse", progress: Progress | None = None
    ) -> list[Receipt]:
        """Write many things down, new ones, sharing the cost of making them durable; in the order given.

        Secrets are treated as by `remember`; where they are refused, nothing is written. Duplicates are not looked for.
        """
        from agentm.context.secrets import without_secrets

        policy = _policy(secrets)
        check_callable(InvalidNodeError, progress=progress)
        given_notes = all_of(InvalidNodeError, Note, notes, "notes")
        for note in given_notes:
            _check_given(note.text, note.slug, note.category, note.tags, note.who, note.sources)
            all_of(InvalidNodeError, RelationEdge, note.relations, "relations")
        cleaned = [(note, *without_secrets(note.text, policy)) for note in given_notes]
        given = [replace(note, text=text) for note, text, _ in cleaned]
        taken: set[str] = set()
        nodes = [(self._from(note.sources), self._node(note, taken)) for note in given]
        receipts: list[Receipt] = []
        for start, end in _runs([ctx.sources for ctx, _ in nodes]):
            batch = [node for _, node in nodes[start:end]]
            expected = {node.uri: 0 for node in batch}
            receipts += self.fs.write_nodes(batch, nodes[start][0], if_versions=expected)
            if progress is not None:
                progress(end, len(given))
        return [replace(one, redacted=kinds) for one, (_, _, kinds) in zip(receipts, cleaned, strict=True)]

    def recall(
        self,
        query: str,
        *,
        budget: int = 2_000,
        limit: int = 10,
        category: str | None = None,
        tag: str | None = None,
        project: str | None = None,
        owner: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        recency: bool = True,
        related: bool = True,
        patience: float = 0.25,
    ) -> Recall:
        """What is known about something, best first, as entries and as markdown of at most ``budget`` tokens.

        Only of a ``category``, with a ``tag``, of a ``project``, of an ``owner`` (a space such as ``user:alice``), from
        ``since`` up to ``until`` (days). ``recency=False`` and ``related=False`` turn the gentle signals off.
        ``patience`` is how many seconds it may take: what is new is indexed until then, in small steps, and what was
        found is read; ``complete`` says whether that was all. An embedder that takes longer is
        not waited for, and what it makes is there for the next question.
        """
        from agentm.recall.recall import Filters, recall

        check_text(InvalidQueryError, category=category, tag=tag, project=project, owner=owner)
        check_flag(InvalidQueryError, recency=recency, related=related)
        check_seconds(InvalidQueryError, patience=patience)
        days = (day.isoformat() if isinstance(day, date) else day for day in (since, until))
        filters = Filters(category, tag, project, owner, *days)
        index = self._index
        index.refresh()
        asked = partial(
            recall,
            index,
            self._opened.backend,
            self.ctx,
            query,
            budget=budget,
            limit=limit,
            filters=filters,
            recency=recency,
            related=related,
            patience=patience,
            reach=self._opened.reach,
        )
        return index.mended(asked)

    def read(self, address: str, *, version: int | None = None) -> ContextNode:
        """One memory: as it is, or as it was in a version."""
        check_number(InvalidNodeError, version=version)
        return self.fs.read_node(self.address(address), self.ctx, version=version)

    def relate(
        self, source: str, target: str, relation: str = "related_to", *, weight: float = 1.0, reason: str = ""
    ) -> Receipt:
        """Say how one memory is related to another."""
        edge = RelationEdge(self.address(source), self.address(target), relation, weight, reason)
        return self.fs.relate(edge, self.ctx)

    def forget(
        self, address: str, *, if_version: int | None = None, purge: bool = False, progress: Progress | None = None
    ) -> Receipt:
        """Take a memory away. `undo` brings it back, unless it is purged: then its words go, out of the index too.

        For that, the part of the index in which they lay is written anew; ``progress`` is told how far that is. Its
        address stays, to tell every copy of the store that it is gone: give what may be purged a ``slug`` of its own.
        """
        check_callable(InvalidNodeError, progress=progress)
        check_number(InvalidNodeError, if_version=if_version)
        check_flag(InvalidNodeError, purge=purge)
        receipt = self.fs.delete_node(self.address(address), self.ctx, if_version=if_version, purge=purge)
        return self._indexed(receipt, progress) if purge else receipt

    def move(self, address: str, to: str, *, if_version: int | None = None) -> Receipt:
        """Give a memory another address."""
        check_number(InvalidNodeError, if_version=if_version)
        return self.fs.move_node(self.address(address), self.address(to), self.ctx, if_version=if_version)

    def history(self, address: str) -> list[ContextNode]:
        """The versions of a memory that are kept, oldest first."""
        return self.fs.history(self.address(address), self.ctx)

    def undo(self, address: str, *, to: int | None = None, if_version: int | None = None) -> Receipt:
        """Bring back an older version, as a new one."""
        check_number(InvalidNodeError, to=to, if_version=if_version)
        return self.fs.undo(self.address(address), self.ctx, to=to, if_version=if_version)

    def status(self) -> dict[str, Any]:
        """Whose memory it is, on which store, and how far the index has come."""
        return {
            "account": self.ctx.account_id,
            "space": own_space(self.ctx),
            "store": protocol_of(self._opened.backend),
            "index": self._index.status(),
        }

    def catch_up(self, *, only: Sequence[str] | None = None, progress: Progress | None = None) -> Caught:
        """Index everything that changed, also by others and by hand.

        Whoever wrote to the store itself and knows what can name it: then ``only`` that is looked at, memories by their
        URIs and notes by their keys, beside what is known to be left to do.
        """
        check_callable(InvalidNodeError, progress=progress)
        if only is not None:
            check_texts(InvalidNodeError, only=only)
        if only:
            self._opened.note(only)
        return self._index.mended(partial(self._index.catch_up, scan=only is None, progress=progress))

    def reindex(self, *, progress: Progress | None = None) -> Caught:
        """Build the index anew; until it is complete, recall answers from the old one."""
        check_callable(InvalidNodeError, progress=progress)
        return self._index.rebuild(progress)

    def close(self) -> None:
        """Let go of the index; whatever is asked later opens it again."""
        for name in ("_index", "_duplicates"):
            opened = self.__dict__.pop(name, None)
            if opened is not None:
                opened.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def address(self, text: str) -> str:
        """The URI that a full or a short address means."""
        return str(parse_uri(full_address(text, self.ctx)))

    def list(self, place: str = "") -> list[str]:
        """The memories, or the folders, right below a folder."""
        return self.fs.list_children(str(parse_place(full_address(place, self.ctx))), self.ctx)

    def _from(self, sources: Sequence[str]) -> RequestContext:
        return replace(self.ctx, sources=tuple(sources)) if sources else self.ctx

    def _node(self, note: Note, taken: set[str]) -> ContextNode:
        """One of many: without a name, it gets one that no other of them has."""
        if note.slug is not None:
            uri = self.address(f"{note.category}/{note.slug}")
        else:
            uri = next(uri for uri in self._free_addresses(note.category, _slug(note.text)) if uri not in taken)
        taken.add(uri)
        return ContextNode(uri, _headed(note.text, note.when, note.who), tags=note.tags, relations=note.relations)

    def _write_at(
        self, uri: str, text: str, ctx: RequestContext, tags: tuple[str, ...], if_version: int | None
    ) -> Receipt:
        for attempt in range(_ATTEMPTS):
            try:
                return self._write_over(uri, text, ctx, tags, if_version)
            except NodeConflictError:
                if if_version is not None or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _write_over(
        self, uri: str, text: str, ctx: RequestContext, tags: tuple[str, ...], if_version: int | None
    ) -> Receipt:
        """With the relations, tags and fields that stand there; whoever changes them meanwhile is not written over."""
        try:
            standing = self.fs.read_node(uri, ctx)
        except NodeNotFoundError:
            standing = ContextNode(uri, text)
        text = with_fields_of(text, standing.content)
        node = replace(standing, content=text, abstract=None, overview=None, tags=tags or standing.tags)
        return self.fs.write_node(node, ctx, if_version=standing.version if if_version is None else if_version)

    def _write_new(
        self,
        content: str,
        text: str,
        category: str,
        ctx: RequestContext,
        tags: tuple[str, ...],
        if_version: int | None,
    ) -> Receipt:
        if if_version:
            raise InvalidNodeError("a new memory has no version yet; say which memory you mean with its address (to).")
        slug = _slug(text)
        for uri in self._free_addresses(category, slug):
            try:
                return self.fs.write_node(ContextNode(uri, content, tags=tags), ctx, if_version=0)
            except (NodeConflictError, NodeBrokenError):
                continue
        raise InvalidUriError(
            f"there are {MOST_ALIKE} memories named {slug!r}; give this one a name.", code="uri_taken"
        )

    def _free_addresses(self, category: str, slug: str) -> Iterator[str]:
        """Where no memory is, nor was one that can still be brought back: its name is not for another one."""
        for number in range(1, MOST_ALIKE):
            uri = self.address(f"{category}/{slug if number == 1 else f'{slug}-{number}'}")
            if not self.fs.exists(uri, self.ctx) and not self.fs.history(uri, self.ctx):
                yield uri


def _check_given(text: object, slug: object, category: object, tags: object, who: object, sources: object) -> None:
    if not isinstance(text, str):
        raise InvalidNodeError(f"what is to be remembered is {type(text).__name__}, not a text; pass a str.")
    if not text.strip():
        raise InvalidNodeError("the text is empty, so there is nothing to remember; say something.")
    check_texts(InvalidNodeError, tags=tags, sources=sources)
    check_text(InvalidNodeError, slug=slug, category=category, who=who)


def _check_embedder(embedder: object) -> None:
    fine = isinstance(getattr(embedder, "name", None), str) and callable(getattr(embedder, "embed", None))
    if embedder is not None and not fine:
        raise ConfigError(
            f"embedder is {type(embedder).__name__}; give something with a name and embed(texts), as CallableEmbedder."
        )


def _check_scope(scope: object) -> None:
    if scope is None:
        return
    from agentm.files.scope import ScopedStorageScope

    if not isinstance(scope, ScopedStorageScope):
        raise ConfigError(
            f"scope is {type(scope).__name__}; give a ScopedStorageScope, as in ScopedStorageScope(read=['/notes'])."
        )


def _policy(secrets: str) -> str:
    if secrets not in ("refuse", "redact", "allow"):
        raise InvalidNodeError(f"secrets is {secrets!r}; it can be 'refuse', 'redact' or 'allow'.")
    return secrets


def _slug(text: str) -> str:
    """A name made from what a text says."""
    from agentm.context.slugs import slug_of
    from agentm.context.summarise import abstract_of

    return slug_of(abstract_of(text))


def _headed(text: str, when: Moment | None, who: str | None) -> str:
    """A text with what it is about above it, as a person would write it into a note."""
    lines = []
    if when is not None:
        lines.append(f"date: {_iso(when)}")
    if who is not None:
        lines.append(f"who: {' '.join(who.split())}")
    return "\n".join(["---", *lines, "---", "", text]) if lines else text


def _iso(when: Moment) -> str:
    if isinstance(when, date):  # a datetime is one too
        return when.isoformat()
    try:
        return datetime.fromisoformat(when).isoformat()
    except (ValueError, TypeError):
        raise InvalidNodeError(f"{when!r} is no moment; write it like 2026-03-15 or 2026-03-15T14:30.") from None


def _runs(keys: Sequence[object]) -> Iterator[tuple[int, int]]:
    """The stretches of equal keys."""
    start = 0
    for at in range(1, len(keys) + 1):
        if at == len(keys) or keys[at] != keys[start]:
            yield start, at
            start = at
