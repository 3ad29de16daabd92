"""Every method, asked by somebody who is not the owner."""

from __future__ import annotations

from typing import Any

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.node import RelationEdge
from agentm.context.tenancy import RequestContext, may
from agentm.context.uri import parse_place, parse_uri
from agentm.errors import AccessDeniedError
from tests.backends.stores import tree
from tests.context.nodes import ALICE, OTHER, SHOP, SKILL, VISIT, edge, memory

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
    "relations": lambda fs, ctx, uri: fs.relations(uri, ctx),
    "history": lambda fs, ctx, uri: fs.history(uri, ctx),
    "diff": lambda fs, ctx, uri: fs.diff(uri, ctx, 1, 2),
    "undo": lambda fs, ctx, uri: fs.undo(uri, ctx),
    "list_children node": lambda fs, ctx, uri: fs.list_children(uri, ctx),
    "list_children folder": lambda fs, ctx, uri: fs.list_children(uri.rpartition("/")[0], ctx),
}
READING = ("read_node", "relations", "history", "diff", "list_children")

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
@pytest.mark.parametrize("stranger", ["another account", "another user", "nobody"])
def test_a_refusal_does_not_tell_whether_something_is_there(owned, stranger):
    ctx = STRANGERS[stranger]
    absent = VISIT.replace("visit", "vasit")
    for name, method in METHODS.items():
        said = []
        for uri in (VISIT, absent):
            with pytest.raises(AccessDeniedError) as raised:
                method(owned, ctx, uri)
            said.append(str(raised.value).replace("vasit", "visit"))
        assert said[0] == said[1], name
    assert owned.exists(VISIT, ctx) is owned.exists(absent, ctx) is False


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
