"""Many vectors: a graph finds what looking at every one finds, and is never more than a shortcut to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentm import CallableEmbedder, DeviceLocalBackend, EmbedderError, Memory, Note
from agentm.index import graph, vectors
from agentm.index.vectors import Vectors, keep_only
from tests.index.conftest import tmp_path as tmp_path

pytestmark = pytest.mark.spec("IDX-03")

_SIZE = 32


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is worth it, and asked, for as few as tests have."""
    monkeypatch.setattr(graph, "WORTH_A_GRAPH", 100)
    monkeypatch.setattr(vectors, "_PART", 4)


def clustered(count: int, seed: int = 0) -> Any:
    """Vectors as of texts: many about the same."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((max(5, count // 50), _SIZE))
    return (centres[random.integers(0, len(centres), count)] + 0.6 * random.standard_normal((count, _SIZE))).astype(
        "f4"
    )


def filled(path: Path, matrix: Any, *, graph: bool = True) -> Vectors:
    made = Vectors(str(path), "some/1")
    for at in range(0, len(matrix), 500):
        some = matrix[at : at + 500]
        made.add(range(at + 1, at + 1 + len(some)), some)
    if graph:
        tidied(made)
    return made


def test_nothing_is_left_of_vectors_that_are_let_go_nor_in_a_graph(tmp_path: Path) -> None:
    matrix = clustered(600)
    made = filled(tmp_path, matrix)
    folder = Path(made.path)
    assert list(folder.glob("*.usearch"))
    gone = 77
    [data] = folder.glob("*.vectors")
    row = np.fromfile(data, "<f4").reshape(-1, _SIZE)[gone - 1].tobytes()

    def holding() -> list[str]:
        return [path.name for path in folder.iterdir() if row in path.read_bytes()]

    assert holding()
    for _ in range(2):  # once more does no harm
        keep_only(made.path, [record for record in range(1, 601) if record != gone])
        assert (holding(), list(folder.glob("*.usearch"))) == ([], [])
    assert gone not in made.nearest(matrix[gone - 1], 599)
    assert (len(made.nearest(matrix[0], 1000)), made.last) == (599, 600)
    keep_only(made.path, [])
    assert (made.nearest(matrix[0], 10), made.last) == ({}, 600)
    made.add([601], matrix[:1])
    assert list(made.nearest(matrix[0], 10)) == [601]


def test_nothing_is_left_of_vectors_that_a_crash_left(tmp_path: Path) -> None:
    matrix = clustered(100)
    made = filled(tmp_path, matrix, graph=False)
    [data] = Path(made.path).glob("*.vectors")
    with data.open("ab") as file:
        file.write(b"behind the last row")
    (data.parent / "old.vectors").write_bytes(b"of before")
    (data.parent / "old.usearch").write_bytes(b"of before")
    keep_only(made.path, range(1, 101))
    left = b"".join(path.read_bytes() for path in data.parent.iterdir())
    assert b"behind" not in left
    assert b"before" not in left
    assert len(made.nearest(matrix[0], 1000)) == 100


def tidied(made: Vectors) -> None:
    made.tidy(made.last, lambda: range(1, made.last + 1))


def exact(matrix: Any, query: Any, limit: int) -> list[int]:
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return [int(at) + 1 for at in np.argsort(-(unit @ query))[:limit]]


def graphs(path: Path) -> list[Path]:
    return sorted(path.rglob("*.usearch"))


def shared(matrix: Any, made: Vectors, queries: Any, limit: int = 10) -> float:
    """How many of the nearest are found."""
    both = [set(made.nearest(query, limit)) & set(exact(matrix, query, limit)) for query in queries]
    return sum(map(len, both)) / (limit * len(queries))


# What is found.


def test_a_graph_finds_nearly_all_of_the_nearest_and_says_how_near_they_are(tmp_path: Path) -> None:
    matrix, queries = clustered(5000), clustered(5000)[::100]
    made = filled(tmp_path, matrix)
    assert len(graphs(tmp_path)) == 1
    assert shared(matrix, made, queries) >= 0.95
    for query in queries:
        found = made.nearest(query, 10)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        for record, similarity in found.items():
            one = matrix[record - 1]
            assert similarity == pytest.approx(one @ query / np.linalg.norm(one) / np.linalg.norm(query), abs=1e-5)


def test_what_came_after_the_graph_is_found_like_the_rest(tmp_path: Path) -> None:
    matrix = clustered(1090)
    made = filled(tmp_path, matrix[:1000])
    made.add(range(1001, 1091), matrix[1000:])
    [built] = graphs(tmp_path)
    assert [next(iter(made.nearest(matrix[at], 5))) for at in range(1000, 1090)] == list(range(1001, 1091))
    assert shared(matrix, made, matrix[::10]) >= 0.95
    tidied(made)
    assert graphs(tmp_path) == [built]  # not worth it yet


def test_a_graph_grows_once_enough_came_after_it(tmp_path: Path) -> None:
    matrix = clustered(1300)
    made = filled(tmp_path, matrix[:1000])
    [before] = graphs(tmp_path)
    made.add(range(1001, 1301), matrix[1000:])
    assert made.is_untidy()
    tidied(made)
    assert not made.is_untidy()
    [after] = graphs(tmp_path)
    assert after != before
    assert shared(matrix, made, matrix[::10]) >= 0.95


def test_others_see_what_is_added_and_built_without_opening_anew(tmp_path: Path) -> None:
    matrix = clustered(1300)
    made = filled(tmp_path, matrix[:600])
    reader = Vectors(str(tmp_path), "some/1")
    assert shared(matrix[:600], reader, matrix[:600:20]) >= 0.95
    made.add(range(601, 1301), matrix[600:])
    assert shared(matrix, reader, matrix[::20]) >= 0.95
    tidied(made)
    assert shared(matrix, reader, matrix[::20]) >= 0.95


def test_the_nearest_of_some_records_are_exactly_those(tmp_path: Path) -> None:
    matrix = clustered(1000)
    made = filled(tmp_path, matrix)
    some = [3, 7, 500, 999, 5000]
    found = made.nearest_of(some, matrix[6], 3)
    order = [record for record in exact(matrix, matrix[6], 1000) if record in some]
    assert list(found) == order[:3]
    assert made.nearest_of([], matrix[6], 3) == {}


def test_without_the_package_every_vector_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = clustered(1000)
    filled(tmp_path / "with", matrix)
    monkeypatch.setitem(sys.modules, "usearch", None)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    for path in (tmp_path / "with", tmp_path / "without"):
        made = Vectors(str(path), "some/1") if path.exists() else filled(path, matrix)
        assert shared(matrix, made, matrix[::20]) == 1.0
        assert not made.is_untidy()
    assert graphs(tmp_path / "without") == []


# What happens to a graph.


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _damage(path: Path) -> None:
    """Everywhere but in its head, at the time and of the size that it had."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(256)
        file.write(os.urandom(before.st_size - 256))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _swap(path: Path) -> None:
    """A sound one, of other vectors."""
    filled(path.parent / "other", clustered(1000, seed=1))
    [other] = graphs(path.parent / "other")
    os.replace(other, path)


