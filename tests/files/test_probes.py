"""No path leads out of a scope, and no refusal tells more than another."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentm import (
    BoundaryError,
    DeviceLocalBackend,
    FsStorage,
    InMemoryStorage,
    Locator,
    ScopedBackend,
    ScopedStorage,
    ScopedStorageScope,
)
from agentm.conformance.crashsim import scratch
from agentm.files import _way
from tests.files.probes import (
    ENDINGS,
    NAMES,
    SLASHES,
    VERBS,
    Escape,
    Probe,
    Tally,
    World,
    attack_disk,
    attack_memory,
    attack_store,
    driven,
    expected,
    judged,
    probe,
    probes_in,
    safe,
    world_on,
)
from tests.files.storages import run

pytestmark = pytest.mark.spec("FILES-03", "FILES-04")

Attack = Callable[[str, int, int], Tally]

ATTACKS: dict[str, Attack] = {
    "files": attack_disk,
    "files, name by name": attack_disk,
    "in memory": lambda directory, seed, count: attack_memory(seed, count),
    "files of a store": partial(attack_store, as_files=True),
    "a store": partial(attack_store, as_files=False),
}
FULL = {
    "files": 500_000,
    "files, name by name": 100_000,
    "in memory": 200_000,
    "files of a store": 100_000,
    "a store": 100_000,
}
PIECES = 20  # so that two cores share the work


@pytest.fixture
def directory() -> Iterator[str]:
    with scratch() as made:
        yield made


def attacked(name: str, directory: str, seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> Tally:
    if name.endswith("name by name"):
        monkeypatch.setattr(_way, "_kernel_call", lambda: None)
    before = os.listdir("/dev/fd")
    tally = ATTACKS[name](directory, seed, count)
    assert len(os.listdir("/dev/fd")) <= len(before), "a descriptor was left open"
    assert tally.refused > count / 4, "a scope that refuses little was not attacked"
    assert tally.served > count / 40, "a scope that serves nothing is no use"
    return tally


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_no_probe_gets_out(name: str, directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attacked(name, directory, 5, 1_200, monkeypatch)


@pytest.mark.lab
@pytest.mark.parametrize("seed", range(PIECES))
@pytest.mark.parametrize("name", ATTACKS)
def test_none_of_a_million_probes_gets_out(
    name: str, seed: int, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = attacked(name, directory, 1_000 + seed, FULL[name] // PIECES, monkeypatch)
    print(f"\n{name}, seed {seed}: {tally.probes:,} probes, {tally.refused:,} refused, {tally.served:,} served")


_piece = st.sampled_from((*NAMES, *SLASHES, *ENDINGS)) | st.text(max_size=6)


@pytest.mark.slow
@given(data=st.data())
def test_no_path_that_can_be_thought_of_gets_out(data: st.DataObject) -> None:
    with scratch() as directory, world_on(directory) as world:
        path = st.builds("/".join, st.lists(_piece, max_size=6)) | st.builds("".join, st.lists(_piece, max_size=6))
        made = st.builds(
            lambda verb, start, more, other: Probe(verb, start + more, other if verb == "rename" else ""),
            *(st.sampled_from(VERBS), st.sampled_from(world.starts), path, st.sampled_from(world.starts)),
        )
        probes = data.draw(st.lists(made, min_size=1, max_size=8))
        with driven(ScopedStorage(FsStorage(), world.scope)) as attempt:
            probes_in(world, iter([safe(tried, world) for tried in probes]), attempt, Tally())


def test_the_same_seed_makes_the_same_probes(directory: str) -> None:
    with world_on(directory) as world:
        first, second = ([probe(chance, world) for _ in range(200)] for chance in (random.Random(7), random.Random(7)))
    assert first == second
    assert len({(tried.verb, tried.path) for tried in first}) > 150


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", ["out/secret", "in/to-dir/secret", "in/to-file", "alias/.ssh/id", "alias/.netrc"])
def test_a_refusal_is_the_same_whether_something_is_there(name: str, there: bool, directory: str) -> None:
    """Told word by word: taking away what lies outside changes no refusal."""
    with world_on(directory) as world:
        path = f"{world.base}/{name}"
        if not there:
            for gone in ("out/secret", "home/.ssh/deep/id", "home/.ssh/id", "home/.netrc"):
                os.unlink(f"{world.base}/{gone}")
            os.rmdir(f"{world.base}/home/.ssh/deep")
            os.rmdir(f"{world.base}/home/.ssh")
        storage = ScopedStorage(FsStorage(), world.scope)
        calls = [storage.read, storage.exists, storage.mtime, storage.list, storage.list_entries]
        said = set()
        for call in calls:
            with pytest.raises(BoundaryError) as caught:
                run(call(path))
            said.add((type(caught.value), caught.value.code, caught.value.kind, str(caught.value)))
        allowed = ", ".join(world.scope.read)
        text = f"read not permitted: {path} not in [{allowed}] (outside the scope)"
        assert said == {(BoundaryError, "storage-boundary", "read", text)}


class TestARootThatIsALink:
    """Whoever names it means where it leads, and the floor lies there too."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> ScopedStorage:
        for folder in ("me/.ssh", "me/.config/gh", "me/notes"):
            (tmp_path / folder).mkdir(parents=True)
        for file in ("me/.ssh/id", "me/.netrc", "me/.config/gh/hosts", "me/notes/a"):
            (tmp_path / file).write_text(file)
        (tmp_path / "alias").symlink_to("me")
        (tmp_path / "above").symlink_to(".")
        roots = [f"{tmp_path}/alias", f"{tmp_path}/above"]
        denied = [f"{tmp_path}/me/{one}" for one in (".ssh", ".netrc", ".config/gh", ".aws")]
        return ScopedStorage(FsStorage(), ScopedStorageScope(roots, roots, denied))

    def test_it_serves_what_is_there(self, storage: ScopedStorage, tmp_path: Path) -> None:
        assert run(storage.read(f"{tmp_path}/alias/notes/a")) == "me/notes/a"

    @pytest.mark.parametrize(
        "name", ["alias/.netrc", "alias/.ssh", "alias/.ssh/id", "above/me/.netrc", "alias/.SSH/id"]
    )
    def test_what_is_denied_is_not_seen_through_it(self, storage: ScopedStorage, tmp_path: Path, name: str) -> None:
        for call in (storage.read, storage.exists, storage.mtime, storage.list, storage.list_entries):
            with pytest.raises(BoundaryError):
                run(call(f"{tmp_path}/{name}"))

    def test_nothing_denied_is_made_moved_or_removed_through_it(self, storage: ScopedStorage, tmp_path: Path) -> None:
        calls = (
            lambda: storage.mkdir(f"{tmp_path}/alias/.aws"),
            lambda: storage.write(f"{tmp_path}/alias/.aws", "x"),
            lambda: storage.rename(f"{tmp_path}/alias/.config", f"{tmp_path}/alias/notes/c"),
            lambda: storage.remove(f"{tmp_path}/above/me", recursive=True),
        )
        for call in calls:
            with pytest.raises(BoundaryError):
                run(call())
        assert not (tmp_path / "me/.aws").exists()
        assert (tmp_path / "me/.config/gh/hosts").read_text() == "me/.config/gh/hosts"
        assert (tmp_path / "me/.ssh/id").exists()


