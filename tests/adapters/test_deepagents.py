"""Files of a deepagents agent in a store: what its protocol asks for, through its own result types."""

from __future__ import annotations

import asyncio
import multiprocessing
from typing import Any

import pytest

from agentm import DeviceLocalBackend, MemoryBackend
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.seam import Capabilities, Locator
from tests.adapters.meanwhile import Meanwhile
from tests.adapters.needs import library
from tests.backends.stores import make_store

protocol = library("deepagents.backends.protocol")

from deepagents import create_deep_agent  # noqa: E402  # needs what the line above looks for
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage  # noqa: E402

from agentm.adapters.deepagents import AgentmBackend  # noqa: E402

pytestmark = pytest.mark.spec("FILES-06")


@pytest.fixture(params=["memory", "device-local", "sqlite", "vault"])
def store(request, tmp_path):
    backend = make_store(request.param, str(tmp_path / "store"))
    yield backend
    if hasattr(backend, "close"):
        backend.close()


@pytest.fixture
def files(store):
    return AgentmBackend(store)


def error_of(result):
    assert result.error is not None
    return result.error


def paths(entries):
    return [entry["path"] for entry in entries]


def content(files, path):
    read = files.read(path)
    assert read.error is None
    return read.file_data["content"]


def test_what_is_written_is_read_and_lies_in_the_folder(files, store):
    assert "not found" in files.read("/notes/a.md").error
    assert files.write("/notes/a.md", "# hi").path == "/notes/a.md"
    assert content(files, "/notes/a.md") == "# hi"
    assert store.read(Locator("files/notes/a.md")) == "# hi"
    assert files.write("/notes/a.md", "anew").error is None
    assert content(files, "/notes/a.md") == "anew"


def test_the_folder_can_be_another(store):
    AgentmBackend(store, folder="agents/ada").write("/a.md", "x")
    assert store.read(Locator("agents/ada/a.md")) == "x"


def test_without_a_backend_it_is_the_configured_store(home):
    AgentmBackend().write("/a.md", "x")
    assert DeviceLocalBackend(f"{home}/.agentm/memory").read(Locator("files/a.md")) == "x"


def test_a_window_of_lines(files):
    files.write("/a.md", "1\n2\n3\n4")
    window = files.read("/a.md", offset=1, limit=2)
    assert window.file_data["content"] == "2\n3\n"
    assert (window.start_line, window.end_line, window.next_offset, window.total_lines) == (2, 3, 3, 4)
    assert files.read("/a.md", offset=-1, limit=1).file_data["content"] == "1\n"
    assert files.read("/a.md", limit=0).no_lines_requested
    assert "exceeds" in files.read("/a.md", offset=9).error
    files.write("/empty.md", "")
    assert content(files, "/empty.md") == ""


def test_listing(files):
    assert files.ls("/").entries == []
    files.write("/b.md", "bb")
    files.write("/a/x.md", "x")
    assert [(one["path"], one["is_dir"], one["size"]) for one in files.ls("/").entries] == [
        ("/a/", True, 0),
        ("/b.md", False, 2),
    ]
    assert paths(files.ls("/a").entries) == paths(files.ls("/a/").entries) == ["/a/x.md"]
    assert files.ls("/none").error == "Path '/none': path_not_found"
    assert files.ls("/b.md").error == "Path '/b.md': not_a_directory"


def test_an_edit_needs_one_place_or_all_of_them(files):
    files.write("/a.md", "tea tea coffee")
    assert files.edit("/a.md", "coffee", "milk").occurrences == 1
    assert "2 times" in files.edit("/a.md", "tea", "cup").error
    assert files.edit("/a.md", "tea", "cup", replace_all=True).occurrences == 2
    assert content(files, "/a.md") == "cup cup milk"
    assert "not found in file" in files.edit("/a.md", "wine", "x").error
    assert files.edit("/none.md", "a", "b").error == "Error: File '/none.md' not found"
    assert content(files, "/a.md") == "cup cup milk"


def test_an_edit_that_changes_nothing_is_counted(files):
    files.write("/a.md", "tea")
    assert files.edit("/a.md", "tea", "tea").occurrences == 1


