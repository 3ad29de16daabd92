"""What services hand out: ChatGPT's and Claude's conversations, mem0's memories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.importing.sources import bomb, counts, left_out, zipped


def message(role: str, *parts: Any, at: float | None = None, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    return {"author": {"role": role}, "content": content, "create_time": at, **more}


def tree(*chain: Any, **more: Any) -> dict[str, Any]:
    """A conversation of ChatGPT in which each message follows the one before."""
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    for number, one in enumerate(chain):
        before = f"n{number - 1}" if number else "root"
        after = [f"n{number + 1}"] if number + 1 < len(chain) else []
        nodes[f"n{number}"] = {"id": f"n{number}", "message": one, "parent": before, "children": after}
    fields = {"id": "c1", "title": "Looms", "create_time": 1714556400.5, "current_node": f"n{len(chain) - 1}"}
    return {**fields, "mapping": nodes, **more}


LOOMS = tree(
    message("system", ""),
    message("user", "How do looms\nwork?", at=1714556400),
    message("assistant", "With ", {"content_type": "image_asset_pointer"}, "threads.", at=1714556460),
)


def test_a_conversation_of_chatgpt_is_one_memory_with_a_section_for_each_turn(into):
    assert counts(into.dump([LOOMS])) == {"new": 1}
    node = into.read("events/looms")
    assert node.content == (
        "# Looms\n\n## User · 2024-05-01 09:40 UTC\n\nHow do looms\nwork?\n"
        "\n\n## Assistant · 2024-05-01 09:41 UTC\n\nWith \n\n(an image)\n\nthreads.\n"
    )
    assert (node.sources, node.created_at) == (("chatgpt:c1",), "2024-05-01T09:40:00.500000Z")


def test_the_branch_that_was_last_open_is_told(into):
    talk = tree(message("user", "first"), message("assistant", "kept"))
    talk["mapping"]["other"] = {"message": message("assistant", "dropped", at=9e9), "parent": "n0", "children": []}
    into.dump([talk])
    assert "kept" in into.read("events/looms").content
    assert "dropped" not in into.read("events/looms").content


@pytest.mark.parametrize("current", [None, "nowhere", 7])
def test_without_a_word_about_it_the_newest_branch_is(into, current):
    talk = tree(message("user", "first", at=1), message("assistant", "older", at=2), current_node=current)
    talk["mapping"]["other"] = {"message": message("assistant", "newer", at=3), "parent": "n0", "children": []}
    into.dump([talk])
    assert "newer" in into.read("events/looms").content
    assert "older" not in into.read("events/looms").content


def test_a_tree_that_runs_in_circles_ends(into):
    talk = tree(message("user", "round"), message("assistant", "and round"))
    talk["mapping"]["n0"]["parent"] = "n1"
    assert counts(into.dump([talk])) == {"new": 1}


def test_what_nobody_saw_is_not_told(into):
    hidden = {"is_visually_hidden_from_conversation": True}
    thoughts = {"author": {"role": "assistant"}, "content": {"content_type": "thoughts", "thoughts": []}}
    code = {"author": {"role": "assistant"}, "content": {"content_type": "code", "text": "print(1)"}}
    talk = tree(
        message("user", "Run it."),
        message("user", "profile", metadata=hidden),
        message("tool", "tool output"),
        thoughts,
        {**code, "recipient": "python"},
        code,
        {"author": None, "content": "?"},
        message("assistant", "Done.", recipient="all"),
    )
    into.dump([talk])
    text = into.read("events/looms").content
    assert text == "# Looms\n\n## User\n\nRun it.\n\n\n## Assistant\n\n```\nprint(1)\n```\n\n\n## Assistant\n\nDone.\n"


CLAUDE = {
    "uuid": "u1",
    "name": "",
    "created_at": "2024-05-01T09:40:00.000000Z",
    "chat_messages": [
        {
            "sender": "human",
            "text": "old field",
            "content": [{"type": "text", "text": "Read this,\nplease."}],
            "attachments": [{"file_name": "a.txt", "extracted_content": "inside"}],
            "files": [{"file_name": "b.png"}],
            "created_at": "2024-05-01T11:40:00+02:00",
        },
        {
            "sender": "assistant",
            "text": "",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "Yes."},
                {"type": "tool_use", "name": "x"},
                {"type": "text", "text": "Done."},
            ],
        },
        {"sender": "assistant", "text": "Only text."},
        {"sender": "assistant", "text": "", "content": []},
    ],
}


def test_a_conversation_of_claude(into):
    assert counts(into.dump([CLAUDE, {**CLAUDE, "uuid": "u2", "chat_messages": []}])) == {"new": 1, "empty": 1}
    node = into.read("events/read-this")
    assert node.content == (
        "# Read this,\n"
        "\n## User · 2024-05-01 09:40 UTC\n\nRead this,\nplease.\n\nAttached: a.txt\n\n````\ninside\n````\n\n"
        "Attached: b.png\n"
        "\n\n## Assistant\n\nYes.\n\nDone.\n"
        "\n\n## Assistant\n\nOnly text.\n"
    )
    assert (node.sources, node.created_at) == (("claude:u1",), "2024-05-01T09:40:00.000000Z")


@pytest.mark.parametrize("talk", [LOOMS, CLAUDE])
def test_the_zip_and_the_folder_are_the_same_as_the_file(into, tmp_path, talk):
    more = {**talk, "id": "c2", "uuid": "c2"}
    members: dict[str, str | bytes] = {
        "export/conversations.json": json.dumps([talk]),
        "export/conversations-001.json": json.dumps([more]),
        "user.json": "{}",
    }
    into(zipped(tmp_path / "export.zip", members))
    folder = tmp_path / "unpacked"
    folder.mkdir()
    for name, text in members.items():
        (folder / name.rpartition("/")[2]).write_bytes(str(text).encode())
    assert counts(into(folder)) == {"same": 2}


def test_mem0_memories_keep_what_is_known_about_them(into):
    entry = {
        "id": "m1",
        "memory": "Prefers green tea.",
        "user_id": "alex",
        "hash": "0",
        "metadata": {"source": "chat", "category": "preferences", "tags": ["drinks"], "note": None},
        "categories": ["food", "Drinks"],
        "created_at": "2024-07-20T01:30:36.275141-07:00",
        "updated_at": None,
    }
    assert counts(into.dump({"results": [entry, {"id": "m2", "memory": "Plain."}]})) == {"new": 2}
    node = into.read("preferences/prefers-green-tea")
    assert node.content == (
        '---\nuser_id: "alex"\ncreated_at: "2024-07-20T01:30:36.275141-07:00"\nsource: "chat"\n'
        'category: "preferences"\ntags: ["drinks"]\n---\n\nPrefers green tea.\n'
    )
    assert (node.tags, node.created_at) == (("food", "Drinks"), "2024-07-20T08:30:36.275141Z")
    assert (node.sources, node.abstract) == (("mem0:m1",), "Prefers green tea.")
    assert into.read("entities/plain").content == "Plain.\n"


@pytest.mark.parametrize("shape", ["list", "results", "memories", "lines"])
def test_mem0_comes_in_several_shapes(into, shape):
    entries = [{"id": str(n), "memory": f"Fact {n}."} for n in range(3)]
    lines = "\n".join(map(json.dumps, entries))
    dumped = {"list": entries, "results": {"results": entries}, "memories": {"memories": entries}, "lines": lines}
    assert counts(into.dump(dumped[shape])) == {"new": 3}


def test_mem0_without_ids_is_known_again_by_its_text(into):
    assert counts(into.dump([{"memory": "One."}, {"memory": "Two."}])) == {"new": 2}
    assert counts(into.dump([{"memory": "Two."}, {"memory": "One."}])) == {"same": 2}


def test_a_conversation_that_went_on_is_a_new_version(into):
    into.dump([LOOMS])
    longer = tree(*(LOOMS["mapping"][f"n{n}"]["message"] for n in range(3)), message("user", "Thanks."))
    assert counts(into.dump([longer])) == {"changed": 1}
    assert into.read("events/looms").version == 2


def test_json_that_is_cut_gives_what_came_before_the_cut(into):
    whole = json.dumps([{**LOOMS, "id": f"c{n}"} for n in range(10)])
    report = into.dump(whole[: len(whole) * 3 // 4])
    assert counts(report) == {"new": 7, "left_out": 1}
    assert left_out(report) == {"dump.json": "json_invalid"}
    assert counts(into.dump(whole)) == {"same": 7, "new": 3}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"mapping": {}, "id": 7}, "item_unknown"),
        ({"id": "x"}, "item_unknown"),
        ("text", "item_unknown"),
        (tree(message("user", "\ud800 alone"), id="c9"), "invalid_node"),
        (tree(message("user", "x" * (17 << 20)), id="c9"), "content_too_big"),
    ],
)
def test_an_element_that_is_wrong_does_not_keep_the_others_out(into, more, code):
    report = into.dump([LOOMS, more, {**LOOMS, "id": "c2"}])
    assert counts(report) == {"new": 2, "left_out": 1}
    assert list(left_out(report).values()) == [code]


def test_elements_that_are_nested_too_deeply_or_no_text_are_said(into):
    good = json.dumps(LOOMS)
    report = into.dump(f"[{good}, {'[' * 100_000}]")
    assert (counts(report), left_out(report)) == ({"new": 1, "left_out": 1}, {"dump.json": "json_invalid"})
    report = into.dump(f"[{good}, ".encode() + b'"' + b"x" * (2 << 20) + b'\xff"]')
    assert (counts(report), left_out(report)) == ({"same": 1, "left_out": 1}, {"dump.json": "not_text"})


def test_an_element_larger_than_what_is_read_at_once(into):
    long = tree(message("user", "é" * (3 << 20)), id="c2")
    assert counts(into.dump([LOOMS, long, {**LOOMS, "id": "c3"}])) == {"new": 3}


def test_an_element_that_never_ends_is_not_read_for_ever(into, monkeypatch):
    monkeypatch.setattr("agentm.importing.json_stream.LARGEST_ELEMENT", 1 << 20)
    long = tree(message("user", "x" * (5 << 20)), id="c2")
    report = into.dump([LOOMS, long])
    assert (counts(report), left_out(report)) == ({"new": 1, "left_out": 1}, {"dump.json": "json_invalid"})


def test_a_zip_that_is_damaged_or_a_bomb_is_said(into, tmp_path):
    path = zipped(tmp_path / "x.zip", {"conversations.json": json.dumps([LOOMS, "x" * 5000])})
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    assert left_out(into(path, kind="chatgpt")) == {"x.zip": "archive_damaged"}
    large = bomb(tmp_path / "bomb.zip", {"conversations.json": "[]"})
    assert left_out(into(large, kind="claude")) == {"bomb.zip": "archive_bomb"}
    none = zipped(tmp_path / "none.zip", {"else.json": "[]"})
    assert left_out(into(none, kind="claude")) == {"none.zip": "import_unrecognised"}


def test_two_texts_under_one_id_are_told_of(into):
    report = into.dump([{"id": "9", "memory": "First."}, {"id": "9", "memory": "Second."}])
    assert left_out(report) == {"mem0:9": "said_twice"}
    assert counts(report)["new"] == 1
