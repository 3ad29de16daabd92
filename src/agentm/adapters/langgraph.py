"""A store for LangGraph: items as notes below a folder, found by agentm's recall without a model or a key.

A namespace is a folder and an item a file in it. Writes are durable when they return, and no one's are lost, whichever
process they come from. `search` with a query gives what the recall finds, best first; the other items follow, scored 0,
or not at all if they are not indexed, as in LangGraph's own stores. Without a query, what was changed last comes first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any

from agentm.adapters import _items
from agentm.adapters._extras import missing
from agentm.adapters._items import Kept
from agentm.errors import (
    AlreadyExistsError,
    BoundaryError,
    ConcurrentModificationError,
    InvalidQueryError,
    NodeBrokenError,
    NotFoundError,
    NotTextError,
)
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.records import replace
from agentm.seam import ChangeFeed, CompareAndSwap, Info, Locator, Remove, StorageBackend, require, update
from agentm.seam.trees import entries
from agentm.selection import select_backend

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
    )
except ImportError as cause:
    raise missing("langgraph", cause) from cause

if TYPE_CHECKING:
    from agentm.memory import Memory

log = logging.getLogger(__name__)

FOLDER = "langgraph"

_ALL = "$"
"""LangGraph's path to all of a value."""
_PATIENCE = 1.0
"""Seconds that a search waits for another process that is indexing."""
_READING = 30.0
"""Seconds there are for reading what was found: a page is given whole."""
_TRYING = 30.0
"""Seconds that a deletion is tried while others keep writing the item."""
_NO_BUDGET = 1_000_000_000
"""Tokens: a page is as long as the limit says."""
_UNUSABLE = (NodeBrokenError, NotTextError, PermissionError)
"""What is wrong with one file, or one folder, and says nothing about the others."""
_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class AgentmStore(BaseStore):
    """Items below ``folder`` of a store: a backend, or for None the one that is configured.

    ``fields`` are the paths of what items are found by, where a put does not say so itself; for None all of an item.
    ``ttl`` is LangGraph's own configuration. What has expired is not shown, unless it says ``omit_expired=False``, and
    is removed by `sweep_ttl`, which with ``sweep_interval_minutes`` happens along with other calls.
    """

    supports_ttl = True

    def __init__(
        self,
        backend: StorageBackend | None = None,
        *,
        folder: str = FOLDER,
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.ttl_config = ttl
        self._fields = None if fields is None else list(fields)
        self._store = select_backend() if backend is None else backend
        self._root = self._store.resolve(folder)
        # The folder is all there is: not even a link in it leads out.
        here = [f"/{self._root.key}"]
        self._backend = ScopedBackend(self._store, ScopedStorageScope(read=here, write=here))
        self._next_sweep = 0.0
        self._alone = Lock()
        self._unindexed: set[str] = set()
        """Where something was put that no search has looked at yet."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """What is read is read before anything of the same batch is written; of two puts to one key the last wins."""
        asked = list(ops)
        self._sweep_if_due()
        answers = [_within_reach(op, self._answer) for op in asked]
        for put in {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}.values():
            _within_reach(put, self._put)
        return answers

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove what has expired, and say how many that were."""
        return sum(self._remove_expired(place) for place, item in self._below(self._root) if _is_over(item))

    def close(self) -> None:
        """Let go of the index; a later search opens it again."""
        memory: Memory | None = self.__dict__.pop("_memory", None)
        if memory is not None:
            memory.close()

    def __enter__(self) -> AgentmStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What is asked.

    def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        if isinstance(op, PutOp):
            return None
        raise InvalidQueryError(
            f"a {type(op).__name__} is no operation of a store; use GetOp, SearchOp, PutOp or ListNamespacesOp."
        )

    def _get(self, op: GetOp) -> Item | None:
        place = _items.place_of(self._root, op.namespace, op.key)
        item = self._at(place)
        if item is None or not self._is_shown(item):
            return None
        if op.refresh_ttl:
            self._refresh(place, item)
        return Item(**_as_item(item))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        _check_page(op)
        found = self._best_first(op, op.query) if op.query and op.query.strip() else self._newest(op.namespace_prefix)
        fitting = (
            (item, score) for item, score in found if self._is_shown(item) and _fits(item.value, op.filter or {})
        )
        page = list(islice(fitting, op.offset, op.offset + op.limit))
        if op.refresh_ttl:
            for item, _ in page:
                self._refresh(_items.place_of(self._root, item.namespace, item.key), item)
        return [SearchItem(**_as_item(item), score=score) for item, score in page]

    def _newest(self, prefix: tuple[str, ...]) -> Iterator[tuple[Kept, None]]:
        items = [item for _, item in self._below(_items.folder_of(self._root, prefix))]
        items.sort(key=lambda item: (item.namespace, item.key))
        items.sort(key=lambda item: item.updated, reverse=True)
        return ((item, None) for item in items)

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        _check_page(op)
        found = {item.namespace for _, item in self._below(self._root) if self._is_shown(item)}
        fitting = {one for one in found if all(_matches(one, condition) for condition in op.match_conditions or ())}
        if op.max_depth is not None:
            fitting = {one[: op.max_depth] for one in fitting}
        return sorted(fitting)[op.offset : op.offset + op.limit]

    # Recall.

    def _best_first(self, op: SearchOp, query: str) -> Iterator[tuple[Kept, float | None]]:
        found = set()
        for item, score in self._ranked(op, query):
            found.add((item.namespace, item.key))
            yield item, score
        others = [item for item, _ in self._newest(op.namespace_prefix) if (item.namespace, item.key) not in found]
        yield from ((item, 0.0) for item in others if item.index is not False)
        yield from ((item, None) for item in others if item.index is False)

    def _ranked(self, op: SearchOp, query: str) -> Iterator[tuple[Kept, float]]:
        """Best first, as many as somebody takes: more are asked for once those are used up."""
        from agentm.recall.recall import MOST

        self._keep_up()
        seen: set[str] = set()
        many = min(max(op.offset + op.limit, 1), MOST)
        while True:
            found = self._memory.recall(
                query,
                tag=_items.tag_of(op.namespace_prefix),
                limit=many,
                budget=_NO_BUDGET,
                recency=False,
                related=False,
                patience=_READING,
            )
            for entry in found:
                item = None if entry.uri in seen else self._usable(Locator(entry.uri))
                seen.add(entry.uri)
                if item is not None and _is_wanted(item, op.namespace_prefix):
                    yield item, entry.score
            if len(found) < many or many == MOST:
                return
            many = min(many * 4, MOST)

    def _keep_up(self) -> None:
        """Index what was put here, and the first time whatever there is; another process that is at it does it for all.

        What others put since, the recall looks for by itself, every now and then.
        """
        until = time.monotonic() + _PATIENCE
        with self._alone:  # threads that search first must not open an index each
            everything, put = "_memory" not in self.__dict__, self._taken()
            only = None if everything else put
            while self._memory.catch_up(only=only).busy and time.monotonic() < until:
                only = None if everything else []  # what was put is noted by now
                time.sleep(0.01)

    def _taken(self) -> list[str]:
        """Where something was put since the last time; others may put something meanwhile."""
        taken = []
        with suppress(KeyError):
            while True:
                taken.append(self._unindexed.pop())
        return taken

    @cached_property
    def _memory(self) -> Memory:
        from agentm.memory import Memory

        require(self._store, ChangeFeed)  # without it notes are not indexed, and nothing would be found
        return Memory.open(self._store, notes=True)

    # The files.

    def _at(self, place: Locator) -> Kept | None:
        """The item at a place; None for none."""
        try:
            return self._item_in(self._backend.read(place), place)
        except _NO_FILE:
            return None

    def _item_in(self, text: str, place: Locator) -> Kept | None:
        """The item of a place; None for somebody's own note, and for a copy of an item that belongs elsewhere."""
        item = _items.read(text, place)
        return item if item is not None and _items.place_of(self._root, item.namespace, item.key) == place else None

    def _usable(self, place: Locator) -> Kept | None:
        """The item at a place; None, and a word in the log, where it cannot be read: the others still can."""
        try:
            return self._at(place)
        except _UNUSABLE as error:
            log.warning("left out: %s", error)
            return None

    def _below(self, folder: Locator) -> Iterator[tuple[Locator, Kept]]:
        left = entries(self._backend, folder)
        while left:
            found = left.pop()
            if found.is_dir:
                left += self._inside(found.locator)
            elif found.locator.name.endswith(_items.SUFFIX):
                item = self._usable(found.locator)
                if item is not None:
                    yield found.locator, item

    def _inside(self, folder: Locator) -> list[Info]:
        try:
            return entries(self._backend, folder)
        except _UNUSABLE as error:
            log.warning("left out: %s", error)
            return []

    def _put(self, op: PutOp) -> None:
        place = _items.place_of(self._root, op.namespace, op.key)
        if op.value is None:
            self._delete(place)
            self._unindexed.add(place.key)
            return
        now = datetime.now(UTC)
        index = self._fields if op.index is None else op.index
        item = _living(Kept(op.namespace, op.key, dict(op.value), now, now, index, op.ttl), now)
        text = _findable(item)

        def over(old: str | None) -> str:
            created = None if old is None else self._created(old, place)
            return _items.written(replace(item, created=created or now), text)

        update(self._backend, place, over)
        self._unindexed.add(place.key)

    def _created(self, old: str, place: Locator) -> datetime | None:
        """When the item that is written over came to be; None if it had expired, or does not say so any more."""
        try:
            item = self._item_in(old, place)
        except NodeBrokenError as error:
            log.warning("written over: %s", error)
            return _items.created(old)
        if item is None:
            raise AlreadyExistsError(
                f"at {place.key!r} there is a note that is not this item; move it away, or put under another key.",
                locator=place.key,
            )
        return None if _is_over(item) else item.created

    def _delete(self, place: Locator) -> None:
        """Take the item away, damaged or not, whatever it says by now; a note of somebody's own stays."""
        with suppress(*_NO_FILE):
            until = time.monotonic() + _TRYING
            while True:
                try:
                    self._remove_if(place, lambda text: self._is_item(text, place))
                    return
                except ConcurrentModificationError:
                    if time.monotonic() > until:
                        raise

    def _remove_if(self, place: Locator, meant: Callable[[str], bool]) -> bool:
        """Take away a file that is meant, as it is; raises ConcurrentModificationError if it is another by then."""
        version = None
        if self._backend.capabilities.compare_and_swap:
            now = require(self._backend, CompareAndSwap).read_versioned(place)
            text, version = now.content, now.version
        else:
            text = self._backend.read(place)
        if not meant(text):
            return False
        require(self._backend, Remove).remove(place, if_version=version)
        return True

    def _is_item(self, text: str, place: Locator) -> bool:
        try:
            return self._item_in(text, place) is not None
        except NodeBrokenError:
            return True

    def _refresh(self, place: Locator, item: Kept) -> None:
        """Let an item live on from now, whatever it says by now. Who may only read cannot do that."""
        if item.ttl is None:
            return

        def lives_on(old: str | None) -> str:
            current = None if old is None else self._item_in(old, place)
            if current is None:
                raise NotFoundError(f"the item at {place.key!r} is gone; put it again.")
            return _items.written(_living(current, datetime.now(UTC)), _findable(current))

        with suppress(FileNotFoundError, *_UNUSABLE):
            update(self._backend, place, lives_on)

    # Time to live.

    def _is_shown(self, item: Kept) -> bool:
        return not _is_over(item) or (self.ttl_config or {}).get("omit_expired", True) is False

    def _remove_expired(self, place: Locator) -> bool:
        """Unless somebody has read or written it in the meantime."""

        def is_over(text: str) -> bool:
            item = self._item_in(text, place)
            return item is not None and _is_over(item)

        try:
            return self._remove_if(place, is_over)
        except (FileNotFoundError, ConcurrentModificationError, NodeBrokenError, NotTextError):
            return False

    def _sweep_if_due(self) -> None:
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        if minutes is not None and time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + minutes * 60
            self.sweep_ttl()


def _within_reach(op: Op, action: Callable[[Any], Any]) -> Any:
    """What a scope refuses is, to LangGraph, a namespace that cannot be used; nothing else is said about it."""
    try:
        return action(op)
    except BoundaryError:
        namespace = op.namespace_prefix if isinstance(op, SearchOp) else getattr(op, "namespace", ())
        raise InvalidNamespaceError(f"The namespace {namespace} is not permitted.") from None


def _living(item: Kept, now: datetime) -> Kept:
    return replace(item, expires=None if item.ttl is None else now + timedelta(minutes=item.ttl))


def _is_over(item: Kept) -> bool:
    return item.expires is not None and item.expires <= datetime.now(UTC)


def _check_page(op: SearchOp | ListNamespacesOp) -> None:
    if op.limit < 0 or op.offset < 0:
        raise InvalidQueryError(f"limit and offset are 0 or more, not {op.limit} and {op.offset}.")


def _is_wanted(item: Kept, prefix: tuple[str, ...]) -> bool:
    return item.index is not False and item.namespace[: len(prefix)] == tuple(prefix)


def _findable(item: Kept) -> str:
    """What an item is to be found by: all of it, or the fields that were named."""
    paths = [_ALL] if item.index is None else item.index or ()
    return "\n\n".join(text for path in paths for text in _texts(item.value, path))


def _texts(value: dict[str, Any], path: str) -> list[str]:
    return [_items.said_by(value)] if path == _ALL else get_text_at_path(value, path)


def _as_item(item: Kept) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created,
        "updated_at": item.updated,
    }


def _matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is as a filter says. What cannot be compared does not fit."""
    if isinstance(wanted, dict) and any(str(key).startswith("$") for key in wanted):
        return all(_compares(value, operator, other) for operator, other in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(_fits(value.get(key), one) for key, one in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    return bool(value == wanted)


def _compares(value: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return (value == other) is (operator == "$eq")
    if operator not in _ORDER:
        raise ValueError(f"Unsupported operator: {operator}; use $eq, $ne, {', '.join(_ORDER)}.")
    try:
        return _ORDER[operator](value, other)
    except TypeError:
        return False