def test_globs(files):
    for path in ("/top.py", "/src/app/main.py", "/src/app/x.txt", "/.hidden/ci.yml", "/.env"):
        files.write(path, "x")
    expected = {
        "*.py": ["/src/app/main.py", "/top.py"],
        "/*.py": ["/top.py"],
        "src/**/*.py": ["/src/app/main.py"],
        "*.{py,txt}": ["/src/app/main.py", "/src/app/x.txt", "/top.py"],
        "*.yml": ["/.hidden/ci.yml"],
        "**/*.yml": [],
        "*.md": [],
    }
    assert {pattern: paths(files.glob(pattern).matches) for pattern in expected} == expected
    assert paths(files.glob("*.py", "/src").matches) == ["/src/app/main.py"]
    assert paths(files.glob("main.py", "/src/app/main.py").matches) == ["/src/app/main.py"]
    assert files.glob("*", "/none").matches == []
    refused = files.glob("../*.py")
    assert refused.error
    assert refused.matches is None


def test_grep_is_literal_and_counts_lines(files):
    files.write("/a.py", "one\na.*b\nthree a.*b")
    files.write("/b/c.txt", "a.*b")
    files.write("/b/d.txt", "aXXb")
    found = files.grep("a.*b").matches
    assert [(one["path"], one["line"], one["text"]) for one in found] == [
        ("/a.py", 2, "a.*b"),
        ("/a.py", 3, "three a.*b"),
        ("/b/c.txt", 1, "a.*b"),
    ]
    assert paths(files.grep("a.*b", glob="*.txt").matches) == ["/b/c.txt"]
    assert paths(files.grep("a.*b", "/b").matches) == ["/b/c.txt"]
    assert files.grep("a.*b", "/none").matches == []
    assert files.grep("x", glob="../*").error
    assert not files.grep("a.*b", max_count=3).truncated
    capped = files.grep("a.*b", max_count=2)
    assert capped.truncated
    assert len(capped.matches) == 2


def test_bytes_on_the_disk_that_are_no_text_are_passed_over_by_grep_and_named_by_read(tmp_path):
    files = AgentmBackend(DeviceLocalBackend(tmp_path))
    files.write("/a.md", "here")
    (tmp_path / "files" / "b.bin").write_bytes(b"\xffhere")
    found = files.grep("here")
    assert found.error is None
    assert paths(found.matches) == ["/a.md"]
    assert "/b.bin" in error_of(files.read("/b.bin"))


def test_deleting_takes_all_below(files, store):
    files.write("/a/b/c.md", "c")
    files.write("/a.md", "stays")
    store.write(Locator("filesystem/x.md"), "stays")
    assert files.delete("/a").path == "/a"
    assert paths(files.glob("*").matches) == ["/a.md"]
    assert files.delete("/a").error == "Error: '/a' not found"
    assert files.delete("/").error is None
    assert files.ls("/").entries == []
    assert store.read(Locator("filesystem/x.md")) == "stays"


def test_bytes_in_and_out(files):
    sent = files.upload_files([("/a.md", "ä".encode()), ("/b.bin", b"\x80\xff"), ("/../c", b"c")])
    assert [(one.path, one.error) for one in sent] == [
        ("/a.md", None),
        ("/b.bin", protocol.INVALID_PATH),
        ("/../c", protocol.INVALID_PATH),
    ]
    files.write("/d/e.md", "e")
    got = files.download_files(["/a.md", "/b.bin", "/d"])
    assert [(one.content, one.error) for one in got] == [
        ("ä".encode(), None),
        (None, protocol.FILE_NOT_FOUND),
        (None, protocol.IS_DIRECTORY),
    ]


@pytest.mark.parametrize("name", ["report..final.md", "...", "..a", "a..", "~", "%2e%2e", "ä 日本"])
def test_a_name_with_dots_is_a_name(files, name):
    assert files.write(f"/x/{name}", "x").error is None
    assert paths(files.ls("/x").entries) == [f"/x/{name}"]
    assert content(files, f"/x/{name}") == "x"


@pytest.mark.parametrize("path", ["/../memory.md", "..", "/a/../../memory.md", "a\\b", "/a\0b", "/a/.."])
def test_no_way_leads_out(store, path):
    store.write(Locator("memory.md"), "mine")
    files = AgentmBackend(store)
    files.write("/a/x.md", "x")
    said = [files.ls(path), files.read(path), files.write(path, "x"), files.edit(path, "m", "x"), files.delete(path)]
    said += [files.glob("*", path), files.grep("mine", path)]
    assert all(protocol.INVALID_PATH in error_of(one) for one in said)
    assert store.read(Locator("memory.md")) == "mine"
    assert content(files, "/a/x.md") == "x"


