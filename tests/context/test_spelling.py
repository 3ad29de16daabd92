"""One name, one spelling, on stores that keep names apart and on one that does not."""

from __future__ import annotations

import threading
import unicodedata
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from agentm.context.contextfs import ContextFS
from agentm.context.names import folded
from agentm.context.tenancy import RequestContext
from agentm.errors import AgentmError, InvalidNodeError, InvalidUriError, NodeNotFoundError
from agentm.seam import Locator
from tests.backends.stores import PROTOCOLS, make_store, tree
from tests.context.folding import Folding
from tests.context.nodes import ALICE, OTHER, SHOP, VISIT, edge, memory, mended, place
from tests.context.recording import Died, Recording, dies_at

pytestmark = pytest.mark.spec("CTX-01")

EVENTS = "ctx://acme/users/alice/memories/events/"
PAIRS = [("Visit", "visit"), ("visit", "Visit"), ("VISIT", "Visit"), ("Straße", "STRASSE"), ("strasse", "Straße")]
SHAPES = {
    "account": "ctx://{}/users/alice/memories/events/a",
    "user": "ctx://acme/users/{}/memories/events/a",
    "agent": "ctx://acme/agents/{}/memories/cases/a",
    "slug": "ctx://acme/users/alice/memories/events/{}",
    "skill": "ctx://acme/agents/scout/skills/{}",
}


@pytest.fixture(params=[*PROTOCOLS, "folding"])
def store(request, tmp_path):
    inner = Folding() if request.param == "folding" else Recording(make_store(request.param, str(tmp_path)))
    yield inner
    if hasattr(inner.inner, "close"):
        inner.inner.close()


def beside(uri: str) -> str:
    """Another memory in the same folder, where the folders above are what matters."""
    return f"{uri.removesuffix('/a')}/b" if uri.endswith("/a") else uri


def caller(uri: str) -> RequestContext:
    """The owner of an address."""
    account, kind, name = uri.removeprefix("ctx://").split("/")[:3]
    return RequestContext(account, user_id=name) if kind == "users" else RequestContext(account, agent_id=name)


def write(fs: ContextFS, uri: str, content: str = "text") -> None:
    fs.write_node(memory(content, uri), caller(uri))


@given(st.text(max_size=8))
def test_folding_a_name_twice_changes_nothing_more(name):
    assert folded(folded(name)) == folded(name)
    for form in ("NFC", "NFD"):
        assert folded(unicodedata.normalize(form, name)) == folded(name)
        assert folded(name.upper().lower()) == folded(folded(name).upper().lower())


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_second_spelling_is_refused_and_the_first_is_named(store, shape, first, second):
    one, other = shape.format(first), shape.format(second)
    write(ContextFS(store), one, "first")
    before = tree(store)
    for fs in (ContextFS(store), ContextFS(store)):
        for attempt in (
            lambda: write(fs, other),  # noqa: B023  # called at once
            lambda: fs.write_nodes([memory("x", other)], caller(other)),  # noqa: B023
        ):
            with pytest.raises(InvalidUriError) as raised:
                attempt()
            assert raised.value.code == "uri_taken"
            assert repr(first) in str(raised.value)
            assert repr(second) in str(raised.value)
    assert tree(store) == before
    fs = ContextFS(store)
    assert not fs.exists(other, caller(other))
    with pytest.raises(NodeNotFoundError):
        fs.read_node(other, caller(other))
    write(fs, one, "again")
    assert fs.read_node(one, caller(one)).content == "again"


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_name_that_is_settled_takes_more_memories(store, shape):
    uri = shape.format("ACME")
    fs = ContextFS(store)
    for name in ("one", "Two"):
        for writer in (fs, ContextFS(store)):
            write(writer, uri, "text")
            write(writer, f"{uri.rpartition('/')[0]}/{name}")
    assert mended(store) == {}


@pytest.mark.parametrize("taken", [True, False])
def test_a_move_takes_a_name_only_if_no_spelling_of_it_is_there(fs, store, taken):
    write(fs, OTHER)
    if taken:
        write(fs, VISIT)
    target = EVENTS + "Visit"
    before = tree(store)
    if taken:
        with pytest.raises(InvalidUriError) as raised:
            fs.move_node(OTHER, target, ALICE)
        assert raised.value.code == "uri_taken"
        assert tree(store) == before
    else:
        fs.move_node(OTHER, target, ALICE)
        with pytest.raises(InvalidUriError):
            write(ContextFS(store), VISIT)
        assert fs.list_children(EVENTS, ALICE) == [target]


