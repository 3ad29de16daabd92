"""A scope holds while a rival swaps what lies in it for links that lead out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentm import AgentmError, BoundaryError, FsStorage, ScopedStorage, ScopedStorageScope
from agentm.conformance.crashsim import scratch
from agentm.files import _way
from tests.conftest import missing
from tests.files.probes import LOOKS, Attempt, Escape, Probe, driven
from tests.files.rival import exchange

pytestmark = [
    pytest.mark.spec("FILES-03"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux swaps two names in one step"),
]

OUTSIDE = "outside"
_LAID_OUT = (
    *(("in/dir", "inside"), ("in/sub/deep", "inside"), ("in/top/deep", "inside")),
    *(("out/deep", OUTSIDE), ("out", OUTSIDE)),
)


@pytest.fixture
def base() -> Iterator[str]:
    """``in`` is the scope; whatever is swapped in it leads to ``out``, which has the same names and one more."""
    with scratch() as directory:
        base = os.path.realpath(directory)
        for folder, text in _LAID_OUT:
            os.makedirs(f"{base}/{folder}", exist_ok=True)
            for name in ("f", "victim"):
                Path(base, folder, name).write_text(text)
        Path(base, "in/file").write_text("inside")
        Path(base, "out/only").write_text(OUTSIDE)
        try:
            exchange(f"{base}/in/dir", f"{base}/in/sub")
            exchange(f"{base}/in/dir", f"{base}/in/sub")
        except (OSError, AttributeError) as cause:
            missing(f"two names cannot be swapped here: {cause}")
        yield base


@contextmanager
def rival(base: str) -> Iterator[Callable[[], int]]:
    """A rival at work; the call ends it and gives how often it swapped."""
    script = str(Path(__file__).with_name("rival.py"))
    process = subprocess.Popen([sys.executable, script, base], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"

        def ended() -> int:
            said, _ = process.communicate(timeout=60)
            return int(said)

        yield ended
    finally:
        process.kill()
        process.communicate()


def outside(base: str) -> dict[str, tuple[str, int]]:
    found = {}
    for folder, _, names in os.walk(f"{base}/out"):
        for name in names:
            path = os.path.join(folder, name)
            found[path] = Path(path).read_text(), os.stat(path).st_mtime_ns
        found[folder] = "", os.stat(folder).st_mtime_ns
    return found


def tries(base: str, count: int) -> Iterator[Probe]:
    """Every verb on what is swapped, and on what lies below it; as many writes as reads."""
    paths = [f"{base}/in/{name}" for name in ("dir", "sub", "sub/deep", "top/deep")]
    files = [*(f"{path}/{name}" for path in paths for name in ("f", "victim", "only")), f"{base}/in/file"]
    plain = [(verb, path) for verb in ("read", "exists", "mtime", "read") for path in files]
    plain += [(verb, path) for verb in ("list", "list_entries") for path in paths]
    plain += [(verb, path) for verb in ("write", "append", "write_atomic") for path in files if "only" not in path]
    plain += [("mkdir", f"{path}/made/deep") for path in paths]
    plain += [("remove", f"{path}/{name}") for path in paths for name in ("made/deep", "victim")]
    moves = [(f"{path}/{name}", f"{path}/moved") for path in paths for name in ("victim", "f")]
    moves += [(f"{paths[0]}/f", f"{paths[1]}/deep/moved")]
    every = [*(Probe(*one) for one in plain), *(Probe("rename", *one) for one in moves)]
    for number in range(count):
        yield every[number * 31 % len(every)]


def outcome(tried: Probe, attempt: Attempt) -> str:
    """What came of it; Escape if it was something from outside."""
    try:
        answer = attempt(tried)
    except BoundaryError:
        return "refused"
    except AgentmError:
        return "failed"
    if tried.verb == "read" and answer is not None and answer.startswith(OUTSIDE):
        raise Escape(f"{tried}: {answer!r}")
    if tried.path.endswith("/only") and tried.verb in LOOKS and answer:
        raise Escape(f"{tried}: {answer!r}")
    if tried.verb in ("list", "list_entries") and "only" in str(answer):
        raise Escape(f"{tried}: {answer!r}")
    return "missing" if answer in (None, False) and tried.verb in LOOKS else "served"


def held(base: str, count: int) -> None:
    before = outside(base)
    scope = ScopedStorageScope([f"{base}/in"], [f"{base}/in"])
    with rival(base) as ended, driven(ScopedStorage(FsStorage(), scope)) as attempt:
        came = Counter(outcome(tried, attempt) for tried in tries(base, count))
        swaps = ended()
    assert outside(base) == before
    assert swaps > count / 50, "the rival slept"
    assert came["refused"] > count / 100, "no link was ever met"
    assert came["served"] > count / 100, "no folder was ever met"
    print(f"\n{count:,} tries, {swaps:,} swaps: {dict(came)}, nothing got out")


@pytest.fixture(params=["one call", "name by name"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own way to stay below a folder, and ours for systems that have none."""
    if request.param == "name by name":
        monkeypatch.setattr(_way, "_kernel_call", lambda: None)


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_nothing_gets_out_while_a_rival_swaps(base: str) -> None:
    held(base, 3_000)


@pytest.mark.lab
@pytest.mark.usefixtures("way")
def test_nothing_gets_out_of_100_000_tries(base: str) -> None:
    held(base, 100_000)


class Careless:
    """Finds out where a path leads, and then opens it: the two looks that a rival comes between."""

    def __init__(self, base: str) -> None:
        self._base = base

    async def read(self, path: str) -> str | None:
        try:
            if os.path.realpath(path).startswith(f"{self._base}/in/"):
                return Path(path).read_text()
        except OSError:
            return None
        raise BoundaryError("read", path)


@pytest.mark.slow
def test_a_look_before_opening_does_not_hold(base: str) -> None:
    paths = [f"{base}/in/{name}" for name in ("dir/f", "top/deep/f", "file")]

    def attack() -> None:
        for number in range(300_000):
            outcome(Probe("read", paths[number % 3]), attempt)

    with rival(base), driven(Careless(base)) as attempt, pytest.raises(Escape):
        attack()
