"""write_many where something goes wrong on the way: every text is whole old or new, the error says what it is about."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from agentm.backends import _batch, _durable
from agentm.errors import ConcurrentModificationError, LockLostError, OutcomeUnknownError, StoreError
from agentm.seam import Locator
from tests.crash.stores import OURS, STORES, seen_plainly
from tests.crash.test_limits import fill, mounted

pytestmark = pytest.mark.spec("SEAM-06", "SEAM-09", "SEAM-13", "SEAM-14")

COUNT = 20
OLD = {f"d{n % 3}/{n}": f"old {n}" for n in range(COUNT)}
NEW = {f"d{n % 3}/{n}": f"new {n} " * 50 for n in range(COUNT)}


@pytest.fixture(autouse=True)
def flushed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batch, "SMALLEST_BATCH", 3)  # as many as there are folders


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backend(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store with the old texts; whatever a test does to it, it stays whole, and no descriptor is lost."""
    base = str(tmp_path_factory.mktemp("many"))
    made = STORES[store](f"{base}/root", f"{base}/locks")
    put(made, OLD)
    before = descriptors()
    yield made
    assert descriptors() == before
    assert not left_over(made)
    found = seen_plainly(f"{base}/root").files
    assert all(found[key] in (OLD[key], NEW[key]) for key in OLD), found


def put(backend: Any, texts: dict[str, str]) -> None:
    backend.write_many([(Locator(key), text) for key, text in texts.items()])


def texts(backend: Any) -> dict[str, str]:
    return {key: text for key, text in seen_plainly(backend.root).files.items() if key in OLD}


def left_over(backend: Any) -> list[str]:
    return [name for _, _, names in os.walk(backend.root) for name in names if name.startswith(OURS)]


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()


def failing(monkeypatch: pytest.MonkeyPatch, name: str, *, at: int, error: BaseException) -> list[int]:
    """Have the n-th call of a function of the durable-write module fail; returns the calls it got."""
    real, calls = getattr(_durable, name), list[int]()

    def call(*arguments: Any) -> Any:
        calls.append(len(calls) + 1)
        if calls[-1] == at:
            raise error
        return real(*arguments)

    monkeypatch.setattr(_durable, name, call)
    return calls


def eio() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


