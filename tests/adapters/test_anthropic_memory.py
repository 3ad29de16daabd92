"""The memory tool as a model meets it: through the SDK's own entry points, on several stores."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from agentm import Capabilities, DeviceLocalBackend, Locator, MemoryBackend, StorageBackend
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.seam.layer import Layer
from tests.adapters.needs import library
from tests.adapters.rivals import let_go
from tests.backends.stores import make_store, tree

anthropic = library("anthropic")

from anthropic.lib.tools import ToolError  # noqa: E402  # needs what the line above looks for
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool  # noqa: E402

from agentm.adapters.anthropic_memory import AgentmMemoryTool, AsyncAgentmMemoryTool  # noqa: E402

pytestmark = pytest.mark.spec("FILES-06")


@pytest.fixture(params=["memory", "device-local", "sqlite"])
def backend(request, tmp_path):
    return make_store(request.param, str(tmp_path))


@pytest.fixture(params=["sync", "async"])
def ask(request, backend):
    """Give the tool what the model would send; the answer, or the error the model would read."""
    if request.param == "sync":
        tool = AgentmMemoryTool(backend)
        return lambda command, **more: answer(tool, command, **more)
    twin = AsyncAgentmMemoryTool(backend)
    return lambda command, **more: answer(twin, command, **more)


def answer(tool, command, **more):
    try:
        said = tool.call({"command": command, **more})
        return asyncio.run(said) if isinstance(tool, AsyncAgentmMemoryTool) else said
    except ToolError as error:
        return f"! {error.content}"


def note(backend: StorageBackend, key: str = "memories/note.md") -> str:
    return backend.read(Locator(key))


def test_a_file_is_made_viewed_and_lies_plainly_in_the_store(ask, backend):
    made = ask("create", path="/memories/deep/note.md", file_text="one\ntwo\nthree")
    assert made == "File created successfully at: /memories/deep/note.md"
    assert note(backend, "memories/deep/note.md") == "one\ntwo\nthree"
    head = "Here's the content of /memories/deep/note.md with line numbers:\n"
    assert ask("view", path="/memories/deep/note.md") == head + "     1\tone\n     2\ttwo\n     3\tthree"
    assert ask("view", path="/memories/deep/note.md", view_range=[2, 3]) == head + "     2\ttwo\n     3\tthree"
    assert ask("view", path="/memories/deep/note.md", view_range=[3, -1]) == head + "     3\tthree"


@pytest.mark.parametrize("asked", [[4, 9], [3, 2], [1], ["x", 2]])
def test_a_range_that_shows_nothing_is_an_error(ask, asked):
    ask("create", path="/memories/note.md", file_text="one\ntwo\nthree")
    assert ask("view", path="/memories/note.md", view_range=asked).startswith("! Invalid `view_range` parameter: [")


def test_a_folder_shows_two_levels_with_sizes_and_without_hidden_items(ask):
    for path, size in {"a.md": 5632, "b/c.md": 3, "b/d/e.md": 1024, "b/d/f/g.md": 7, ".hidden": 1, "b/.h/i": 1}.items():
        ask("create", path=f"/memories/{path}", file_text="x" * size)
    assert ask("view", path="/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
        "6.5K\t/memories\n5.5K\t/memories/a.md\n1.0K\t/memories/b/\n3B\t/memories/b/c.md\n1.0K\t/memories/b/d/"
    )
    assert ask("view", path="/memories/b/d/").splitlines()[1:] == [
        "1.0K\t/memories/b/d",
        "1K\t/memories/b/d/e.md",
        "7B\t/memories/b/d/f/",
        "7B\t/memories/b/d/f/g.md",
    ]


def test_an_empty_memory_can_be_viewed_and_nothing_is_made_by_it(ask, backend):
    assert ask("view", path="/memories").endswith("\n0B\t/memories")
    assert tree(backend) == {}


def test_what_exists_is_not_made_again(ask, backend):
    ask("create", path="/memories/a/note.md", file_text="first")
    assert ask("create", path="/memories/a/note.md", file_text="second") == "! File /memories/a/note.md already exists"
    assert ask("create", path="/memories/a", file_text="second") == "! File /memories/a already exists"
    assert ask("create", path="/memories", file_text="second") == "! File /memories already exists"
    assert note(backend, "memories/a/note.md") == "first"


def test_text_is_replaced_and_the_change_shown(ask, backend):
    ask("create", path="/memories/note.md", file_text="1\n2\n3\nold\n5\n6\n7\n")
    assert ask("str_replace", path="/memories/note.md", old_str="old", new_str="new") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     2\t2\n     3\t3\n     4\tnew\n     5\t5\n     6\t6"
    )
    assert note(backend) == "1\n2\n3\nnew\n5\n6\n7\n"


def test_a_replacement_that_does_not_fit_says_why_and_shows_the_text(ask, backend):
    ask("create", path="/memories/note.md", file_text="tea\ncoffee\ntea\n")
    now = "\nHere's the content of /memories/note.md with line numbers:\n     1\ttea\n     2\tcoffee\n     3\ttea"
    assert ask("str_replace", path="/memories/note.md", old_str="milk", new_str="x") == (
        "! No replacement was performed, old_str `milk` did not appear verbatim in /memories/note.md." + now
    )
    assert ask("str_replace", path="/memories/note.md", old_str="tea", new_str="x") == (
        "! No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 3. "
        "Please ensure it is unique" + now
    )
    assert "did not appear verbatim" in ask("str_replace", path="/memories/note.md", old_str="", new_str="x")
    assert "Multiple" in ask("str_replace", path="/memories/note.md", old_str="f", new_str="x")
    assert note(backend) == "tea\ncoffee\ntea\n"


def test_the_text_sent_along_with_a_refusal_is_bounded(ask):
    ask("create", path="/memories/long.md", file_text="line\n" * 100_000)
    for part in ("milk", "n"):
        assert len(ask("str_replace", path="/memories/long.md", old_str=part, new_str="x")) < 1_000


def test_lines_are_inserted(ask, backend):
    ask("create", path="/memories/note.md", file_text="one\r\nthree")
    assert (
        ask("insert", path="/memories/note.md", insert_line=1, insert_text="two\n")
        == "The file /memories/note.md has been edited."
    )
    ask("insert", path="/memories/note.md", insert_line=0, insert_text="zero\n\n")
    ask("insert", path="/memories/note.md", insert_line=5, insert_text="four")
    assert note(backend) == "zero\n\none\r\ntwo\nthree\nfour\n"


@pytest.mark.parametrize("line", [-1, 3, None, "x"])
def test_a_line_that_is_not_there_is_refused(ask, backend, line):
    ask("create", path="/memories/note.md", file_text="one\ntwo\n")
    said = ask("insert", path="/memories/note.md", insert_line=line, insert_text="x")
    assert said.startswith(f"! Invalid `insert_line` parameter: {line}. It should be within the range [0, 2].")
    assert note(backend) == "one\ntwo\n"


def test_files_and_folders_are_deleted(ask, backend):
    for path in ("a.md", "b/c.md", "b/d/e.md", "b/.hidden"):
        ask("create", path=f"/memories/{path}", file_text="x")
    assert ask("delete", path="/memories/a.md") == "Successfully deleted /memories/a.md"
    assert ask("delete", path="/memories/b") == "Successfully deleted /memories/b"
    assert ask("delete", path="/memories/b") == "! The path /memories/b does not exist"
    assert ask("delete", path="/memories/") == "! Cannot delete the /memories directory itself"
    assert tree(backend) == {"memories": None}


def test_files_and_folders_are_renamed_and_nothing_is_overwritten(ask, backend):
    ask("create", path="/memories/a.md", file_text="a")
    ask("create", path="/memories/b.md", file_text="b")
    moved = ask("rename", old_path="/memories/a.md", new_path="/memories/new/a.md")
    assert moved == "Successfully renamed /memories/a.md to /memories/new/a.md"
    ask("rename", old_path="/memories/new", new_path="/memories/newer")
    for taken in ("/memories/b.md", "/memories/newer/a.md", "/memories"):
        said = ask("rename", old_path="/memories/newer/a.md", new_path=taken)
        assert said == f"! The destination {taken} already exists"
    gone = ask("rename", old_path="/memories/a.md", new_path="/memories/c.md")
    assert gone == "! The path /memories/a.md does not exist"
    top = ask("rename", old_path="/memories", new_path="/memories/c")
    assert top == "! Cannot rename the /memories directory itself"
    assert ask("rename", old_path="/memories/newer", new_path="/memories/newer/x").startswith("! ")
    assert note(backend, "memories/newer/a.md") == "a"
    assert note(backend, "memories/b.md") == "b"


def test_what_is_missing_or_no_file_is_said_in_the_words_of_the_tool(ask):
    ask("create", path="/memories/a/note.md", file_text="x")
    edits: dict[str, dict[str, Any]] = {
        "str_replace": {"old_str": "x", "new_str": "y"},
        "insert": {"insert_line": 0, "insert_text": "y"},
    }
    for command, more in {"view": {}, **edits}.items():
        said = ask(command, path="/memories/none.md", **more)
        assert said == "! The path /memories/none.md does not exist. Please provide a valid path."
    for command, more in edits.items():
        assert ask(command, path="/memories/a", **more) == "! The path /memories/a is not a file."


def test_a_parameter_that_the_model_left_out_is_an_error_and_not_a_crash(ask, backend):
    ask("create", path="/memories/note.md", file_text="x")
    before = tree(backend)
    assert ask("create", path="/memories/b.md").startswith("! Missing or invalid `file_text`")
    assert ask("str_replace", path="/memories/note.md", old_str="x").startswith("! Missing or invalid `new_str`")
    assert ask("insert", path="/memories/note.md", insert_line=0).startswith("! Missing or invalid `insert_text`")
    assert ask("view") == "! Path must start with /memories, got: None"
    assert tree(backend) == before


def test_all_memory_is_cleared(backend):
    backend.write(Locator("other/note.md"), "stays")
    tool = AgentmMemoryTool(backend)
    answer(tool, "create", path="/memories/a/b.md", file_text="x")
    assert tool.clear_all_memory() == "All memory cleared"
    assert AgentmMemoryTool(backend).clear_all_memory() == "All memory cleared"
    assert asyncio.run(AsyncAgentmMemoryTool(backend).clear_all_memory()) == "All memory cleared"
    assert tree(backend) == {"memories": None, "other": None, "other/note.md": "stays"}


OUTSIDE = [
    "/memories_backup/x",
    "/memoriesx",
    "/Memories/x",
    "memories/x",
    "/",
    "",
    "/etc/passwd",
    "//memories/x",
    " /memories",
]
ESCAPES = [
    "/memories/../secret/x",
    "/memories/a/../../secret/x",
    "/memories/..",
    "/memories/%2e%2e/secret/x",
    "/memories/%252E%252e/secret/x",
    "/memories/..%2fsecret%2fx",
    "/memories/..\\secret\\x",
    "/memories/%5c..%5csecret",
    "/memories/．．/secret/x",
    "/memories/‥/secret/x",
    "/memories/.. /secret/x",
    "/memories/.../secret",
    "/memories/a\0b",
    "/memories/a%00b",
    "/memories/a\n0B\tb",
]  # fmt: skip


def commands_on(path):
    yield "view", {"path": path}
    yield "create", {"path": path, "file_text": "in"}
    yield "str_replace", {"path": path, "old_str": "secret", "new_str": "in"}
    yield "insert", {"path": path, "insert_line": 0, "insert_text": "in"}
    yield "delete", {"path": path}
    yield "rename", {"old_path": path, "new_path": "/memories/stolen"}
    yield "rename", {"old_path": "/memories/own", "new_path": path}


@pytest.mark.parametrize("path", OUTSIDE + ESCAPES)
def test_nothing_outside_is_reached(backend, path):
    for key in ("secret/x", "memories_backup/x", "memoriesx", "Memories/x", "memories/own"):
        backend.write(Locator(key), "secret")
    before = tree(backend)
    expected = "! Path must start with /memories, got: " if path in OUTSIDE else f"! Path {path} would escape /memories"
    for command, more in commands_on(path):
        assert answer(AgentmMemoryTool(backend), command, **more).startswith(expected)
    assert tree(backend) == before


@settings(max_examples=300)
@given(st.text(st.sampled_from("./\\%2eE5cCfF．‥a "), max_size=12))
def test_no_spelling_leaves_the_folder(end):
    backend = MemoryBackend()
    answer(AgentmMemoryTool(backend, folder="agents/one"), "create", path=f"/memories{end}", file_text="in")
    assert all(key == "agents" or f"{key}/".startswith("agents/one/") for key in tree(backend))


@pytest.mark.parametrize(
    ("old", "new", "refused"), [("w/own", "theirs/x", "theirs/x"), ("theirs/x", "w/y", "theirs/x")]
)
def test_a_rename_that_is_refused_names_the_end_that_was_refused(backend, old, new, refused):
    backend.write(Locator("memories/w/own"), "own")
    backend.write(Locator("memories/theirs/x"), "theirs")
    tool = AgentmMemoryTool(ScopedBackend(backend, ScopedStorageScope(read=["/memories"], write=["/memories/w"])))
    said = answer(tool, "rename", old_path=f"/memories/{old}", new_path=f"/memories/{new}")
    assert said.startswith("! ")
    assert f"/memories/{refused} " in said


def test_a_link_leads_nowhere_and_is_not_shown(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_text("secret")
    backend = DeviceLocalBackend(tmp_path / "store")
    backend.write(Locator("memories/own"), "own")
    (tmp_path / "store/memories/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "store/memories/file").symlink_to(tmp_path / "outside/x")
    tool = AgentmMemoryTool(backend)
    for path in ("/memories/folder", "/memories/folder/x", "/memories/file", "/memories/folder/new"):
        for command, more in commands_on(path):
            said = answer(tool, command, **more)
            assert said.startswith("! ")
            assert "secret" not in said.replace("`secret`", "")
    assert answer(tool, "view", path="/memories").splitlines()[1:] == ["3B\t/memories", "3B\t/memories/own"]
    assert [path.read_text() for path in (tmp_path / "outside").iterdir()] == ["secret"]


def test_a_link_in_a_folder_keeps_nothing_from_being_shown_or_deleted(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_text("secret")
    tool = AgentmMemoryTool(DeviceLocalBackend(tmp_path / "store"))
    for again in (lambda: answer(tool, "delete", path="/memories/a"), tool.clear_all_memory):
        answer(tool, "create", path="/memories/a/b/own", file_text="own")
        (tmp_path / "store/memories/a/b/link").symlink_to(tmp_path / "outside")
        (tmp_path / "store/memories/a/round").symlink_to("round")
        assert answer(tool, "view", path="/memories").splitlines()[1:] == [
            "3B\t/memories",
            "3B\t/memories/a/",
            "3B\t/memories/a/b/",
        ]
        assert answer(tool, "view", path="/memories/a/b").splitlines()[2:] == ["3B\t/memories/a/b/own"]
        assert not again().startswith("! ")
        assert list((tmp_path / "store/memories").iterdir()) == []
    assert (tmp_path / "outside/x").read_text() == "secret"


@pytest.mark.parametrize("name", ["report..final.md", "100%.md", "a%20b.md", "ünï côdé.md", "👨‍👩‍👧.md", "..hidden"])
def test_odd_names_that_are_only_names_are_kept_as_they_are(ask, backend, name):
    assert (
        ask("create", path=f"/memories//./{name}", file_text="x") == f"File created successfully at: /memories/{name}"
    )
    assert note(backend, f"memories/{name}") == "x"


class Rival(Layer):
    """Somebody else, who is faster once: writes between our look at a file and our write."""

    def __init__(self, inner, text):
        super().__init__(inner)
        self.text = text

    def write_versioned(self, locator, content, *, if_version):
        if self.text is not None:
            text, self.text = self.text, None
            self._inner.write(locator, text)
        return super().write_versioned(locator, content, if_version=if_version)


def test_an_edit_that_still_fits_is_made_on_the_text_of_now(backend):
    backend.write(Locator("memories/note.md"), "tea: green\nmilk: no\n")
    tool = AgentmMemoryTool(Rival(backend, "tea: green\nmilk: oat\n"))
    answer(tool, "str_replace", path="/memories/note.md", old_str="green", new_str="black")
    assert note(backend) == "tea: black\nmilk: oat\n"


@pytest.mark.parametrize(
    ("theirs", "line", "expected"),
    [
        ("0\n1\n2\n3\n", 2, "0\n1\n2\nX\n3\n"),
        ("1\n2\n3\n4\n", 2, "1\n2\nX\n3\n4\n"),
        ("0\n1\n2\n3\n", 3, "0\n1\n2\n3\nX\n"),
        ("0\n1\n2\n3\n", 0, "X\n0\n1\n2\n3\n"),
        ("changed\n", 3, "changed\nX\n"),
    ],
)
def test_an_insertion_stays_where_it_was_meant(backend, theirs, line, expected):
    backend.write(Locator("memories/note.md"), "1\n2\n3\n")
    tool = AgentmMemoryTool(Rival(backend, theirs))
    said = answer(tool, "insert", path="/memories/note.md", insert_line=line, insert_text="X")
    assert said == "The file /memories/note.md has been edited."
    assert note(backend) == expected


def test_an_edit_that_fits_no_longer_comes_back_with_the_text_of_now(backend):
    now = "\nHere's the content of /memories/note.md with line numbers:\n     1\tother\n     2\tthings"
    edits: dict[str, dict[str, Any]] = {
        "str_replace": {"old_str": "green", "new_str": "black"},
        "insert": {"insert_line": 1, "insert_text": "x"},
    }
    for command, more in edits.items():
        backend.write(Locator("memories/note.md"), "tea: green\nmilk: no\n")
        said = answer(AgentmMemoryTool(Rival(backend, "other\nthings\n")), command, path="/memories/note.md", **more)
        assert said.startswith("! No ")
        assert said.endswith(now)
        assert note(backend) == "other\nthings\n"


def test_of_two_that_make_one_file_the_slower_is_told(backend):
    tool = AgentmMemoryTool(Rival(backend, "theirs"))
    said = answer(tool, "create", path="/memories/note.md", file_text="ours")
    assert said == "! File /memories/note.md already exists"
    assert note(backend) == "theirs"


@pytest.mark.slow
@pytest.mark.parametrize("store", ["device-local", "sqlite"])
def test_two_processes_edit_one_file_and_no_edit_is_lost(store, tmp_path):
    backend = make_store(store, str(tmp_path))
    times = 60
    lines = [f"{who}{n}: open" for n in range(times) for who in ("a", "b", "prize")]
    backend.write(Locator("memories/todo.md"), "\n".join(lines))
    found = let_go("edit", store, str(tmp_path), "ab", times)
    now = note(backend, "memories/todo.md").splitlines()
    edited = [line.replace("open", f"done by {line[0]}") for line in lines if not line.startswith("prize")]
    added = [f"{who}-added {n}" for n in range(times) for who in "ab"]
    taken = [f"prize{n}: {who}" for who, one in zip("ab", found, strict=True) for n in one["won"]]
    assert sorted(now) == sorted(edited + added + taken)
    assert len(taken) == times
    assert sorted(found[0]["won"]) == sorted(found[1]["shown"])
    assert sorted(found[1]["won"]) == sorted(found[0]["shown"])


@pytest.mark.parametrize("command", [0, 1, 2, 3, 4])
def test_what_a_scope_does_not_cover_looks_the_same_whether_it_is_there_or_not(backend, command):
    backend.write(Locator("memories/mine/note.md"), "mine")
    backend.write(Locator("memories/theirs/note.md"), "secret plans")
    before = tree(backend)
    scope = ScopedStorageScope(read=["/memories/mine"], write=["/memories/mine"])
    tool = AgentmMemoryTool(ScopedBackend(backend, scope))
    said = set()
    for name in ("note.md", "none.md"):
        verb, more = list(commands_on(f"/memories/theirs/{name}"))[command]
        said.add(answer(tool, verb, **more).replace(name, "NAME"))
    assert said == {"! Permission denied: /memories/theirs/NAME cannot be used."}
    assert answer(tool, "view", path="/memories").splitlines()[1:] == [
        "4B\t/memories",
        "4B\t/memories/mine/",
        "4B\t/memories/mine/note.md",
    ]
    assert tree(backend) == before


class Simple(Layer):
    """A store with the seven verbs and nothing else."""

    @property
    def capabilities(self):
        return Capabilities()


def test_a_store_that_can_do_little_is_used_for_what_it_can(backend):
    tool = AgentmMemoryTool(Simple(backend))
    answer(tool, "create", path="/memories/a.md", file_text="old")
    assert answer(tool, "create", path="/memories/a.md", file_text="x") == "! File /memories/a.md already exists"
    answer(tool, "str_replace", path="/memories/a.md", old_str="old", new_str="new")
    assert "does not declare remove" in answer(tool, "delete", path="/memories/a.md")
    assert "does not declare rename" in answer(tool, "rename", old_path="/memories/a.md", new_path="/memories/b.md")
    assert note(backend, "memories/a.md") == "new"


def test_a_folder_that_is_written_to_while_it_goes_stays_with_what_was_written(backend):
    class Late(Layer):
        def remove(self, locator, *, if_version=None):
            if locator.name == "a":
                self._inner.write(locator.child("late.md"), "kept")
            super().remove(locator, if_version=if_version)

    backend.write(Locator("memories/a/old.md"), "x")
    assert "Please view it again" in answer(AgentmMemoryTool(Late(backend)), "delete", path="/memories/a")
    assert tree(backend) == {"memories": None, "memories/a": None, "memories/a/late.md": "kept"}


def test_bytes_that_are_no_text_and_texts_that_are_too_long_are_said(tmp_path):
    tool = AgentmMemoryTool(DeviceLocalBackend(tmp_path))
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories/binary.dat").write_bytes(b"\xff\xfe\x80")
    assert answer(tool, "view", path="/memories/binary.dat").endswith("is not a valid UTF-8 text file.")
    (tmp_path / "memories/huge.txt").write_text("\n" * 999_999)
    assert answer(tool, "view", path="/memories/huge.txt") == (
        "! File /memories/huge.txt exceeds maximum line limit of 999,999 lines."
    )
    assert answer(tool, "create", path="/memories/half.md", file_text="\ud800").startswith("! ")
    assert answer(tool, "create", path=f"/memories/{'x' * 300}", file_text="").startswith("! ")
    assert answer(tool, "create", path="/memories/huge.txt/below.md", file_text="").startswith("! ")


def test_without_a_store_it_is_the_configured_one(home):
    answer(AgentmMemoryTool(folder="agents/one"), "create", path="/memories/note.md", file_text="here")
    assert Path(home, ".agentm/memory/agents/one/note.md").read_text() == "here"


NAMES = st.sampled_from(["/memories/a", "/memories/a/b", "/memories/c", "/memories/c/d/e", "/memories/none"])
TEXTS = st.text(st.sampled_from("ab\n\r"), max_size=8)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": NAMES, "file_text": TEXTS}),
    st.fixed_dictionaries({"command": st.just("view"), "path": NAMES}),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": NAMES, "old_str": TEXTS.filter(bool), "new_str": TEXTS}
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": NAMES, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": NAMES}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": NAMES, "new_path": NAMES}),
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(COMMANDS, max_size=12))
def test_it_answers_as_the_tool_of_the_sdk_does(tmp_path_factory, commands):
    directory = str(tmp_path_factory.mktemp("sdk"))
    theirs, ours = BetaLocalFilesystemMemoryTool(directory), AgentmMemoryTool(MemoryBackend())
    for command in commands:
        expected, said = comparable(theirs, command), comparable(ours, command)
        assert said == expected, command
        if said == REFUSED:
            return  # the SDK's tool leaves folders behind where it fails


REFUSED = "refused by the disk"


def comparable(tool, command):
    """An answer without what differs on purpose: sizes of folders, the text sent along, what a disk says in its own
    words, and which end of a rename is wrong if both are."""
    try:
        said = answer(tool, **command)
    except OSError:
        return REFUSED
    if said.startswith("Here're"):
        return [line.partition("\t")[2] or line for line in said.splitlines()]
    if not said.startswith("! "):
        return said
    known = ("exist", "is not a file", "No replacement", "Invalid")
    if command["command"] == "rename" or not any(one in said for one in known):
        return REFUSED
    return said.partition("\nHere's the content")[0]


def test_it_runs_in_the_sdks_own_runner(backend):
    """A model that makes a note, makes it again, and reads what the tool said, over the SDK's wire format."""
    sent = []
    turns = iter(
        [
            {"command": "create", "path": "/memories/note.md", "file_text": "green tea"},
            {"command": "create", "path": "/memories/note.md", "file_text": "coffee"},
            None,
        ]
    )

    def model(request):
        sent.append(json.loads(request.content))
        command = next(turns)
        use = {"type": "tool_use", "id": f"use{len(sent)}", "name": "memory", "input": command}
        content = [use] if command else [{"type": "text", "text": "done"}]
        message = {
            "id": "m", "type": "message", "role": "assistant", "model": "test", "content": content,
            "stop_reason": "tool_use" if command else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        return http.Response(200, json=message)

    http = sdk_http()
    with http.Client(transport=http.MockTransport(model)) as wire:
        client = anthropic.Anthropic(api_key="none", http_client=wire)
        runner = client.beta.messages.tool_runner(
            model="test", max_tokens=9, tools=[AgentmMemoryTool(backend)], messages=[{"role": "user", "content": "hi"}]
        )
        assert runner.until_done().content[0].text == "done"
    assert sent[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    blocks = [block for request in sent for turn in request["messages"] for block in turn["content"]]
    results = {block["tool_use_id"]: block for block in blocks if "tool_use_id" in block}
    assert [result.get("is_error", False) for result in results.values()] == [False, True]
    assert "already exists" in str(results["use2"]["content"])
    assert note(backend) == "green tea"


def sdk_http():
    """The HTTP library that this version of the SDK speaks with."""
    return sys.modules[anthropic.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]