def test_a_link_that_is_moved_to_where_a_root_was_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "work/sub").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("outside")
    roots = [f"{tmp_path}/work", f"{tmp_path}/work/sub"]
    storage = ScopedStorage(FsStorage(), ScopedStorageScope(roots, roots))
    (tmp_path / "work/link").symlink_to("../out")
    run(storage.remove(f"{tmp_path}/work/sub"))
    with pytest.raises(BoundaryError):
        run(storage.rename(f"{tmp_path}/work/link", f"{tmp_path}/work/sub"))
    (tmp_path / "work/link").rename(tmp_path / "work/sub")
    with pytest.raises(BoundaryError):
        run(storage.read(f"{tmp_path}/work/sub/secret"))


def test_a_link_that_was_named_is_followed_within_what_may_only_be_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a").write_text("meant")
    (tmp_path / "top").mkdir()
    (tmp_path / "top/work").symlink_to("../elsewhere")
    work = f"{tmp_path}/top/work"
    storage = ScopedStorage(FsStorage(), ScopedStorageScope([f"{tmp_path}/top", work], [work]))
    assert run(storage.read(f"{work}/a")) == "meant"
    run(storage.write(f"{work}/b", "written"))
    assert (tmp_path / "elsewhere/b").read_text() == "written"


def test_a_scope_of_everything_still_has_its_floor_and_follows_no_link(tmp_path: Path) -> None:
    here = tmp_path.resolve()
    (here / "a").write_text("inside")
    (here / "link").symlink_to("a")
    storage = ScopedStorage(FsStorage(), ScopedStorageScope(["/"], ["/"], [f"{here}/denied"]))
    assert run(storage.read(f"{here}/a")) == "inside"
    run(storage.write(f"{here}/b", "new"))
    assert run(storage.list(str(here))) == ["a", "b", "link"]
    assert run(storage.list("/")) == sorted(os.listdir("/"))
    for path in (f"{here}/link", f"{here}/denied", f"{here}/DENIED/x", "/etc/passwd", "/proc/self/environ"):
        with pytest.raises(BoundaryError):
            run(storage.read(path))
    with pytest.raises(BoundaryError):
        run(storage.remove(str(here), recursive=True))


