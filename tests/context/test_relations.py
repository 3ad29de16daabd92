"""Edges: one of each name, found from both ends, right after moves and deletes."""

from __future__ import annotations

from math import inf

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.events import UPSERT_RELATION
from agentm.context.node import RelationEdge
from agentm.context.outbox import events_of
from agentm.context.repair import repair
from agentm.context.uri import parse_uri
from agentm.errors import InvalidNodeError, InvalidUriError, NodeConflictError, NodeNotFoundError
from tests.backends.stores import make_store, tree
from tests.context.nodes import ALICE, OTHER, PROFILE, SHOP, VISIT, edge, memory, mended, place, told
from tests.context.recording import Died, dies_at
from tests.context.rivals import Rivals

pytestmark = pytest.mark.spec("CTX-11")

NEW = "ctx://acme/users/alice/memories/cases/new"


@pytest.fixture
def related(fs):
    for uri in (SHOP, VISIT, OTHER):
        fs.write_node(memory("text", uri), ALICE)
    fs.relate(edge(VISIT, SHOP, weight=0.5, reason="was there"), ALICE)
    return fs


def ends(found: list[RelationEdge]) -> list[tuple[str, str]]:
    return sorted((one.from_uri, one.to_uri) for one in found)


def test_an_edge_is_found_from_both_ends(related):
    expected = RelationEdge(VISIT, SHOP, "related_to", 0.5, "was there")
    assert related.relations(VISIT, ALICE, direction="out") == [expected]
    assert related.relations(SHOP, ALICE, direction="in") == [expected]
    assert related.relations(SHOP, ALICE, direction="out") == related.relations(VISIT, ALICE, direction="in") == []
    assert related.relations(SHOP, ALICE) == related.relations(VISIT, ALICE) == [expected]
    assert related.read_node(VISIT, ALICE).relations == (expected,)


def test_the_same_ends_and_type_are_the_same_edge(related):
    related.relate(edge(VISIT, SHOP, weight=0.9, reason="again"), ALICE)
    related.relate(edge(VISIT, SHOP, relation_type="part_of"), ALICE)
    found = related.relations(VISIT, ALICE, direction="out")
    assert [(one.relation_type, one.weight, one.reason) for one in found] == [
        ("related_to", 0.9, "again"),
        ("part_of", 1.0, ""),
    ]
    assert related.read_node(VISIT, ALICE).version == 4


def test_an_edge_that_was_written_with_its_memory_is_found_from_both_ends(related):
    related.write_node(memory("text", OTHER, relations=(edge(OTHER, SHOP),)), ALICE)
    assert ends(related.relations(SHOP, ALICE, direction="in")) == [(OTHER, SHOP), (VISIT, SHOP)]


def test_an_edge_that_an_update_leaves_out_is_gone_from_both_ends(related):
    related.write_node(memory("changed"), ALICE)
    assert related.relations(SHOP, ALICE) == []


def test_memories_written_together_may_point_to_each_other(fs):
    fs.write_nodes(
        [memory("a", VISIT, relations=(edge(VISIT, SHOP),)), memory("b", SHOP, relations=(edge(SHOP, VISIT),))], ALICE
    )
    assert ends(fs.relations(VISIT, ALICE)) == [(SHOP, VISIT), (VISIT, SHOP)]


@pytest.mark.parametrize("nowhere", [NEW, "ctx://acme/users/alice/memories/events"])
def test_an_edge_to_nowhere_is_refused(related, store, nowhere):
    before = tree(store)
    for attempt in (
        lambda: related.relate(edge(VISIT, nowhere), ALICE),
        lambda: related.write_node(memory(relations=(edge(VISIT, nowhere),)), ALICE),
        lambda: related.write_nodes([memory(relations=(edge(VISIT, nowhere),))], ALICE),
    ):
        with pytest.raises((NodeNotFoundError, InvalidUriError)) as raised:
            attempt()
        assert nowhere in str(raised.value)
    assert tree(store) == before