def _describe_otherwise(path: Path) -> None:
    (path.parent / "graph.json").write_text('{"file": "x"}')


def _describe_badly(path: Path) -> None:
    (path.parent / "graph.json").write_bytes(b"\xff{")


@pytest.mark.parametrize(
    "happens", [_truncate, _empty, _damage, _swap, _describe_otherwise, _describe_badly, Path.unlink]
)
@pytest.mark.parametrize("opened_before", [False, True])
def test_a_graph_that_is_not_what_was_built_is_ignored_and_built_anew(
    tmp_path: Path, happens: Callable[[Path], None], opened_before: bool
) -> None:
    matrix = clustered(1000)
    made = filled(tmp_path, matrix)
    [built] = graphs(tmp_path)
    if opened_before:
        # What is mapped is left alone: others replace a file, they do not write into it.
        made.nearest(matrix[0], 10)
        built.write_bytes(_replaced(built))
    else:
        made = Vectors(str(tmp_path), "some/1")
    happens(built)
    assert shared(matrix, made, matrix[::10]) == 1.0  # as only looking at every one does
    assert made.is_untidy()
    tidied(made)
    assert not made.is_untidy()
    assert shared(matrix, made, matrix[::10]) >= 0.95
    assert built not in graphs(tmp_path)


def _replaced(path: Path) -> bytes:
    data = path.read_bytes()
    path.unlink()
    return data


