"""Embedders: what turns a text into a vector. None is needed; any can be plugged in.

The words of a text, and their neighbours in meaning, are searched without one. An embedder adds what only a model
knows, at its price: its vectors are kept with the index, which knows by its name which embedder made them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentm.errors import EmbedderError

Vector = Sequence[float]


class Embedder(Protocol):
    @property
    def name(self) -> str:
        """Who made a vector: another model, or another version of it, MUST have another name."""

    def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """A vector for each text, all of one length. May raise; what is not embedded is found by its words."""


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
