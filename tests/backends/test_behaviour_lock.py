"""One behaviour for all built-in stores: locks on places."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from agentm import AgentmError, Lock, LockTimeoutError, VaultBackend, require
from agentm.backends import _locks
from agentm.backends._mutex import Mutex, lock_directory
from tests.backends.stores import at, make_store, tree

pytestmark = pytest.mark.spec("SEAM-09")

A_MOMENT, LONG = 0.1, 30.0
FILES = ("device-local", "vault", "sqlite")
"""Stores that several instances, and several processes, can open."""


def lock(backend, *keys):
    return require(backend, Lock).lock(*map(at, keys))


class Asker:
    """Somebody in another thread who asks for locks and, once in, stays until told to leave."""

    def __init__(self, backend, *keys) -> None:
        self.leave = threading.Event()
        self._got = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._asked = self._pool.submit(self._ask, backend, keys)

    def _ask(self, backend, keys) -> None:
        with lock(backend, *keys):
            self._got.set()
            self.leave.wait(LONG)

    def is_in(self, patience: float) -> bool:
        return self._got.wait(patience)

    def finish(self) -> None:
        self.leave.set()
        self._asked.result(LONG)
        self._pool.shutdown()


@contextmanager
def holding(backend, *keys) -> Iterator[tuple[ExitStack, Callable[..., Asker]]]:
    """The lock, with a stack that gives it back, and a maker of askers, who are waited for when it is given back."""
    askers: list[Asker] = []

    def ask(*asked, by=backend) -> Asker:
        askers.append(Asker(by, *asked))
        return askers[-1]

    with ExitStack() as stack:
        stack.enter_context(lock(backend, *keys))
        try:
            yield stack, ask
        finally:
            stack.close()
            for asker in askers:
                asker.finish()


def is_free(backend, *keys) -> bool:
    asker = Asker(backend, *keys)
    try:
        return asker.is_in(LONG)
    finally:
        asker.finish()


def test_one_holder_at_a_time(backend):
    with ExitStack() as stack:
        held = stack.enter_context(lock(backend, "a/note"))
        assert held.ours()
        asker = Asker(backend, "a/note")
        assert not asker.is_in(A_MOMENT)
        assert held.ours()
        stack.close()
        assert not held.ours()
        assert asker.is_in(LONG)
        asker.finish()


@pytest.mark.parametrize("asked", [("b", "a"), ("a", "x"), ("x", "b", "y")])
def test_one_common_place_keeps_out(backend, asked):
    with holding(backend, "a", "b") as (end, ask):
        asker = ask(*asked)
        assert not asker.is_in(A_MOMENT)
        end.close()
        assert asker.is_in(LONG)


def test_other_places_are_free(backend):
    with holding(backend, "a") as (_, ask):
        askers = [ask(f"a/{n}") for n in range(6)]
        # Two places may share a lock, but not many.
        deadline = time.monotonic() + LONG
        while sum(asker.is_in(0) for asker in askers) < 4:
            assert time.monotonic() < deadline


def test_verbs_do_not_wait(backend):
    def verbs() -> dict[str, str | None]:
        backend.write(at("a/note"), "written")
        backend.write_many([(at(f"a/{n}"), "x") for n in range(10)])
        backend.append(at("a/note"), " twice")
        backend.rename(at("a/note"), at("a/moved"))
        for n in range(10):
            backend.remove(at(f"a/{n}"))
        return tree(backend)

    with lock(backend, "a/note", "a", "a/moved"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(verbs).result(LONG) == {"a": None, "a/moved": "written twice"}


def test_an_error_in_the_block_goes_through_and_gives_the_lock_back(backend):
    with pytest.raises(LookupError, match="mine"), lock(backend, "a"):
        raise LookupError("mine")
    assert is_free(backend, "a")


def test_ctrl_c_while_waiting_leaves_nothing_held(backend):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    other = Asker(backend, "b")
    try:
        assert other.is_in(LONG)
        signal.setitimer(signal.ITIMER_REAL, A_MOMENT)
        with pytest.raises(KeyboardInterrupt), lock(backend, "a", "b", "c"):
            pytest.fail("two holders at once")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        other.finish()
    assert is_free(backend, "a", "b", "c")


@pytest.mark.parametrize("keys", [(), ("",), ("absent/place",), ("a", "a"), ("half \ud83d",), ("x" * 300,)])
def test_any_place_can_be_locked_and_none_is_made(backend, keys):
    with lock(backend, *keys) as held:
        assert held.ours()
    assert is_free(backend, *keys)
    assert tree(backend) == {}
    if hasattr(backend, "root"):
        assert os.listdir(backend.root) == []


def test_a_thousand_places_need_few_descriptors(backend):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("there is no /proc to count descriptors in")
    before = len(os.listdir("/proc/self/fd"))
    with holding(backend, *(f"node {n}" for n in range(1000))) as (end, ask):
        assert len(os.listdir("/proc/self/fd")) - before < 400
        asker = ask("node 7")
        assert not asker.is_in(A_MOMENT)
        end.close()
        assert asker.is_in(LONG)
    assert len(os.listdir("/proc/self/fd")) == before


def test_turns_are_taken(backend):
    backend.write(at("counter"), "0")

    def count() -> None:
        for _ in range(15):
            with lock(backend, "counter"):
                backend.write(at("counter"), str(int(backend.read(at("counter"))) + 1))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(count) for _ in range(4)]:
            done.result(LONG)
    assert backend.read(at("counter")) == "60"


def test_any_order_comes_to_an_end(backend):
    def ask(*keys: str) -> None:
        for _ in range(20):
            with lock(backend, *keys):
                pass

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(ask, *keys) for keys in ("abcd", "dcba", "cadb")]:
            done.result(LONG)


@pytest.mark.parametrize("protocol", FILES)
class TestSharedStores:
    def test_instances_of_one_store_exclude_each_other(self, backend, protocol, tmp_path):
        with holding(backend, "a") as (end, ask):
            asker = ask("a", by=make_store(protocol, str(tmp_path)))
            assert not asker.is_in(A_MOMENT)
            end.close()
            assert asker.is_in(LONG)

    def test_a_store_that_is_reached_through_a_link_is_the_same(self, backend, protocol, tmp_path):
        os.symlink(tmp_path, f"{tmp_path}-linked")
        with holding(backend, "a") as (_, ask):
            assert not ask("a", by=make_store(protocol, f"{tmp_path}-linked")).is_in(A_MOMENT)

    def test_another_store_has_other_locks(self, backend, protocol, tmp_path_factory):
        with lock(backend, "a"):
            assert is_free(make_store(protocol, str(tmp_path_factory.mktemp("other"))), "a")

    @pytest.mark.parametrize("how", ["by Python", "behind its back"])
    def test_a_forked_process_does_not_hold_what_its_parent_holds(self, backend, how):
        with holding(backend, "a") as (end, ask), forked(how) as child:
            assert child() == b"1"  # while its parent still holds it
            asker = ask("a")
            assert not asker.is_in(A_MOMENT)
            end.close()
            assert asker.is_in(LONG)  # though the child lives on

    def test_a_lock_does_not_outlive_its_holder_in_a_forked_process(self, backend):
        """The holder dies, its child lives on."""
        inlet, outlet = os.pipe()
        holder = os.fork()
        if not holder:
            hold_and_fork(backend, outlet)
        os.close(outlet)
        said = os.read(inlet, 32) if select.select([inlet], [], [], LONG)[0] else b""
        os.close(inlet)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        assert said, "the child does not say that it has no lock"
        try:
            begun = time.monotonic()
            assert is_free(backend, "a")
            assert time.monotonic() - begun < 1
        finally:
            os.kill(int(said), signal.SIGKILL)

    def test_a_place_for_locks_that_cannot_be_used_is_an_error_with_a_code(self, protocol, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        backend = make_store(protocol, str(tmp_path))
        if protocol == "vault":
            backend = VaultBackend(backend.root, lock_root=tmp_path / "file" / "locks")
        with pytest.raises(OSError, match=f"^{protocol} could not lock 'a/b': ") as raised, lock(backend, "a/b"):
            pytest.fail("it has no lock")
        error = raised.value
        assert isinstance(error, AgentmError)
        assert (error.code, error.backend, error.verb, error.locator) == ("lock_unavailable", protocol, "lock", "a/b")

    def test_a_lock_that_cannot_be_had_is_an_error_in_the_end(self, backend, protocol, monkeypatch):
        monkeypatch.setattr(Mutex, "_take_over", lambda mutex, holder: None)
        monkeypatch.setattr(_locks, "Mutex", lambda path, patience: Mutex(path, patience=0.01))
        with lock(backend, "a/b") as held:
            with pytest.raises(LockTimeoutError) as raised, lock(backend, "a/b"):
                pytest.fail("two holders at once")
            assert held.ours()
        error = raised.value
        assert (error.code, error.backend, error.verb, error.locator) == ("lock_timeout", protocol, "lock", "a/b")
        assert str(os.getpid()) in str(error)
        assert str(error).endswith(".")


@contextmanager
def forked(how: str) -> Iterator[Callable[[], bytes]]:
    """A child that lives until the block ends and does nothing; its answer tells that it runs.

    One that is made behind Python's back, as a C library may do, inherits every descriptor and knows nothing of it.
    """
    inlet, outlet = os.pipe()
    child = os.fork() if how == "by Python" else ctypes.PyDLL(None).fork()
    if not child:
        os.write(outlet, b"1")
        while True:
            signal.pause()
    try:
        yield lambda: os.read(inlet, 1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(inlet)
        os.close(outlet)


def hold_and_fork(backend, outlet: int) -> None:
    """In a process of its own: hold a lock, have a child, and wait for the end."""
    with suppress(BaseException), lock(backend, "a") as held:
        child = os.fork()
        if not child and not held.ours():
            os.write(outlet, str(os.getpid()).encode())
        while True:
            signal.pause()
    os._exit(1)


@pytest.mark.parametrize("how", ["by Python", "behind its back"])
def test_a_forked_process_does_not_keep_the_lock_of_a_directory(tmp_path, how):
    with ExitStack() as stack:
        with lock_directory(str(tmp_path)):
            stack.enter_context(forked(how))
        begun = time.monotonic()
        with lock_directory(str(tmp_path)):
            assert time.monotonic() - begun < 1


# A holder that does not look, while others wait, loses the lock; one that looks keeps it.


class Impatient(VaultBackend):
    lock_patience = 0.2


@pytest.fixture
def impatient(tmp_path) -> Impatient:
    return Impatient(tmp_path / "vault", lock_root=tmp_path / "locks")


def test_a_slow_holder_that_looks_keeps_its_lock(impatient):
    with ExitStack() as stack:
        held = stack.enter_context(lock(impatient, "a"))
        asker = Asker(impatient, "a")
        until = time.monotonic() + 5 * impatient.lock_patience
        while time.monotonic() < until:
            assert held.ours()
            assert not asker.is_in(0.02)
        stack.close()
        assert asker.is_in(LONG)
        asker.finish()


def test_one_that_does_not_look_loses_it(impatient):
    with lock(impatient, "a") as held:
        asker = Asker(impatient, "a")
        assert asker.is_in(LONG)
        assert not held.ours()
        third = Asker(impatient, "a")
        asker.finish()
        assert third.is_in(LONG)
        third.finish()
    assert is_free(impatient, "a")


def test_a_lock_that_was_lost_while_waiting_for_another_is_asked_for_again(impatient):
    by_stripe = {_locks._stripe(at(key)): key for key in "abcdef"}
    first, second = (by_stripe[stripe] for stripe in sorted(by_stripe)[:2])
    with ExitStack() as stack:
        held = stack.enter_context(lock(impatient, second))
        both = Asker(impatient, first, second)  # has the first, and waits for the second
        rival = Asker(impatient, first)  # takes the first away from one who only waits
        while not rival.is_in(0.02):
            assert held.ours()
        stack.close()  # now there is the second to be had, but the first is gone
        assert not both.is_in(A_MOMENT)
        rival.finish()
        assert both.is_in(LONG)
        both.finish()
