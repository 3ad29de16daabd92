"""Who asks, which memory is meant, and what a new one is called."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys

import pytest

from agentm.context.names import LONGEST_NAME, checked_name
from agentm.context.slugs import slug_of
from tests.cli.nodes import MINE


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Likes tea.", "likes-tea"),
        ("Ada's loom isn't here", "adas-loom-isnt-here"),
        ("Grüße aus Zürich – ça va?", "grusse-aus-zurich-ca-va"),
        ("  -- 42 things! --  ", "42-things"),
        ("你好 世界", "你好-世界"),
        ("हिन्दी", "हिन्दी"),
        ("ﬁne ½", "fine-1-2"),
        ("🎉🎉", "note"),
        ("", "note"),
        ("con", "note-con"),
        ("../../etc/passwd", "etc-passwd"),
        ("a" * 300, "a" * 48),
        ("word " * 50, "word-word-word-word-word-word-word-word-word"),
    ],
)
def test_a_slug_is_a_name_that_every_store_can_hold(text, slug):
    assert slug_of(text) == slug
    assert checked_name(slug, "slug") == slug


@pytest.mark.parametrize("character", ["𝒳", "𠀀", "字", "e\u0301", "\u0e33", "İ"])
def test_a_slug_leaves_room_for_a_number(character):
    slug = slug_of(character * 90)
    assert len(f"{slug}-1000".encode()) <= LONGEST_NAME
    assert slug_of(slug) == slug


def test_the_same_text_twice_is_two_memories(shell):
    uris = [shell.json("remember", "Likes tea.")["uri"] for _ in range(3)]
    assert uris == [f"{MINE}/events/likes-tea{end}" for end in ("", "-2", "-3")]


def test_a_name_that_was_forgotten_is_not_given_to_another(shell):
    shell.done("remember", "Likes tea.")
    shell.done("forget", "events/likes-tea")
    assert shell.json("remember", "Likes tea.")["uri"] == f"{MINE}/events/likes-tea-2"
    shell.done("undo", "events/likes-tea")
    assert len(shell.json("ls")["memories"]) == 2


@pytest.mark.slow
def test_processes_that_remember_the_same_at_once_do_not_share_a_name(shell):
    command = [sys.executable, "-m", "agentm", "remember", "Likes tea.", "--json"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    receipts = [json.loads(process.communicate()[0]) for process in processes]
    assert {receipt["version"] for receipt in receipts} == {1}
    assert {receipt["uri"] for receipt in receipts} == {
        f"{MINE}/events/likes-tea{end}" for end in ("", "-2", "-3", "-4")
    }


def test_words_need_no_quotes(shell):
    shell.done("remember", "Likes", "green", "tea.", "--category", "preferences")
    assert shell.done("read", "preferences/likes-green-tea") == "Likes green tea.\n"


@pytest.mark.parametrize(
    ("args", "uri"),
    [
        (["--to", "events/x"], f"{MINE}/events/x"),
        (["--to", "/events/x/"], f"{MINE}/events/x"),
        (["--to", "memories/events/x"], f"{MINE}/events/x"),
        (["--to", "users/alice/memories/events/x"], f"{MINE}/events/x"),
        (["--to", f"{MINE}/events/x"], f"{MINE}/events/x"),
        (["--to", "profile"], f"{MINE}/profile"),
        (["--category", "profile"], f"{MINE}/profile"),
        (["--slug", "x"], f"{MINE}/events/x"),
        (["--category", "cases", "--slug", "x"], f"{MINE}/cases/x"),
        (["--to", "skills/weave"], f"{MINE}/skills/weave"),
        (["--to", "skills/weave", "--agent", "scout"], "ctx://local/agents/scout/skills/weave"),
        (["--category", "skills", "--agent", "scout"], "ctx://local/agents/scout/skills/hello"),
        (["--to", "events/x", "--agent", "scout"], "ctx://local/agents/scout/memories/events/x"),
        (["--to", f"{MINE}/events/x", "--agent", "scout"], f"{MINE}/events/x"),
        (["--to", "profile", "--account", "acme", "--user", "bob"], "ctx://acme/users/bob/memories/profile"),
    ],
)
def test_addresses(shell, args, uri):
    assert shell.json("remember", "Hello.", *args)["uri"] == uri
    who = args[args.index("--agent") :] if "--agent" in args else args[2:] if "--user" in args else []
    assert shell.json("read", uri, *who)["content"] == "Hello.\n"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("evnts/x", "did you mean 'events'?"),
        ("events", "is a folder, not a memory"),
        ("events/a/b", "leave that out"),
        ("", "is a folder, not a memory"),
        ("ctx:/local/users/alice/memories/profile", "does not begin with ctx://"),
        ("CTX://local/users/alice/memories/profile", "does not begin with ctx://"),
        ("ctx://local/user/alice/memories/profile", "did you mean 'users'?"),
        ("ctx://", "the account is empty"),
        ("events/..", "begins with a dot"),
        ("events/a:b", "holds ':'"),
        ("events/" + "a" * 300, "is longer than"),
        ("events/a\x1b[31m", "invisible character U+001B"),
        ("events/\udcff", "invisible character U+DCFF"),
    ],
)
def test_a_bad_address_is_one_line_on_every_command(shell, address, sentence):
    for args in (["read"], ["edit", "x"], ["forget"], ["history"], ["diff"], ["undo"], ["mv", "events/y"]):
        assert sentence in shell.refused(args[0], address, *args[1:], code="invalid_uri")
    shell.refused("remember", "x", "--to", address, code="invalid_uri")
    shell.refused("relate", "events/y", address, code="invalid_uri")


def test_a_name_that_is_nearly_right_is_suggested(shell):
    shell.done("remember", "Hello.", "--to", "events/first-visit")
    for args in (["read"], ["edit"], ["forget"], ["history"], ["undo"], ["diff"], ["mv", "events/y"], ["ls"]):
        said = shell.refused(args[0], "events/frist-visit", *args[1:], code="node_not_found")
        assert said.endswith("events/frist-visit; did you mean events/first-visit?\n")
    assert "did you mean events/first-visit?" in shell.refused("read", "events/first", code="node_not_found")
    assert "did you mean" not in shell.refused("read", "events/zzz", code="node_not_found")
    shell.done("remember", "Hello again.", "--to", "profile")
    said = shell.refused("relate", "profile", "events/frist-visit", code="node_not_found")
    assert said.endswith("events/frist-visit to relate to; did you mean events/first-visit?\n")


@pytest.mark.parametrize(
    ("verb", "meant"),
    [("rm", "forget"), ("cat", "read"), ("write", "remember"), ("remembr", "remember"), ("lst", "ls")],
)
def test_a_verb_of_another_tool_is_translated(shell, verb, meant):
    assert f"(did you mean {meant!r}?)" in shell.refused(verb, code="usage", status=2)


@pytest.mark.spec("CTX-08")
def test_others_are_neither_read_nor_written(shell):
    shell.done("remember", "Secret.", "--to", "profile", "--user", "bob")
    shell.done("remember", "Secret.", "--to", "profile", "--account", "acme")
    shell.done("remember", "Secret.", "--to", "profile", "--agent", "scout")
    for other in (
        "ctx://local/users/bob/memories/profile",
        "ctx://acme/users/alice/memories/profile",
        "ctx://local/agents/scout/memories/profile",
        "ctx://local/users/nobody/memories/profile",
    ):
        for args in (["read"], ["edit", "x"], ["forget"], ["history"], ["diff"], ["undo"], ["mv", "profile"], ["ls"]):
            assert "Secret" not in shell.refused(args[0], other, *args[1:], code="access_denied")
        shell.refused("remember", "x", "--to", other, code="access_denied")
        said = shell.refused("relate", other, "--list", code="access_denied")
        assert all(flag in said for flag in ("--account", "--user", "--agent"))
    assert shell.json("tree", "ctx://local")["children"] == []
    assert shell.json("ls")["memories"] == []
    assert [one["uri"] for one in shell.json("ls", "--user", "bob")["memories"]] == [
        "ctx://local/users/bob/memories/profile"
    ]


def test_the_settings_name_the_caller(shell):
    shell.done("config", "set", "identity.account", "acme")
    shell.done("config", "set", "identity.user", "bob")
    assert shell.json("remember", "x", "--to", "profile")["uri"] == "ctx://acme/users/bob/memories/profile"
    node = shell.json("read", "profile")
    assert node["actor"] == "human:bob"
    assert shell.json("remember", "x", "--to", "profile", "--user", "eve")["uri"].startswith("ctx://acme/users/eve/")


def test_a_setting_that_is_no_name_is_refused(shell, home):
    os.mkdir(os.path.join(home, ".agentm"))
    with open(os.path.join(home, ".agentm", ".agentm-config.json"), "w") as file:
        file.write('{"identity.user": 7}')
    assert "identity.user" in shell.refused("ls", code="config_invalid")
    shell.done("config", "set", "identity.user", "a/b")
    shell.refused("ls", code="invalid_uri")


def test_a_store_that_forgets_says_so(shell):
    shell.done("config", "--storage-backend", "memory")
    code, out, err = shell("remember", "Likes tea.")
    assert (code, out) == (0, f"remembered {MINE}/events/likes-tea (version 1)\n")
    assert err == "agentm: hint: the store 'memory' forgets everything when this command ends.\n"


def test_a_login_name_is_made_safe(shell, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "CORP\\José M.")
    assert shell.json("remember", "x")["uri"].startswith("ctx://local/users/corp-jose-m/")


def test_a_process_without_a_user_has_a_space_too(shell, monkeypatch):
    def nobody():
        raise OSError("no user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert shell.json("remember", "x")["uri"].startswith("ctx://local/users/me/")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--account", "a/b"], "invalid_uri"),
        (["--user", "%"], "invalid_uri"),
        (["--agent", ""], "invalid_uri"),
        (["--agent", ".."], "invalid_uri"),
    ],
)
def test_an_identity_that_cannot_be_is_refused(shell, args, code):
    shell.refused("ls", *args, code=code)
    shell.refused("remember", "x", *args, code=code)
