"""Damages copies of an index at random places and asks each: in a process of its own, which damage could end.

Prints each case before it is tried, and after it what was wrong with the answer, if something was.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agentm import CallableEmbedder, DeviceLocalBackend, Memory

EXPECTED = {"tea", "pot", "far"}


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """Whatever is said, as a direction."""
    return [[1.0, float(text.count("e")), float(text.count("o"))] for text in texts]


def opened(path: Path, *, embedding: bool) -> Memory:
    return Memory.open(
        DeviceLocalBackend(path / "store"),
        account="acme",
        user="alice",
        index_root=path / "index",
        install_prefix=path / "home",
        embedder=CallableEmbedder("toy/1", vectors) if embedding else None,
    )


def made(path: Path) -> None:
    """A small store with an index of several segments, one of which has lost something."""
    with opened(path, embedding=True) as memory:
        memory.remember("Ada drinks green tea.", slug="tea", tags=["drinks"], wait=True)
        memory.remember("Nothing of the kind.", slug="gone", wait=True)
        memory.remember("A pot of tea for Bea, every day at noon.", slug="pot", wait=True)
        memory.remember("Tea comes from far away. " + "Ships carry it. " * 200, slug="far", wait=True)
        memory.forget("events/gone")
        memory.catch_up()
        assert answer(path, embedding=False) == answer(path, embedding=True) == (EXPECTED, True)


def answer(path: Path, *, embedding: bool) -> tuple[set[str], bool]:
    with opened(path, embedding=embedding) as memory:
        found = memory.recall("tea", patience=30.0, budget=100_000)
        return {one.uri.rpartition("/")[2] for one in found}, found.complete


def damage(path: Path, chance: random.Random) -> str:
    """Harm one file of the index; says what was done."""
    [current] = (path / "index").glob("*/acme/current")
    files = sorted(one for one in current.rglob("*") if one.is_file() and one.stat().st_size)
    chosen = chance.choice(files)
    data = bytearray(chosen.read_bytes())
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([1, 4, 64, 4096]))
    how = chance.choice(["random", "zeros", "ones", "cut"])
    if how == "cut":
        del data[start:]
    else:
        filling = {"random": chance.randbytes(end - start), "zeros": bytes(end - start)}
        data[start:end] = filling.get(how, b"\xff" * (end - start))
    chosen.write_bytes(data)
    return f"{chosen.relative_to(current)} {how} {start}..{end}"


def tried(path: Path, *, embedding: bool) -> str:
    """What is wrong with the answers of a damaged index; nothing, if all is well."""
    for turn in ("first", "second"):
        try:
            found, complete = answer(path, embedding=embedding)
        except BaseException as error:
            return f"{turn}: {type(error).__name__}: {error}"
        if found != EXPECTED and (complete or turn == "second"):
            return f"{turn}: {sorted(found)}, complete: {complete}"
    return ""


def main(path: Path, seed: int, count: int) -> None:
    whole = path / "whole"
    made(whole)
    chance = random.Random(seed)
    for number in range(count):
        case = path / "case"
        shutil.copytree(whole, case)
        _move_index(whole, case)
        done = damage(case, chance)
        print(f"case {number}: {done}", flush=True)
        # Else what the words do not find is found by its vector.
        if wrong := tried(case, embedding=done.startswith("vectors")):
            print(f"WRONG {wrong}", flush=True)
        shutil.rmtree(case)


def _move_index(whole: Path, case: Path) -> None:
    """The index of a store is named after where that lies."""
    from agentm.open import index_directory

    old, new = (
        Path(index_directory(DeviceLocalBackend(one / "store"), "acme", None, case / "index") or "")
        for one in (whole, case)
    )
    os.rename(old.parent, new.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
