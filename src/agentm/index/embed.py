"""Embedders: what turns a text into a vector. None is needed; any can be plugged in.

The words of a text, and their neighbours in meaning, are searched without one. An embedder adds what only a model
knows, at its price: its vectors are kept with the index, which knows by its name which embedder made them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Protocol

from agentm.errors import EmbedderError

Vector = Sequence[float]


class Embedder(Protocol):
    @property
    def name(self) -> str:
        """Who made a vector: another model, or another version of it, MUST have another name."""

    def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """A vector for each text, all of one length. May raise; what is not embedded is found by its words."""


class Asked:
    """An embedder, asked by those who may not have the time to wait for it: it goes on, in a thread of its own.

    It is asked one thing at a time. Who asks for the same again gets what was made of it meanwhile.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._question: _Question | None = None

    def embed(self, texts: Sequence[str], deadline: float | None) -> Sequence[Vector] | None:
        """A vector for each text; None if that takes longer than up to the deadline."""
        before = self._question
        if before is not None and not before.ended_by(deadline):
            return None
        if before is None or before.texts != texts:
            if deadline is None:
                return self._embedder.embed(texts)
            self._question = before = _Question(self._embedder, texts)
            if not before.ended_by(deadline):
                return None
        self._question = None
        return before.answer()


class _Question:
    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        self.texts = texts
        self._embedder = embedder
        self._vectors: Sequence[Vector] = ()
        self._error: Exception | None = None
        # A process that ends does not wait for it.
        self._thread = Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._vectors = self._embedder.embed(self.texts)
        except Exception as error:  # raised where it was asked
            self._error = error

    def ended_by(self, deadline: float | None) -> bool:
        self._thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def answer(self) -> Sequence[Vector]:
        if self._error is not None:
            raise self._error
        return self._vectors


class CallableEmbedder:
    """Any function from texts to vectors."""

    def __init__(self, name: str, embed: Callable[[Sequence[str]], Sequence[Vector]]) -> None:
        self.name = name
        self.embed = embed


class SentenceTransformerEmbedder:
    """A model of the package sentence-transformers, loaded when it is first used."""

    def __init__(self, model: str) -> None:
        self.name = f"sentence-transformers:{model}"
        self._model_name = model
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if self._model is None:
            try:
                from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found, unused-ignore]
            except ImportError as cause:
                raise EmbedderError(
                    "the package sentence-transformers is not installed; type: pip install sentence-transformers.",
                    code="missing_extra",
                ) from cause
            self._model = SentenceTransformer(self._model_name)
        found: Sequence[Vector] = self._model.encode(list(texts))
        return found


class OpenAIEmbedder:
    """Any endpoint that speaks the embeddings protocol of OpenAI, on this machine or elsewhere.

    The key is read from an environment variable when it is used, and is never kept.
    """

    def __init__(self, url: str, model: str, *, key_variable: str = "OPENAI_API_KEY", timeout: float = 30.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise EmbedderError(f"{url!r} is no http address; give one such as http://127.0.0.1:8080/v1.")
        self.name = f"openai:{model}"
        self._url = f"{url.rstrip('/')}/embeddings"
        self._model = model
        self._key_variable = key_variable
        self._timeout = timeout

    def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        from urllib.request import Request, urlopen  # more than all the rest of this module costs

        body = json.dumps({"model": self._model, "input": list(texts)}).encode()
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self._key_variable):
            headers["Authorization"] = f"Bearer {key}"
        try:
            with urlopen(Request(self._url, body, headers), timeout=self._timeout) as answer:
                data = json.load(answer)["data"]
            return [one["embedding"] for one in sorted(data, key=lambda one: one["index"])]
        except (OSError, ValueError, KeyError, TypeError) as cause:
            raise EmbedderError(f"{self._url} gave no vectors ({cause}); check that it runs.") from cause
