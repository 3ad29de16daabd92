"""The life of a memory, typed."""

from __future__ import annotations

import os

import pytest

from tests.cli.nodes import MINE
from tests.snapshot import snapshot

STORES = {
    "device-local": [],
    "sqlite": ["config", "--storage-backend", "sqlite"],
    "vault": ["config", "--vault-path", "~/Notes"],
}


@pytest.fixture(params=STORES)
def anywhere(request, shell, home):
    """A shell on each store that outlives a command."""
    os.mkdir(os.path.join(home, "Notes"))
    if STORES[request.param]:
        shell.done(*STORES[request.param])
    return shell


def test_the_whole_life_of_a_memory(anywhere):
    agentm = anywhere
    assert agentm.done("remember", "Likes tea.") == f"remembered {MINE}/events/likes-tea (version 1)\n"
    assert agentm.done("read", "events/likes-tea") == "Likes tea.\n"
    assert agentm.done("edit", "events/likes-tea", "Likes green tea.").endswith("events/likes-tea (version 2)\n")
    assert agentm.done("ls") == "events/likes-tea  Likes green tea.\n"
    assert agentm.done("diff", "events/likes-tea").splitlines()[2:] == [
        "@@ -1 +1 @@",
        "-Likes tea.",
        "+Likes green tea.",
    ]
    assert agentm.done("undo", "events/likes-tea") == f"brought back {MINE}/events/likes-tea (version 3)\n"
    assert agentm.done("read", "events/likes-tea") == "Likes tea.\n"
    assert agentm.done("read", "events/likes-tea", "--version", "2") == "Likes green tea.\n"
    assert agentm.done("mv", "events/likes-tea", "preferences/tea") == (
        f"moved {MINE}/events/likes-tea to {MINE}/preferences/tea (version 4)\n"
    )
    agentm.refused("read", "events/likes-tea", code="node_not_found")
    assert agentm.done("forget", "preferences/tea") == f"forgot {MINE}/preferences/tea (version 5)\n"
    agentm.refused("read", "preferences/tea", code="node_not_found")
    assert "(deleted)" in agentm.done("history", "preferences/tea").splitlines()[-1]
    agentm.done("undo", "preferences/tea")
    assert agentm.done("read", "preferences/tea") == "Likes tea.\n"
    assert agentm.done("forget", "preferences/tea", "--purge").startswith(f"forgot {MINE}/preferences/tea for good")
    agentm.refused("undo", "preferences/tea", code="node_not_found")
    assert agentm.done("repair").endswith(" 0 repaired, 0 for you to look at\n")


@pytest.mark.parametrize(
    ("options", "is_told"), [((), True), (("--slug", "note-7"), False), (("--slug", "tea"), False)]
)
def test_a_purge_says_that_a_name_made_from_the_words_stays(shell, options, is_told):
    uri = shell.json("remember", "The password is walrus.", *options)["uri"]
    shell.done("edit", uri, "Another text.")
    code, _, hints = shell("forget", uri, "--purge")
    assert (code, "--slug" in hints) == (0, is_told)


def test_relations_are_seen_from_both_ends(anywhere):
    agentm = anywhere
    agentm.done("remember", "Ada builds looms.", "--to", "entities/ada")
    agentm.done("remember", "Met Ada.", "--to", "events/fair")
    said = agentm.done(
        "relate", "events/fair", "entities/ada", "--type", "about", "--weight", "0.5", "--reason", "hers"
    )
    assert said == f"related {MINE}/events/fair to {MINE}/entities/ada (version 2)\n"
    assert agentm.done("relate", "events/fair", "--list") == "→ entities/ada  about 0.5  hers\n"
    assert agentm.done("relate", "entities/ada", "--list") == "← events/fair  about 0.5  hers\n"
    agentm.done("relate", "events/fair", "entities/ada", "--type", "about", "--source", "diary")
    assert agentm.done("relate", "events/fair", "--list") == "→ entities/ada  about 1\n"
    assert agentm.json("read", "events/fair")["sources"] == ["diary"]
    agentm.done("mv", "entities/ada", "cases/")
    assert agentm.done("relate", "events/fair", "--list") == "→ cases/ada  about 1\n"
    assert agentm.json("relate", "events/fair", "--list")["relations"] == [
        {
            "from_uri": f"{MINE}/events/fair",
            "to_uri": f"{MINE}/cases/ada",
            "relation_type": "about",
            "weight": 1.0,
            "reason": "",
        }
    ]


