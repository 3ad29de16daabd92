"""`agentm repair` and `agentm outbox`, and listings of memories that are damaged."""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import pytest

from agentm import select_backend
from agentm.context.outbox import OutboxHandler, OutboxWorker
from tests.cli.nodes import MINE
from tests.snapshot import snapshot


class Refusing:
    """An index that understands nothing."""

    def apply(self, event):
        raise ValueError("not \x1b[31m today")


class Understanding:
    def apply(self, event):
        pass


@pytest.fixture
def node(shell, home):
    """The directory of alice's profile, which says that she likes tea."""
    shell.done("remember", "Likes tea.", "--to", "profile")
    return os.path.join(home, ".agentm", "memory", "accounts", "local", "users", "alice", "memories", "profile")


def write(node: str, name: str, text: str) -> None:
    with open(os.path.join(node, name), "w", encoding="utf-8") as file:
        file.write(text)


def edit_by_hand(node: str, text: str) -> None:
    """An edit from long ago: nobody is at it any more."""
    write(node, "content.md", text)
    for name in os.listdir(node):
        os.utime(os.path.join(node, name), (1_700_000_000, 1_700_000_000))


def work(handler: OutboxHandler, rounds: int = 1) -> None:
    """Let a worker have its rounds, each long after the one before."""
    for now in range(0, 10_000 * rounds, 10_000):
        OutboxWorker(select_backend(), handler, clock=partial(float, now)).run_once()


@pytest.mark.spec("CTX-06")
def test_a_dry_run_says_what_a_repair_then_does(shell, node, home):
    edit_by_hand(node, "Likes coffee.\n")
    before = snapshot(os.path.join(home, ".agentm"))
    assert shell.done("repair", "--dry-run") == (
        f"would  {MINE}/profile  adopt an edit made by hand as a new version\n"
        "looked at 1: 1 would be repaired, 0 for you to look at\n"
    )
    assert snapshot(os.path.join(home, ".agentm")) == before
    assert shell.done("repair").startswith(f"did  {MINE}/profile  adopt an edit")
    assert shell.done("read", "profile") == "Likes coffee.\n"
    assert shell.json("repair")["findings"] == []


@pytest.mark.spec("CTX-06")
def test_what_needs_a_person_is_an_alert_and_exits_1(shell, node):
    write(node, ".meta.json", "[]")
    for args in (["--dry-run"], []):
        code, out, err = shell("repair", *args)
        assert (code, err) == (1, "")
        assert out.startswith(f"ALERT  {MINE}/profile  mark as broken")
        assert out.endswith(" 1 for you to look at\n")


def test_alerts_as_json(shell, node):
    write(node, ".meta.json", "[]")
    code, out, err = shell("repair", "--dry-run", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out) == {
        "scanned": 1,
        "waiting": 0,
        "dry_run": True,
        "findings": [
            {
                "uri": f"{MINE}/profile",
                "action": "break",
                "what": "mark as broken what cannot be made whole",
                "alert": True,
                "why": "",
            }
        ],
        "alerts": 1,
    }


def test_an_alert_stands_out_on_a_terminal(shell, node, monkeypatch):
    write(node, ".meta.json", "[]")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    assert "\x1b[1;31mALERT\x1b[0m" in shell("repair", "--dry-run")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shell("repair", "--dry-run")[1]


def test_only_one_account_is_repaired_on_request(shell, node):
    edit_by_hand(node, "Likes coffee.\n")
    assert shell.json("repair", "--account", "acme")["scanned"] == 0
    assert len(shell.json("repair", "--account", "local")["findings"]) == 1


def test_a_damaged_memory_is_said_to_be_so(shell, node):
    write(node, ".meta.json", "[]")
    for args in (["read", "profile"], ["forget", "profile"], ["edit", "profile", "x"]):
        assert "agentm repair" in shell.refused(*args, code="node_broken")
    shell.done("remember", "Met Ada.", "--to", "events/ada")
    assert "events/ada" in shell("ls")[1]