def test_a_memory_does_not_move_to_another_spelling_of_its_own_name(fs):
    write(fs, VISIT)
    with pytest.raises(InvalidUriError) as raised:
        fs.move_node(VISIT, EVENTS + "Visit", ALICE)
    assert raised.value.code == "uri_taken"
    assert fs.list_children(EVENTS, ALICE) == [VISIT]


def test_two_spellings_are_not_written_together(fs, store):
    with pytest.raises(InvalidNodeError):
        fs.write_nodes([memory("a", VISIT), memory("b", EVENTS + "Visit")], ALICE)
    assert tree(store) == {}


def test_what_memories_written_together_point_to_has_its_name_first(fs, store):
    target = EVENTS + "Visit"
    write(fs, VISIT)
    before = tree(store)
    with pytest.raises(InvalidUriError):
        fs.write_nodes([memory("a", SHOP, relations=(edge(SHOP, target),)), memory("b", target)], ALICE)
    assert tree(store) == before
    fresh = EVENTS + "Fresh"
    fs.write_nodes([memory("a", SHOP, relations=(edge(SHOP, fresh),)), memory("b", fresh)], ALICE)
    assert [one.from_uri for one in fs.relations(fresh, ALICE)] == [SHOP]


def test_what_ended_keeps_its_name_and_comes_back_to_it(fs):
    uri = EVENTS + "Visit"
    write(fs, uri, "one")
    fs.delete_node(uri, ALICE)
    with pytest.raises(InvalidUriError):
        write(fs, VISIT)
    fs.undo(uri, ALICE)
    assert fs.read_node(uri, ALICE).content == "one"