def test_a_relation_is_taken_away_by_its_type(anywhere):
    agentm = anywhere
    agentm.done("remember", "Ada builds looms.", "--to", "entities/ada")
    agentm.done("remember", "Met Ada.", "--to", "events/fair")
    for kind in ("about", "related_to"):
        agentm.done("relate", "events/fair", "entities/ada", "--type", kind)
    said = agentm.done("relate", "events/fair", "entities/ada", "--remove")
    assert said == f"{MINE}/events/fair is no longer related to {MINE}/entities/ada (version 4)\n"
    assert agentm.done("relate", "events/fair", "--list") == "→ entities/ada  about 1\n"
    said = agentm.refused("relate", "events/fair", "entities/ada", "--remove", code="node_not_found")
    assert "is not related to" in said
    assert "'related_to'" in said
    said = agentm.refused("relate", "events/fair", "entities/adda", "--remove", code="node_not_found")
    assert said.endswith("did you mean entities/ada?\n")
    agentm.refused("relate", "events/fair", "entities/ada", "--remove", "--if-version", "1", code="node_not_found")
    removed = agentm.json("relate", "events/fair", "entities/ada", "--remove", "--type", "about")
    assert removed["version"] == 5
    assert removed["removed"] == {
        "from_uri": f"{MINE}/events/fair",
        "to_uri": f"{MINE}/entities/ada",
        "relation_type": "about",
    }
    assert agentm.json("relate", "events/fair", "--list")["relations"] == []


def test_options_may_stand_anywhere(shell):
    shell.done("remember", "--to", "entities/ada", "Ada.")
    shell.done("remember", "--user", "alice", "The", "--to", "events/fair", "fair.")
    assert shell.done("read", "events/fair") == "The fair.\n"
    shell.done("relate", "events/fair", "--type", "about", "entities/ada")
    shell.done("edit", "events/fair", "--if-version", "2", "-", stdin=b"The great fair.")
    assert shell.json("diff", "--user", "alice", "events/fair", "1", "--account", "local", "2")["new"] == 2
    shell.done("remember", "--to", "profile", "--", "--json is what she likes")
    assert shell.done("read", "profile") == "--json is what she likes\n"
    shell.done("remember", "--to", "profile", "-- a dash --")
    assert shell.done("read", "profile") == "-- a dash --\n"
    assert "events/fair" in shell.done("ls", "--user", "alice", "events")


def test_a_change_keeps_relations_and_tags(shell):
    shell.done("remember", "Ada.", "--to", "entities/ada")
    shell.done("remember", "Fair.", "--to", "events/fair", "--tag", "fun", "--tag", "trip")
    shell.done("relate", "events/fair", "entities/ada")
    shell.done("edit", "events/fair", "The fair.")
    shell.done("remember", "The great fair.", "--to", "events/fair")
    node = shell.json("read", "events/fair")
    assert (node["content"], node["abstract"]) == ("The great fair.\n", "The great fair.")
    assert node["tags"] == ["fun", "trip"]
    assert len(node["relations"]) == 1


def test_json_of_each(shell):
    receipt = {
        "uri": f"{MINE}/events/likes-tea",
        "version": 1,
        "durable": True,
        "indexed": "pending",
        "duplicates": [],
        "redacted": [],
    }
    assert shell.json("remember", "Likes tea.", "--tag", "drinks", "--source", "chat", "--as", "model/1.0") == receipt
    node = shell.json("read", "events/likes-tea")
    assert set(node) == {
        *("uri", "content", "abstract", "overview", "relations", "tags"),
        *("version", "status", "created_at", "updated_at", "actor", "sources"),
    }
    assert (node["content"], node["actor"], node["sources"], node["tags"], node["status"]) == (
        *("Likes tea.\n", "model/1.0", ["chat"], ["drinks"], "ACTIVE"),
    )
    listed = shell.json("ls")
    assert (listed["place"], listed["broken"]) == ("ctx://local/users/alice", [])
    assert [(one["uri"], one["abstract"]) for one in listed["memories"]] == [(receipt["uri"], "Likes tea.")]
    tree = shell.json("tree")
    assert tree["children"][0]["children"][0]["children"][0]["uri"] == receipt["uri"]
    assert shell.json("edit", "events/likes-tea", "Likes mate.") == {**receipt, "version": 2}
    assert shell.json("edit", "events/likes-tea", "Likes mate.") == {
        "uri": receipt["uri"],
        "version": 2,
        "changed": False,
    }
    assert [one["version"] for one in shell.json("history", "events/likes-tea")["versions"]] == [1, 2]
    diff = shell.json("diff", "events/likes-tea")
    assert (diff["uri"], diff["old"], diff["new"]) == (receipt["uri"], 1, 2)
    assert "+Likes mate." in diff["diff"]
    assert shell.json("undo", "events/likes-tea", "--to", "1") == {**receipt, "version": 3}
    moved = shell.json("mv", "events/likes-tea", "cases/tea")
    assert moved == {**receipt, "uri": f"{MINE}/cases/tea", "version": 4, "moved_from": receipt["uri"]}
    gone = shell.json("forget", "cases/tea")
    assert gone == {**receipt, "uri": f"{MINE}/cases/tea", "version": 5, "purged": False}
    assert shell.json("repair") == {"scanned": 2, "waiting": 0, "dry_run": False, "findings": [], "alerts": 0}


