"""What can be checked of the flags that describe a store."""

from __future__ import annotations

from agentm.conformance.expect import Skipped, expect, same
from agentm.conformance.trial import Trial, snapshot
from agentm.seam import ROOT


def conflict_files(trial: Trial) -> str:
    strategy = trial.backend.conflict_strategy
    expect(
        isinstance(strategy, str) and strategy not in ("", "none"),
        f"conflict copies may appear, but conflict_strategy is {strategy!r}; it must name what is done about them",
    )
    # A conflict copy arrives as just another file: it stays, and the text it competes with is not touched.
    texts = {"note.md": "mine\n", "note (conflicted copy 2024-05-01).md": "theirs\n"}
    for key, text in texts.items():
        trial.put(key, text)
    same("a file and its conflict copy", snapshot(trial.backend, trial.scratch), texts)
    return f"strategy {strategy!r}"


def encryption(trial: Trial) -> None:
    if trial.oracle is None:
        raise Skipped("no oracle can see the raw bytes; pass oracle= to have them searched")
    secret = "the quick brown secret jumps over the lazy store\n" * 50
    place = trial.put("secret.md", secret)
    same("read of an encrypted text", trial.backend.read(place), secret)
    raw = trial.oracle(trial.backend, place)
    expect(raw, "the oracle finds no bytes for a text that was written")
    for needle in (secret[:24], "lazy store"):
        expect(needle.encode() not in (raw or b""), f"the raw bytes in the store hold the plain text {needle!r}")


def sync(trial: Trial) -> str:
    entries = getattr(trial.oracle, "entries", None)
    if entries is None:
        raise Skipped("no oracle can list what lies in the replicated tree; pass one that has entries()")
    before = set(entries(trial.backend, ROOT))
    for turn in ("first", "second"):
        for key in ("note.md", "sub/other.md"):
            trial.put(key, f"{turn}\n")
        trial.backend.list(trial.scratch)
    # Locks, temporary files and databases would be replicated half-written.
    same("what came into the tree", set(entries(trial.backend, ROOT)) - before, {trial.scratch.parts[0]})
    same("what lies in the tree", list(entries(trial.backend, trial.scratch)), ["note.md", "sub"])
    same("what lies in a subdirectory", list(entries(trial.backend, trial.at("sub"))), ["other.md"])
    return "nothing but the texts lies in the replicated tree"
