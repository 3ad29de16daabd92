"""Running `one_write.py` under strace, with a fault at one chosen system call of the write."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import agentm
from agentm.seam import Locator, StorageBackend
from tests.crash.one_write import END, START, open_store
from tests.crash.stores import OURS, Tree, seen_plainly, seen_through

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))

OLD, NEW = "the old text\r\n", "the new text, longer than the old one\n"

ERRORS = {
    "openat": ("EMFILE", "EACCES", "EIO", "ENOSPC", "EROFS", "EDQUOT"),
    "write": ("ENOSPC", "EIO", "EDQUOT", "EFBIG"),
    "pwrite64": ("ENOSPC", "EIO", "EDQUOT"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT"),
    "fdatasync": ("EIO", "ENOSPC", "EDQUOT"),
    "flock": ("ENOLCK", "EIO"),
    "fcntl": ("EIO", "EINVAL", "ENOLCK"),
    "rename": ("EIO", "ENOSPC", "EROFS", "EPERM", "EDQUOT"),
    "renameat2": ("EIO", "ENOSPC", "EROFS", "EPERM", "EINVAL", "ENOSYS"),
    "mkdir": ("ENOSPC", "EROFS", "EDQUOT", "EIO"),
    "unlink": ("EIO", "EROFS", "EPERM"),
    "fchmod": ("EPERM", "EIO"),
    "ftruncate": ("EIO",),
    "close": ("EIO", "ENOSPC"),
    "newfstatat": ("EIO", "EACCES"),
    "fstat": ("EIO",),
    "lstat": ("EIO", "EACCES"),
    "stat": ("EIO", "EACCES"),
    "lseek": ("EIO",),
    "read": ("EIO",),
    "pread64": ("EIO",),
}
"""System call → what it may fail with, the most telling first."""

MUST_FAIL = {"write", "fsync", "fdatasync", "rename", "mkdir"}
"""If one of these fails, the write was not done (or not for certain) and must say so."""


@dataclass(frozen=True)
class Call:
    """One system call of the write: its name, which one of that name it is, and its text in the log."""

    name: str
    number: int
    text: str


@dataclass(frozen=True)
class Fault:
    call: Call
    how: str
    """`error=EIO` or `signal=KILL`."""

    def __str__(self) -> str:
        return f"{self.how} at {self.call.text}"


@dataclass
class Outcome:
    result: dict[str, object] | None
    """What the process said; None if it died."""
    log: list[str] = field(default_factory=list)
    fired: bool = False

    @property
    def ok(self) -> bool:
        return self.result is not None and bool(self.result["ok"])


@dataclass
class Lab:
    """A store with an old text in it, in a directory of its own."""

    store: str
    key: str
    base: str

    @property
    def root(self) -> str:
        return f"{self.base}/root"

    @property
    def locks(self) -> str:
        return f"{self.base}/locks"

    def open(self) -> StorageBackend:
        return open_store(self.store, self.root, self.locks)

    def command(self, *options: str) -> list[str]:
        script = os.path.join(HERE, "one_write.py")
        return [sys.executable, "-S", script, self.store, self.root, self.locks, self.key, NEW, *options]

    def strace(self, *filters: str, again: bool = True) -> Outcome:
        log = f"{self.base}/log"
        tracer = ["strace", "-f", "-y", "-qq", "-s", "0", "-o", log, "-e", "trace=file,desc", *filters]
        done = subprocess.run(
            [*tracer, *self.command(*["--again"] * again)],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=120,
        )
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [re.sub(r"^\d+ +", "", line.rstrip("\n")) for line in file]
        result = json.loads(done.stdout) if done.stdout else None
        if result is None and done.returncode not in (-9, 137):
            raise AssertionError(f"the child ended with {done.returncode}: {done.stderr}")
        return Outcome(result, window(lines))


def environment() -> dict[str, str]:
    return {"PYTHONPATH": SOURCE, "PYTHONHASHSEED": "0", "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}


def window(lines: list[str]) -> list[str]:
    """The lines of the write itself."""
    start = next((n + 1 for n, line in enumerate(lines) if START in line), len(lines))
    end = next((n for n, line in enumerate(lines) if END in line), len(lines))
    return lines[start:end]


@contextmanager
def lab(store: str, scenario: str) -> Iterator[Lab]:
    """`overwrite` replaces an old text; `deep` writes into directories that are not there yet."""
    base = tempfile.mkdtemp(prefix="agentm-lab-")
    made = Lab(store, "a/note" if scenario == "overwrite" else "b/c/note", base)
    try:
        os.mkdir(made.root)
        backend = made.open()
        backend.write(Locator("a/note"), OLD)
        close = getattr(backend, "close", None)
        if close:
            close()
        yield made
    finally:
        shutil.rmtree(base)


@functools.cache
def calls_of_a_write(store: str, scenario: str) -> tuple[Call, ...]:
    """Every system call of one undisturbed write that can be made to fail, numbered from the process's start."""
    with lab(store, scenario) as made:
        subprocess.run(made.command(), check=True, capture_output=True, env=environment())  # compiles what it imports
    with lab(store, scenario) as made:
        log = f"{made.base}/log"
        assert made.strace().ok
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [re.sub(r"^\d+ +", "", line.rstrip("\n")) for line in file]
    seen: Counter[str] = Counter()
    calls = []
    inside = False
    for line in lines:
        name = line.partition("(")[0]
        seen[name] += 1
        if START in line or END in line:
            inside = START in line
        elif inside and name in ERRORS:
            calls.append(Call(name, seen[name], shortened(line)))
    return tuple(calls)


