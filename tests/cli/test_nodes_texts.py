"""Text that comes in, and what happens to it when it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agentm.backends.device_local import DeviceLocalBackend
from agentm.context.node import LARGEST_CONTENT
from agentm.errors import StoreError
from tests.cli.nodes import MINE
from tests.snapshot import snapshot


def test_text_comes_from_stdin_as_it_is(shell):
    shell.done("remember", "-", "--to", "profile", stdin="Zürich\r\n\n".encode())
    assert shell.json("read", "profile")["content"] == "Zürich\r\n\n"
    shell.done("edit", "profile", "--file", "-", stdin=b"Bern")
    assert shell.json("read", "profile")["content"] == "Bern"


def test_text_comes_from_a_file_as_it_is(shell, tmp_path):
    path = tmp_path / "note.md"
    path.write_bytes(b"# A note\n\nwith lines")
    shell.done("remember", "--to", "profile", "--file", str(path))
    assert shell.json("read", "profile")["content"] == "# A note\n\nwith lines"
    path.write_bytes(b"another")
    shell.done("edit", "profile", "--file", str(path))
    assert shell.json("read", "profile")["content"] == "another"


@pytest.mark.parametrize("data", [b"", b" \n\t\n"])
def test_an_empty_text_is_refused(shell, data, tmp_path):
    shell.done("remember", "Alice.", "--to", "profile")
    path = tmp_path / "empty"
    path.write_bytes(data)
    for args in (["remember"], ["remember", "--to", "profile"], ["edit", "profile"]):
        shell.refused(*args, "-", stdin=data, code="invalid_node")
        shell.refused(*args, "--file", str(path), code="invalid_node")
    shell.refused("remember", data.decode(), code="invalid_node")
    assert shell.done("ls") == "profile  Alice.\n"


def test_bytes_that_are_no_text_are_refused(shell, tmp_path):
    path = tmp_path / "latin"
    path.write_bytes(b"Z\xfcrich")
    assert "stdin is not UTF-8 (byte 1)" in shell.refused("remember", "-", stdin=b"Z\xfcrich", code="not_text")
    assert f"{path} is not UTF-8 (byte 1)" in shell.refused("remember", "--file", str(path), code="not_text")
    shell.refused("remember", "Z\udcfcrich", code="not_text")
    assert shell("ls")[1] == ""


def test_a_file_that_cannot_be_read_is_one_line(shell, tmp_path):
    shell.refused("remember", "--file", str(tmp_path / "missing"), code="not_found")
    shell.refused("remember", "--file", str(tmp_path), code="is_directory")


def test_too_much_is_refused_without_reading_it_all(shell):
    shell.refused("remember", "-", stdin=b"x" * (LARGEST_CONTENT + 1), code="content_too_big")


def test_without_a_stdin(shell, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    shell.refused("remember", "-", code="usage", status=2)


def test_what_a_terminal_would_obey_is_escaped_on_a_terminal_only(shell, monkeypatch):
    shell.done("remember", "a\x1b[31mb\x07\tc\r\nd", "--to", "profile")
    assert shell.done("read", "profile") == "a\x1b[31mb\x07\tc\r\nd\n"
    assert "\x1b" not in shell.done("ls") + shell.done("tree") + shell.done("read", "profile", "--meta")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    assert shell.done("read", "profile") == "a\\x1b[31mb\\x07\tc\r\nd\n"


@pytest.mark.spec("CTX-09")
@pytest.mark.parametrize(
    "args",
    [
        ["remember", "New.", "--to", "profile"],
        ["mv", "profile", "events/x"],
        ["forget", "profile"],
        ["undo", "profile"],
        ["relate", "profile", "events/y"],
    ],
)
def test_a_version_that_has_passed_is_refused(shell, args):
    shell.done("remember", "Why.", "--to", "events/y")
    for word in ("One.", "Two."):
        shell.done("remember", word, "--to", "profile")
    assert "at version 2, not 1" in shell.refused(*args, "--if-version", "1", code="version_conflict")
    error = shell.refused_json(*args, "--if-version", "1", code="version_conflict")
    assert error["version"] == 2
    assert isinstance(error["diff"], str)
    assert shell.json("read", "profile")["version"] == 2
    assert shell.json(*args, "--if-version", "2")["version"] == 3


def test_only_if_new(shell):
    shell.done("remember", "One.", "--to", "profile", "--if-version", "0")
    shell.refused("remember", "Two.", "--to", "profile", "--if-version", "0", code="version_conflict")
    shell.refused("remember", "Two.", "--category", "profile", code="version_conflict")


def kept(err: str) -> str:
    """The text in the file that a complaint names."""
    path = err.partition("your text is kept in ")[2].splitlines()[0]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if os.path.basename(path) == "memory.md":
        os.remove(path)
        os.rmdir(os.path.dirname(path))
    return text


@pytest.fixture
def editor(monkeypatch, tmp_path):
    """Make $EDITOR a script; it gets the path of the copy as its argument."""

    def choose(script: str) -> None:
        path = tmp_path / "an editor.py"
        path.write_text(f"import os, sys\npath = sys.argv[-1]\n{script}\n")
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"'{sys.executable}' '{path}' --wait")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return choose


def copies(tmp_path) -> list[str]:
    return [name for name in os.listdir(tmp_path) if name.startswith("agentm-")]


needs_posix = pytest.mark.skipif(os.name == "nt", reason="the editor is named with POSIX quoting")


@needs_posix
def test_an_edit_of_the_text_alone_keeps_the_fields_above_it(shell):
    shell.done("remember", "Osprey one.", "--to", "events/osprey", "--who", "Ferd", "--when", "2020-01-01")
    shell.done("edit", "events/osprey", "Osprey two.")
    text = shell.done("read", "events/osprey")
    assert "who: Ferd" in text
    assert "date: 2020-01-01" in text
    assert text.endswith("Osprey two.\n")
    shell.refused("edit", "events/osprey", "", code="invalid_node")


def test_an_edit_in_an_editor(shell, editor, tmp_path):
    shell.done("remember", "Likes tea.", "--to", "profile")
    editor("text = open(path).read(); open(path, 'w').write(text.replace('tea', 'mate'))")
    assert shell.done("edit", "profile", "--source", "me") == f"changed {MINE}/profile (version 2)\n"
    assert shell.done("read", "profile") == "Likes mate.\n"
    editor("pass")
    assert shell.done("edit", "profile") == f"unchanged {MINE}/profile (version 2)\n"
    assert copies(tmp_path) == []


@needs_posix
def test_an_edit_that_somebody_else_overtook_shows_the_difference_and_keeps_the_text(shell, editor):
    shell.done("remember", "Likes tea.", "--to", "profile")
    editor(
        "import subprocess\n"
        "subprocess.run([sys.executable, '-m', 'agentm', 'edit', 'profile', 'Theirs.'], check=True, stdout=2)\n"
        "open(path, 'w').write('Mine.\\n')"
    )
    code, out, err = shell("edit", "profile")
    assert (code, out) == (1, "")
    assert "-Theirs.\n+Mine.\n" in err
    assert err.splitlines()[-1].startswith("agentm: version_conflict: ")
    assert kept(err) == "Mine.\n"
    assert shell.done("read", "profile") == "Theirs.\n"


@needs_posix
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("open(path, 'w').write('Mine.\\n'); sys.exit(3)", "editor_failed"),
        ("open(path, 'w').write('')", "invalid_node"),
        ("open(path, 'wb').write(b'\\xff')", "not_text"),
        ("os.remove(path)", "not_found"),
        ("sys.exit(1)", "editor_failed"),
    ],
)
def test_an_edit_that_goes_wrong_changes_nothing(shell, editor, script, code, tmp_path):
    shell.done("remember", "Likes tea.", "--to", "profile")
    editor(script)
    status, out, err = shell("edit", "profile")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith(f"agentm: {code}: ")
    assert ("your text is kept in" in err) is bool(copies(tmp_path))
    assert shell.json("read", "profile")["version"] == 1


@pytest.mark.parametrize("command", ["no-such-editor", "'unbalanced", " "])
def test_an_editor_that_cannot_be_run_is_one_line(shell, monkeypatch, command):
    shell.done("remember", "Likes tea.", "--to", "profile")
    monkeypatch.setenv("VISUAL", command)
    shell.refused("edit", "profile", code="editor_failed")


@needs_posix
def test_an_interrupt_in_the_editor_is_the_editors(shell, editor):
    shell.done("remember", "Likes tea.", "--to", "profile")
    editor("import signal\nos.kill(os.getppid(), signal.SIGINT)\nopen(path, 'w').write('Mine.\\n')")
    assert shell.done("edit", "profile").startswith("changed ")


def test_an_interrupt_while_writing_keeps_the_text(shell, monkeypatch):
    shell.done("remember", "Likes tea.", "--to", "profile")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agentm.context.contextfs.ContextFS.write_node", interrupted)
        code, out, err = shell("edit", "profile", "-", stdin=b"Mine.")
    assert (code, out) == (130, "")
    assert kept(err) == "Mine."
    assert shell.done("read", "profile") == "Likes tea.\n"


def test_a_store_that_refuses_leaves_the_text_and_the_memory(shell, monkeypatch, tmp_path):
    shell.done("remember", "Likes tea.", "--to", "profile")

    def full(*_, **__):
        raise StoreError("no space is left; free some.", code="no_space")

    path = tmp_path / "mine.md"
    path.write_text("Mine.")
    with monkeypatch.context() as patch:
        patch.setattr(DeviceLocalBackend, "write_versioned", full)
        patch.setattr(DeviceLocalBackend, "write", full)
        patch.setattr(DeviceLocalBackend, "write_many", full)
        code, out, err = shell("edit", "profile", "Mine.")
        assert (code, out) == (1, "")
        assert err.splitlines()[-1] == "agentm: no_space: no space is left; free some."
        assert kept(err) == "Mine.\n"
        assert f"your text is kept in {path}\n" in shell("edit", "profile", "--file", str(path))[2]
        shell.refused("remember", "Other.", code="no_space")
        shell.refused("forget", "profile", code="no_space")
        shell.refused("mv", "profile", "events/x", code="no_space")
    assert shell.done("ls") == "profile  Likes tea.\n"
    assert path.read_text() == "Mine."


def test_a_store_that_cannot_be_had_is_one_line(shell, home):
    shell.done("config", "set", "storage.backend", "sqlite")
    os.mkdir(os.path.join(home, ".agentm", "memory.db"))
    before = snapshot(home)
    for args in (
        ["remember", "x"],
        ["ls"],
        ["tree"],
        ["read", "profile"],
        ["repair"],
        ["outbox"],
        ["forget", "profile"],
    ):
        shell.refused(*args, code="backend_unusable")
    assert snapshot(home) == before


@pytest.mark.slow
def test_as_a_program_with_pipes(home):
    def agentm(*args: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(
            [sys.executable, "-m", "agentm", *args], input=stdin, capture_output=True, check=True
        ).stdout

    agentm("remember", "-", "--to", "profile", stdin="Grüezi 你好\n".encode())
    assert agentm("read", "profile") == "Grüezi 你好\n".encode()
    assert agentm("edit", "profile", "-", stdin=agentm("read", "profile")).startswith(b"unchanged ")


def test_an_edit_that_is_refused_says_in_json_where_the_text_is(shell):
    shell.done("remember", "One.", "--to", "profile")
    shell.done("remember", "Two.", "--to", "profile")
    error = shell.refused_json("edit", "profile", "Mine.", "--if-version", "1", code="version_conflict")
    with open(error["kept"], encoding="utf-8") as file:
        assert file.read().rstrip() == "Mine."


def test_a_broken_memory_is_refused_in_words_that_help_and_can_be_purged(shell, home):
    shell.done("remember", "One.", "--to", "profile")
    meta = os.path.join(
        home, ".agentm", "memory", "accounts", "local", "users", "alice", "memories", "profile", ".meta.json"
    )
    with open(meta, "w", encoding="utf-8") as file:
        file.write("{")
    assert shell("ls")[0] == 1
    assert shell("repair")[0] == 1
    assert "undo" in shell.refused("read", "profile", code="node_broken")
    shell.done("forget", "profile", "--purge")
    shell.done("remember", "Anew.", "--to", "profile")
    assert shell.done("read", "profile") == "Anew.\n"


def test_bytes_that_are_no_text_among_the_words_of_an_edge_are_refused(shell):
    for name in ("x", "y"):
        shell.done("remember", name, "--to", f"events/{name}")
    shell.refused("relate", "events/x", "events/y", "--reason", "\udcff", code="invalid_node")
