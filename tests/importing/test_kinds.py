"""What kind of source something is, found out from what lies there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentm import AgentmError
from agentm.exporting import MANIFEST
from agentm.importing.kinds import KINDS, detect
from tests.importing.sources import lay, zipped

CHATGPT = json.dumps([{"id": "1", "mapping": {}}])
CLAUDE = json.dumps([{"uuid": "1", "chat_messages": []}])
BASIC = "---\ntitle: X\npermalink: x\n---\n- [fact] It is so.\n"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({".obsidian/app.json": "{}", "CLAUDE.md": "x", "a.md": BASIC}, "obsidian"),
        ({"CLAUDE.md": "x", "a.md": "y"}, "agent-files"),
        ({"agents.md": "x"}, "agent-files"),
        ({"MEMORY.md": "x", "topic.md": "y"}, "markdown"),
        ({"sub/a.md": BASIC, "b.md": "y"}, "basic-memory"),
        ({"a.md": "---\npermalink: x\n---\n- built_by [[Ada]]\n"}, "basic-memory"),
        ({"a.md": "- [ ] to do\n- [x] done\n- see [[Ada]]"}, "markdown"),
        ({"conversations.json": CHATGPT}, "chatgpt"),
        ({"conversations.json": CLAUDE, "users.json": "[]"}, "claude"),
    ],
)
def test_a_folder(tmp_path, files, kind):
    assert detect(str(lay(tmp_path / "source", files))).name == kind


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("CLAUDE.md", "x", "agent-files"),
        ("memory.md", "x", "agent-files"),
        ("a.md", BASIC, "basic-memory"),
        ("a.markdown", "x", "markdown"),
        ("x.json", CHATGPT, "chatgpt"),
        ("x.json", CLAUDE, "claude"),
        ("x.json", '[{"id": 1, "memory": "x"}]', "mem0"),
        ("x.json", '{"results": []}', "mem0"),
        ("x.jsonl", '{"memory": "x"}\n{"memory": "y"}', "mem0"),
    ],
)
def test_a_file(tmp_path, name, text, kind):
    lay(tmp_path, {name: text})
    assert detect(str(tmp_path / name)).name == kind


@pytest.mark.parametrize(
    ("member", "text", "kind"),
    [
        (MANIFEST, "{}", "agentm"),
        ("x/conversations.json", CHATGPT, "chatgpt"),
        ("conversations-1.json", CLAUDE, "claude"),
    ],
)
def test_a_zip(tmp_path, member, text, kind):
    assert detect(str(zipped(tmp_path / "x.zip", {member: text}))).name == kind


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "import_unrecognised"),
        ({"a.txt": "x"}, "import_unrecognised"),
        ({"x.json": "[]"}, "import_unrecognised"),
        ({"x.json": "[1]"}, "import_unrecognised"),
        ({"x.json": '{"a": 1}'}, "import_unrecognised"),
        ({"x.json": "nonsense"}, "json_invalid"),
        ({"x.json": b"\xff\xfe["}, "not_text"),
        ({"x.zip": b"PK\x05\x06" + bytes(18)}, "import_unrecognised"),
        ({"x.zip": b"PK\x03\x04 cut"}, "archive_damaged"),
        ({"x.png": b"\x89PNG\r\n\x1a\n"}, "not_text"),
    ],
)
def test_what_it_is_not_is_said(tmp_path, files: dict[str, Any], code):
    lay(tmp_path / "source", files)
    named = [name for name in files if not name.endswith(".txt")]
    with pytest.raises(AgentmError) as refused:
        detect(str(tmp_path / "source" / named[0] if named else tmp_path / "source"))
    assert refused.value.code == code


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        detect(str(tmp_path / "nothing"))


def test_every_kind_has_a_name_of_its_own():
    assert len({kind.name for kind in KINDS}) == len(KINDS)