def shortened(line: str) -> str:
    """A line of the log without directories and random names."""
    return re.sub(rf"({re.escape(OURS)})[^\"> ]*(\.\w+)", r"\1*\2", re.sub(r"([\"<])[^\"> ]*/", r"\1", line))


def strike(made: Lab, fault: Fault) -> Outcome:
    """One write with one fault in it; the fault is known to have hit the write, and that call."""
    # An injected close is not carried out, so whatever it would have let go (a lock) stays held, which is no fault of
    # ours: then the process is not asked to write again.
    again = fault.call.name != "close"
    outcome = made.strace("-e", f"inject={fault.call.name}:{fault.how}:when={fault.call.number}", again=again)
    if fault.how.startswith("error="):
        outcome.fired = any(line.startswith(f"{fault.call.name}(") and "(INJECTED)" in line for line in outcome.log)
    else:
        outcome.fired = outcome.result is None and any(
            line.startswith(f"{fault.call.name}(") for line in outcome.log[-3:]
        )
    return outcome


def judge(made: Lab, fault: Fault, outcome: Outcome) -> list[str]:
    """Everything that is wrong after the fault; an empty list if all holds."""
    wrong = [] if outcome.fired else ["the fault did not fire in the write"]
    wrong += judge_report(made, fault, outcome)
    plain = None if made.store == "sqlite" else seen_plainly(made.root)
    backend = made.open()
    found = seen_through(backend)
    wrong += judge_tree(made, outcome, found)
    if plain is not None:
        wrong += [] if plain == found else [f"before the next start it was {plain}"]
        wrong += left_over(made)
    backend.write(Locator(made.key), "next")
    if backend.read(Locator(made.key)) != "next":
        wrong.append("the next write did not work")
    return wrong + left_over(made)


def left_over(made: Lab) -> list[str]:
    # SQLite clears a journal that was never finished only when it needs the name again, at the next write.
    left = [name for name in os.listdir(made.root) if name.startswith(OURS) or name.endswith(("-journal", "-wal"))]
    return [f"left after the next start: {left}"] if left else []


def sqlite_decides(made: Lab, fault: Fault) -> bool:
    """SQLite ignores it when the directory of a new journal cannot be flushed; no setting changes that.

    It also flushes a database again whose flush failed, but only after it has written the old pages back.
    """
    return made.store == "sqlite" and "<root>" in fault.call.text


def judge_report(made: Lab, fault: Fault, outcome: Outcome) -> list[str]:
    result, wrong = outcome.result, []
    if fault.how == "signal=KILL":
        return [] if result is None else ["it outlived the kill"]
    if result is None:
        return ["the process died of an error"]
    if not result["ok"] and not result["code"]:
        wrong.append(f"an untyped error: {result['kind']}: {result['message']}")
    if result["ok"] and fault.call.name in MUST_FAIL and not sqlite_decides(made, fault):
        wrong.append("acknowledged all the same")
    if made.store != "sqlite" and synced_again(outcome.log):
        wrong.append("the descriptor was flushed a second time after its error")
    again = result.get("again", {"ok": True})
    if again != {"ok": True}:
        wrong.append(f"the next write of the same process failed: {again}")
    return wrong


def judge_tree(made: Lab, outcome: Outcome, found: Tree) -> list[str]:
    files = {key: text for key, text in found.files.items() if key not in ("again", "warm")}
    before = {"a/note": OLD}
    after = {**before, made.key: NEW}
    if outcome.ok:
        allowed = [after]
    elif outcome.result is None or outcome.result["code"] == "outcome_unknown":
        allowed = [before, after]
    else:
        allowed = [before]
    if files in allowed:
        return []
    said = "it was killed" if outcome.result is None else f"it said {outcome.result.get('code', 'ok')}"
    held = {str(before): "the old text", str(after): "the new text"}.get(str(files), str(files))
    return [f"{said}, and there is {held}"]


def synced_again(log: list[str]) -> bool:
    """Whether an fsync came again on a descriptor whose fsync had failed, before the descriptor was closed."""
    bad: set[str] = set()
    for line in log:
        found = re.match(r"(fsync|fdatasync|close)\((\d+)", line)
        if not found:
            continue
        name, fd = found.groups()
        if name == "close":
            bad.discard(fd)
        elif fd in bad:
            return True
        elif "(INJECTED)" in line:
            bad.add(fd)
    return False


def faults(store: str, scenario: str, *, errors: int | None) -> list[Fault]:
    """A kill at every call of the write, and the first few errors each call may have."""
    found = []
    for call in calls_of_a_write(store, scenario):
        found += [Fault(call, f"error={name}") for name in ERRORS[call.name][:errors]]
        found.append(Fault(call, "signal=KILL"))
    return found