def test_an_edge_from_nowhere_or_of_no_weight_is_refused(related):
    with pytest.raises(NodeNotFoundError):
        related.relate(edge(NEW, SHOP), ALICE)
    with pytest.raises(InvalidNodeError):
        related.relate(edge(VISIT, SHOP, weight=-1.0), ALICE)
    with pytest.raises(InvalidNodeError):
        related.relate(edge(VISIT, SHOP, weight="heavy"), ALICE)
    assert related.read_node(VISIT, ALICE).version == 2


def test_edges_follow_when_what_they_lead_to_moves(related):
    related.move_node(SHOP, NEW, ALICE)
    assert ends(related.relations(VISIT, ALICE, direction="out")) == [(VISIT, NEW)]
    assert ends(related.relations(NEW, ALICE, direction="in")) == [(VISIT, NEW)]
    assert related.read_node(VISIT, ALICE).actor == "process:agentm"


def test_edges_go_along_when_what_they_lead_away_from_moves(related):
    related.move_node(VISIT, NEW, ALICE)
    assert ends(related.relations(NEW, ALICE, direction="out")) == [(NEW, SHOP)]
    assert ends(related.relations(SHOP, ALICE, direction="in")) == [(NEW, SHOP)]


def test_both_ends_may_move(related):
    related.relate(edge(SHOP, VISIT), ALICE)
    related.move_node(VISIT, NEW, ALICE)
    related.move_node(SHOP, PROFILE, ALICE)
    assert (
        ends(related.relations(NEW, ALICE))
        == ends(related.relations(PROFILE, ALICE))
        == [(NEW, PROFILE), (PROFILE, NEW)]
    )


@pytest.mark.parametrize("end", ["delete_node", "archive_node"])
def test_edges_go_with_what_they_lead_to(related, end):
    getattr(related, end)(SHOP, ALICE)
    assert related.relations(VISIT, ALICE) == []
    assert [len(version.relations) for version in related.history(VISIT, ALICE)] == [0, 1, 0]


@pytest.mark.parametrize("end", ["delete_node", "archive_node"])
def test_edges_go_with_what_they_lead_away_from(related, end):
    getattr(related, end)(VISIT, ALICE)
    assert related.relations(SHOP, ALICE) == []


def test_an_edge_to_itself_survives_a_move(related):
    related.relate(edge(OTHER, OTHER), ALICE)
    related.move_node(OTHER, NEW, ALICE)
    assert ends(related.relations(NEW, ALICE, direction="out")) == [(NEW, NEW)]


@pytest.mark.parametrize("text", ["", "{", "3", '["nonsense"]', "[1]"])
def test_a_list_of_origins_that_somebody_spoilt_is_no_obstacle(related, store, text):
    store.write(place(SHOP, ".backlinks.json"), text)
    assert related.relations(SHOP, ALICE) == []
    related.relate(edge(OTHER, SHOP), ALICE)
    assert (OTHER, SHOP) in ends(related.relations(SHOP, ALICE))


def test_relating_at_the_same_time_loses_no_edge(related, monkeypatch):
    real = related.write_node
    others = iter([edge(VISIT, OTHER)])

    def late(node, ctx, **options):
        for other in others:
            related.relate(other, ALICE)
        return real(node, ctx, **options)

    monkeypatch.setattr(related, "write_node", late)
    related.relate(edge(VISIT, SHOP, relation_type="part_of"), ALICE)
    assert len(related.read_node(VISIT, ALICE).relations) == 3


@pytest.mark.spec("CTX-07")
def test_the_index_is_told_of_edges(related, store):
    assert ("UPSERT_RELATION", 2) in told(store, VISIT)
    assert told(store, OTHER) == [("UPSERT_CONTEXT", 1)]


