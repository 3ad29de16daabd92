from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

import agentm
from agentm.backends.memory import MemoryBackend
from agentm.backends.sqlite import SqliteBackend
from agentm.backends.vault import VaultBackend
from agentm.errors import RepoRegistryError
from agentm.repo_registry import (
    list_repos,
    read_registry,
    register_repo,
    registry_locator,
    unregister_repo,
    write_registry,
)
from agentm.seam import ABSENT, Capabilities, Locator

pytestmark = pytest.mark.spec("SEAM-27")

KEY = Locator("_meta/repos.json")


@pytest.fixture
def store() -> MemoryBackend:
    return MemoryBackend()


def test_it_has_one_place_in_a_store(store):
    assert registry_locator(store) == KEY


def test_there_is_an_empty_one_before_the_first_and_reading_writes_nothing(store):
    assert read_registry(store) == {"version": 1, "repos": []}
    assert list_repos(store) == []
    assert unregister_repo(store, "thing") is False
    assert not store.exists(KEY)


def test_register_list_change_and_unregister(store):
    assert register_repo(store, "thing", "/code/thing") == {"slug": "thing", "root_path": "/code/thing"}
    entry = register_repo(store, "alpha", "/code/alpha", "/wiki/alpha")
    assert entry == {"slug": "alpha", "root_path": "/code/alpha", "wiki_path": "/wiki/alpha"}
    assert [repo["slug"] for repo in list_repos(store)] == ["alpha", "thing"]
    assert register_repo(store, "thing", "/moved")["root_path"] == "/moved"
    assert len(list_repos(store)) == 2
    assert unregister_repo(store, "thing") is True
    assert unregister_repo(store, "thing") is False
    assert [repo["slug"] for repo in list_repos(store)] == ["alpha"]


def test_the_file_is_pretty_stable_and_ends_with_a_newline(store):
    register_repo(store, "thing", "/code/thing", "/wiki")
    register_repo(store, "älpha", "/code/ä")
    assert store.read(KEY) == (
        "{\n"
        '  "version": 1,\n'
        '  "repos": [\n'
        "    {\n"
        '      "slug": "thing",\n'
        '      "root_path": "/code/thing",\n'
        '      "wiki_path": "/wiki"\n'
        "    },\n"
        "    {\n"
        '      "slug": "älpha",\n'
        '      "root_path": "/code/ä"\n'
        "    }\n"
        "  ]\n"
        "}\n"
    )


def test_registering_the_same_again_changes_no_byte_and_no_version(store):
    register_repo(store, "thing", "/code/thing")
    before = store.read_versioned(KEY)
    register_repo(store, "thing", "/code/thing")
    assert store.read_versioned(KEY) == before


def test_keys_that_it_does_not_know_stay(store):
    old = {
        "version": 1,
        "later": {"x": 1},
        "repos": [{"slug": "a", "root_path": "/a", "wiki_path": "/w", "tags": ["t"]}],
    }
    store.write(KEY, json.dumps(old))
    register_repo(store, "b", "/b")
    entry = register_repo(store, "a", "/new")
    assert entry == {"slug": "a", "root_path": "/new", "wiki_path": "/w", "tags": ["t"]}
    registry = read_registry(store)
    assert registry["later"] == {"x": 1}
    assert registry["repos"] == [entry, {"slug": "b", "root_path": "/b"}]