def test_a_memory_whose_versions_are_gone_does_not_hide_the_others(shell, node):
    shell.done("remember", "Met Ada.", "--to", "events/ada")
    write(node, "content.md", "half")
    for name in os.listdir(os.path.join(node, ".history")):
        os.remove(os.path.join(node, ".history", name))
    for args in (["ls"], ["tree"]):
        code, out, err = shell(*args)
        assert code == 1
        assert "Met Ada." in out
        assert err.startswith("agentm: node_broken: ")
    code, out, _ = shell("ls", "--json")
    listed = json.loads(out)
    assert code == 1
    assert [one["uri"] for one in listed["memories"]] == [f"{MINE}/events/ada"]
    assert len(listed["broken"]) == 1


@pytest.mark.spec("CTX-07")
def test_events_are_listed_until_they_are_told(shell, node):
    (event,) = shell.json("outbox", "list")["events"]
    assert (event["uri"], event["event_type"], event["version"]) == (f"{MINE}/profile", "UPSERT_CONTEXT", 1)
    assert (event["status"], event["dead"], event["retry_count"], event["last_error"]) == ("PENDING", False, 0, None)
    line = shell.done("outbox")
    assert line.split() == [event["event_id"], "pending", "UPSERT_CONTEXT", f"{MINE}/profile", "v1"]
    assert shell.json("outbox", "--account", "acme")["events"] == []
    work(Understanding())
    assert shell("outbox") == (0, "", "agentm: hint: there is nothing that the index has yet to be told.\n")
    assert shell.json("outbox") == {"events": []}


@pytest.mark.spec("CTX-07")
def test_a_dead_event_is_retried_or_dropped(shell, node):
    (event,) = shell.json("outbox")["events"]
    identity = event["event_id"]
    assert "is not dead" in shell.refused("outbox", "retry", identity, code="node_not_found")
    work(Refusing(), rounds=5)
    line = shell.done("outbox")
    assert line.split()[1] == "dead"
    assert "ValueError: not \\x1b[31m today" in line
    assert shell.done("outbox", "retry", identity[:6]) == f"will be told again: {identity}\n"
    assert shell.json("outbox")["events"][0]["dead"] is False
    work(Refusing(), rounds=5)
    assert shell.json("outbox", "drop", identity) == {"event_id": identity, "uri": f"{MINE}/profile", "done": "drop"}
    assert shell.json("outbox")["events"] == []
    shell.refused("outbox", "drop", identity, code="node_not_found")


def test_an_id_that_several_events_begin_with_is_refused(shell, node):
    shell.done("remember", "Met Ada.")
    assert "2 events begin with ''" in shell.refused("outbox", "drop", "", code="usage", status=2)
    assert len(shell.json("outbox")["events"]) == 2


def test_an_index_that_could_not_be_told_is_a_hint(shell, monkeypatch):
    from agentm import DeviceLocalBackend

    put = DeviceLocalBackend.write_many

    def refuse_events(store, *steps, **options):
        assert any(".outbox" in place.key for place, _ in steps[-1])
        put(store, *steps[:-1], **options)
        raise OSError("full")

    monkeypatch.setattr(DeviceLocalBackend, "write_many", refuse_events)
    code, out, err = shell("remember", "Likes tea.")
    assert (code, out) == (0, f"remembered {MINE}/events/likes-tea (version 1)\n")
    assert err == "agentm: hint: the index could not be told; agentm repair makes up for it.\n"


def test_an_edit_of_this_moment_is_not_adopted_and_the_repair_says_so(shell, home):
    shell.done("remember", "One.", "--to", "profile")
    with open(f"{home}/.agentm/memory/accounts/local/users/alice/memories/profile/content.md", "w") as file:
        file.write("half a sen")
    code, out, err = shell("repair")
    assert (code, "0 repaired" in out) == (0, True)
    assert "edited just now" in err
    assert shell.done("read", "profile") == "One.\n"
