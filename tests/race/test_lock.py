"""The vault's lock: freed by death, lost by sleep, and not to be fooled through its file."""

from __future__ import annotations

import os
import time

import pytest

from agentm.seam import Locator
from tests.race.processes import Worker, note, place, store_with_note, workers
from tests.race.worker import open_store

pytestmark = pytest.mark.spec("SEAM-14")

NOTE = Locator("a/note")


def held(worker: Worker) -> Worker:
    worker.hear("holding")
    return worker


@pytest.mark.parametrize("point", ["sync_file", "exchange", "being_written", "sync_dir"])
def test_a_holder_that_is_killed_frees_the_lock_at_once(point: str) -> None:
    with place() as directory:
        backend = store_with_note("vault", directory)
        with workers(("stop", "vault", directory, point, "never finished")) as [holder]:
            held(holder).wait_until_stopped()
            holder.kill()
            begun = time.monotonic()
            backend.write(NOTE, "next")
            assert time.monotonic() - begun < 1
        assert note(directory) == "next"
        open_store("vault", directory)
        assert os.listdir(f"{directory}/root") == ["a"]


def stopped_past_its_time(directory: str, point: str, meanwhile: list[str]) -> str:
    """A holder is stopped at a point, others write, it wakes; returns what it says of its write."""
    impatient = {"LOCK_PATIENCE": "0.2"}
    with workers(("stop", "vault", directory, point, "the sleeper's"), **impatient) as [holder]:
        held(holder).wait_until_stopped()
        for text in meanwhile:
            with workers(("write-once", "vault", directory, text), **impatient) as [other]:
                other.hear("ready")
                other.tell("go")
                other.hear("done")
        holder.resume()
        return holder.hear_line()


@pytest.mark.parametrize(
    ("point", "meanwhile"),
    [
        pytest.param("sync_file", ["theirs"], id="before it had the lock"),
        pytest.param("exchange", ["theirs"], id="with the lock"),
        pytest.param("exchange", ["theirs", "old"], id="with the lock, and all looks as before"),
    ],
)
def test_who_slept_cannot_write_when_it_wakes(point: str, meanwhile: list[str]) -> None:
    with place() as directory:
        store_with_note("vault", directory)
        said = stopped_past_its_time(directory, point, meanwhile)
        assert said in ("refused LockLostError", "refused ConcurrentModificationError")
        assert note(directory) == meanwhile[-1]
        open_store("vault", directory)
        assert os.listdir(f"{directory}/root") == ["a"]
        assert os.listdir(f"{directory}/root/a") == ["note"]


@pytest.mark.parametrize("point", ["being_written", "sync_dir"])
def test_a_holder_that_slept_after_the_swap_does_not_undo_what_came_later(point: str) -> None:
    """Its text had been in place, and was read and replaced: whatever it says now, the later text stands."""
    with place() as directory:
        store_with_note("vault", directory)
        said = stopped_past_its_time(directory, point, ["theirs"])
        assert note(directory) == "theirs", said
        assert said.startswith(("refused", "written"))
        open_store("vault", directory)
        assert os.listdir(f"{directory}/root") == ["a"]


MEDDLING = {
    "opened and closed by the holder": "os.close(os.open(path, os.O_RDWR))",
    "touched": "os.utime(path)",
    "truncated": "os.truncate(path, 0)",
    "overwritten": "f = os.open(path, os.O_WRONLY); os.write(f, b'nonsense'); os.close(f)",
    "made unreadable": "os.chmod(path, 0)",
}
TAKING_AWAY = {
    "unlinked": "os.unlink(path)",
    "replaced": "os.close(os.open(path + '.new', os.O_CREAT | os.O_WRONLY)); os.replace(path + '.new', path)",
    "moved away": "os.rename(path, path + '.old')",
    "turned into a directory": "os.unlink(path); os.mkdir(path)",
}