def test_a_graph_that_was_copied_is_used_once_it_was_read_through(tmp_path: Path) -> None:
    made = filled(tmp_path, clustered(1000))
    [built] = graphs(tmp_path)
    built.write_bytes(_replaced(built))
    assert not Vectors(str(tmp_path), "some/1").is_untidy()
    assert not made.is_untidy()


def test_vectors_that_were_made_twice_count_once_and_as_made_last(tmp_path: Path) -> None:
    matrix = clustered(1000)
    made = filled(tmp_path, matrix)
    other = clustered(1000, seed=2)
    made.add(range(901, 1001), other[900:])  # after a crash that the catalogue did not hear of
    now = np.concatenate([matrix[:900], other[900:]])
    assert shared(now, made, now[::10]) == 1.0  # the graph is of what was there before
    assert made.last == 1000
    tidied(made)
    assert shared(now, made, now[::10]) >= 0.95


_WORKER = """
import sys
from agentm.index import graph
from tests.index.test_vectors import Vectors, clustered, tidied
graph.WORTH_A_GRAPH = 100
matrix, made = clustered(4000), Vectors(sys.argv[1], "some/1")
for at in range(made.last, 4000, 50):
    made.add(range(at + 1, at + 51), matrix[at : at + 50])
    print(made.last, flush=True)
    tidied(made)
"""


@pytest.mark.slow
@pytest.mark.spec("IDX-01")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that nobody can catch")
def test_whoever_is_killed_while_adding_and_building_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    matrix = clustered(4000)
    for turn in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        ) as worker:
            assert worker.stdout is not None
            told = [int(worker.stdout.readline()) for _ in range(7 + turn)][-1]
            worker.kill()
        made = Vectors(str(tmp_path), "some/1")
        assert made.last >= told
        assert shared(matrix[: made.last], made, matrix[: made.last : 40]) >= 0.95
    tidied(made)
    assert len(graphs(tmp_path)) == 1


# What adding costs.


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs a system that counts what is written")
def test_many_small_batches_cost_what_they_bring(tmp_path: Path) -> None:
    def written() -> int:
        return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])

    made, matrix = Vectors(str(tmp_path), "some/1"), clustered(6000)
    before = written()
    for at in range(0, 6000, 20):
        made.add(range(at + 1, at + 21), matrix[at : at + 20])
    assert written() - before < 1.5 * matrix.nbytes


def test_an_embedder_that_changed_without_another_name_is_refused(tmp_path: Path) -> None:
    made = filled(tmp_path, clustered(10))
    with pytest.raises(EmbedderError):
        made.add([11], [[1.0, 2.0]])
    assert made.nearest([1.0, 2.0], 3) == {}
    assert made.last == 10


# In a memory.


def hashed(texts: Sequence[str]) -> list[list[float]]:
    """A direction for each word, and for a text the sum of its words'."""
    return [list(np.sum([_word(word) for word in text.casefold().split()], axis=0)) for text in texts]


def _word(word: str) -> Any:
    return np.frombuffer(sha256(word.encode()).digest(), "u1").astype("f4") - 127.5


class Counting:
    name = "hash/1"

    def __init__(self) -> None:
        self.seen = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += len(texts)
        return hashed(texts)