@pytest.mark.parametrize("wrong", [None, 3, b"a.md", ["a.md"]])
def test_what_is_no_path_or_no_text_is_said_and_nothing_is_raised(store, wrong):
    files: Any = AgentmBackend(store)  # called as a model does, which knows no types
    files.write("/a.md", "tea")
    said = [files.ls(wrong), files.read(wrong), files.write(wrong, "x"), files.edit(wrong, "tea", "x")]
    said += [files.delete(wrong), *files.upload_files([(wrong, b"x")]), *files.download_files([wrong])]
    assert all(protocol.INVALID_PATH in error_of(one) for one in said)
    said = [files.write("/a.md", wrong), files.edit("/a.md", wrong, "x"), files.edit("/a.md", "tea", wrong)]
    said += [files.grep(wrong), files.read("/a.md", offset="3"), files.read("/a.md", limit=None)]
    said += files.upload_files([("/a.md", None), ("/a.md", "text")])
    if wrong is not None:
        said += [files.glob("*", wrong), files.glob(wrong), files.grep("tea", wrong), files.grep("tea", glob=wrong)]
    assert all(map(error_of, said))
    assert content(files, "/a.md") == "tea"
    assert paths(files.glob("*").matches) == ["/a.md"]


def test_an_absolute_path_stays_in_the_folder(files, store):
    files.write("/etc/passwd", "x")
    assert store.read(Locator("files/etc/passwd")) == "x"


