"""The store as a file system of fsspec: its own suite for implementers, and what only this one promises."""

from __future__ import annotations

import gc
import io
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentm import Capabilities, DeviceLocalBackend, MemoryBackend, NotTextError
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.seam import Locator
from tests.adapters.meanwhile import Meanwhile
from tests.adapters.needs import library
from tests.backends.stores import make_store

fsspec = library("fsspec")

from fsspec.tests import abstract  # noqa: E402  # needs what the line above looks for

from agentm.adapters.fsspec import AgentmFileSystem  # noqa: E402

pytestmark = pytest.mark.spec("FILES-06")


@pytest.fixture(params=["memory", "device-local"])
def backend(request, tmp_path):
    return make_store(request.param, str(tmp_path / "store"))


@pytest.fixture
def fs(backend):
    return AgentmFileSystem(backend)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, backend):
        return AgentmFileSystem(backend)

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self):
        return "suite"


class TestCopy(Fixtures, abstract.AbstractCopyTests): ...


class TestGet(Fixtures, abstract.AbstractGetTests): ...


class TestPut(Fixtures, abstract.AbstractPutTests): ...


class TestOpen(Fixtures, abstract.AbstractOpenTests): ...


class TestPipe(Fixtures, abstract.AbstractPipeTests): ...


@pytest.fixture
def registered():
    """As fsspec registers what the entry point names, also where agentm is not installed but only importable."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"]["fsspec.specs"].items()
    fsspec.register_implementation(name, EntryPoint(name, value, "fsspec.specs").load(), clobber=True)


@pytest.mark.usefixtures("registered")
def test_a_url_leads_to_the_configured_store(home):
    with fsspec.open("agentm://notes/a.csv", "w") as file:
        file.write("name,cups\nAda,2\n")
    assert AgentmFileSystem().cat_file("notes/a.csv") == b"name,cups\nAda,2\n"
    assert DeviceLocalBackend(f"{home}/.agentm/memory").read(Locator("notes/a.csv")) == "name,cups\nAda,2\n"


@pytest.mark.usefixtures("registered")
def test_pandas_reads_and_writes(fs):
    pandas = library("pandas")
    table = pandas.DataFrame({"name": ["Ada", "Grace"], "cups": [2, 3]})
    options = {"backend": fs._backend}
    table.to_csv("agentm://notes/a.csv", index=False, storage_options=options)
    assert pandas.read_csv("agentm://notes/a.csv", storage_options=options).equals(table)


def test_duckdb_reads(fs):
    duckdb = library("duckdb")
    fs.pipe({"notes/a.csv": b"name,cups\nAda,2\n", "notes/b.csv": b"name,cups\nGrace,3\n"})
    with duckdb.connect() as database:
        database.register_filesystem(fs)
        assert database.sql("select sum(cups) from 'agentm://notes/*.csv'").fetchall() == [(5,)]


@pytest.mark.parametrize("mode", ["wb", "ab", "xb"])
def test_bytes_that_are_no_text_are_refused_and_nothing_is_changed(fs, mode):
    before = b"old" if mode != "xb" else None
    if before:
        fs.pipe_file("a.bin", before)
    file = fs.open("a.bin", mode)
    file.write(b"\xff\xfe")
    with pytest.raises(NotTextError, match="UTF-8"):
        file.close()
    assert (fs.cat_file("a.bin") if fs.exists("a.bin") else None) == before
    file.close()  # a second time says nothing


def test_appends_of_two_both_land(backend):
    shared = Meanwhile(backend)

    def append(fs, text):
        with fs.open("log.txt", "ab") as file:
            file.write(text)

    def somebody_else():
        append(AgentmFileSystem(backend), b"theirs\n")

    append(AgentmFileSystem(backend), b"first\n")
    shared.happens = somebody_else
    append(AgentmFileSystem(shared), b"mine\n")
    if shared.happens is not None:  # nothing was read on the way
        somebody_else()
    assert sorted(AgentmFileSystem(backend).cat_file("log.txt").split()) == [b"first", b"mine", b"theirs"]


def test_a_store_that_cannot_append_or_rename_does_both_all_the_same():
    class Plain(MemoryBackend):
        @property
        def capabilities(self):
            return Capabilities(remove=True, compare_and_swap=True)

    fs = AgentmFileSystem(Plain())
    for part in (b"a", b"b"):
        with fs.open("x/a.txt", "ab") as file:
            file.write(part)
    fs.mv("x/a.txt", "y/b.txt")
    assert fs.cat_file("y/b.txt") == b"ab"
    assert not fs.exists("x/a.txt")


def test_whoever_creates_second_is_told(fs):
    first, second = fs.open("a.txt", "xb"), fs.open("a.txt", "xb")
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert fs.cat_file("a.txt") == b"first"


def test_nothing_is_seen_before_the_file_is_closed(fs):
    fs.pipe_file("a.txt", b"old")
    with fs.open("a.txt", "wb") as file:
        file.write(b"new")
        assert fs.cat_file("a.txt") == b"old"
    assert fs.cat_file("a.txt") == b"new"


def test_a_transaction_lands_when_it_ends_well(fs):
    with fs.transaction:
        for name in "ab":
            with fs.open(name, "wb") as file:
                file.write(name.encode())
        assert not fs.exists("a")
    assert fs.cat(["a", "b"]) == {"a": b"a", "b": b"b"}


def test_a_transaction_that_fails_leaves_nothing(fs):
    def half_done():
        with fs.transaction:
            fs.pipe_file("a", b"a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half_done()
    assert not fs.exists("a")


def test_a_transaction_with_one_file_that_is_no_text_leaves_nothing(fs):
    fs.pipe_file("old", b"old")

    def half_text():
        with fs.transaction:
            fs.pipe({"trx/1": b"1", "old": b"new"})
            with fs.open("log", "ab") as file:
                file.write(b"line")
            fs.pipe_file("trx/2", b"\xff")

    with pytest.raises(NotTextError, match="trx/2"):
        half_text()
    assert fs.find("") == ["old"]
    assert fs.cat_file("old") == b"old"
    fs.pipe_file("later", b"x")  # the transaction is over
    assert fs.cat_file("later") == b"x"


def test_a_transaction_that_a_scope_does_not_cover_leaves_nothing(backend):
    scope = ScopedStorageScope(read=["/"], write=["/mine"])
    fs = AgentmFileSystem(ScopedBackend(backend, scope))

    def half_covered():
        with fs.transaction:
            fs.pipe({"mine/a": b"a", "theirs/b": b"b"})

    with pytest.raises(PermissionError):
        half_covered()
    assert fs.find("") == []


def test_a_transaction_does_all_in_the_order_of_opening(fs):
    with fs.transaction:
        for mode, text in (("wb", b"a"), ("ab", b"b"), ("wb", b"c"), ("ab", b"d")):
            with fs.open("a", mode) as file:
                file.write(text)
        with fs.open("b", "xb") as file:
            file.write(b"b")
        fs.open("left open", "wb").write(b"x")
    assert fs.cat(["a", "b", "left open"]) == {"a": b"cd", "b": b"b", "left open": b"x"}


def write_half(fs, path, mode, text):
    with fs.open(path, mode) as file:
        file.write(text)
        raise RuntimeError


def test_of_a_transaction_nothing_is_kept_that_failed_within_it(fs):
    with fs.transaction:
        fs.pipe_file("a", b"a")
        with pytest.raises(RuntimeError):
            write_half(fs, "b", "wb", b"half")
    assert fs.find("") == ["a"]


@pytest.mark.parametrize(
    ("mode", "text"), [("wb", b"half"), ("ab", b"half"), ("xb", b"half"), ("w", "half"), ("a", "ä")]
)
def test_what_was_half_written_when_an_error_came_is_not_kept(fs, mode, text):
    if "x" not in mode:
        fs.pipe_file("a", b"old")
    with pytest.raises(RuntimeError):
        write_half(fs, "a", mode, text)
    assert (fs.cat_file("a") if fs.exists("a") else None) == (None if "x" in mode else b"old")


@pytest.mark.parametrize(
    "opened",
    [
        lambda fs: fs.open("a.txt", "wb"),
        lambda fs: fs.open("a.txt", "w"),
        lambda fs: io.TextIOWrapper(fs.open("a.txt", "wb")),
    ],
    ids=["bytes", "text", "text of others"],
)
def test_what_was_never_closed_is_not_kept(fs, opened):
    def write_and_forget():
        file = opened(fs)
        file.write("half" if isinstance(file, io.TextIOBase) else b"half")
        del file
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"a\.txt"):
        write_and_forget()
    assert not fs.exists("a.txt")


@pytest.mark.filterwarnings("error")
def test_what_was_closed_says_nothing_more(fs):
    with fs.open("a", "w") as file:
        file.write("ä")
    del file
    gc.collect()
    assert fs.cat_file("a") == "ä".encode()
    with fs.open("a", "r") as file:
        assert file.read() == "ä"


def test_parts_of_a_file(fs):
    fs.pipe_file("a", b"012345")
    assert fs.cat_file("a", start=-2) == b"45"
    assert fs.cat_file("a", start=1, end=-1) == b"1234"
    assert fs.read_block("a", 0, 2) == b"01"
    assert fs.read_block("a", 4, None) == b"45"
    assert fs.cat_ranges(["a", "a"], [-2, 0], [None, 1]) == [b"45", b"0"]
    assert (fs.head("a", 2), fs.tail("a", 2)) == (b"01", b"45")
    with fs.open("a", "rb") as file:
        assert (file.size, file.path, file.mode) == (6, "a", "rb")
        assert (file.details["name"], file.details["size"], file.details["type"]) == ("a", 6, "file")


def test_times_and_sizes(fs):
    fs.pipe_file("notes/a.txt", "ä".encode())
    assert fs.size("notes/a.txt") == 2
    assert abs(fs.modified("notes/a.txt") - datetime.now(UTC)) < timedelta(minutes=5)
    assert fs.ls("", detail=False) == ["notes"]
    assert [one["type"] for one in fs.ls("notes")] == ["file"]
    assert fs.ls("agentm://notes/a.txt", detail=False) == ["notes/a.txt"]


def test_folders(fs):
    fs.mkdir("a/b")
    assert fs.isdir("a/b")
    with pytest.raises(FileExistsError):
        fs.mkdir("a/b")
    with pytest.raises(FileExistsError):
        fs.makedirs("a")
    fs.makedirs("a", exist_ok=True)
    with pytest.raises(FileNotFoundError):
        fs.mkdir("x/y", create_parents=False)
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir("a")
    fs.rmdir("a/b")
    assert fs.ls("a") == []
    with pytest.raises(FileNotFoundError):
        fs.ls("b")


def test_a_file_is_no_folder_and_a_folder_no_file(fs):
    fs.pipe_file("a/b.txt", b"b")
    with pytest.raises(NotADirectoryError):
        fs.rmdir("a/b.txt")
    with pytest.raises(IsADirectoryError):
        fs.rm("a")
    with pytest.raises(IsADirectoryError):
        fs.open("a", "wb")
    with pytest.raises(IsADirectoryError):
        fs.cat_file("a")


def test_all_goes_but_the_store(fs):
    fs.pipe({"a/b.txt": b"b", "c.txt": b"c"})
    fs.rm("", recursive=True)
    assert fs.ls("") == []


def test_moving(fs):
    fs.pipe({"a/b.txt": b"b", "c.txt": b"c"})
    fs.mv("c.txt", "a/b.txt")
    assert fs.cat_file("a/b.txt") == b"c"
    fs.mv("a", "d", recursive=True)
    assert fs.find("") == ["d/b.txt"]
    fs.mkdir("e")
    fs.mv("d/b.txt", "e/")
    assert fs.find("") == ["e/b.txt"]
    fs.mv("e/b.txt", "e/b.txt")
    assert fs.find("") == ["e/b.txt"]


def test_dots_are_part_of_a_name_and_never_a_way_out(fs):
    fs.pipe_file("report..final.md", b"x")
    assert fs.cat_file("report..final.md") == b"x"
    with pytest.raises(ValueError, match=r"\.\."):
        fs.cat_file("notes/../../secret")


def test_a_scope_is_a_border(backend):
    backend.write(Locator("mine/a.txt"), "a")
    backend.write(Locator("theirs/b.txt"), "b")
    fs = AgentmFileSystem(ScopedBackend(backend, ScopedStorageScope(read=["/mine"], write=["/mine"])))
    assert fs.find("") == ["mine/a.txt"]
    for path in ("theirs/b.txt", "theirs/nothing.txt"):
        with pytest.raises(PermissionError):
            fs.cat_file(path)
        with pytest.raises(PermissionError):
            fs.pipe_file(path, b"x")


def test_a_link_in_a_folder_keeps_nothing_from_being_listed_or_removed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.txt").write_text("secret")
    backend = DeviceLocalBackend(tmp_path / "store")
    backend.write(Locator("mine/deep/a.txt"), "a")
    (tmp_path / "store/mine/link").symlink_to(tmp_path / "outside")
    (tmp_path / "store/mine/deep/round").symlink_to("round")
    (tmp_path / "store/mine/deep/x.txt").symlink_to(tmp_path / "outside/x.txt")
    fs = AgentmFileSystem(ScopedBackend(backend, ScopedStorageScope(read=["/mine"], write=["/mine"])))
    assert fs.ls("mine", detail=False) == ["mine/deep"]
    assert fs.find("") == fs.glob("**/*.txt") == ["mine/deep/a.txt"]
    fs.rm("mine/deep", recursive=True)
    assert fs.ls("mine") == []
    assert not (tmp_path / "store/mine/deep").exists()
    assert (tmp_path / "outside/x.txt").read_text() == "secret"


def test_without_a_scope_a_link_is_not_gone_through_either_by_what_takes_all_below(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.txt").write_text("theirs")
    fs = AgentmFileSystem(DeviceLocalBackend(tmp_path / "store"))
    fs.pipe_file("mine/a.txt", b"a")
    (tmp_path / "store/mine/link").symlink_to(tmp_path / "outside")
    assert fs.find("") == ["mine/a.txt", "mine/link"]
    fs.rm("mine", recursive=True)
    assert fs.ls("") == []
    assert (tmp_path / "outside/x.txt").read_text() == "theirs"


def test_removing_what_lies_in_one_another_and_only_so_deep(fs):
    fs.pipe({"a/b/c.txt": b"c", "a/d.txt": b"d", "e.txt": b"e"})
    with pytest.raises(OSError, match="not empty"):
        fs.rm("a", recursive=True, maxdepth=1)
    assert fs.find("") == ["a/b/c.txt", "e.txt"]
    fs.rm(["a", "a/b"], recursive=True)
    assert fs.find("") == ["e.txt"]
    with pytest.raises(FileNotFoundError):
        fs.rm("a", recursive=True)
