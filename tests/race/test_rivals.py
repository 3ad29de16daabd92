"""A rival who ignores the lock hammers a file of the vault while agentm changes it: neither loses a text.

Every version of either side carries a mark of its own. Agentm adds its mark to whatever it read. The rival writes its
mark alone, but archives exactly what it wrote over. So each mark is in the file, in a kept conflict copy or in
the rival's archive, unless agentm destroyed a text that it had not read.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import IO

import pytest

from agentm.backends import _durable
from agentm.errors import ConcurrentModificationError
from agentm.seam import Locator
from tests.race.processes import Worker, note, place, store_with_note, workers
from tests.race.worker import open_store

pytestmark = pytest.mark.spec("SEAM-14")

WAYS = ("replace", "in-place", "remove")

# open(2) finds a file a moment before it counts as one of its writers. A rival who is halted between the two cannot be
# seen by anybody, and writes into a file that has been replaced meanwhile: about one in a million when hammering.
UNAVOIDABLE = {"in-place": 1 / 20_000}


def fight(directory: str, how: str, seconds: float) -> tuple[set[str], set[str], int]:
    """Two agentms against one rival for a while: the rival's marks, those that were acknowledged, and the refusals."""
    sides = [("gather", "vault", directory, "a"), ("gather", "vault", directory, "b"), ("rival", directory, how)]
    written: set[str] = set()
    refused = 0
    with workers(*sides) as (*agentms, rival):
        for worker in (*agentms, rival):
            worker.hear("ready")
            worker.tell("go")
        threading.Event().wait(seconds)  # how long the fight lasts; nothing waits for it to be over
        rival.tell("stop")
        serials = int(rival.hear("done"))
        for agentm in agentms:
            agentm.tell("stop")
            count, *marks = agentm.hear("done").split()
            refused += int(count)
            written.update(marks)
    return {f"r{n}" for n in range(1, serials + 1)}, written, refused


def marks_in(path: str) -> set[str]:
    with open(path, encoding="utf-8") as file:
        return set(file.read().split())


def assert_nothing_lost(how: str, seconds: float) -> None:
    with place() as directory:
        store_with_note("vault", directory, "")
        of_rival, of_agentm, refused = fight(directory, how, seconds)
        open_store("vault", directory)  # a start clears up, and must not clear away
        assert not [name for name in os.listdir(f"{directory}/root") if name.startswith(".agentm")]
        kept = marks_in(f"{directory}/archive")
        for name in os.listdir(f"{directory}/root/a"):
            kept |= marks_in(f"{directory}/root/a/{name}")
        print(f"{how}: {len(of_rival)} rival versions, {len(of_agentm)} writes, {refused} refused")
        lost = of_rival - kept
        assert len(lost) <= UNAVOIDABLE.get(how, 0) * len(of_rival), f"{len(lost)} of {len(of_rival)} versions lost"
        assert not of_agentm - kept, f"{len(of_agentm - kept)} of {len(of_agentm)} acknowledged writes lost"
        # It was a fight, and not two monologues.
        assert len(of_rival) > 200
        assert len(of_agentm) > 20
        assert refused > 20


@pytest.mark.slow
@pytest.mark.parametrize("how", WAYS)
def test_no_version_is_lost(how: str) -> None:
    assert_nothing_lost(how, 3)


@pytest.mark.lab
@pytest.mark.parametrize("how", WAYS)
def test_no_version_is_lost_in_a_long_fight(how: str) -> None:
    assert_nothing_lost(how, 30)


# The same at chosen moments of one write: the rival comes just before a step, or between two.


def rival_replaces(directory: str) -> None:
    with open(f"{directory}/rivals", "w", encoding="utf-8") as file:
        file.write("the rival's")
    os.replace(f"{directory}/rivals", f"{directory}/root/a/note")


def rival_writes_in_place(directory: str) -> None:
    with open(f"{directory}/root/a/note", "w", encoding="utf-8") as file:
        file.write("the rival's")


def held_at(started: list[Worker]) -> Worker:
    [holder] = started
    holder.hear("holding")
    return holder


@pytest.mark.parametrize("rival", [rival_replaces, rival_writes_in_place])
def test_a_rival_just_before_the_swap_wins(rival: object) -> None:
    assert callable(rival)
    with place() as directory:
        store_with_note("vault", directory)
        with workers(("pause", "vault", directory, "exchange", " ours")) as started:
            holder = held_at(started)
            rival(directory)
            holder.tell("go")
            assert holder.hear_line() == "refused ConcurrentModificationError"
        assert note(directory) == "the rival's"
        assert os.listdir(f"{directory}/root") == ["a"]


def test_a_rival_who_has_the_file_open_is_noticed() -> None:
    """Opened before the swap, written to after it: its bytes would go into a file that is about to vanish."""
    with place() as directory:
        store_with_note("vault", directory)
        with (
            workers(("pause", "vault", directory, "exchange", " ours")) as started,
            open(f"{directory}/root/a/note", "r+", encoding="utf-8") as rival,
        ):
            holder = held_at(started)
            holder.tell("go")
            assert holder.hear_line() == "refused ConcurrentModificationError"
            rival.write("the rival's")
            rival.truncate()
        assert note(directory) == "the rival's"


@pytest.mark.parametrize("rival", [rival_replaces, rival_writes_in_place])
def test_a_rival_just_after_the_swap_is_a_later_version(rival: object) -> None:
    """Agentm's text stood there, the rival wrote over it: that is the rival's right, and its text stays."""
    assert callable(rival)
    with place() as directory:
        store_with_note("vault", directory)
        with workers(("pause", "vault", directory, "being_written", " ours")) as started:
            holder = held_at(started)
            assert note(directory) == "old ours"
            rival(directory)
            holder.tell("go")
            holder.hear_line()
        assert note(directory) == "the rival's"
        assert os.listdir(f"{directory}/root") == ["a"]


def test_a_rival_who_opened_our_text_before_it_was_taken_back_keeps_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One rival makes the swap fail; while our text stands there for a moment, another opens it, and writes later."""
    with place() as directory, ExitStack() as files:
        backend = store_with_note("vault", directory)
        version = backend.read_versioned(Locator("a/note")).version
        real, opened = _durable.exchange, list[IO[str]]()

        def exchange(first: str, second: str) -> bool:
            if note(directory) == "old":
                rival_replaces(directory)
            elif not opened:
                opened.append(files.enter_context(open(f"{directory}/root/a/note", "r+", encoding="utf-8")))
            return real(first, second)

        monkeypatch.setattr(_durable, "exchange", exchange)
        with pytest.raises(ConcurrentModificationError):
            backend.write_versioned(Locator("a/note"), "ours", if_version=version)
        [second] = opened
        second.truncate(0)
        second.write("the second rival's")
        second.close()
        open_store("vault", directory)
        kept = {read(directory, name) for name in os.listdir(f"{directory}/root/a")}
        assert kept == {"the rival's", "the second rival's"}


def read(directory: str, name: str) -> str:
    with open(f"{directory}/root/a/{name}", encoding="utf-8") as file:
        return file.read()
