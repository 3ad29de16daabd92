"""One behaviour for all built-in stores: odd names are names like any other, impossible ones are refused alike."""

from __future__ import annotations

import sys

import pytest

from agentm import Locator
from tests.backends.stores import PLAIN_FILES, at, refused, tree

NAMES = {
    "spaces": " two  spaces ",
    "single quote": "it's",
    "double quote": 'say "hi"',
    "percent": "100%_%41%s",
    "star": "*",
    "question mark": "what?",
    "bracket": "[a-z]",
    "newline": "two\nlines",
    "tab and escape": "a\tb\x1b[0m",
    "leading dash": "-rf",
    "tilde": "~",
    "dollar": "$HOME",
    "leading dot": ".hidden",
    "three dots": "...",
    "trailing dot": "ends.",
    "windows device": "CON",
    "colon and pipe": "a:b|c<d>",
    "semicolon": "a;DROP TABLE entries;--",
    "emoji": "🧠🏽‍🔬",
    "right to left": "\u202egnp.exe",
    "long, ascii": "n" * 255,
    "long, two bytes each": "ü" * 127,
}


@pytest.mark.spec("SEAM-01", "SEAM-06")
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_an_odd_name_is_a_name(backend, name):
    file, inside = at(name), at(f"dir/{name}/{name}")
    for place in (file, inside):
        backend.write(place, f"text of {place.key}")
    assert [child.key for child in backend.list(at("dir"))] == [f"dir/{name}"]
    assert tree(backend) == {
        name: f"text of {name}", "dir": None, f"dir/{name}": None, inside.key: f"text of {inside.key}",
    }  # fmt: skip
    assert backend.info(inside).locator == inside
    backend.append(file, "!")
    backend.rename(at(f"dir/{name}"), at(f"new/{name}"))
    assert backend.read(at(f"new/{name}/{name}")) == f"text of {inside.key}"
    assert {change.locator.key for change in backend.changes({})} == {name, f"new/{name}/{name}"}
    backend.remove(file)
    assert not backend.exists(file)


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_refusal_names_an_odd_key_on_one_line(backend, name):
    with refused(backend, FileNotFoundError, "not_found", "read", f"x/{name}"):
        backend.read(at(f"x/{name}"))


@pytest.mark.spec("SEAM-06")
def test_wildcards_match_nothing_but_themselves(backend):
    for key in ("a/1", "b/2", "%/3", "_/4", "*/5"):
        backend.write(at(key), key)
    for pattern, own in (("%", "%/3"), ("_", "_/4"), ("*", "*/5"), ("?", None), ("[ab]", None)):
        expected = [own] if own else []
        assert [child.key for child in backend.list(at(pattern))] == expected
        assert [change.locator.key for change in backend.changes({}, at(pattern))] == expected


@pytest.mark.spec("SEAM-06")
@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file names are folded on this system")
def test_case_and_unicode_form_are_kept_apart(backend):
    keys = ["Note", "note", "NOTE", "caf\u00e9", "cafe\u0301", "stra\u00dfe", "strasse"]
    for key in keys:
        backend.write(at(key), f"text of {key}")
    assert tree(backend) == {key: f"text of {key}" for key in keys}
    assert [child.key for child in backend.list(at(""))] == sorted(keys)


TOO_LONG = {"256 bytes": "n" * 256, "256 bytes in 128 characters": "ü" * 128, "in the middle": f"a/{'n' * 300}/b"}


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("key", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_a_name_over_255_bytes_can_be_looked_for_but_not_made(backend, key):
    backend.write(at("file"), "x")
    place = at(key)
    assert not backend.exists(place)
    assert backend.list(place) == []
    for verb in ("read", "info", "remove"):
        with refused(backend, FileNotFoundError, "not_found", verb, key):
            getattr(backend, verb)(place)
    with refused(backend, FileNotFoundError, "not_found", "rename", key):
        backend.rename(place, at("elsewhere"))
    for verb in ("write", "append"):
        with refused(backend, OSError, "name_too_long", verb, key):
            getattr(backend, verb)(place, "x")
    with refused(backend, OSError, "name_too_long", "mkdir", key):
        backend.mkdir(place)
    with refused(backend, OSError, "name_too_long", "rename", key):
        backend.rename(at("file"), place)


@pytest.mark.spec("SEAM-06")
def test_a_key_without_a_utf8_form_can_be_looked_for_but_not_made(backend):
    key = "half\ud800"
    backend.write(at("file"), "x")
    place = at(key)
    assert not backend.exists(place)
    assert backend.list(place) == []
    for verb in ("read", "info", "remove"):
        with refused(backend, FileNotFoundError, "not_found", verb, key):
            getattr(backend, verb)(place)
    with refused(backend, FileNotFoundError, "not_found", "rename", key):
        backend.rename(place, at("elsewhere"))
    for verb in ("write", "append"):
        with refused(backend, ValueError, "invalid_locator", verb, key):
            getattr(backend, verb)(place, "x")
    with refused(backend, ValueError, "invalid_locator", "mkdir", key):
        backend.mkdir(place)
    with refused(backend, ValueError, "invalid_locator", "rename", key):
        backend.rename(at("file"), place)


@pytest.mark.spec("SEAM-06")
def test_a_deep_key_works_up_to_three_thousand_bytes(backend):
    place = _key_of(3_000)
    backend.write(place, "deep")
    assert backend.read(place) == "deep"
    backend.rename(at(place.parts[0]), at("moved"))
    assert backend.read(Locator("/".join(("moved", *place.parts[1:])))) == "deep"


@pytest.mark.spec("SEAM-06")
@pytest.mark.parametrize("size", [4_096, 70_000])
def test_a_key_beyond_what_the_system_can_name_works_or_is_refused(backend, protocol, size):
    place = _key_of(size)
    if protocol in PLAIN_FILES:
        for verb in ("write", "append"):
            with refused(backend, OSError, "name_too_long", verb, place.key):
                getattr(backend, verb)(place, "deep")
        with refused(backend, OSError, "name_too_long", "mkdir", place.key):
            backend.mkdir(place)
        with refused(backend, FileNotFoundError, "not_found", "read", place.key):
            backend.read(place)
        assert not backend.exists(place)
        assert backend.list(place) == []
    else:
        backend.write(place, "deep")
        assert backend.read(place) == "deep"


def _key_of(size: int) -> Locator:
    key = "/".join("n" * 99 for _ in range(size // 100 + 1))[:size].rstrip("/")
    assert size - 1 <= len(key) <= size
    return Locator(key)