def test_a_link_leads_nowhere_and_is_not_shown(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("secret")
    store = DeviceLocalBackend(tmp_path / "store")
    files = AgentmBackend(store)
    files.write("/own.md", "own")
    (tmp_path / "store/files/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "store/files/file.md").symlink_to(tmp_path / "outside/x.md")
    assert paths(files.ls("/").entries) == paths(files.glob("*").matches) == ["/own.md"]
    assert files.grep("secret").matches == []
    for path in ("/folder", "/folder/x.md", "/file.md", "/folder/new.md"):
        said = [
            files.read(path),
            files.write(path, "x"),
            files.edit(path, "s", "x"),
            files.delete(path),
            files.ls(path),
        ]
        assert all("secret" not in error_of(one) for one in said)
    assert [(one.name, one.read_text()) for one in (tmp_path / "outside").iterdir()] == [("x.md", "secret")]


@pytest.mark.parametrize(("folder", "gone"), [("files", "/a"), ("files", "/"), ("", "/a"), ("", "/")])
def test_a_link_in_a_folder_keeps_nothing_from_being_shown_or_deleted(tmp_path, folder, gone):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("secret")
    files = AgentmBackend(DeviceLocalBackend(tmp_path / "store"), folder=folder)
    files.write("/a/b/own.md", "own")
    below = tmp_path / "store" / folder / "a"
    (below / "b/link").symlink_to(tmp_path / "outside")
    (below / "round").symlink_to("round")
    assert paths(files.ls("/a").entries) == ["/a/b/"]
    assert paths(files.ls("/a/b").entries) == paths(files.glob("*").matches) == ["/a/b/own.md"]
    assert files.delete(gone).error is None
    assert not below.exists()
    assert files.ls("/").entries == []
    assert (tmp_path / "outside/x.md").read_text() == "secret"


def test_folders_may_be_as_deep_as_the_store_takes_them():
    files = AgentmBackend(MemoryBackend())
    deep = "/a" * 1500
    files.write(f"{deep}/x.md", "here")
    assert paths(files.glob("*").matches) == paths(files.grep("here").matches) == [f"{deep}/x.md"]
    assert files.delete("/a").error is None


def test_the_folder_can_be_all_of_the_store(store):
    files = AgentmBackend(store, folder="")
    files.write("/a/b.md", "x")
    assert store.read(Locator("a/b.md")) == "x"
    assert paths(files.glob("*").matches) == ["/a/b.md"]
    assert files.delete("/").error is None
    assert files.ls("/").entries == []


def test_a_scope_refuses_and_says_no_more(store):
    store.write(Locator("files/theirs/b.md"), "secret")
    store.write(Locator("files/mine/a.md"), "mine")
    files = AgentmBackend(ScopedBackend(store, ScopedStorageScope(read=["/files/mine"], write=["/files/mine"])))
    assert paths(files.glob("*").matches) == ["/mine/a.md"]
    assert paths(files.grep("e").matches) == ["/mine/a.md"]
    said = [
        [
            error_of(one).replace(path, "")
            for one in (
                files.read(path),
                files.write(path, "x"),
                files.edit(path, "s", "x"),
                files.delete(path),
                files.ls(path),
            )
        ]
        for path in ("/theirs/b.md", "/theirs/none.md")
    ]
    assert said[0] == said[1]
    assert all(protocol.PERMISSION_DENIED in text and "mine" not in text for text in said[0])
    assert store.read(Locator("files/theirs/b.md")) == "secret"


def test_a_store_that_cannot_remove_says_so():
    class Plain(MemoryBackend):
        @property
        def capabilities(self):
            return Capabilities()

    files = AgentmBackend(Plain())
    files.write("/a.md", "x")
    assert "remove" in error_of(files.delete("/a.md"))
    assert files.edit("/a.md", "x", "y").error is None
    assert content(files, "/a.md") == "y"


def test_the_asynchronous_twins(files):
    async def both():
        await files.awrite("/a.md", "tea\ncoffee")
        edited = await asyncio.gather(files.aedit("/a.md", "tea", "T"), files.aedit("/a.md", "coffee", "C"))
        assert [one.error for one in edited] == [None, None]
        assert (await files.aread("/a.md")).file_data["content"] == "T\nC"
        assert paths((await files.als("/")).entries) == ["/a.md"]
        assert paths((await files.aglob("*.md")).matches) == ["/a.md"]
        assert paths((await files.agrep("C", max_count=1)).matches) == ["/a.md"]
        assert [one.error for one in await files.aupload_files([("/b.md", b"b")])] == [None]
        assert [one.content for one in await files.adownload_files(["/b.md"])] == [b"b"]
        assert (await files.adelete("/b.md")).error is None

    asyncio.run(both())


def test_an_edit_keeps_what_somebody_else_wrote_meanwhile(store):
    shared = Meanwhile(store)
    files = AgentmBackend(shared)
    files.write("/a.md", "tea")
    shared.happens = lambda: AgentmBackend(store).write("/a.md", "tea and coffee")
    assert files.edit("/a.md", "tea", "milk").occurrences == 1
    assert content(files, "/a.md") == "milk and coffee"
    shared.happens = lambda: AgentmBackend(store).write("/a.md", "gone")
    assert "not found in file" in error_of(files.edit("/a.md", "milk", "tea"))
    assert content(files, "/a.md") == "gone"


def _edit_lines(root, who, many, together):
    files = AgentmBackend(DeviceLocalBackend(root))
    together.wait(60)
    errors = [files.edit("/a.md", f"{who}{n:03d} open", f"{who}{n:03d} done").error for n in range(many)]
    raise SystemExit(any(errors))


@pytest.mark.slow
def test_two_processes_edit_one_file_and_lose_nothing(tmp_path):
    many = 300
    lines = [f"{who}{n:03d} open" for who in "ab" for n in range(many)]
    files = AgentmBackend(DeviceLocalBackend(tmp_path))
    files.write("/a.md", "\n".join(lines))
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    workers = [context.Process(target=_edit_lines, args=(str(tmp_path), who, many, together)) for who in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert content(files, "/a.md").replace("done", "open").split("\n") == lines
    assert content(files, "/a.md").count("done") == 2 * many


def test_an_agent_uses_it():
    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools, **_):
            return self

    def call(name, **arguments):
        return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])

    script = [
        call("write_file", file_path="/report..final.md", content="tea and coffee"),
        call("edit_file", file_path="/report..final.md", old_string="tea", new_string="milk"),
        call("read_file", file_path="/report..final.md"),
        AIMessage("done"),
    ]
    files = AgentmBackend(MemoryBackend())
    agent = create_deep_agent(model=Scripted(messages=iter(script)), backend=files)
    said = agent.invoke({"messages": [HumanMessage("go")]})["messages"]
    assert content(files, "/report..final.md") == "milk and coffee"
    assert any("milk and coffee" in one.text for one in said if one.type == "tool")