def opened(path: Path, embedder: Any = None, user: str = "alice") -> Memory:
    return Memory.open(
        DeviceLocalBackend(path / "store"),
        account="acme",
        user=user,
        index_root=path / "index",
        install_prefix=path,
        embedder=embedder or CallableEmbedder("hash/1", hashed),
    )


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as found:
        found.remember_many(
            Note(f"item{n} box{n % 7}", slug=f"n-{n}", category="cases" if n % 50 == 0 else "events")
            for n in range(300)
        )
        found.catch_up()
        yield found


def near(memory: Memory, query: str, **options: Any) -> list[tuple[str, float]]:
    """What the embedder found, and how much that gave."""
    found = memory.recall(query, **{"patience": 30.0, "limit": 5, **options})
    return [(one.uri, one.why["meaning"]) for one in found if one.why.get("meaning")]


def test_a_memory_with_a_graph_answers_as_one_without(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [f"item{n}" for n in range(0, 300, 30)]
    assert len(graphs(tmp_path)) == 1
    through_it = [near(memory, question) for question in questions]
    monkeypatch.setattr(vectors, "_PART", 10**9)
    assert [near(memory, question) for question in questions] == through_it
    assert all(through_it)


def test_filters_hold_where_few_match_and_they_are_far(memory: Memory) -> None:
    found = memory.recall("item1 box1", category="cases", limit=6, patience=30.0)
    assert {one.uri.rpartition("/")[2] for one in found} == {f"n-{n}" for n in range(0, 300, 50)}
    assert not memory.recall("item1 box1", tag="nowhere", patience=30.0).entries


def test_what_is_another_s_or_gone_is_not_found_through_the_graph(memory: Memory, tmp_path: Path) -> None:
    memory.forget("events/n-1")
    assert all(not uri.endswith("/n-1") for uri, _ in near(memory, "item1 box1"))
    with opened(tmp_path, user="bob") as bob:
        assert near(bob, "item1 box1") == []


def test_nobody_waits_for_a_graph(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.remember_many(Note(f"item{n}", slug=f"n-{n}") for n in range(200))
        for _ in range(3):
            assert memory.recall("item7", patience=30.0).entries
        assert memory.status()["index"]["embedder"] == "hash/1"
        assert graphs(tmp_path) == []
        memory.catch_up()
        assert len(graphs(tmp_path)) == 1


@pytest.mark.spec("IDX-01")
def test_an_index_that_was_built_anew_has_its_vectors_and_its_graph(memory: Memory, tmp_path: Path) -> None:
    before, built = near(memory, "item7"), graphs(tmp_path)
    memory.reindex()
    assert memory.status()["index"]["embedder"] == "hash/1"
    assert near(memory, "item7", patience=0.0) == before
    assert len(graphs(tmp_path)) == 1
    assert graphs(tmp_path) != built


@pytest.mark.spec("IDX-01")
@pytest.mark.parametrize("kind", [".vectors", ".records", "head.json"])
def test_vectors_that_are_lost_are_made_again(memory: Memory, tmp_path: Path, kind: str) -> None:
    before = near(memory, "item7")
    [lost] = tmp_path.rglob(f"*{kind}")
    _truncate(lost)
    embedder = Counting()
    with opened(tmp_path, embedder) as again:
        again.catch_up()
        assert embedder.seen == 300
        assert near(again, "item7") == before
        assert [path.suffix for path in tmp_path.rglob("*.vectors")] == [".vectors"]


def test_vectors_of_what_is_gone_are_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MOST_GONE", 10)
    embedder = Counting()
    with opened(tmp_path, embedder) as memory:
        for n in range(40):
            memory.remember(f"item{n}", slug="same")
            memory.remember(f"thing{n % 2}", slug="other")
            memory.catch_up()
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.vectors")) <= 20 * _SIZE * 4
        assert near(memory, "item39")[0][0].endswith("/same")
        memory.catch_up()
        assert embedder.seen == 40 + 40 + 1  # and the question: none of those that are there a second time
