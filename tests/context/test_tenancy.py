"""Every method, asked by somebody who is not the owner."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

from agentm import MemoryBackend
from agentm.context.contextfs import ContextFS
from agentm.context.node import RelationEdge
from agentm.context.tenancy import RequestContext, may
from agentm.context.uri import parse_place, parse_uri
from agentm.errors import AccessDeniedError, InvalidUriError
from tests.backends.stores import tree
from tests.context.nodes import ALICE, OTHER, SHOP, SKILL, VISIT, edge, memory, place

NEW = "ctx://acme/users/alice/memories/cases/new"

METHODS = {
    "write_node": lambda fs, ctx, uri: fs.write_node(memory("x", uri), ctx),
    "write_node if_version": lambda fs, ctx, uri: fs.write_node(memory("x", uri), ctx, if_version=1),
    "write_nodes": lambda fs, ctx, uri: fs.write_nodes([memory("x", uri)], ctx),
    "read_node": lambda fs, ctx, uri: fs.read_node(uri, ctx),
    "read_node version": lambda fs, ctx, uri: fs.read_node(uri, ctx, version=1),
    "delete_node": lambda fs, ctx, uri: fs.delete_node(uri, ctx),
    "delete_node purge": lambda fs, ctx, uri: fs.delete_node(uri, ctx, purge=True),
    "archive_node": lambda fs, ctx, uri: fs.archive_node(uri, ctx),
    "move_node from": lambda fs, ctx, uri: fs.move_node(uri, NEW, ctx),
    "move_node to": lambda fs, ctx, uri: fs.move_node(NEW, uri, ctx),
    "relate from": lambda fs, ctx, uri: fs.relate(edge(uri, SHOP), ctx),
    "unrelate": lambda fs, ctx, uri: fs.unrelate(uri, SHOP, ctx),
    "unrelate type": lambda fs, ctx, uri: fs.unrelate(uri, SHOP, ctx, relation_type="x", if_version=1),
    "relations": lambda fs, ctx, uri: fs.relations(uri, ctx),
    "history": lambda fs, ctx, uri: fs.history(uri, ctx),
    "diff": lambda fs, ctx, uri: fs.diff(uri, ctx, 1, 2),
    "undo": lambda fs, ctx, uri: fs.undo(uri, ctx),
    "undo to": lambda fs, ctx, uri: fs.undo(uri, ctx, to=1),
    "list_children node": lambda fs, ctx, uri: fs.list_children(uri, ctx),
    "list_children folder": lambda fs, ctx, uri: fs.list_children(uri.rpartition("/")[0], ctx),
    "damaged_children node": lambda fs, ctx, uri: fs.damaged_children(uri, ctx),
    "damaged_children folder": lambda fs, ctx, uri: fs.damaged_children(uri.rpartition("/")[0], ctx),
}
READING = ("read_node", "relations", "history", "diff", "list_children", "damaged_children")
ELSEWHERE = {
    "exists": "it does not refuse, it says False",
}

STRANGERS: dict[str, RequestContext] = {
    "another account": RequestContext("globex", user_id="alice", agent_id="scout"),
    "an account that begins alike": RequestContext("acme-corp", user_id="alice", agent_id="scout"),
    "the beginning of the account": RequestContext("acm", user_id="alice", agent_id="scout"),
    "the account in capitals": RequestContext("ACME", user_id="alice", agent_id="scout"),
    "no account": RequestContext("", user_id="alice", agent_id="scout"),
    "None as account": RequestContext(None, user_id="alice", agent_id="scout"),  # type: ignore[arg-type]
    "a percent sign": RequestContext("%", user_id="alice", agent_id="scout"),
    "a star": RequestContext("*", user_id="alice", agent_id="scout"),
    "a climbing account": RequestContext("globex/../acme", user_id="alice", agent_id="scout"),
    "a number": RequestContext(7, user_id="alice", agent_id="scout"),  # type: ignore[arg-type]
    "another user": RequestContext("acme", user_id="bob", agent_id="other"),
    "a user that begins alike": RequestContext("acme", user_id="alice2", agent_id="scout2"),
    "the user in capitals": RequestContext("acme", user_id="ALICE", agent_id="SCOUT"),
    "the agent of the user's name": RequestContext("acme", user_id="scout", agent_id="alice"),
    "nobody": RequestContext("acme"),
    "empty names": RequestContext("acme", user_id="", agent_id=""),
    "stars": RequestContext("acme", user_id="*", agent_id="%"),
    "a space in the name": RequestContext("acme", user_id="user:alice", agent_id="agent:scout"),
    "odd visible spaces": RequestContext("acme", visible=("*", "user:*", "alice", "", "user:", None)),  # type: ignore[arg-type]
}


@pytest.fixture
def owned(fs: ContextFS) -> ContextFS:
    for uri in (SHOP, VISIT, SKILL):
        fs.write_node(memory("one", uri), ALICE)
        fs.write_node(memory("secret", uri), ALICE)
    return fs


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS.keys())
@pytest.mark.parametrize("uri", [VISIT, SKILL])
def test_a_stranger_is_denied_by_every_method(owned, store, stranger, uri):
    before = tree(store)
    for name, method in METHODS.items():
        with pytest.raises(AccessDeniedError) as raised:
            method(owned, stranger, uri)
        assert raised.value.code == "access_denied", name
        assert len(str(raised.value).splitlines()) == 1
        assert "secret" not in str(raised.value)
    assert not owned.exists(uri, stranger)
    assert tree(store) == before


@pytest.mark.spec("CTX-08")
def test_every_method_is_in_these_tests():
    """One that is new is to be tried by strangers too, or to be named with the reason why not."""
    public = {name for name, _ in inspect.getmembers(ContextFS, callable) if not name.startswith("_")}
    assert public == {name.partition(" ")[0] for name in METHODS} | set(ELSEWHERE)


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS.keys())
@pytest.mark.parametrize("state", ["shown", "deleted", "archived", "purged", "broken", "moved"])
def test_a_refusal_does_not_tell_whether_something_is_there(stranger, state):
    store = MemoryBackend()
    fs = ContextFS(store)
    fs.write_node(memory("secret"), ALICE)
    STATES[state](fs, store)
    absent = VISIT.replace("visit", "vasit")
    for name, method in METHODS.items():
        said = []
        for uri in (VISIT, absent):
            with pytest.raises(AccessDeniedError) as raised:
                method(fs, stranger, uri)
            error = raised.value
            said.append(
                [str(text).replace("vasit", "visit") for text in (error, error.code, error.locator, error.args)]
            )
        assert said[0] == said[1], name
    assert fs.exists(VISIT, stranger) is fs.exists(absent, stranger) is False


STATES = {
    "shown": lambda fs, store: None,
    "deleted": lambda fs, store: fs.delete_node(VISIT, ALICE),
    "archived": lambda fs, store: fs.archive_node(VISIT, ALICE),
    "purged": lambda fs, store: fs.delete_node(VISIT, ALICE, purge=True),
    "broken": lambda fs, store: store.write(place(VISIT, ".meta.json"), "{"),
    "moved": lambda fs, store: fs.move_node(VISIT, NEW, ALICE),
}


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("account", ["", "%", "*", "..", "acme%", "a*", ".", "ac\nme", " acme"])
def test_an_address_with_an_odd_account_is_nobodys(owned, store, account):
    """Whoever asks, and be it with that very account."""
    before = tree(store)
    for asking in (ALICE, *STRANGERS.values(), replace(ALICE, account_id=account)):
        for name, method in METHODS.items():
            with pytest.raises((InvalidUriError, AccessDeniedError)) as raised:
                method(owned, asking, VISIT.replace("acme", account, 1))
            assert "secret" not in str(raised.value), name
        with pytest.raises(InvalidUriError):
            owned.exists(VISIT.replace("acme", account, 1), asking)
    assert tree(store) == before


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("name", ["", "%", "*", "..", "alice%", "al*"])
@pytest.mark.parametrize("shape", [VISIT, SKILL])
def test_an_address_with_an_odd_owner_is_nobodys(owned, store, name, shape):
    uri = shape.replace("alice", name).replace("scout", name)
    before = tree(store)
    for ctx in (
        ALICE,
        RequestContext("acme", user_id=name, agent_id=name),
        RequestContext("acme", visible=("user:*",)),
    ):
        for method in METHODS.values():
            with pytest.raises(InvalidUriError):
                method(owned, ctx, uri)
    assert tree(store) == before


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("account", ["globex", "acme-corp", "acm", "ACME", "acmé", "Acme"])
def test_an_owner_is_a_stranger_in_every_other_account(owned, store, account):
    before = tree(store)
    for shape in (VISIT, SKILL):
        uri = shape.replace("acme", account, 1)
        for method in METHODS.values():
            with pytest.raises(AccessDeniedError):
                method(owned, ALICE, uri)
        assert not owned.exists(uri, ALICE)
    assert tree(store) == before


@pytest.mark.spec("CTX-08")
def test_a_refusal_says_who_asked_and_what_to_do():
    with pytest.raises(AccessDeniedError) as raised:
        ContextFS(MemoryBackend()).read_node(VISIT, RequestContext("acme", user_id="bob"))
    said = str(raised.value)
    assert VISIT in said
    assert "user:bob" in said
    assert all(flag in said for flag in ("--account", "--user", "--agent"))


@pytest.mark.spec("CTX-08")
def test_a_space_that_is_visible_may_be_read_and_not_written(owned, store):
    bob = RequestContext("acme", user_id="bob", visible=("user:alice",))
    assert owned.read_node(VISIT, bob).content == "secret"
    assert owned.exists(VISIT, bob)
    assert owned.list_children(VISIT.rpartition("/")[0], bob) == [VISIT]
    before = tree(store)
    for name, method in METHODS.items():
        if name.startswith(READING):
            method(owned, bob, VISIT)
        else:
            with pytest.raises(AccessDeniedError):
                method(owned, bob, VISIT)
    assert tree(store) == before
    with pytest.raises(AccessDeniedError):
        owned.read_node(SKILL, bob)


@pytest.mark.spec("CTX-08")
def test_visible_reaches_no_other_account():
    ctx = RequestContext("globex", user_id="alice", visible=("user:alice", "agent:scout"))
    assert not may(ctx, parse_uri(VISIT), write=False)


@pytest.mark.spec("CTX-08")
def test_above_the_spaces_only_those_that_may_be_seen_are_listed(owned):
    bob = RequestContext("acme", user_id="bob")
    owned.write_node(memory("mine", VISIT.replace("alice", "bob")), bob)
    assert owned.list_children("ctx://acme/users", bob) == ["ctx://acme/users/bob"]
    assert owned.list_children("ctx://acme/agents", bob) == []
    assert owned.list_children("ctx://acme/users", ALICE) == ["ctx://acme/users/alice"]


@pytest.mark.spec("CTX-08")
@pytest.mark.parametrize("folder", ["ctx://acme", "ctx://acme/users"])
def test_the_folders_of_an_account_are_its_own(owned, folder):
    with pytest.raises(AccessDeniedError):
        owned.list_children(folder, RequestContext("globex", user_id="alice"))
    assert not may(ALICE, parse_place(folder), write=True)


@pytest.mark.spec("CTX-08", "CTX-11")
def test_an_edge_is_no_way_to_find_out_what_others_have(owned, store):
    bob = RequestContext("acme", user_id="bob")
    mine = VISIT.replace("alice", "bob")
    owned.write_node(memory("mine", mine), bob)
    before = tree(store)
    said = []
    for target in (VISIT, OTHER):
        for attempt in (
            lambda target=target: owned.relate(RelationEdge(mine, target), bob),
            lambda target=target: owned.write_node(memory("mine", mine, relations=(edge(mine, target),)), bob),
        ):
            with pytest.raises(AccessDeniedError) as raised:
                attempt()
            said.append(str(raised.value).replace(target, "X"))
    assert len(set(said)) == 1
    assert tree(store) == before


@pytest.mark.spec("CTX-11")
def test_edges_from_spaces_that_may_not_be_seen_are_not_shown(owned):
    bob = RequestContext("acme", user_id="bob", visible=("user:alice",))
    mine = VISIT.replace("alice", "bob")
    owned.write_node(memory("mine", mine), bob)
    owned.relate(RelationEdge(mine, SHOP, reason="bob's own"), bob)
    assert [one.from_uri for one in owned.relations(SHOP, bob)] == [mine]
    assert owned.relations(SHOP, ALICE) == []


@pytest.mark.spec("CTX-08")
def test_accounts_do_not_see_each_other(fs):
    accounts: dict[str, Any] = {name: RequestContext(name, user_id="alice") for name in ("acme", "acme-corp", "acmé")}
    for name, ctx in accounts.items():
        fs.write_node(memory(f"of {name}", VISIT.replace("acme", name)), ctx)
    for name, ctx in accounts.items():
        assert fs.read_node(VISIT.replace("acme", name), ctx).content == f"of {name}"
        for other in accounts:
            assert fs.exists(VISIT.replace("acme", other), ctx) is (other == name)
