"""`agentm recall` and `agentm reindex`, as a person types them."""

from __future__ import annotations

import glob
import os
import shutil

import pytest

pytestmark = pytest.mark.spec("IDX-04")


@pytest.fixture
def known(shell):
    shell.done("remember", "Ada builds looms in Malmö.", "--to", "entities/ada", "--when", "2026-03-15", "--who", "Ada")
    shell.done("remember", "Bea sells looms.", "--to", "cases/bea", "--tag", "trade")
    return shell


def test_what_is_known_is_printed_quoted_and_says_where_it_is_from(known):
    out = known.done("recall", "who", "builds", "looms")
    assert "entities/ada · version 1 · 2026-03-15 · Ada" in out
    assert "\n> Ada builds looms in Malmö.\n" in out


def test_json_has_everything(known):
    found = known.json("recall", "looms", "--category", "cases")
    assert [(entry["version"], entry["text"], entry["tags"]) for entry in found["entries"]] == [
        (1, "Bea sells looms.\n", ["trade"])
    ]
    assert found["tokens"] <= found["budget"] == 2000
    assert found["complete"]


def test_a_question_can_come_from_stdin(known):
    code, out, _ = known("recall", "-", stdin=b"who sells looms")
    assert code == 0
    assert "Bea" in out


def test_the_reasons_can_be_asked_for(known):
    known.done("relate", "entities/ada", "cases/bea")
    code, out, err = known("recall", "who builds a loom", "--explain")
    assert code == 0
    first, second = err.splitlines()
    assert first.split()[1] == "entities/ada"
    assert "says builds, loom" in first
    assert "says loom" in second
    assert "related" in first
    assert first.index("says") == second.index("says")  # one below the other
    assert not any(sign.isdigit() for sign in first.partition("says")[2])
    assert "says" not in out
    [why] = {tuple(entry["why"]) for entry in known.json("recall", "loom")["entries"]} or [()]
    assert why  # the numbers


def test_nothing_known_and_nothing_that_fits_are_said(known):
    assert "nothing is known" in known("recall", "xylophone")[2]
    code, out, err = known("recall", "looms", "--budget", "5")
    assert (code, out) == (0, "")
    assert "--budget" in err


@pytest.mark.parametrize(
    ("args", "code", "status"),
    [
        (["recall", ""], "invalid_query", 1),
        (["recall", "looms", "--limit", "0"], "invalid_query", 1),
        (["recall", "looms", "--since", "soon"], "invalid_query", 1),
        (["recall", "looms", "--budget", "many"], "usage", 2),
        (["recall"], "usage", 2),
    ],
)
def test_nonsense_is_refused_in_one_sentence(known, args, code, status):
    known.refused(*args, code=code, status=status)


@pytest.mark.spec("IDX-05")
def test_reindex_says_what_it_did_and_does_nothing_twice(known):
    assert known.done("reindex") == "indexed 2 changed, 0 gone; 2 in all\n"
    assert known.done("reindex") == "indexed 0 changed, 0 gone; 2 in all\n"
    assert known.done("reindex", "--full") == "indexed 2 changed, 0 gone; 2 in all\n"
    assert known.json("reindex")["index"]["sources"] == 2


@pytest.mark.spec("IDX-01")
def test_an_index_that_is_gone_or_cannot_be_kept_costs_no_answer(known, home):
    index = f"{home}/.agentm/index"
    assert "Ada" in known.done("recall", "looms")
    shutil.rmtree(index)
    with open(index, "w") as file:
        file.write("in the way")
    assert "Ada" in known.done("recall", "looms")
    os.unlink(index)
    assert "Ada" in known.done("recall", "looms")
    assert os.path.isdir(index)


