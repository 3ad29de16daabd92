"""The session as the Agents SDK uses it: its protocol, its runner, and several processes at once."""

from __future__ import annotations

import asyncio
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentm import BoundaryError, Capabilities, DeviceLocalBackend, Locator, MemoryBackend, SessionFileError
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.seam.layer import Layer
from tests.adapters.meanwhile import Meanwhile
from tests.adapters.needs import library
from tests.adapters.rivals import let_go
from tests.backends.stores import make_store, tree

agents = library("agents")

from agents.items import ModelResponse  # noqa: E402  # needs what the line above looks for
from agents.memory import Session, SessionSettings  # noqa: E402
from agents.models.interface import Model  # noqa: E402
from agents.usage import Usage  # noqa: E402
from openai.types.responses import ResponseOutputMessage, ResponseOutputText  # noqa: E402

from agentm.adapters.openai_session import AgentmSession  # noqa: E402

pytestmark = pytest.mark.spec("FILES-06")


@pytest.fixture(params=["memory", "device-local", "sqlite"])
def backend(request, tmp_path):
    return make_store(request.param, str(tmp_path))


def say(text, role="user"):
    return {"role": role, "content": text}


def items(session, limit=None):
    return asyncio.run(session.get_items(limit))


def add(session, *new):
    asyncio.run(session.add_items(list(new)))


def pop(session):
    return asyncio.run(session.pop_item())


def test_it_is_a_session_of_the_sdk(backend):
    session = AgentmSession("one", backend)
    assert isinstance(session, Session)
    assert session.session_id == "one"
    assert items(session) == []
    assert pop(session) is None
    add(session)
    assert tree(backend) == {}


def test_what_is_added_is_there_in_order_as_lines_of_json(backend):
    odd = {"role": "user", "content": [{"type": "input_text", "text": "line\nbreak \u2028 ü 👍 \ud800"}], "n": 1.5}
    add(AgentmSession("one", backend), say("first"), odd)
    add(AgentmSession("one", backend), say("third", "assistant"))
    assert items(AgentmSession("one", backend)) == [say("first"), odd, say("third", "assistant")]
    lines = backend.read(Locator("sessions/one.jsonl")).split("\n")
    assert lines[0] == '{"role": "user", "content": "first"}'
    assert [bool(line) for line in lines] == [True, True, True, False]


@pytest.mark.parametrize(("limit", "expected"), [(None, "abc"), (5, "abc"), (2, "bc"), (1, "c"), (0, ""), (-1, "")])
def test_a_limit_gives_the_newest(backend, limit, expected):
    session = AgentmSession("one", backend)
    add(session, *map(say, "abc"))
    assert items(session, limit) == list(map(say, expected))
    by_setting = AgentmSession("one", backend, session_settings=SessionSettings(limit=limit))
    assert items(by_setting) == list(map(say, expected))
    assert items(by_setting, 3) == list(map(say, "abc"))


def test_the_newest_is_popped_until_none_is_left(backend):
    session = AgentmSession("one", backend)
    add(session, *map(say, "abc"))
    assert [pop(session) for _ in range(4)] == [say("c"), say("b"), say("a"), None]
    add(session, say("d"))
    assert items(session) == [say("d")]


def test_a_session_is_cleared_and_others_are_not(backend):
    one, two = AgentmSession("one", backend), AgentmSession("two", backend)
    add(one, say("a"))
    add(two, say("b"))
    asyncio.run(one.clear_session())
    asyncio.run(one.clear_session())
    assert items(one) == []
    assert items(two) == [say("b")]
    assert tree(backend).keys() == {"sessions", "sessions/two.jsonl"}


def test_what_is_added_while_a_session_is_cleared_stays_alone(backend):
    shared = Meanwhile(backend)
    session = AgentmSession("one", shared)
    add(session, say("a"))
    shared.happens = lambda: asyncio.run(AgentmSession("one", backend).clear_session())
    add(session, say("b"), say("c"))
    assert items(session) == [say("b"), say("c")]
    shared.happens = lambda: asyncio.run(AgentmSession("one", backend).clear_session())
    assert pop(session) is None
    assert items(session) == []


class Simple(Layer):
    """A store with the seven verbs and nothing else."""

    @property
    def capabilities(self):
        return Capabilities()


def test_a_store_that_cannot_remove_is_emptied(backend):
    session = AgentmSession("one", Simple(backend))
    add(session, say("a"))
    asyncio.run(session.clear_session())
    assert items(session) == []


@pytest.mark.parametrize("damage", ["{not json", "3", '"text"', "null", "[]", '{"role": '])
def test_a_line_that_cannot_be_read_is_an_error_that_says_which(backend, damage):
    session = AgentmSession("one", backend)
    add(session, say("a"), say("b"))
    place = Locator("sessions/one.jsonl")
    whole = backend.read(place)
    backend.write(place, f"{whole}{damage}\n")
    for use in (items, pop):
        with pytest.raises(SessionFileError, match=r"line 3 of 'sessions/one\.jsonl'"):
            use(session)
    assert backend.read(place) == f"{whole}{damage}\n"
    backend.write(place, f"{damage}\n{whole}")
    with pytest.raises(SessionFileError, match="line 1 of"):
        items(session)
    assert items(session, 2) == [say("a"), say("b")]


def test_what_a_person_left_open_or_blank_is_understood(backend):
    backend.write(
        Locator("sessions/one.jsonl"), '{"role": "user", "content": "a"}\r\n\n{"role": "user", "content": "b"}'
    )
    session = AgentmSession("one", backend)
    add(session, say("c"))
    assert items(session) == list(map(say, "abc"))
    assert [pop(session) for _ in range(4)] == [say("c"), say("b"), say("a"), None]


