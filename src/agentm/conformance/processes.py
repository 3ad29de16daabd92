"""The same store in several processes at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from agentm.conformance.expect import expect, same
from agentm.conformance.peers import Address, Job, Line, find_address, start
from agentm.conformance.trial import Trial
from agentm.seam import Append, Locator, StorageBackend, require, update

PROCESSES = 4
WRITES = 50
CHANGES = 25
REWRITES = 60


def survives_reopen(trial: Trial) -> str:
    note = trial.put("mine.md", "from this process\r\n")
    with start(find_address(trial), _read_and_write, note, trial.at("theirs/note.md")) as peer:
        same("what another process reads", peer.hear(), "from this process\r\n")
        expect(peer.hear(), "another process could not write")
    same("read of what another process wrote", trial.backend.read(trial.at("theirs/note.md")), "from another\n")
    same("list of what another process wrote", trial.keys("theirs"), ["theirs/note.md"])
    if trial.raw is not None:
        same("the store's bytes of it", trial.raw(trial.at("theirs/note.md")), b"from another\n")
    return _witness(trial)


def _read_and_write(address: Address, line: Line, mine: Locator, theirs: Locator) -> None:
    backend = address.open()
    line.say(backend.read(mine))
    backend.write(theirs, "from another\n")
    line.say(True)


def atomic_to_readers(trial: Trial) -> str:
    place, texts = trial.at("note.md"), ("short\n", "a long line of text\n" * 10_000)
    trial.backend.write(place, texts[0])
    reads = 0
    with start(find_address(trial), _rewrite, place, texts) as peer, ThreadPoolExecutor(1) as pool:
        peer.hear()
        peer.say("go")
        writer = pool.submit(peer.hear)
        while not writer.done() or not reads:
            got = trial.backend.read(place)
            reads += 1
            expect(got in texts, f"a reader saw {len(got)} characters of a text while another process rewrote it")
        same("the writing process", writer.result(), "done")
    return f"{reads} reads during {REWRITES} rewrites, each of them whole"


def _rewrite(address: Address, line: Line, place: Locator, texts: tuple[str, str]) -> None:
    backend = at_the_gate(address, line)
    for turn in range(REWRITES):
        backend.write(place, texts[turn % 2])
    line.say("done")


def concurrent_writes(trial: Trial) -> str:
    together(trial, _write_many, trial.scratch)
    wanted = sorted(f"shared/{who}-{number}.md" for who in range(PROCESSES) for number in range(WRITES))
    got = trial.keys("shared")
    same(f"keys that survive {PROCESSES} × {WRITES} writes", len(got), len(wanted))
    same("the keys", got, wanted)
    for key in wanted:
        text = f"text of {key}\n" * 20
        same(f"read of {key!r}", trial.backend.read(trial.at(key)), text)
        if trial.raw is not None:
            same(f"the store's bytes of {key!r}", trial.raw(trial.at(key)), text.encode())
    return f"{len(got)} of {len(wanted)} writes survive, {_witness(trial)}"


def _write_many(address: Address, line: Line, who: int, scratch: Locator) -> None:
    backend = at_the_gate(address, line)
    for number in range(WRITES):
        key = f"shared/{who}-{number}.md"
        backend.write(scratch.child(key), f"text of {key}\n" * 20)
    line.say("done")


def concurrent_increments(trial: Trial) -> str:
    together(trial, _increment, trial.at("counter"))
    same(f"{PROCESSES} × {CHANGES} increments", trial.backend.read(trial.at("counter")), str(PROCESSES * CHANGES))
    return f"{PROCESSES} × {CHANGES} increments, exact"


def _increment(address: Address, line: Line, _: int, place: Locator) -> None:
    backend = at_the_gate(address, line)
    for _ in range(CHANGES):
        update(backend, place, lambda text: str(int(text or "0") + 1), patience=60)
    line.say("done")


def concurrent_appends(trial: Trial) -> str:
    together(trial, _append, trial.at("log.md"))
    lines = trial.backend.read(trial.at("log.md")).splitlines(keepends=True)
    for who in range(PROCESSES):
        mine = [line for line in lines if line.startswith(f"{who}:")]
        same(f"lines of process {who}", mine, [_entry(who, number) for number in range(CHANGES)])
    same("lines in all", len(lines), PROCESSES * CHANGES)
    return f"{PROCESSES} × {CHANGES} lines, all whole"


def _append(address: Address, line: Line, who: int, place: Locator) -> None:
    store = require(at_the_gate(address, line), Append)
    for number in range(CHANGES):
        store.append(place, _entry(who, number))
    line.say("done")


def _entry(who: int, number: int) -> str:
    return f"{who}:{number} " + "x" * 200 + "\n"


def together(trial: Trial, job: Job, target: Locator) -> None:
    """Run a job in several processes that all begin at the same moment."""
    address = find_address(trial)
    with ExitStack() as stack:
        peers = [stack.enter_context(start(address, job, who, target)) for who in range(PROCESSES)]
        for peer in peers:
            peer.hear()
        for peer in peers:
            peer.say("go")
        for peer in peers:
            same("a writing process", peer.hear(), "done")


def at_the_gate(address: Address, line: Line) -> StorageBackend:
    """Open the store and wait until everybody has."""
    backend = address.open()
    line.say("ready")
    line.hear()
    return backend


def _witness(trial: Trial) -> str:
    return "confirmed by an oracle" if trial.raw else "no oracle: read through the backend alone"