@pytest.mark.parametrize("change", ["move", "delete"])
def test_wherever_a_move_or_delete_is_cut_short_the_repair_gets_the_edges_right(fs, store, change):
    for number in range(40):
        shop, visit, new = (f"{uri}-{number}" for uri in (SHOP, VISIT, NEW))
        store.before = lambda verb, key: None
        for uri in (shop, visit):
            fs.write_node(memory("text", uri), ALICE)
        fs.relate(edge(visit, shop), ALICE)
        store.before = dies_at(number)
        try:
            fs.move_node(shop, new, ALICE) if change == "move" else fs.delete_node(shop, ALICE)
        except Died:
            store.before = lambda verb, key: None
            repair(store, quiet=0.0)
            alive = [uri for uri in (shop, new) if fs.exists(uri, ALICE)]
            assert ends(fs.relations(visit, ALICE, direction="out")) == [(visit, uri) for uri in alive], number
        else:
            break
    assert 5 < number < 39
    assert mended(store) == {}


def told_edges(store, uri: str = VISIT) -> dict[int, list[tuple[str, str]]]:
    """What the index is told of the edges of each version."""
    return {
        found.event.version: [(one["to_uri"], one["relation_type"]) for one in found.event.payload["edges"]]
        for found in events_of(store, parse_uri(uri))
        if found.event.event_type == UPSERT_RELATION
    }


@pytest.mark.spec("CTX-07")
def test_an_edge_can_be_taken_away_and_the_index_learns_what_is_left(related, store):
    related.relate(edge(VISIT, SHOP, relation_type="part_of"), ALICE)
    related.relate(edge(VISIT, OTHER), ALICE)
    assert related.unrelate(VISIT, SHOP, ALICE).version == 5
    assert [(one.to_uri, one.relation_type) for one in related.relations(VISIT, ALICE, direction="out")] == [
        (SHOP, "part_of"),
        (OTHER, "related_to"),
    ]
    related.unrelate(VISIT, SHOP, ALICE, relation_type="part_of", if_version=5)
    related.unrelate(VISIT, OTHER, ALICE)
    assert related.relations(VISIT, ALICE) == related.relations(SHOP, ALICE) == related.relations(OTHER, ALICE) == []
    edges = told_edges(store)
    assert edges[5] == [(SHOP, "part_of"), (OTHER, "related_to")]
    assert edges[7] == []
    assert related.read_node(VISIT, ALICE).content == "text"


@pytest.mark.parametrize(
    ("ends", "kind"),
    [((VISIT, SHOP), "part_of"), ((VISIT, OTHER), "related_to"), ((SHOP, VISIT), "related_to"), ((VISIT, NEW), "x")],
)
def test_an_edge_that_is_not_there_cannot_be_taken_away(related, store, ends, kind):
    before = tree(store)
    with pytest.raises(NodeNotFoundError, match="is not related to") as raised:
        related.unrelate(*ends, ALICE, relation_type=kind)
    assert all(name in str(raised.value) for name in (*ends, kind))
    assert tree(store) == before


def test_an_edge_is_taken_away_only_from_the_version_that_is_named(related):
    with pytest.raises(NodeConflictError):
        related.unrelate(VISIT, SHOP, ALICE, if_version=1)
    with pytest.raises(NodeNotFoundError):
        related.unrelate(NEW, SHOP, ALICE)
    assert len(related.relations(VISIT, ALICE)) == 1


def test_a_target_can_be_deleted_though_what_points_at_it_is_damaged(related, store):
    store.write(place(VISIT, ".meta.json"), "{")
    related.delete_node(SHOP, ALICE)
    for _ in range(2):  # the repair comes to the target first, and learns only then that the other is broken
        mended(store)
    assert SHOP not in mended(store)


