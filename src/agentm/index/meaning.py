"""The part of an index that an embedder makes: vectors for its records, in generations."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agentm.errors import AgentmError
from agentm.index.embed import Asked
from agentm.index.vectors import Vectors, keep_only

if TYPE_CHECKING:
    from agentm.index.account import AccountIndex
    from agentm.index.embed import Embedder, Vector

log = logging.getLogger(__name__)

Wanted = Callable[[Mapping[int, float]], Collection[int]]
"""Those of some records that may be in an answer."""

Matching = Callable[[int], Sequence[int] | None]
"""All records that were asked for, unless they are more than so many."""

EMBEDDER = "embedder"
"""The fact that names the embedder whose vectors are searched."""
_NEEDED = "numpy"
_AT_ONCE = 64
_FOR_A_QUESTION = 0.1
"""Seconds that an embedder has for a question, however late it is."""
_FEW = 10_000
"""So many vectors are looked at one by one in less time than looking for them among all takes."""
_REST = 30.0
"""Seconds that an embedder which failed is left alone."""


def is_behind(index: AccountIndex, embedder: Embedder, *, hurried: bool) -> bool:
    """Whether records have no vector, or theirs were lost; or, when nobody waits, whether vectors are to be tidied."""
    if not _can_be_kept(index, embedder):
        return False
    if index.catalogue.unembedded(embedder.name, 1):
        return True
    is_new = index.vectors is None
    vectors = _vectors(index, embedder)
    try:
        if is_new and not vectors.are_sound():
            return True
        return _are_lost(index, vectors, embedder) or (not hurried and vectors.is_untidy())
    except OSError as error:  # not now; but they are there
        log.warning("the vectors of %s cannot be looked at: %s", embedder.name, error)
        return False


def _can_be_kept(index: AccountIndex, embedder: Embedder) -> bool:
    """Whether there is what vectors take: else the embedder would be asked for nothing."""
    if find_spec(_NEEDED) is not None:
        return True
    log.warning("%s is not asked: vectors need numpy; type: pip install 'agentm[vectors]'.", embedder.name)
    index.embedder = None
    return False


def _are_lost(index: AccountIndex, vectors: Vectors, embedder: Embedder) -> bool:
    """Whether the catalogue tells of vectors that are not there: somebody took them away, or they are damaged."""
    return vectors.last < index.catalogue.embedded(embedder.name)


def embed(index: AccountIndex, embedder: Embedder, deadline: float | None) -> bool:
    """Make vectors for the records that have none. What its embedder fails at is found by its words meanwhile.

    False if the embedder was not done with them by the deadline.
    """
    is_resting = time.monotonic() < index.embedder_rests_until and deadline is not None
    if is_resting or not _can_be_kept(index, embedder):
        return True
    vectors = _vectors(index, embedder)
    if not vectors.are_sound():
        vectors.drop()
    if _are_lost(index, vectors, embedder):
        with index.catalogue.change():
            index.catalogue.mark_embedded(embedder.name, vectors.last)
    if not _embed_all(index, vectors, embedder, deadline):
        return False
    if deadline is None:
        try:
            vectors.tidy(index.catalogue.count_records(), index.catalogue.record_ids)
        except Exception as error:  # they can be searched as they are
            log.warning("the vectors of %s could not be tidied: %s", embedder.name, error)
    return True


def _embed_all(index: AccountIndex, vectors: Vectors, embedder: Embedder, deadline: float | None) -> bool:
    """False if time was up before all were made; those that the embedder fails at are left."""
    while some := index.catalogue.unembedded(embedder.name, _AT_ONCE):
        # While somebody waits, only if it has shown that it is quick enough.
        if deadline is not None and time.monotonic() + index.embedding_takes > deadline:
            return False
        records = [record for record, _ in some]
        started = time.monotonic()
        try:
            made = _asked(index, embedder).embed([text for _, text in some], deadline)
            if made is None:
                index.embedding_takes = 0.0  # the next one to come may find it made
                return False
            vectors.add(records, made)
        except Exception as error:  # whatever an embedder does, full text goes on
            log.warning("%s gave no vectors for %d texts: %s", embedder.name, len(some), error)
            index.embedder_rests_until = time.monotonic() + _REST
            return True
        index.embedding_takes = time.monotonic() - started
        with index.catalogue.change():
            index.catalogue.mark_embedded(embedder.name, records[-1])
    if index.catalogue.fact(EMBEDDER) != embedder.name:
        _go_over(index, vectors, embedder.name)
    return True


def _nearest(vectors: Vectors, vector: Vector, limit: int, wanted: Wanted, matching: Matching) -> dict[int, float]:
    """Further and further out, until there are enough that still exist, may be seen and were asked for.

    Where those are few and far between, only they are looked at.
    """
    search, many = vectors.nearest, 2 * limit
    among_all = True
    while True:
        found = search(vector, many)
        kept = wanted(found)
        if len(kept) >= limit or len(found) < many:
            return {record: similarity for record, similarity in found.items() if record in kept}
        if among_all and (few := matching(_FEW)) is not None:
            search, among_all = partial(vectors.nearest_of, few), False
        else:
            many *= 8


def _vectors(index: AccountIndex, embedder: Embedder) -> Vectors:
    """Opened once: mapping files into memory is quick, but not for every question."""
    if index.vectors is None:
        index.vectors = Vectors(index.directory, embedder.name)
    return index.vectors


def _asked(index: AccountIndex, embedder: Embedder) -> Asked:
    if index.asked is None:
        index.asked = Asked(embedder)
    return index.asked


def _go_over(index: AccountIndex, vectors: Vectors, embedder: str) -> None:
    """All records have a vector of this embedder: from now on they are searched, and those of others are let go."""
    with index.catalogue.change():
        index.catalogue.put_fact(EMBEDDER, embedder)
        index.catalogue.drop_other_embedders(embedder)
    for name in os.listdir(index.directory):
        if name.startswith("vectors-") and name != os.path.basename(vectors.path):
            shutil.rmtree(os.path.join(index.directory, name), ignore_errors=True)


def drop_gone(index: AccountIndex) -> None:
    """Let go of the vectors of records that are gone, whoever made them, also where that embedder is not at hand."""
    index.vectors = None  # Windows removes no file that is mapped
    for name in os.listdir(index.directory):
        if name.startswith("vectors-"):
            path = os.path.join(index.directory, name)
            try:
                keep_only(path, index.catalogue.record_ids())
            except (AgentmError, OSError, ValueError) as error:  # no numpy, say: then they are made anew
                log.warning("the vectors in %s cannot be looked at and are let go: %s", name, error)
                shutil.rmtree(path, ignore_errors=True)


def near(
    index: AccountIndex,
    embedder: Embedder,
    query: str,
    limit: int,
    wanted: Wanted,
    matching: Matching,
    deadline: float,
) -> dict[int, float] | None:
    """Wanted records near in meaning, with their similarities; none before the embedder has seen all of them.

    None if it does not answer in time.
    """
    if index.catalogue.fact(EMBEDDER) != embedder.name or not _can_be_kept(index, embedder):
        return {}
    try:
        made = _asked(index, embedder).embed([query], max(deadline, time.monotonic() + _FOR_A_QUESTION))
        if made is None:
            return None
        [vector] = made
        return _nearest(_vectors(index, embedder), vector, limit, wanted, matching)
    except Exception as error:  # whatever an embedder does, full text answers
        log.warning("%s could not be asked: %s", embedder.name, error)
        return {}