def test_of_items_that_cannot_be_written_none_is(backend):
    session = AgentmSession("one", backend)
    with pytest.raises(SessionFileError) as raised:
        add(session, say("a"), {"role": "user", "content": object()})
    assert raised.value.code == "session_item_invalid"
    assert tree(backend) == {}
    with pytest.raises(SessionFileError):
        AgentmSession(7, backend)  # type: ignore[arg-type]  # as a caller without a type checker does


@pytest.mark.parametrize(
    "given",
    [say("forgot the brackets"), "text", ["text"], [say("a"), None], [say("a"), [say("b")]], [7], 7, None],
    ids=repr,
)
def test_what_could_not_be_read_back_is_not_added(backend, given):
    session = AgentmSession("one", backend)
    add(session, say("first"))
    with pytest.raises(SessionFileError) as raised:
        asyncio.run(session.add_items(given))
    assert raised.value.code == "session_item_invalid"
    assert items(session) == [say("first")]
    assert pop(session) == say("first")


ODD = ["", ".", "..", "../one", "one/two", "one\\two", "One", "ONE", "one ", "one.", "con", "ü", "u\u0308", "a\0b",
       "\ud800", "one~two", "x" * 300, "one.jsonl", "one\n", "％", "user:42", "user 42", "-", "_"]  # fmt: skip


def test_two_ids_never_share_a_file_also_where_case_and_accents_are_ignored():
    backend = MemoryBackend()
    ids = [*ODD, "one", "u", "user-42", "user_42"]
    for number, one in enumerate(ids):
        add(AgentmSession(one, backend), say(str(number)))
    for number, one in enumerate(ids):
        assert items(AgentmSession(one, backend)) == [say(str(number))]
    keys = [child.key for child in backend.list(Locator("sessions"))]
    assert len({unicodedata.normalize("NFKD", key).casefold() for key in keys}) == len(ids)
    assert all(len(key.rpartition("/")[2].encode()) <= 255 for key in keys)


@given(st.text(), st.text())
def test_any_two_ids_are_two_histories(one, other):
    backend = MemoryBackend()
    add(AgentmSession(one, backend), say("a"))
    assert items(AgentmSession(other, backend)) == ([say("a")] if one == other else [])


@pytest.mark.parametrize("session_id", ODD)
def test_odd_ids_have_files_on_a_disk_and_nowhere_else(tmp_path, session_id):
    add(AgentmSession(session_id, DeviceLocalBackend(tmp_path / "store")), say("a"))
    assert [path.parent for path in tmp_path.rglob("*.jsonl")] == [tmp_path / "store/sessions"]


def test_a_scope_holds(backend):
    scope = ScopedStorageScope(read=["/sessions/mine"], write=["/sessions/mine"])
    scoped = ScopedBackend(backend, scope)
    add(AgentmSession("one", scoped, folder="sessions/mine"), say("a"))
    with pytest.raises(BoundaryError):
        add(AgentmSession("one", scoped), say("a"))


def test_without_a_store_it_is_the_configured_one(home):
    add(AgentmSession("one"), say("a"))
    assert Path(home, ".agentm/memory/sessions/one.jsonl").exists()


def test_who_cancels_an_addition_finds_it_whole_or_not_at_all(backend):
    session = AgentmSession("one", backend)

    async def interrupted():
        task = asyncio.ensure_future(session.add_items([say("a"), say("b")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await session.get_items()

    assert asyncio.run(interrupted()) in ([], [say("a"), say("b")])


@pytest.mark.slow
@pytest.mark.parametrize("store", ["device-local", "sqlite"])
def test_two_processes_add_and_pop_at_once_and_nothing_is_lost_or_had_twice(store, tmp_path):
    session = AgentmSession("shared", make_store(store, str(tmp_path)))
    times = 60
    let_go("add", store, str(tmp_path), "ab", times)
    kept = [item["content"] for item in items(session)]
    assert sorted(kept) == sorted(f"{who}{n}" for n in range(times) for who in "aabb")
    assert kept[::2] == kept[1::2]  # what was added together is together
    popped = let_go("pop", store, str(tmp_path), "ab", times)
    assert sorted(item["content"] for one in popped for item in one) == sorted(kept[2 * times :])
    assert [item["content"] for item in items(session)] == kept[: 2 * times]


class Parrot(Model):
    """Says how much it was given, and what last."""

    def __init__(self):
        self.given = []

    async def get_response(self, system_instructions, input, *more, **named):
        self.given.append(input)
        text = ResponseOutputText(text=f"{len(input)}: {input[-1]['content']}", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *more, **named):
        raise NotImplementedError


def test_the_runner_of_the_sdk_goes_on_where_another_left_off(backend):
    agent = agents.Agent(name="test", model=Parrot())
    config = agents.RunConfig(tracing_disabled=True)

    async def turn(text):
        session = AgentmSession("user-42", backend)
        return (await agents.Runner.run(agent, text, session=session, run_config=config)).final_output

    assert asyncio.run(turn("hello")) == "1: hello"
    assert asyncio.run(turn("again")) == "3: again"
    assert [item["role"] for item in items(AgentmSession("user-42", backend))] == ["user", "assistant"] * 2
    config = agents.RunConfig(tracing_disabled=True, session_settings=SessionSettings(limit=2))
    assert asyncio.run(turn("short")) == "3: short"
