"""The universal checks: what every backend must do, whatever it declares.

A check returns what it counted (or nothing) and raises `Failed` with one sentence. It makes its places with
`Locator`, not with the backend's ``resolve``, so that one broken verb fails its own check and few others.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agentm.conformance.expect import expect, refuses, same, short
from agentm.conformance.trial import Trial
from agentm.seam import ROOT, Info, InvalidLocatorError, Locator

EXACT_TEXTS = {
    "LF": "one\ntwo\n",
    "CRLF": "one\r\ntwo\r\n",
    "bare CR": "one\rtwo\r",
    "mixed newlines": "a\nb\r\nc\rd\n\r",
    "no final newline": "one\ntwo",
    "an empty text": "",
    "only newlines": "\n\n\n",
    "outer blanks": " \t text \t ",
    "non-ASCII": "naïve façade, Ελλάδα, 日本語\n",
    "astral": "🜁 𝔘𝔫𝔦𝔠𝔬𝔡𝔢\n",
    "combining characters": "e\u0301 is not \u00e9\n",
    "other line ends": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "a byte order mark": "\ufefftext\n",
    "NUL": "before\0after\n",
    "quotes and escapes": "\\n '\" %s $HOME \\u0041 {}\n",
}

# What a key may hold without leaving its store, and the segments that a lazy pattern would confuse.
ODD_NAMES = (".meta.json", "a..b", "with space.md", "ünïcode.md", "50%.md", "a_b.md", "[x].md", "it's.md")


def resolve_and_locator(trial: Trial) -> None:
    resolve = trial.backend.resolve
    same("resolve()", resolve(), ROOT)
    for parts, key in (
        (("a", "b"), "a/b"),
        (("a/b", "c.md"), "a/b/c.md"),
        (("/a", "./b//", ""), "a/b"),
        (("/etc/passwd",), "etc/passwd"),
        (("",), ""),
        (("...", "a..b"), ".../a..b"),
    ):
        same(f"resolve{parts}", resolve(*parts), Locator(key))
    place = resolve(trial.scratch.key, "named-only")
    expect(not trial.backend.exists(place), "resolve made something at the place it named")
    expect(trial.backend.exists(ROOT), "exists says that the root does not exist")
    same("write returned a locator that", trial.backend.write(place, "x"), place)
    same("mkdir returned a locator that", trial.backend.mkdir(trial.at("dir")), trial.at("dir"))


def round_trip(trial: Trial) -> None:
    read, place = trial.backend.read, trial.at("deep/er/note.md")
    refuses("reading nothing", FileNotFoundError, lambda: read(place))
    refuses("reading below nothing", FileNotFoundError, lambda: read(place.child("x")))
    neighbour = trial.put("deep/er/other.md", "neighbour\n")
    for text in ("first\n", "second, and longer\n", "3", "", "again\n", "long line\n" * 50_000):
        same("write", trial.backend.write(place, text), place)
        same("read after write", read(place), text)
    same("read of a neighbour after other writes", read(neighbour), "neighbour\n")
    for name in ODD_NAMES:
        trial.put(f"odd/{name}", name)
    for name in ODD_NAMES:
        same(f"read of {name!r}", read(trial.at(f"odd/{name}")), name)
    _keeps_what_is_there(trial)


def _keeps_what_is_there(trial: Trial) -> None:
    backend, note = trial.backend, trial.put("kept/note.md", "kept\n")
    folder = trial.at("kept")
    refuses("reading a directory", IsADirectoryError, lambda: backend.read(folder))
    refuses("writing over a directory", IsADirectoryError, lambda: backend.write(folder, "x"))
    refuses("writing below a file", OSError, lambda: backend.write(note.child("x"), "x"))
    same("read after refused writes", backend.read(note), "kept\n")


def lf_exact_round_trip(trial: Trial) -> str:
    for number, (what, text) in enumerate(EXACT_TEXTS.items()):
        place = trial.put(f"{number}.md", text)
        got = trial.backend.read(place)
        same(f"{what}: read", got, text)
        if trial.raw is not None:
            same(f"{what}: the store behind the backend", trial.raw(place), text.encode())
    _no_guess_at_half_characters(trial)
    return f"{len(EXACT_TEXTS)} texts, " + ("confirmed by an oracle" if trial.raw else "no oracle for the raw bytes")


def _no_guess_at_half_characters(trial: Trial) -> None:
    place, half = trial.put("half.md", "old\n"), "half a pair: \ud83d"
    try:
        trial.backend.write(place, half)
    except (OSError, ValueError):
        same("read after a refused text", trial.backend.read(place), "old\n")
    else:
        same("a lone surrogate: read", trial.backend.read(place), half)


def exists_flips(trial: Trial) -> None:
    def says(key: str, wanted: bool, when: str) -> None:
        same(f"exists of {key!r} {when}", trial.backend.exists(trial.at(key)), wanted)

    for key in ("a/note.md", "a"):
        says(key, False, "before anything is written")
    trial.put("a/note.md", "x")
    for key in ("a/note.md", "a", ""):
        says(key, True, "after a write")
    for key in ("a/note", "a/note.md2", "a/note.md/x", "a/note.md/x/y", "ab", "note.md"):
        says(key, False, "though only a/note.md was written")
    says("made", False, "before mkdir")
    trial.backend.mkdir(trial.at("made"))
    says("made", True, "after mkdir")
    trial.put("empty.md", "")
    says("empty.md", True, "after writing an empty text")


def info(trial: Trial) -> None:
    look = trial.backend.info
    refuses("info of nothing", FileNotFoundError, lambda: look(trial.at("absent.md")))
    note = trial.put("dir/note.md", "é🜁\r\n")
    first = look(note)
    _is_info("info of a file", first, Info(note, False, 8, first.mtime))
    folder = look(trial.at("dir"))
    _is_info("info of a directory", folder, Info(trial.at("dir"), True, 0, folder.mtime))
    same("info of the root: is_dir", look(ROOT).is_dir, True)
    trial.backend.write(note, "")
    same("size after writing an empty text", look(note).size, 0)
    trial.backend.write(note, "x" * 70_000)
    second = look(note)
    same("size after a longer write", second.size, 70_000)
    expect(second.mtime >= first.mtime, "mtime went back although the file was written again")
    refuses("info below a file", OSError, lambda: look(note.child("x")))


def _is_info(what: str, got: Info, wanted: Info) -> None:
    for name in ("is_dir", "size", "locator"):
        same(f"{what}: {name}", getattr(got, name), getattr(wanted, name))
    same(f"{what}: type", type(got), Info)
    same(f"{what}: type of mtime", type(got.mtime), float)
    age = time.time() - got.mtime
    expect(abs(age) < 86_400, f"{what}: mtime {got.mtime!r} is not now in epoch seconds (off by {age:.0f} s)")


def mkdir_idempotent(trial: Trial) -> None:
    backend, place = trial.backend, trial.at("one/two")
    for _ in range(3):
        same("mkdir", backend.mkdir(place), place)
    for made in (place, trial.at("one")):
        expect(backend.info(made).is_dir, f"{made.name!r} is not a directory after mkdir")
    same("list of a new directory", backend.list(place), [])
    note = trial.put("one/two/note.md", "kept\n")
    backend.mkdir(place)
    same("read after another mkdir of its directory", backend.read(note), "kept\n")
    same("mkdir of the root", backend.mkdir(ROOT), ROOT)
    refuses("mkdir on a file", OSError, lambda: backend.mkdir(note))
    refuses("mkdir below a file", OSError, lambda: backend.mkdir(note.child("x")))
    same("read after refused mkdirs", backend.read(note), "kept\n")


def list_children(trial: Trial) -> None:
    backend = trial.backend
    for key in (
        "a_b/two.md",
        "a_b/one.md",
        "a_b/sub/deep.md",
        "a_b/sub/deeper/x.md",
        "aXb/not-a-child.md",
        "a_bc/no.md",
    ):
        trial.put(key, "x")
        trial.put(key, "y")
    backend.mkdir(trial.at("a_b/empty"))
    got = backend.list(trial.at("a_b"))
    same("type of list's result", type(got), list)
    for child in got:
        expect(type(child) is Locator, f"list gave {short(child)}, which is no Locator")
    _lists(trial, "a_b", ["empty", "one.md", "sub", "two.md"])
    _lists(trial, "a_b/sub", ["deep.md", "deeper"])
    _lists(trial, "", ["aXb", "a_b", "a_bc"])
    # Sorted by key means by code point: a folder's children never come between two of its neighbours.
    tricky = [*ODD_NAMES, "B.md", "a.md", "a-.md", "a", "zz.md", "é.md", "ﬀ.md", "🜁.md", "10.md", "9.md"]
    for name in tricky:
        trial.put(f"order/{name}" if name != "a" else "order/a/inner.md", "x")
    _lists(trial, "order", sorted(tricky))
    expect(trial.scratch.parent in backend.list(ROOT), "list of the root does not show what was written below it")


def _lists(trial: Trial, key: str, names: list[str]) -> None:
    wanted = [f"{key}/{name}" if key else name for name in names]
    same(f"list of {key or 'the scratch directory'!r}", trial.keys(key), wanted)


def list_on_absent(trial: Trial) -> None:
    note = trial.put("note.md", "x")
    trial.backend.mkdir(trial.at("empty"))
    for what, place in {
        "an absent place": trial.at("absent"),
        "a place below an absent one": trial.at("absent/er/still"),
        "a file": note,
        "a place below a file": note.child("x"),
        "an empty directory": trial.at("empty"),
    }.items():
        same(f"list of {what}", trial.backend.list(place), [])
    same("what is there after those", {child.name for child in trial.backend.list(trial.scratch)}, {"empty", "note.md"})


def invalid_locator_rejected(trial: Trial) -> None:
    backend, scratch = trial.backend, trial.scratch.key
    for parts in (
        ("..",),
        ("../outside.md",),
        ("/../outside.md",),
        ("a", "..", "b"),
        ("a/../../outside.md",),
        ("a", "b/.."),
        ("a\\b",),
        ("..\\outside.md",),
        ("a", "nul\0.md"),
        ("\0",),
    ):
        _rejects(backend.resolve, *parts)
        _rejects(backend.resolve, scratch, *parts)
    expect(not backend.exists(trial.scratch), "something was made while keys were refused")


def _rejects(resolve: Callable[..., Locator], *parts: str) -> None:
    refuses(f"resolve{short(parts)}", InvalidLocatorError, lambda: resolve(*parts))
