"""Memories that are written together, and each has a source and a time of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentm.context.contextfs import ContextFS
from agentm.context.holding import Hold
from agentm.context.node import ContextNode, Version
from agentm.context.tenancy import RequestContext
from agentm.context.uri import ContextUri
from agentm.context.writer import Draft
from agentm.importing.items import Item
from agentm.records import replace


class SourcedFS(ContextFS):
    """A memory that an import writes to: who asks is one and the same for all of it, what it was made from is not."""

    def __init__(self, fs: ContextFS) -> None:
        vars(self).update(vars(fs))  # the same memory, and whoever listens to its changes
        self.items: Mapping[str, Item] = {}
        """By URI, what the memories that are about to be written are made from."""

    def tell(self, uris: Sequence[str]) -> None:
        """Say that memories were changed that were not written by one of the methods."""
        self._changed(uris)

    def _draft(
        self, node: ContextNode, uri: ContextUri, ctx: RequestContext, if_version: int | None, hold: Hold
    ) -> Draft:
        item = self.items.get(str(uri))
        if item is None:
            return super()._draft(node, uri, ctx, if_version, hold)
        draft = super()._draft(node, uri, replace(ctx, sources=(item.source,)), if_version, hold)
        if item.created_at and draft.version.meta.version == 1:
            draft.version = Version(replace(draft.version.meta, created_at=item.created_at), draft.version.parts)
        return draft
