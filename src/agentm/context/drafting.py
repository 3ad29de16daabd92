"""The next version of a node: what the caller gave, completed with what only we know."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from agentm.context import relations
from agentm.context.node import ContextNode, Meta, Version, build_version, check_content
from agentm.context.summarise import DEFAULT, Summariser, checked_abstract
from agentm.context.uri import ContextUri
from agentm.records import replace


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def new_write_id() -> str:
    return os.urandom(6).hex()


def new_version(
    node: ContextNode,
    uri: ContextUri,
    *,
    actor: str,
    sources: tuple[str, ...] = (),
    before: Meta | None = None,
    continues: bool = True,
    now: str | None = None,
    summariser: Summariser = DEFAULT,
) -> Version:
    """The version that follows ``before``; a node that had ended does not continue, but its numbers do."""
    check_content(node.content)
    now = now or utc_now()
    abstract = node.abstract if node.abstract is not None else checked_abstract(summariser.abstract(node.content))
    return build_version(
        replace(node, relations=relations.checked(node.relations, uri)),
        uri,
        abstract=abstract,
        overview=node.overview if node.overview is not None else summariser.overview(node.content),
        meta={
            "version": (before.version if before else 0) + 1,
            "created_at": before.created_at if before and continues else now,
            "updated_at": now,
            "actor": actor,
            "sources": sources,
            "write_id": new_write_id(),
            "rest": before.rest if before and continues else {},
        },
    )