MALFORMED = [
    "",
    "{",
    "[]",
    '"x"',
    "{}",
    '{"version": 2, "repos": []}',
    '{"version": true, "repos": []}',
    '{"version": "1", "repos": []}',
    '{"version": 1}',
    '{"version": 1, "repos": {}}',
    '{"version": 1, "repos": ["a"]}',
    '{"version": 1, "repos": [{"root_path": "/a"}]}',
    '{"version": 1, "repos": [{"slug": "", "root_path": "/a"}]}',
    '{"version": 1, "repos": [{"slug": "a"}]}',
    '{"version": 1, "repos": [{"slug": "a", "root_path": 5}]}',
    '{"version": 1, "repos": [{"slug": "a", "root_path": "/a", "wiki_path": 5}]}',
    '{"version": 1, "repos": [{"slug": "a", "root_path": "/a"}, {"slug": "a", "root_path": "/b"}]}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_a_registry_that_cannot_be_understood_is_an_error_and_never_written_over(store, text):
    store.write(KEY, text)
    for attempt in (
        lambda: read_registry(store),
        lambda: list_repos(store),
        lambda: register_repo(store, "a", "/a"),
        lambda: unregister_repo(store, "a"),
        lambda: write_registry(store, {"version": 1, "repos": []}),
    ):
        with pytest.raises(RepoRegistryError) as caught:
            attempt()
        assert caught.value.code == "repo_registry_invalid"
        assert "_meta/repos.json" in str(caught.value)
    assert store.read(KEY) == text


def test_bytes_that_are_not_text_are_an_error(tmp_path):
    store = VaultBackend(str(tmp_path / "vault"), lock_root=str(tmp_path / "locks"))
    (tmp_path / "vault" / "_meta").mkdir()
    (tmp_path / "vault" / "_meta" / "repos.json").write_bytes(b"\xff\xfe")
    for attempt in (lambda: read_registry(store), lambda: register_repo(store, "a", "/a")):
        with pytest.raises(RepoRegistryError, match="not UTF-8"):
            attempt()
    assert (tmp_path / "vault" / "_meta" / "repos.json").read_bytes() == b"\xff\xfe"


def test_a_whole_registry_can_be_written_if_it_is_one(store):
    registry = {"version": 1, "repos": [{"slug": "b", "root_path": "/b"}, {"slug": "a", "root_path": "/a"}]}
    assert write_registry(store, registry) == KEY
    assert [repo["slug"] for repo in read_registry(store)["repos"]] == ["a", "b"]
    before = store.read(KEY)
    wrongs: list[Any] = [{}, {"version": 2, "repos": []}, {"version": 1, "repos": [{}]}, []]
    for wrong in wrongs:
        with pytest.raises(RepoRegistryError):
            write_registry(store, wrong)
    assert store.read(KEY) == before


@pytest.mark.parametrize("slug", ["", "..", "a/b", "a\\b", "a\n", None])
def test_a_slug_is_one_safe_segment(store, slug):
    with pytest.raises(RepoRegistryError):
        register_repo(store, slug, "/a")
    assert not store.exists(KEY)


def test_an_entry_needs_a_root(store):
    with pytest.raises(RepoRegistryError, match="root_path"):
        register_repo(store, "a", "")
    assert not store.exists(KEY)


def test_a_path_that_is_not_utf_8_comes_back(store):
    register_repo(store, "a", "/caf\udce9")
    assert list_repos(store) == [{"slug": "a", "root_path": "/caf\udce9"}]


def test_a_rival_that_is_faster_loses_nothing(store):
    real = store.write_versioned
    rivals = iter(range(3))

    def beaten(locator, content, *, if_version):
        number = next(rivals, None)
        if number is not None:
            store.write_versioned = real
            register_repo(store, f"rival-{number}", "/r")
            store.write_versioned = beaten
        return real(locator, content, if_version=if_version)

    store.write_versioned = beaten
    register_repo(store, "mine", "/m")
    assert [repo["slug"] for repo in list_repos(store)] == ["mine", "rival-0", "rival-1", "rival-2"]


def test_unregistering_what_a_rival_took_out_first_says_so(store):
    register_repo(store, "thing", "/t")
    real = store.read_versioned

    def late(locator):
        store.read_versioned = real
        unregister_repo(store, "thing")
        return real(locator)

    store.read_versioned = late
    assert unregister_repo(store, "thing") is False


def test_it_goes_through_compare_and_swap_where_there_is_one_and_without_where_not(store):
    calls = []
    real = store.write_versioned

    def seen(locator, content, *, if_version):
        calls.append(if_version)
        return real(locator, content, if_version=if_version)

    store.write_versioned = seen
    register_repo(store, "a", "/a")
    assert calls == [ABSENT]

    class Plain(MemoryBackend):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities()

        def write_versioned(self, *_args, **_more):
            raise AssertionError("not declared")

    plain = Plain()
    register_repo(plain, "a", "/a")
    assert len(list_repos(plain)) == 1


def test_threads_that_register_at_once_are_all_there(store):
    barrier = threading.Barrier(8)

    def register(name: int) -> None:
        barrier.wait()
        for number in range(10):
            register_repo(store, f"r{name}-{number}", "/r")

    threads = [threading.Thread(target=register, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list_repos(store)) == 80


REGISTER = """
import sys
from agentm import SqliteBackend, VaultBackend, register_repo
kind, root, name = sys.argv[1:]
store = SqliteBackend(root + "/s.db") if kind == "sqlite" else VaultBackend(root + "/vault", lock_root=root + "/locks")
sys.stdin.readline()
for number in range(8):
    register_repo(store, f"{name}-{number}", "/r")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vault", "sqlite"])
def test_processes_that_register_at_once_are_all_there(tmp_path, kind):
    writers = [
        subprocess.Popen([sys.executable, "-c", REGISTER, kind, str(tmp_path), f"w{number}"], stdin=subprocess.PIPE)
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdin
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    vault = str(tmp_path / "vault")
    store = (
        SqliteBackend(str(tmp_path / "s.db")) if kind == "sqlite" else VaultBackend(vault, lock_root=tmp_path / "locks")
    )
    expected = [f"w{name}-{number}" for name in range(4) for number in range(8)]
    assert [repo["slug"] for repo in list_repos(store)] == expected
    if isinstance(store, SqliteBackend):
        store.close()


def test_the_names_are_importable_from_the_front_door():
    assert agentm.register_repo is register_repo
    assert agentm.read_registry is read_registry