def test_what_may_only_be_written_is_not_moved_above_what_may_be_read() -> None:
    inner = InMemoryStorage()
    run(inner.write("/drop/box/a", "not for reading"))
    storage = ScopedStorage(inner, ScopedStorageScope(["/drop/pub/a"], ["/drop"]))
    with pytest.raises(BoundaryError):
        run(storage.rename("/drop/box", "/drop/pub"))
    assert run(storage.read("/drop/pub/a")) is None


@pytest.mark.spec("FILES-05")
@pytest.mark.parametrize("key", ["in/to-dir/secret", "in/to-file", "in/hard", "in/to-sub/b.md"])
def test_a_scoped_store_follows_no_links(key: str, directory: str) -> None:
    with world_on(directory) as world:
        backend = ScopedBackend(DeviceLocalBackend(world.base), ScopedStorageScope(["/in"], ["/in"]))
        place = Locator(key)
        looks: list[Callable[[Locator], Any]] = [
            *(backend.read, backend.read_versioned, backend.exists, backend.info, backend.list),
        ]
        for look in looks:
            with pytest.raises(BoundaryError):
                look(place)
        for change in (backend.write, backend.append):
            with pytest.raises(BoundaryError):
                change(place, "x")


class Careless:
    """Compares strings, as is often done: what the attack is there to find."""

    def __init__(self, world: World, *, whole_names: bool) -> None:
        self._world = world
        self._end = "/" if whole_names else ""
        self._inner = FsStorage()

    def __getattr__(self, verb: str) -> Any:
        async def call(path: str, *more: Any, **options: Any) -> Any:
            plain = os.path.normpath(path)
            roots = self._world.scope.read
            if not f"{plain}{self._end}".startswith(tuple(f"{root}{self._end}" for root in roots)) or "\0" in path:
                raise self._world.scope.refusal("read", path)
            return await getattr(self._inner, verb)(plain, *more, **options)

        return call


@pytest.mark.parametrize("whole_names", [True, False])
def test_the_attack_finds_a_scope_that_compares_strings(whole_names: bool, directory: str) -> None:
    with world_on(directory) as world, driven(Careless(world, whole_names=whole_names)) as attempt:
        chance = random.Random(3)

        def look() -> None:
            for tried in (probe(chance, world) for _ in range(2_000)):
                if tried.verb in ("read", "exists", "list"):
                    judged(world, tried, expected(world, tried), attempt, Tally())

        with pytest.raises(Escape, match="served"):
            look()