def test_reading_parts_of_a_memory(shell):
    shell.done("remember", "-", "--to", "profile", "--source", "a", "--source", "b", stdin=b"# Ada\n\nBuilds looms.")
    assert shell.done("read", "profile") == "# Ada\n\nBuilds looms."  # byte for byte: it is not a terminal
    assert shell.done("read", "profile", "--abstract").count("\n") == 1
    assert shell.done("read", "profile", "--overview").startswith("# Ada\n")
    meta = shell.done("read", "profile", "--meta")
    assert f"uri       {MINE}/profile\n" in meta
    assert "by        human:alice\n" in meta
    assert "from      a, b\n" in meta
    assert shell("read", "profile", "--meta", "--abstract")[0] == 2


def test_what_is_read_can_be_piped_back_unchanged(shell):
    text = "no end of line, ünïcödé, tabs\t, and \r\n both line ends"
    shell.done("remember", "-", "--to", "profile", stdin=text.encode())
    assert shell.done("edit", "profile", "-", stdin=shell.done("read", "profile").encode()).startswith("unchanged ")


def test_diff_between_any_versions(shell):
    for word in ("one", "two", "three"):
        shell.done("remember", word, "--to", "profile")
    assert shell.json("diff", "profile", "1")["diff"].splitlines()[-2:] == ["-one", "+three"]
    assert shell.json("diff", "profile", "2", "1")["diff"].splitlines()[-2:] == ["-two", "+one"]
    assert shell("diff", "profile", "3", "3") == (
        *(0, "", "agentm: hint: the texts of version 3 and version 3 are the same.\n"),
    )
    shell.refused("diff", "profile", "7", code="node_not_found")
    shell.refused("undo", "profile", "--to", "3", code="node_not_found")


def test_the_tree(shell):
    shell.done("remember", "Ada.", "--to", "entities/ada")
    shell.done("remember", "Loom.", "--to", "entities/loom")
    shell.done("remember", "Alice.", "--to", "profile")
    assert shell.done("tree") == (
        "ctx://local/users/alice\n"
        "└── memories/\n"
        "    ├── entities/\n"
        "    │   ├── ada  Ada.\n"
        "    │   └── loom  Loom.\n"
        "    └── profile  Alice.\n"
    )
    shell.done("forget", "entities/ada")
    shell.done("forget", "entities/loom")
    assert shell.done("tree").splitlines()[1:] == ["└── memories/", "    └── profile  Alice."]


def test_looking_writes_nothing(shell, home):
    for args in (
        *(["ls"], ["tree"], ["read", "profile"], ["history", "profile"], ["diff", "profile"], ["undo", "profile"]),
        *(["edit", "profile", "x"], ["relate", "profile", "--list"], ["repair"], ["outbox"], ["outbox", "drop", "1"]),
        *(["forget", "profile"], ["mv", "profile", "events/x"], ["relate", "profile", "events/x"]),
        ["relate", "profile", "events/x", "--remove"],
    ):
        shell(*args)
    assert [name for name in snapshot(os.path.join(home, ".agentm")) if name != "memory"] == []


def test_what_is_refused_outright_does_not_even_open_the_store(shell, home):
    for args in (["read", "evnts/x"], ["remember", "x", "--to", "events"], ["ls", "--user", "a/b"], ["remember", ""]):
        assert shell(*args)[0] == 1
    for args in (
        *(["remember"], ["remember", "x", "--file", "y"], ["remember", "x", "--to", "profile", "--slug", "y"]),
        *(["remember", "x", "--if-version", "1"], ["relate", "profile"], ["relate", "profile", "events/x", "--list"]),
        *(["relate", "profile", "events/x", "--weight", "2"], ["outbox", "drop"], ["outbox", "list", "1"]),
        *(["outbox", "lst"], ["diff", "profile", "x"], ["undo", "profile", "--to", "-1"], ["read"]),
        *(["relate", "profile", "--remove"], ["relate", "profile", "--list", "--remove"]),
    ):
        shell.refused(*args, code="usage", status=2)
    assert snapshot(home) == {}


def test_an_empty_folder_is_no_error(shell):
    code, out, err = shell("ls", "events")
    assert (code, out) == (0, "")
    assert err == f"agentm: hint: there is nothing in {MINE}/events yet; agentm remember adds to it.\n"
    assert shell.json("ls", "events") == {"place": f"{MINE}/events", "memories": [], "broken": []}