def test_shared_flushes_are_what_is_tested_here(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = failing(monkeypatch, "sync_file_system", at=0, error=eio())
    put(backend, NEW)
    assert texts(backend) == NEW
    assert flushes == [1, 2]


def test_a_first_flush_that_fails_is_followed_by_single_writes(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells of any file of the whole system, not just of ours; ours are written anew, each with its own flush."""
    flushes = failing(monkeypatch, "sync_file_system", at=1, error=eio())
    singly = failing(monkeypatch, "sync_file", at=0, error=eio())
    put(backend, NEW)
    assert texts(backend) == NEW
    assert (flushes, len(singly)) == ([1], COUNT)


def test_a_disk_that_fails_for_single_writes_too_fails_with_a_code(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "sync_file_system", at=1, error=eio())
    failing(monkeypatch, "sync_file", at=3, error=eio())
    with pytest.raises(StoreError) as raised:
        put(backend, NEW)
    assert (raised.value.code, raised.value.locator) == ("io_error", list(NEW)[2])
    assert texts(backend) == {**OLD, **dict(list(NEW.items())[:2])}


def test_a_second_flush_that_fails_leaves_the_outcome_unknown(
    store: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(tmp_path_factory.mktemp("many"))
    backend = STORES[store](f"{base}/root", f"{base}/locks")
    put(backend, OLD)
    flushes = failing(monkeypatch, "sync_file_system", at=2, error=eio())
    with pytest.raises(OutcomeUnknownError) as raised:
        put(backend, NEW)
    assert (raised.value.errno, raised.value.verb) == (errno.EIO, "write")
    assert raised.value.locator in NEW
    assert flushes == [1, 2]
    assert texts(backend) == NEW
    # What was displaced is kept until somebody knows: the next start clears it.
    STORES[store](f"{base}/root", f"{base}/locks")
    assert not left_over(backend)
    assert texts(backend) == NEW


@pytest.mark.parametrize("at", [1, COUNT // 2, COUNT])
def test_a_place_that_cannot_be_taken_is_tried_alone(backend: Any, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    flushes = failing(monkeypatch, "sync_file_system", at=0, error=eio())
    moves = failing(monkeypatch, "replace", at=at, error=OSError(errno.EXDEV, os.strerror(errno.EXDEV)))
    put(backend, NEW)
    assert texts(backend) == NEW
    assert len(flushes) == (1 if at == 1 else 2)  # those that were in place already are flushed
    assert len(moves) > COUNT


@pytest.mark.parametrize(
    ("point", "at"),
    [("replace", 1), ("replace", COUNT // 2), ("replace", COUNT), ("sync_file_system", 1), ("sync_file_system", 2)],
)
def test_ctrl_c_leaves_whole_texts_and_nothing_else(
    backend: Any, monkeypatch: pytest.MonkeyPatch, point: str, at: int
) -> None:
    failing(monkeypatch, point, at=at, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        put(backend, NEW)
    if (point, at) == ("sync_file_system", 1):
        assert texts(backend) == OLD
    if (point, at) == ("sync_file_system", 2):
        # What was displaced is kept until the new texts are known to be durable: the next start clears it.
        STORES[backend.protocol](backend.root, f"{os.path.dirname(backend.root)}/locks")


def test_signals_that_interrupt_everything(backend: Any) -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        for _ in range(5):
            put(backend, NEW)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert texts(backend) == NEW
    assert rung


@pytest.mark.parametrize("more", range(15))
def test_few_descriptors_mean_single_writes_or_an_error_with_a_code(backend: Any, more: int) -> None:
    with only_descriptors(more):
        if more < 2:
            with pytest.raises(StoreError) as raised:
                put(backend, NEW)
            assert (raised.value.code, raised.value.locator) == ("too_many_open_files", next(iter(NEW)))
            return
        if more >= 7:
            put(backend, NEW)
            assert texts(backend) == NEW
            return
        with suppress(StoreError):
            put(backend, NEW)


@contextmanager
def only_descriptors(more: int) -> Iterator[None]:
    """Leave this process so many descriptors and none besides."""
    import ctypes  # noqa: F401 - it is loaded on first use, which takes descriptors of its own

    top = max(map(int, descriptors())) + 1
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < top:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("_FIRST_LINUX", (999, 0)),
        ("_FILE_SYSTEMS", {}),
    ],
)
def test_where_the_system_keeps_no_promise_each_text_is_flushed_alone(
    backend: Any, monkeypatch: pytest.MonkeyPatch, what: str, value: object
) -> None:
    monkeypatch.setattr(_batch, what, value)
    flushes = failing(monkeypatch, "sync_file_system", at=0, error=eio())
    singly = failing(monkeypatch, "sync_file", at=0, error=eio())
    put(backend, NEW)
    assert texts(backend) == NEW
    assert (flushes, len(singly)) == ([], COUNT)


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.1.0-13-amd64", (6, 1)), ("5.17", (5, 17)), ("4.18.0-553.el8", (4, 18)), ("6.12-rc1", (6, 121)), ("odd", (0,))],
)
def test_versions_of_linux(release: str, version: tuple[int, ...]) -> None:
    assert _batch._version(release) == version


def test_a_full_disk(store: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = str(tmp_path_factory.mktemp("full"))
    with mounted(f"{base}/root", "size=400k"):
        backend: Any = STORES[store](f"{base}/root", f"{base}/locks")
        put(backend, OLD)
        fill(f"{base}/root/ballast", 4096)
        before = descriptors()
        big = {key: f"{key} " * 2_000 for key in OLD}
        with pytest.raises(StoreError) as raised:
            put(backend, big)
        assert raised.value.code == "no_space"
        assert raised.value.locator in big
        assert all(text in (OLD[key], big[key]) for key, text in texts(backend).items())
        assert not left_over(backend)
        assert descriptors() == before
        os.unlink(f"{base}/root/ballast")
        put(backend, big)
        assert texts(backend) == big


def test_another_file_system_below_the_root(store: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = str(tmp_path_factory.mktemp("mounted"))
    backend: Any = STORES[store](f"{base}/root", f"{base}/locks")
    with mounted(f"{base}/root/d1", "size=1m"):
        assert os.stat(f"{base}/root/d1").st_dev != os.stat(f"{base}/root").st_dev
        for some in (OLD, NEW):
            put(backend, some)
            assert texts(backend) == some
            assert not left_over(backend)


# Others who write at the same time.


def test_a_rival_keeps_its_text_and_is_named(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(tmp_path_factory.mktemp("rival"))
    backend: Any = STORES["vault"](f"{base}/root", f"{base}/locks")
    put(backend, OLD)
    real, keys = _durable.exchange, list(OLD)

    def exchange(first: str, second: str) -> bool:
        if second.endswith(f"/{keys[10]}"):
            with open(f"{base}/rival", "w", encoding="utf-8") as file:
                file.write("the rival's")
            os.replace(f"{base}/rival", second)
            monkeypatch.setattr(_durable, "exchange", real)
        return real(first, second)

    monkeypatch.setattr(_durable, "exchange", exchange)
    with pytest.raises(ConcurrentModificationError) as raised:
        put(backend, NEW)
    assert (raised.value.locator, raised.value.verb) == (keys[10], "write")
    landed = {**OLD, **{key: NEW[key] for key in keys[:10]}, keys[10]: "the rival's"}
    assert seen_plainly(f"{base}/root").files == landed
    assert not left_over(backend)


def test_a_vault_whose_lock_was_taken_away_writes_no_more(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(tmp_path_factory.mktemp("robbed"))
    backend: Any = STORES["vault"](f"{base}/root", f"{base}/locks")
    put(backend, OLD)
    real, keys = _durable.exchange, list(OLD)

    def exchange(first: str, second: str) -> bool:
        if second.endswith(f"/{keys[10]}"):
            os.unlink(backend._mutex.path)
            monkeypatch.setattr(_durable, "exchange", real)
        return real(first, second)

    monkeypatch.setattr(_durable, "exchange", exchange)
    with pytest.raises(LockLostError) as raised:
        put(backend, NEW)
    assert raised.value.locator == keys[10]
    assert texts(backend) == {**OLD, **{key: NEW[key] for key in keys[:10]}}
    assert not left_over(backend)


def test_a_directory_that_is_gone_by_then_is_made_again(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _durable.sync_file_system

    def flush(fd: int) -> None:
        real(fd)
        if os.path.isdir(f"{backend.root}/fresh"):
            os.rmdir(f"{backend.root}/fresh")

    monkeypatch.setattr(_durable, "sync_file_system", flush)
    backend.write_many([*((Locator(key), text) for key, text in NEW.items()), (Locator("fresh/note"), "x")])
    assert seen_plainly(backend.root).files == {**NEW, "fresh/note": "x"}
