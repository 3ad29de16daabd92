"""Embedders: any can be plugged in, the index knows which one made it, and none of them can spoil an answer."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentm import CallableEmbedder, DeviceLocalBackend, EmbedderError, Memory, OpenAIEmbedder
from tests.index.conftest import tmp_path as tmp_path

pytestmark = pytest.mark.spec("IDX-03")

_MEANINGS = (("dog", "puppy", "flarn"), ("ship", "boat", "ferry", "gribble"), ("bread", "loaf"))


def meaning(texts: Sequence[str]) -> list[list[float]]:
    """What a model would know: which words mean nearly the same."""
    return [[float(any(word in text.casefold() for word in group)) for group in _MEANINGS] + [0.1] for text in texts]


def opened(path: Path, embedder: Any, user: str = "alice") -> Memory:
    return Memory.open(
        DeviceLocalBackend(path / "store"),
        account="acme",
        user=user,
        index_root=path / "index",
        install_prefix=path,
        embedder=embedder,
    )


def names(memory: Memory, query: str, **options: Any) -> list[str]:
    return [found.uri.rpartition("/")[2] for found in memory.recall(query, **{"patience": 30.0, **options})]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with opened(tmp_path, None) as memory:
        memory.remember("The puppy slept.", slug="pet", tags=["home"])
        memory.remember("A ferry left.", slug="sea")
        memory.remember("The loaf was warm.", slug="food")
    return tmp_path


def test_what_only_the_embedder_knows_is_found_and_said_why(path: Path) -> None:
    with opened(path, None) as memory:
        assert names(memory, "flarn") == []
    with opened(path, CallableEmbedder("toy/1", meaning)) as memory:
        found = memory.recall("flarn")
        assert found.entries[0].uri == memory.address("events/pet")
        assert found.entries[0].why["meaning"] > 0
        assert memory.status()["index"]["embedder"] == "toy/1"


def test_filters_and_spaces_hold_for_what_was_found_by_meaning(path: Path) -> None:
    with opened(path, CallableEmbedder("toy/1", meaning)) as memory:
        assert names(memory, "flarn", tag="home") == ["pet"]
        assert names(memory, "flarn", tag="work") == []
        assert names(memory, "flarn", category="cases") == []
        assert names(memory, "flarn", until="2020-01-01") == []


def test_what_changes_and_goes_changes_and_goes_here_too(path: Path) -> None:
    with opened(path, CallableEmbedder("toy/1", meaning)) as memory:
        assert names(memory, "flarn")[0] == "pet"
        memory.remember("The ship slept.", slug="pet")
        assert "pet" in names(memory, "boat")[:2]
        memory.forget("events/pet")
        assert "pet" not in names(memory, "boat")


def test_old_versions_and_others_memories_do_not_crowd_out_what_is_near(path: Path) -> None:
    embedder = CallableEmbedder("toy/1", meaning)
    with opened(path, embedder) as memory:
        for n in range(40):
            memory.remember(f"The dog came {n} times.", slug="often")
            memory.catch_up()
        memory.forget("events/often")
        with Memory.open(
            memory.fs.backend,
            account="acme",
            user="bob",
            index_root=path / "index",
            install_prefix=path,
            embedder=embedder,
        ) as bob:
            for n in range(20):
                bob.remember(f"A dog of Bob's, number {n}.", slug=f"dog-{n}")
            bob.catch_up()
        assert names(memory, "flarn", limit=1) == ["pet"]


class Counting:
    """An embedder that can be told to fail after so many texts."""

    def __init__(self, name: str, *, fails_after: int | None = None) -> None:
        self.name = name
        self.seen = 0
        self.fails_after = fails_after

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += len(texts)
        if self.fails_after is not None and self.seen > self.fails_after:
            raise RuntimeError("out of order")
        return meaning(texts)


def test_another_embedder_embeds_everything_anew_and_takes_over_when_it_is_done(path: Path) -> None:
    with opened(path, Counting("toy/1")) as memory:
        memory.catch_up()
    broken = Counting("toy/2", fails_after=0)
    with opened(path, broken) as memory:
        assert names(memory, "puppy")[0] == "pet"  # by its word
        assert memory.status()["index"]["embedder"] == "toy/1"
    mended = Counting("toy/2")
    with opened(path, mended) as memory:
        memory.catch_up()
        assert (mended.seen, memory.status()["index"]["embedder"]) == (3, "toy/2")
        assert names(memory, "flarn")[0] == "pet"
        [left] = (entry for entry in Path(memory.status()["index"]["directory"]).glob("vectors-*"))
        assert left.is_dir()


def test_nothing_is_embedded_twice(path: Path) -> None:
    embedder = Counting("toy/1")
    with opened(path, embedder) as memory:
        for _ in range(3):
            memory.catch_up()
        assert embedder.seen == 3
        memory.remember("One more loaf.", slug="more")
        memory.catch_up()
        assert embedder.seen == 4


@pytest.mark.parametrize("given", [[[1.0], [1.0, 2.0]], [], [1.0, 2.0, 3.0], None, "vectors"])
def test_an_embedder_that_gives_nonsense_spoils_no_answer(path: Path, given: Any) -> None:
    with opened(path, CallableEmbedder("odd/1", lambda texts: given)) as memory:
        assert names(memory, "puppy")[0] == "pet"
        assert memory.status()["index"]["embedder"] is None


def test_an_embedder_that_fails_at_the_question_spoils_no_answer(path: Path) -> None:
    embedder = Counting("toy/1", fails_after=3)
    with opened(path, embedder) as memory:
        memory.catch_up()
        assert names(memory, "puppy")[0] == "pet"
        assert embedder.seen == 4


def test_many_batches_give_what_one_would(path: Path) -> None:
    with opened(path, CallableEmbedder("toy/1", meaning)) as memory:
        for n in range(20):
            memory.remember(f"Boat {n}.", slug=f"boat-{n}")
            memory.catch_up()
        assert len(names(memory, "ferry", limit=30)) == 21 + 2  # those that mean nothing of the kind come last
        assert names(memory, "flarn")[0] == "pet"


class _Endpoint(BaseHTTPRequestHandler):
    key: str | None = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).key = self.headers.get("Authorization")
        data = [{"index": at, "embedding": row} for at, row in enumerate(meaning(asked["input"]))]
        body = json.dumps({"data": data[::-1]}).encode()
        self.send_response(200 if asked["model"] == "toy" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_asked_with_the_key_of_the_environment(
    path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not a real key")
    with opened(path, OpenAIEmbedder(endpoint, "toy")) as memory:
        assert names(memory, "flarn")[0] == "pet"
    assert _Endpoint.key == "Bearer not a real key"


def test_an_endpoint_that_is_not_there_is_named(path: Path, endpoint: str) -> None:
    with pytest.raises(EmbedderError):
        OpenAIEmbedder(endpoint, "other").embed(["x"])
    with pytest.raises(EmbedderError):
        OpenAIEmbedder("ftp://nowhere", "toy")
    with opened(path, OpenAIEmbedder("http://127.0.0.1:9/v1", "toy")) as memory:
        assert names(memory, "puppy")[0] == "pet"


class Slow:
    """An embedder that gives nothing before it is let go."""

    name = "slow/1"

    def __init__(self, *, asked_of: str = "") -> None:
        self.go = threading.Event()
        self.asked: list[Sequence[str]] = []
        self._only = asked_of

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(texts)
        if self._only in texts[0]:
            assert self.go.wait(60)
        return meaning(texts)


def test_a_question_does_not_wait_for_an_embedder_longer_than_its_patience(path: Path) -> None:
    embedder = Slow(asked_of="flarn")
    with opened(path, embedder) as memory:
        memory.catch_up()
        started = time.monotonic()
        found = memory.recall("flarn loaf", patience=0.25)
        took = time.monotonic() - started
        assert (found.entries[0].uri, found.complete) == (memory.address("events/food"), False)
        assert took < 20.0  # it would be sixty
        embedder.go.set()
        assert set(names(memory, "flarn loaf", limit=2)) == {"food", "pet"}
        assert sum("flarn loaf" in texts for texts in embedder.asked) == 1  # what it was asked for it gave, if late


def test_what_is_embedded_too_slowly_is_found_by_its_words_and_later_by_its_meaning(path: Path) -> None:
    embedder = Slow()
    with opened(path, embedder) as memory:
        for _ in range(3):
            found = memory.recall("loaf", patience=0.1)
            assert (found.entries[0].uri, found.complete) == (memory.address("events/food"), False)
        memory.remember("The loaf was cold.", slug="cold")
        assert set(names(memory, "loaf", patience=0.1)[:2]) == {"food", "cold"}
        embedder.go.set()
        assert names(memory, "flarn")[0] == "pet"
        assert len(embedder.asked) <= 4


def test_without_numpy_no_embedder_is_asked_and_what_is_missing_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Sequence[str]] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.append(texts)
        return meaning(texts)

    monkeypatch.setitem(sys.modules, "numpy", None)
    with opened(path, CallableEmbedder("toy/1", embed)) as memory:
        assert [names(memory, "loaf")[0] for _ in range(3)] == ["food"] * 3
    assert asked == []
    assert ["numpy" in record.getMessage() for record in caplog.records] == [True]


def test_vectors_that_belong_to_no_record_any_more_are_made_anew(path: Path) -> None:
    embedder = CallableEmbedder("toy/1", meaning)
    with opened(path, embedder) as memory:
        assert names(memory, "flarn")[0] == "pet"
    [records] = (path / "index").glob("*/acme/current/vectors-*/*.records")
    records.write_bytes(b"\xff" * records.stat().st_size)
    with opened(path, embedder) as memory:
        assert names(memory, "flarn")[0] == "pet"