CHANGES = {
    "relate": lambda fs: fs.relate(edge(VISIT, SHOP), ALICE),
    "write": lambda fs: fs.write_node(memory("new", VISIT, relations=(edge(VISIT, SHOP),)), ALICE),
    "write many": lambda fs: fs.write_nodes([memory("new", VISIT, relations=(edge(VISIT, SHOP),))], ALICE),
    "keep": lambda fs: fs.write_node(memory("new", OTHER, relations=(edge(OTHER, SHOP),)), ALICE),
    "undo": lambda fs: fs.undo(OTHER, ALICE, to=2),
    "move origin": lambda fs: fs.move_node(OTHER, PROFILE, ALICE),
    "delete": lambda fs: fs.delete_node(SHOP, ALICE),
    "purge": lambda fs: fs.delete_node(SHOP, ALICE, purge=True),
    "archive": lambda fs: fs.archive_node(SHOP, ALICE),
    "move": lambda fs: fs.move_node(SHOP, NEW, ALICE),
}
MAKING = ("relate", "write", "write many", "keep", "undo", "move origin")
TAKING = ("delete", "purge", "archive", "move")


def rivals(protocol: str, directory: str) -> tuple[Rivals, ContextFS]:
    """A store with a target, something that points to it, and something that does not."""
    store = Rivals(make_store(protocol, directory))
    fs = ContextFS(store)
    for uri in (SHOP, VISIT, OTHER):
        fs.write_node(memory("text", uri), ALICE)
    fs.relate(edge(OTHER, SHOP), ALICE)
    return store, fs


def check_edges(store: Rivals, fs: ContextFS) -> None:
    """Every edge leads to what is there, is known at its other end, and nothing is left for the repair."""
    shown = [uri for uri in (VISIT, SHOP, OTHER, NEW, PROFILE) if fs.exists(uri, ALICE)]
    for uri in shown:
        for one in fs.relations(uri, ALICE, direction="out"):
            assert one.to_uri in shown, f"{one.from_uri} leads to nowhere"
            assert one in fs.relations(one.to_uri, ALICE, direction="in")
    assert mended(store) == {}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["memory", "device-local"])
@pytest.mark.parametrize("taking", TAKING)
@pytest.mark.parametrize("making", MAKING)
def test_whichever_step_a_rival_comes_at_no_edge_leads_to_nowhere(tmp_path, protocol, making, taking):
    for first, second in ((making, taking), (taking, making)):
        for stop in range(0, 400, 1 if protocol == "memory" else 5):
            store, fs = rivals(protocol, str(tmp_path / f"{first}-{stop}"))
            said = store.race(lambda: CHANGES[first](fs), lambda: CHANGES[second](fs), stop)  # noqa: B023
            assert set(said) <= {None, "node_not_found", "node_conflict"}, (first, stop, said)
            check_edges(store, fs)
            if (making, taking) == ("relate", "move") and said == [None, None]:
                assert ends(fs.relations(VISIT, ALICE)) == [(VISIT, NEW)]
            if store.steps[0] <= stop:
                break
        assert 10 < store.steps[0] <= stop


@pytest.mark.slow
@pytest.mark.parametrize("taking", ["delete", "move"])
def test_one_that_dies_beside_a_rival_leaves_no_edge_to_nowhere_for_long(taking):
    """The repair finds what it did, because nobody takes out of a list what he has not dealt with."""
    died = 0
    for stop in range(0, 36, 3):
        for second_stop in range(0, 60, 3):
            for life in (4, 5):
                store, fs = rivals("memory", "")
                said = store.race(
                    lambda: CHANGES["relate"](fs),  # noqa: B023  # called at once
                    lambda: CHANGES[taking](fs),  # noqa: B023
                    stop,
                    second_stop,
                    lives=(life, inf),
                )
                died += "died" in said
                mended(store)
                mended(store)
                check_edges(store, fs)
    assert died > 100


@pytest.mark.slow
@pytest.mark.parametrize("taking", ["delete", "move"])
@pytest.mark.parametrize("making", ["relate", "keep", "move origin"])
def test_two_that_take_turns_leave_no_edge_to_nowhere(making, taking):
    for first, second in ((making, taking), (taking, making)):
        for stop in range(0, 120, 7):
            for second_stop in range(0, 120, 5):
                store, fs = rivals("memory", "")
                store.race(lambda: CHANGES[first](fs), lambda: CHANGES[second](fs), stop, second_stop)  # noqa: B023
                check_edges(store, fs)
