"""What users would pick instead of agentm, each in a process of its own and behind the same few verbs.

    python bench/peers.py NAME DIRECTORY

Requests come in and answers go out as JSON, one a line; `bench/recall.py` asks. Everybody gets the same embedder handed
in (wordllama's static vectors, 256 numbers a text, no network). `bench/peers.txt` says what to install; what cannot be
imported says so instead of answering.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Protocol, TextIO
from uuid import UUID

DIMENSIONS = 256
CHUNK = 1_000
TOP = 10
ASKED = 50
"""Queries that are asked at least."""
OFFLINE = {
    "ANONYMIZED_TELEMETRY": "False",
    "MEM0_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "RUST_LOG": "error",
}
"""Nobody is to call home, or to spend the time that is measured on warnings."""


class Peer(Protocol):
    kind: str
    """What it searches by: words, vectors, or hybrid."""
    about: str

    def add(self, first: int, texts: Sequence[str]) -> None:
        """Take in many, numbered from ``first`` on, the quickest way there is."""

    def settle(self) -> None:
        """After the last of many: what a user would do before the first search."""

    def write(self, number: int, text: str) -> None:
        """Take in one, as an agent does."""

    def search(self, query: str) -> list[int]:
        """The numbers of the best, best first."""


class Embedder:
    """wordllama, from the weights that come with the package."""

    def __init__(self) -> None:
        package = import_module("wordllama")
        # It would look for its files on the network, were the folder that it came in not named as its cache.
        folder = Path(str(package.__file__)).parent
        self._model = package.WordLlama.load(cache_dir=folder, disable_download=True)

    def __call__(self, texts: Sequence[str]) -> Any:
        """One row of numbers for each text."""
        return self._model.embed(list(texts), norm=True)


class Chroma:
    kind, about = "vectors", "PersistentClient, HNSW"

    def __init__(self, directory: str) -> None:
        chroma = import_module("chromadb")
        self._embed = Embedder()
        settings = chroma.Settings(anonymized_telemetry=False)
        client = chroma.PersistentClient(path=directory, settings=settings)
        self._notes = client.create_collection("notes", embedding_function=None, metadata={"hnsw:space": "cosine"})

    def add(self, first: int, texts: Sequence[str]) -> None:
        ids = [str(first + at) for at in range(len(texts))]
        self._notes.add(ids=ids, documents=list(texts), embeddings=self._embed(texts))

    def settle(self) -> None:
        """It indexes by itself."""

    def write(self, number: int, text: str) -> None:
        self.add(number, [text])

    def search(self, query: str) -> list[int]:
        found = self._notes.query(query_embeddings=self._embed([query]), n_results=TOP)
        return [int(one) for one in found["ids"][0]]


class LangGraph:
    kind, about = "vectors", "SqliteStore with an index, sqlite-vec"
    _SPACE = ("alice", "memories")

    def __init__(self, directory: str) -> None:
        self._base = import_module("langgraph.store.base")
        store = import_module("langgraph.store.sqlite").SqliteStore
        embed = Embedder()
        path = os.path.join(directory, "store.db")
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        if not hasattr(connection, "enable_load_extension"):
            raise ImportError("this Python's sqlite3 cannot load extensions, which sqlite-vec needs")
        index = {"dims": DIMENSIONS, "embed": lambda texts: embed(texts).tolist(), "fields": ["text"]}
        self._store = store(connection, index=index)
        self._store.setup()

    def add(self, first: int, texts: Sequence[str]) -> None:
        put = self._base.PutOp
        self._store.batch([put(self._SPACE, str(first + at), {"text": text}) for at, text in enumerate(texts)])

    def settle(self) -> None:
        """Every vector is looked at by every search."""

    def write(self, number: int, text: str) -> None:
        self._store.put(self._SPACE, str(number), {"text": text})

    def search(self, query: str) -> list[int]:
        return [int(one.key) for one in self._store.search(self._SPACE, query=query, limit=TOP)]


class Mem0:
    kind, about = "vectors", "infer=False, local qdrant; many are put into its vector store directly"

    def __init__(self, directory: str) -> None:
        os.environ["MEM0_DIR"] = directory
        embed = Embedder()
        unused = {"api_key": "unused"}  # it wants one, and nobody is called
        config = {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": os.path.join(directory, "qdrant"),
                    "embedding_model_dims": DIMENSIONS,
                    "on_disk": True,
                },
            },
            "embedder": {"provider": "openai", "config": unused},
            "llm": {"provider": "openai", "config": unused},
            "history_db_path": os.path.join(directory, "history.db"),
        }
        self._memory = import_module("mem0").Memory.from_config(config)
        self._memory.embedding_model = _Handed(embed)
        self._embed = embed

    def add(self, first: int, texts: Sequence[str]) -> None:
        ids = [str(UUID(int=first + at)) for at in range(len(texts))]
        payloads = [{"data": text, "user_id": "alice", "number": first + at} for at, text in enumerate(texts)]
        self._memory.vector_store.insert(vectors=self._embed(texts).tolist(), payloads=payloads, ids=ids)

    def settle(self) -> None:
        """Every vector is looked at by every search."""

    def write(self, number: int, text: str) -> None:
        self._memory.add(text, user_id="alice", infer=False, metadata={"number": number})

    def search(self, query: str) -> list[int]:
        found = self._memory.search(query, filters={"user_id": "alice"}, top_k=TOP)
        return [one["metadata"]["number"] for one in found["results"]]


class _Handed:
    """The embedder, as mem0 calls one."""

    def __init__(self, embed: Embedder) -> None:
        self._embed = embed

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        vector: list[float] = self._embed([text])[0].tolist()
        return vector

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        vectors: list[list[float]] = self._embed(texts).tolist()
        return vectors


class LanceDB:
    kind, about = "hybrid", "full text and every vector"
    _approximate = False

    def __init__(self, directory: str) -> None:
        lance, self._arrow = import_module("lancedb"), import_module("pyarrow")
        self._rank = import_module("lancedb.rerankers").RRFReranker()
        self._embed = Embedder()
        arrow = self._arrow
        vector = arrow.list_(arrow.float32(), DIMENSIONS)
        schema = arrow.schema([("number", arrow.int64()), ("text", arrow.string()), ("vector", vector)])
        self._table = lance.connect(directory).create_table("notes", schema=schema)

    def add(self, first: int, texts: Sequence[str]) -> None:
        vectors = self._embed(texts)
        self._table.add([{"number": first + at, "text": text, "vector": vectors[at]} for at, text in enumerate(texts)])

    def settle(self) -> None:
        self._table.optimize()
        self._table.create_fts_index("text", replace=True)
        if self._approximate:
            self._table.create_index(metric="cosine")

    def write(self, number: int, text: str) -> None:
        self.add(number, [text])

    def search(self, query: str) -> list[int]:
        asked = self._table.search(query_type="hybrid", vector_column_name="vector")
        found = asked.vector(self._embed([query])[0]).text(query).rerank(self._rank).limit(TOP)
        return [one["number"] for one in found.select(["number"]).to_list()]


class LanceDBIndexed(LanceDB):
    about = "full text and an IVF-PQ index"
    _approximate = True


class Grep:
    """A folder of notes and a search through all of them, those with the most matches first."""

    kind = "words"

    def __init__(self, directory: str) -> None:
        self._folder = os.path.join(directory, "notes")
        os.makedirs(self._folder)
        beside = os.path.join(os.path.dirname(sys.executable), "rg")
        self._tool = shutil.which("rg") or (beside if os.access(beside, os.X_OK) else None)
        self.about = "ripgrep, most matches first" if self._tool else "grep -r (no ripgrep), most matches first"

    def add(self, first: int, texts: Sequence[str]) -> None:
        for at, text in enumerate(texts):
            with open(os.path.join(self._folder, f"{first + at}.md"), "w", encoding="utf-8") as file:
                file.write(text)

    def settle(self) -> None:
        """There is no index."""

    def write(self, number: int, text: str) -> None:
        """As durable as the others: whole, and on the disk."""
        path = os.path.join(self._folder, f"{number}.md")
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def search(self, query: str) -> list[int]:
        words = [part for word in query.split() for part in ("-e", word)]
        # grep counts lines, and a note of one line has one: what it says of several words it says by printing them.
        command = (
            [self._tool, "--no-config", "-i", "-F", "-o", "-H", "--no-heading", "--no-line-number"]
            if self._tool
            else ["grep", "-r", "-i", "-F", "-o", "-H"]
        )
        done = subprocess.run([*command, *words, self._folder], capture_output=True, text=True, check=False)
        met: dict[str, set[str]] = {}
        for line in done.stdout.splitlines():
            path, _, word = line.rpartition(":")
            met.setdefault(path, set()).add(word.lower())
        best = sorted(met, key=lambda path: (-len(met[path]), path))[:TOP]
        return [int(os.path.basename(path).removesuffix(".md")) for path in best]


PEERS: dict[str, tuple[Callable[[str], Peer], str | None]] = {
    "Chroma": (Chroma, "chromadb"),
    "LangGraph": (LangGraph, "langgraph-checkpoint-sqlite"),
    "mem0": (Mem0, "mem0ai"),
    "LanceDB": (LanceDB, "lancedb"),
    "LanceDB, indexed": (LanceDBIndexed, "lancedb"),
    "ripgrep": (Grep, None),
}
"""By name: how it is opened, and the package that it is."""


class Session:
    """One peer, asked line by line."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._held = 0

    def build(self, path: str, count: int, seconds: float) -> dict[str, Any]:
        """Take in ``count`` lines of a file of JSON strings, or as many as the time allows."""
        started = time.perf_counter()
        with open(path, encoding="utf-8") as file:
            while self._held < count and time.perf_counter() - started < seconds:
                texts = [json.loads(file.readline()) for _ in range(min(CHUNK, count - self._held))]
                self._peer.add(self._held, texts)
                self._held += len(texts)
        self._peer.settle()
        return {"seconds": time.perf_counter() - started, "held": self._held}

    def write(self, texts: Sequence[str], first: int) -> dict[str, Any]:
        started = time.perf_counter()
        for at, text in enumerate(texts):
            self._peer.write(first + at, text)
        return {"seconds": time.perf_counter() - started}

    def search(self, queries: Sequence[str], rounds: int, seconds: float) -> dict[str, Any]:
        """Each query once, and then round by round against the clock; who is slow is asked less."""
        deadline = time.perf_counter() + seconds
        found: list[list[int]] = []
        times: list[float] = []
        for query in queries:
            if len(found) >= ASKED and time.perf_counter() > deadline:
                break
            found.append(self._peer.search(query))
        deadline = time.perf_counter() + seconds
        for at in range(rounds * len(queries)):
            if len(times) >= ASKED // 2 and time.perf_counter() > deadline:
                break
            started = time.perf_counter()
            self._peer.search(queries[at % len(queries)])
            times.append(time.perf_counter() - started)
        return {"times": times, "found": found}


def serve(name: str, directory: str, requests: TextIO, answers: TextIO) -> None:
    """Say who it is, or why it is not there; then answer until nobody asks any more."""

    def answer(what: dict[str, Any]) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    opened, package = PEERS[name]
    os.environ.update(OFFLINE)
    try:
        version = metadata.version(package) if package else ""
        peer = opened(directory)
    except ImportError as cause:
        answer({"missing": str(cause)})
        return
    answer({"kind": peer.kind, "about": f"{version} {peer.about}".strip()})
    session = Session(peer)
    for line in requests:
        request = json.loads(line)
        verb: Callable[..., dict[str, Any]] = getattr(session, request.pop("verb"))
        try:
            answer(verb(**request))
        except Exception as cause:  # what a peer cannot do is a row that says so
            answer({"failed": f"{type(cause).__name__}: {cause}"[:200]})


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in PEERS:
        names = ", ".join(f'"{name}"' for name in PEERS)
        print(f"usage: peers.py NAME DIRECTORY, NAME one of {names}; bench/recall.py runs it.")
        return 0
    # What a peer prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.argv[2], sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