def test_a_secret_and_a_duplicate_are_said(shell):
    secret = "ghp_" + "a1B2" * 9
    said = shell.refused("remember", f"The token is {secret}.", code="secret_found")
    assert secret not in said
    assert "--secrets" in said
    code, _, err = shell("remember", f"The token is {secret}.", "--secrets", "redact")
    assert (code, "GitHub token" in err) == (0, True)
    shell.done("remember", "Likes tea.")
    code, out, err = shell("remember", "Likes tea.")
    assert (code, "likes-tea-2" in out, "events/likes-tea says the same" in err) == (0, True, True)


def test_a_question_may_begin_with_a_dash(known):
    assert "Ada" in known.done("recall", "--", "-looms")


@pytest.mark.slow
@pytest.mark.spec("CTX-02")
@pytest.mark.parametrize("store", [".agentm/memory", "Notes"])
def test_who_edits_a_memory_and_asks_at_once_gets_the_new_words(shell, home, store):
    if store == "Notes":
        os.mkdir(f"{home}/Notes")
        shell("config", "--vault-path", f"{home}/Notes")
    shell.done("remember", "Ada builds looms in Malmö.", "--to", "entities/ada")
    assert "Malmö" in shell.done("recall", "looms")
    with open(f"{home}/{store}/accounts/local/users/alice/memories/entities/ada/content.md", "w") as file:
        file.write("Ada repairs clocks.")
    code, _, err = shell("recall", "clocks", "--patience", "0.2")
    assert (code, "edited by hand" in err) == (0, True)
    assert "\n> Ada repairs clocks.\n" in shell.done("recall", "clocks")
    before, after = shell.json("history", "entities/ada")["versions"]
    assert (before["version"], after["version"], after["actor"]) == (1, 2, "human:alice")
    assert after["sources"] != before["sources"]  # by hand


@pytest.fixture
def wifi(shell, home):
    """A file of a memory, which alice saves in another encoding."""
    shell.done("remember", "The wifi is called tavern.", "--to", "entities/wifi")
    shell.done("recall", "wifi")
    return f"{home}/.agentm/memory/accounts/local/users/alice/memories/entities/wifi/content.md"


@pytest.mark.spec("CTX-02")
def test_a_memory_that_was_saved_as_no_text_is_found_as_it_was_and_told_of(shell, wifi):
    with open(wifi, "wb") as file:
        file.write("The wifi café".encode("latin-1"))
    code, out, err = shell("recall", "wifi")
    assert (code, "\n> The wifi is called tavern.\n" in out, "agentm reindex" in err) == (0, True, True)
    code, _, err = shell("reindex")
    assert (code, "entities/wifi" in err, "agentm repair" in err) == (0, True, True)
    code, out, _ = shell("doctor")
    assert [line for line in out.splitlines() if line.startswith("index [WARN]") and "entities/wifi" in line]


@pytest.mark.spec("IDX-01")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_is_in_the_way_of_the_index_is_named(known, home, level):
    known.done("recall", "looms")
    [place] = glob.glob(f"{home}/.agentm/index/*/local")
    for _ in range(level):
        place = os.path.dirname(place)
    shutil.rmtree(place)
    with open(place, "w") as file:
        file.write("in the way")
    code, out, err = known("reindex")
    assert (code, out.startswith("indexed 2"), place in err) == (0, True, True)
    code, out, _ = known("doctor")
    assert [line for line in out.splitlines() if line.startswith("index [WARN]") and place in line]
    os.unlink(place)
    known.done("reindex")


@pytest.mark.spec("IDX-01")
def test_a_damaged_index_is_seen_by_the_doctor_and_mended_by_the_next_recall(known, home):
    known.done("recall", "looms")
    assert "index [" not in known("doctor")[1]
    for path in glob.glob(f"{home}/.agentm/index/*/local/current/fulltext/*.store"):
        with open(path, "r+b") as file:
            file.write(bytes(64))
    assert "index [WARN]" in known("doctor")[1]
    assert known.json("recall", "looms")["complete"]
    assert "index [" not in known("doctor")[1]
