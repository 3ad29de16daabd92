"""What the index ranks for a project, read without a trace.

Searching an index as `recall` does takes its locks and brings it up to date. Here its catalogue is only read, as a file
at rest, and the few records of one project are ranked by their words; each is then looked up in the store, so that what
was changed or deleted since is not shown as it was.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import quote

from agentm.config import StrPath
from agentm.context.reader import read_version
from agentm.context.uri import parse_uri
from agentm.errors import AgentmError
from agentm.index import todo
from agentm.index.account import NOTES as NOTES_SPACE
from agentm.index.catalogue import CURRENT, LAYOUT, NAME
from agentm.index.sources import is_node, of_node
from agentm.open import caller, index_directory
from agentm.recall.budget import tokens
from agentm.recall.phases import NOTES, Ranked
from agentm.recall.results import FULL, Found
from agentm.seam import Locator, StorageBackend

_MOST_RECORDS = 2_000
_MOST_SHOWN = 20
_MOST_WAITING = 50


def ranking(store: StorageBackend, install_prefix: StrPath | None) -> Ranked | None:
    """How to rank what is indexed of a store; None if there is no index of it."""
    ctx = caller(install_prefix=install_prefix)
    directory = index_directory(store, ctx.account_id, install_prefix, None)
    if directory is None or not os.path.isdir(directory):
        return None

    def ranked(query: str, project: str, left: int) -> str:
        if not project:
            return ""
        space = f"user:{ctx.user_id}"
        new = list(_waiting(store, directory, project, space))
        known = {record[0] for record in new}
        found = new + [record for record in _read(directory, project, space) if record[0] not in known]
        return _fitted(store, _sorted(found, query), left)

    return ranked


_Record = tuple[str, str, str, str]
"""URI, moment, who, text."""


def _waiting(store: StorageBackend, directory: str, project: str, space: str) -> Iterator[_Record]:
    """What was remembered a moment ago and is not indexed yet, the newest first."""
    for uri in reversed(todo.waiting(directory)[-_MOST_WAITING:]):
        with suppress(AgentmError, OSError):
            version = read_version(store, parse_uri(uri).locator) if is_node(uri) else None
            if version is None or version.meta.uri != uri:
                continue
            source = of_node(version.node())
            if (source.project, source.space) == (project, space):
                yield from ((uri, source.when, source.who, passage.text) for passage in source.passages)


def _read(directory: str, project: str, space: str) -> list[_Record]:
    """The newest records of a project; none while the catalogue is being written and has a journal beside it."""
    path = os.path.join(directory, CURRENT, NAME)
    if not os.path.isfile(path):
        return []
    if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
        return []
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as catalogue:
        if catalogue.execute("PRAGMA user_version").fetchone()[0] != LAYOUT:
            return []
        return list(
            catalogue.execute(
                "SELECT sources.uri, moment, who, text FROM sources JOIN records ON records.uri = sources.uri "
                "WHERE project = ? AND space IN (?, ?) AND level = 2 ORDER BY moment DESC, sources.uri, number LIMIT ?",
                (project, space, NOTES_SPACE, _MOST_RECORDS),
            )
        )


def _sorted(found: list[_Record], query: str) -> Iterator[_Record]:
    """By the words they share with the query, rare ones first; without any, the newest first. Each source once."""
    from agentm.index.words import terms

    wanted = set(terms(query))
    said = [Counter(terms(record[3])) for record in found] if wanted else []
    spread = Counter(term for counts in said for term in counts.keys() & wanted)
    weight = {term: math.log(1 + len(found) / count) for term, count in spread.items()}
    scores = [
        sum(weight[term] * counts[term] / (counts[term] + 1) for term in counts.keys() & wanted) for counts in said
    ] or [1.0] * len(found)
    seen = set()
    for at in sorted(range(len(found)), key=lambda at: -scores[at]):
        uri = found[at][0]
        if scores[at] > 0 and uri not in seen and not _is_read_anyway(uri):
            seen.add(uri)
            yield found[at]


def _is_read_anyway(uri: str) -> bool:
    """Notes that a phase reads by their place."""
    parts = uri.split("/")
    return not is_node(uri) and len(parts) > 2 and any(parts[2] in names for names in NOTES.values())


def _fitted(store: StorageBackend, records: Iterator[_Record], left: int) -> str:
    entries: list[Found] = []
    for uri, moment, who, text in records:
        entry = _entry(store, uri, moment, who, text)
        if entry is not None and tokens(FULL.page([*entries, entry])) <= left:
            entries.append(entry)
        if len(entries) == _MOST_SHOWN:
            break
    return FULL.page(entries)


def _entry(store: StorageBackend, uri: str, moment: str, who: str, text: str) -> Found | None:
    """A passage, if the store still has it."""
    try:
        if is_node(uri):
            version = read_version(store, parse_uri(uri).locator)
            node = version.node() if version is not None and version.meta.uri == uri else None
            number, content = (node.version, node.content) if node else (0, "")
        else:
            number, content = 0, store.read(Locator(uri))
    except (AgentmError, OSError):
        return None
    if text not in content:
        return None
    return Found(uri, "", number, 0.0, 2, text, "", "", (), moment, who, 0, 0)
