"""Addresses: the four shapes both ways, and names that no store may be given."""

from __future__ import annotations

import unicodedata

import pytest

from agentm.context.contextfs import ContextFS
from agentm.context.names import LONGEST_NAME
from agentm.context.uri import CATEGORIES, Folder, parse_place, parse_uri, uri_of
from agentm.errors import InvalidLocatorError, InvalidUriError
from agentm.seam import Locator
from tests.context.nodes import ALICE, memory

SHAPES = [
    ("ctx://acme/users/alice/memories/events/visit", "MEMORY", "events", "user:alice"),
    ("ctx://acme/agents/scout/memories/cases/refund", "MEMORY", "cases", "agent:scout"),
    ("ctx://acme/agents/scout/skills/brewing", "SKILL", "skills", "agent:scout"),
    ("ctx://acme/users/alice/memories/profile", "MEMORY", "profile", "user:alice"),
    ("ctx://acme/agents/scout/memories/profile", "MEMORY", "profile", "agent:scout"),
]

pytestmark = pytest.mark.spec("CTX-01")


@pytest.mark.parametrize(("text", "context_type", "category", "owner"), SHAPES)
def test_the_shapes_lead_to_a_place_and_back(text, context_type, category, owner):
    uri = parse_uri(text)
    assert (uri.account, uri.context_type, uri.category, uri.owner_space) == ("acme", context_type, category, owner)
    assert uri.locator == Locator(text.replace("ctx://", "accounts/"))
    assert uri_of(uri.locator) == uri
    assert str(uri) == text


@pytest.mark.parametrize("shape", [shape[0] for shape in SHAPES])
def test_every_shape_is_written_and_read_on_every_store(shape, fs, store):
    fs.write_node(memory("text", shape), ALICE)
    assert ContextFS(store).read_node(shape, ALICE).content == "text"
    assert store.read(Locator(shape.replace("ctx://", "accounts/") + "/content.md")) == "text"


@pytest.mark.parametrize("category", [name for name in CATEGORIES if name != "profile"])
def test_every_category_holds_slugs(category):
    assert parse_uri(f"ctx://acme/users/alice/memories/{category}/a").category == category


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "ctx://"),
        ("", "ctx://"),
        ("http://acme/users/alice/memories/profile", "ctx://"),
        ("ctx://", "account is empty"),
        ("ctx:///users/alice/memories/events/a", "account is empty"),
        ("ctx://acme", "is a folder"),
        ("ctx://acme/users/alice/memories/events", "is a folder"),
        ("ctx://acme/users//memories/events/a", "user is empty"),
        ("ctx://acme/people/alice/memories/events/a", "kind of space"),
        ("ctx://acme/users/alice/skills/a", "section"),
        ("ctx://acme/users/alice/memories/event/a", "did you mean 'events'"),
        ("ctx://acme/users/alice/memories/profile/a", "goes on behind"),
        ("ctx://acme/users/alice/memories/events/a/b", "goes on behind"),
        ("ctx://acme/agents/scout/skills/a/b", "goes on behind"),
        ("ctx://acme/users/alice/memories/events/..", "dot"),
        ("ctx://../users/alice/memories/events/a", "dot"),
    ],
)
def test_what_is_no_address_is_refused_in_words_that_help(text, complaint):
    with pytest.raises(InvalidUriError, match=complaint) as raised:
        parse_uri(text)
    assert raised.value.code == "invalid_uri"


BAD_NAMES = {
    "overlong": "x" * (LONGEST_NAME + 1),
    "overlong in bytes": "é" * (LONGEST_NAME // 2 + 1),
    "control": "a\x07b",
    "newline": "a\nb",
    "NUL": "a\0b",
    "bidi override": "a\u202eb",
    "bidi isolate": "a\u2066b",
    "zero width space": "a\u200bb",
    "byte order mark": "\ufeffa",
    "line separator": "a\u2028b",
    "surrogate": "a\ud800",
    "Windows device": "CON",
    "Windows device with a suffix": "nul.txt",
    "Windows port": "com1",
    "percent": "a%2e",
    "star": "*",
    "question": "a?",
    "backslash": "a\\b",
    "colon": "a:b",
    "dot": ".hidden",
    "trailing dot": "a.",
    "trailing space": "a ",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
@pytest.mark.parametrize(
    "shape",
    [
        "ctx://{}/users/alice/memories/events/a",
        "ctx://acme/users/{}/memories/events/a",
        "ctx://acme/agents/{}/memories/events/a",
        "ctx://acme/users/alice/memories/events/{}",
        "ctx://acme/agents/scout/skills/{}",
    ],
)
def test_a_name_that_not_every_store_can_hold_is_refused_everywhere(name, shape):
    with pytest.raises((InvalidUriError, InvalidLocatorError)) as raised:
        parse_uri(shape.format(name))
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["x" * LONGEST_NAME, "naïve", "咖啡", "👩‍🚀", "a.b", "a b", "Con-rad"])
def test_a_name_that_people_use_is_kept(name):
    uri = parse_uri(f"ctx://acme/users/alice/memories/events/{name}")
    assert uri.name == unicodedata.normalize("NFC", name)


def test_two_spellings_of_one_name_are_one_memory(fs):
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    assert composed != decomposed
    base = "ctx://acme/users/alice/memories/events/"
    fs.write_node(memory("one", base + decomposed), ALICE)
    assert fs.read_node(base + composed, ALICE).content == "one"
    assert fs.list_children(base, ALICE) == [base + composed]


@pytest.mark.parametrize(
    ("text", "owner", "path"),
    [
        ("ctx://acme", None, ()),
        ("ctx://acme/users", None, ("users",)),
        ("ctx://acme/users/alice/", "user:alice", ("users", "alice")),
        ("ctx://acme/agents/scout/skills", "agent:scout", ("agents", "scout", "skills")),
        ("ctx://acme/users/alice/memories/events", "user:alice", ("users", "alice", "memories", "events")),
    ],
)
def test_what_is_above_a_memory_is_a_folder(text, owner, path):
    assert parse_place(text) == Folder("acme", owner, path)


@pytest.mark.parametrize("key", ["", "accounts", "accounts/acme", "elsewhere/acme/users/a/memories/profile"])
def test_a_place_that_is_no_memorys_has_no_address(key):
    with pytest.raises(InvalidUriError):
        uri_of(Locator(key))