@pytest.mark.parametrize("what", MEDDLING)
def test_a_lock_file_that_others_touch_still_excludes(what: str) -> None:
    with place() as directory:
        backend = store_with_note("vault", directory)
        with workers(("pause", "vault", directory, "exchange", " A")) as [holder]:
            held(holder).tell(MEDDLING[what])
            holder.hear("did")
            # Whoever only asks is told that somebody holds it.
            assert backend._mutex.try_hold() is None
            holder.tell("go")
            assert holder.hear_line() == "written"
        assert note(directory) == "old A"


@pytest.mark.parametrize("what", MEDDLING)
def test_no_update_is_lost_while_others_touch_the_lock_file(what: str) -> None:
    both_write(MEDDLING[what], both_succeed=True)


@pytest.mark.parametrize("what", ["unlinked", "replaced", "moved away"])
def test_no_update_is_lost_when_the_lock_file_is_taken_away(what: str) -> None:
    both_write(TAKING_AWAY[what], both_succeed=False)


def both_write(meddling: str, *, both_succeed: bool) -> None:
    """One holds the lock, its file is meddled with, another wants to write: every acknowledged text is there."""
    with place() as directory:
        store_with_note("vault", directory)
        with workers(
            ("pause", "vault", directory, "exchange", " A"), ("add", "vault", directory, " B"), LOCK_PATIENCE="60"
        ) as [holder, other]:
            held(holder).tell(meddling)
            holder.hear("did")
            other.hear("ready")
            other.tell("go")
            if not both_succeed:
                other.hear("done")  # there is another lock now, and it is free
            holder.tell("go")
            said = holder.hear_line()
            if both_succeed:
                other.hear("done")
        expected = "old A B" if both_succeed else "old B"
        assert (said.split()[0], note(directory)) == ("written" if both_succeed else "refused", expected)
        assert os.listdir(f"{directory}/root") == ["a"]


def test_a_directory_in_place_of_the_lock_is_an_error_and_not_a_way_in() -> None:
    from agentm.errors import AgentmError

    with place() as directory:
        backend = store_with_note("vault", directory)
        with workers(("pause", "vault", directory, "exchange", " A")) as [holder]:
            held(holder).tell(TAKING_AWAY["turned into a directory"])
            holder.hear("did")
            with pytest.raises(AgentmError) as caught:
                backend.write(NOTE, "through a directory")
            assert caught.value.code
            holder.tell("go")
            assert holder.hear_line().startswith("refused")
        assert note(directory) == "old"


@pytest.mark.parametrize("store", ["device-local", "vault"])
def test_a_start_leaves_the_temporaries_of_the_living_alone(store: str) -> None:
    with place() as directory:
        store_with_note(store, directory)
        with workers(("pause", store, directory, "sync_file", " A")) as [holder]:
            held(holder)
            temps = [name for name in os.listdir(f"{directory}/root") if name.startswith(".agentm")]
            assert len(temps) == 1
            for _ in range(3):
                backend = open_store(store, directory)
            assert [name for name in os.listdir(f"{directory}/root") if name.startswith(".agentm")] == temps
            assert [child.key for child in backend.list(Locator(""))] == ["a"]
            holder.tell("go")
            assert holder.hear_line() == "written"
        assert note(directory) == "old A"
        assert os.listdir(f"{directory}/root") == ["a"]


def killed(store: str, times: int) -> None:
    with place() as directory, workers(("dies", store, directory, str(times))) as [loop]:
        struck, kills = map(int, loop.hear("done", within=900).split())
    print(f"{store}: {struck} of {kills} kills in the middle of a write")
    assert kills >= times
    assert struck >= times // 10


@pytest.mark.slow
@pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14")
@pytest.mark.parametrize("store", ["device-local", "vault", "sqlite"])
def test_fifty_kills_leave_a_whole_store_and_nothing_else(store: str) -> None:
    killed(store, 50)


@pytest.mark.lab
@pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14")
@pytest.mark.parametrize("store", ["device-local", "vault", "sqlite"])
def test_a_thousand_kills_leave_a_whole_store_and_nothing_else(store: str) -> None:
    killed(store, 1000)