@pytest.mark.parametrize("name", ["café", "Ångström", "Ἀθῆναι"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_how_letters_are_composed_makes_no_other_name(store, shape, name):
    for form in ("NFD", "NFC"):
        uri = shape.format(unicodedata.normalize(form, name))
        write(ContextFS(store), uri, form)
        assert ContextFS(store).read_node(uri, caller(uri)).content == form
    assert len(ContextFS(store).history(uri, caller(uri))) == 2


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(("first", "second"), [("Visit", "visit"), ("VISIT", "Visit"), ("visit", "Visit")])
def test_a_writer_that_dies_anywhere_leaves_one_spelling_possible(tmp_path, shape, first, second):
    """Whatever it left, exactly one of the two can be written afterwards, and goes on being the one."""
    for number in range(40):
        for store in (Folding(), Recording(make_store("memory", ""))):
            store.before = dies_at(number)
            try:
                write(ContextFS(store), shape.format(first))
            except Died:
                ended = False
            else:
                ended = True
            store.before = lambda verb, key: None
            assert len(writable(store, shape, second, first)) == 1, number
            assert len(writable(store, shape, first, second)) == 1, number
        if ended:
            break
    assert 3 < number < 39


def writable(store, shape: str, *names: str) -> list[str]:
    """Which of some spellings can be written, tried in this order."""
    written = []
    for name in names:
        with suppress(InvalidUriError):
            write(ContextFS(store), shape.format(name))
            written.append(name)
    return written


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("names", [("Visit", "visit"), ("VISIT", "Visit")])
def test_of_two_who_create_both_spellings_at_once_exactly_one_wins(store, shape, names):
    for number in range(10):
        start = threading.Barrier(2)
        said: list[str] = []

        def attempt(uri: str) -> None:
            fs = ContextFS(store)
            start.wait()  # noqa: B023  # joined below
            try:
                write(fs, uri)
                said.append("written")  # noqa: B023
            except AgentmError as error:
                said.append(error.code)  # noqa: B023

        first, second = (shape.format(f"{name}-{number}") for name in names)
        threads = [threading.Thread(target=attempt, args=(uri,)) for uri in (first, beside(second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(said) == ["uri_taken", "written"]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_rival_that_comes_at_any_step_makes_no_second_spelling(shape):
    """Deterministic: the other one is created, as far as its locks let it, at each change that the first one makes."""
    for number in range(40):
        for names in (("Visit", "visit"), ("visit", "Visit"), ("VISIT", "Visit")):
            store = Recording(make_store("memory", ""))
            said = interleaved(store, shape, names, number)
            assert said.count("written") == 1, (number, names, said)
    assert number > 10


def interleaved(store, shape: str, names: tuple[str, str], number: int) -> list[str]:
    said: list[str] = []
    rivals: list[threading.Thread] = []
    waiting = threading.Event()
    real = store.inner.lock

    first, second = (shape.format(name) for name in names)

    def attempt(uri: str) -> None:
        try:
            write(ContextFS(store), uri)
            said.append("written")
        except AgentmError as error:
            said.append(error.code)
        finally:
            waiting.set()

    def lock(*locators: Locator):
        if threading.current_thread() in rivals:
            waiting.set()
        return real(*locators)

    def before(verb: str, key: str) -> None:
        if len(store.changes) == number and not rivals:
            rivals.append(threading.Thread(target=attempt, args=(beside(second),)))
            rivals[0].start()
            waiting.wait()

    store.inner.lock = lock
    store.before = before
    attempt(first)
    if not rivals:
        attempt(beside(second))
    for rival in rivals:
        rival.join()
    return said


def test_an_account_never_reads_what_is_anothers_by_spelling():
    store = Folding()
    fs = ContextFS(store)
    write(fs, VISIT, "secret")
    fs.write_node(memory("more", VISIT), ALICE)
    stranger = RequestContext("ACME", user_id="alice", agent_id="scout")
    there, absent = VISIT.replace("acme", "ACME"), OTHER.replace("acme", "ACME")
    assert not fs.exists(there, stranger)
    for folder in ("ctx://ACME", "ctx://ACME/users", "ctx://ACME/users/alice/memories", there.rpartition("/")[0]):
        assert fs.list_children(folder, stranger) == []
    said = [refusals(fs, uri, stranger) for uri in (there, absent)]
    assert said[0] == [one.replace(absent, there) for one in said[1]]
    assert fs.history(there, stranger) == fs.history(absent, stranger) == []
    assert [one.content for one in fs.history(VISIT, ALICE)] == ["secret", "more"]


def refusals(fs: ContextFS, uri: str, ctx: RequestContext) -> list[str]:
    """What somebody is told who tries everything at an address."""
    said = []
    for attempt in (
        lambda: fs.write_node(memory("x", uri), ctx),
        lambda: fs.write_nodes([memory("x", uri)], ctx),
        lambda: fs.write_node(memory("x", uri), ctx, if_version=1),
        lambda: fs.read_node(uri, ctx),
        lambda: fs.delete_node(uri, ctx),
        lambda: fs.archive_node(uri, ctx),
        lambda: fs.move_node(uri, uri + "-new", ctx),
        lambda: fs.relate(edge(uri, uri), ctx),
        lambda: fs.unrelate(uri, uri, ctx),
        lambda: fs.relations(uri, ctx),
        lambda: fs.undo(uri, ctx),
        lambda: fs.diff(uri, ctx, 1, 2),
    ):
        with pytest.raises(AgentmError) as raised:
            attempt()
        assert "secret" not in str(raised.value)
        said.append(f"{raised.value.code} {raised.value}")
    return said


@pytest.mark.parametrize("text", ["", "somebody else's", "\n", "[]"])
def test_a_claim_that_somebody_spoilt_is_no_claim(fs, store, text):
    store.write(Locator(place(VISIT).parent.key + "/.names/visit"), text)
    write(fs, VISIT)
    with pytest.raises(InvalidUriError):
        write(fs, EVENTS + "Visit")


def test_a_folder_made_without_a_claim_keeps_its_name(store):
    """As by hand, or by somebody who copied everything but hidden files."""
    write(ContextFS(store), "ctx://ACME/users/alice/memories/events/Visit")
    for claim in ("accounts/.names/acme", "accounts/ACME/users/alice/memories/events/.names/visit"):
        store.remove(Locator(claim))
    for name in ("Visit", "Other"):
        write(ContextFS(store), f"ctx://ACME/users/alice/memories/events/{name}", "again")
    with pytest.raises(InvalidUriError, match="'ACME'"):
        write(ContextFS(store), OTHER)


def test_an_account_whose_claim_is_named_like_a_folder_is_no_obstacle_to_the_repair(store):
    for account in ("Users", "Agents"):
        write(ContextFS(store), f"ctx://{account}/users/alice/memories/events/a")
    assert mended(store) == {}


def test_a_name_in_lower_case_costs_no_file(fs, store):
    write(fs, VISIT)
    assert not [key for key in tree(store) if ".names" in key]
