"""An attack on scopes: paths made of every known trick, a world full of traps, and a judge who knows what is inside.

The judge does not ask the code under test. What a path means it finds out by walking a world that it laid out itself;
each file in it says whether it may be read.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import stat
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentm import (
    AgentmError,
    BackendStorage,
    BoundaryError,
    DeviceLocalBackend,
    FsStorage,
    InMemoryStorage,
    Locator,
    ScopedBackend,
    ScopedStorage,
    ScopedStorageScope,
)

INSIDE, OUTSIDE = "inside", "outside"

LOOKS = ("read", "exists", "mtime", "list", "list_entries")
CHANGES = ("write", "append", "write_atomic", "mkdir", "remove", "rename")
VERBS = (*LOOKS * 3, *CHANGES[:4] * 2, *CHANGES[4:])

READABLE = ("in", "read", "home", "alias")
WRITABLE = ("in", "drop", "home", "alias")
DENIED = ("home/.ssh", "home/.netrc", "home/.config/gh", "in/private")

_FILES = {
    INSIDE: (
        *("in/a.md", "in/sub/b.md", "in/sub/deep/c.md", "in/é.md", "in/Case.md", "in/..a", "in/a b", "read/r.md"),
        *("home/notes.md", "home/.config/app/c"),
    ),
    OUTSIDE: (
        *("out/secret", "out/sub/secret", "in2/a.md", "in-side/a.md", "in.md", "IN/a.md", "in /a.md", "secret"),
        *("drop/d.md", "home/.ssh/id", "home/.ssh/deep/id", "home/.netrc", "home/.config/gh/hosts", "in/private/p.md"),
    ),
}
_LINKS = {
    "in/to-file": "../out/secret",
    "in/to-dir": "../out",
    "in/to-nothing": "../out/none",
    "in/to-abs": "{base}/out",
    "in/to-abs-file": "{base}/out/secret",
    "in/to-parent": "..",
    "in/to-self": ".",
    "in/to-loop": "to-loop",
    "in/to-chain": "to-chain-2",
    "in/to-chain-2": "to-dir",
    "in/to-sub": "sub",
    "in/sub/up": "../../out",
    "in/to-denied": "../home/.ssh",
    "in/to-proc": "/proc/self/root{base}/out",
    "read/to-file": "../out/secret",
    "drop/to-dir": "../out",
    "home/to-dir": "../out",
    "alias": "home",
}
_HARD = {"in/hard": "out/secret", "in/sub/hard": "out/sub/secret", "home/hard": "home/.netrc"}

# One name each.
NAMES = (
    *("secret", "a.md", "sub", "deep", "b.md", "é.md", "e\u0301.md", "Case.md", "new", "private", "p.md", "id"),
    *(os.path.basename(link) for link in (*_LINKS, *_HARD)),
    *(".ssh", ".SSH", ".ssh.", ".ssh ", ".ſsh", ".ﬁ", ".netrc", ".Netrc", ".config", "gh", "hosts", "~"),
    *("..", "..", ".", "", "...", ". .", ".. ", "..;", "..a", "%2e%2e", "%2E", "%252e%252e", "%2e%2e%2f", "%c0%ae"),
    *("．．", "․․", "‥", "…", "／", "∕", "⁄", "..／out", "..\\out", "..\\", "\\..\\", "\\", "C:", "C:\\"),
    *("\0", "a.md\0", "a.md\0/../../out/secret", "a.md'", 'a.md"', "a.md.", "a.md ", "a.md%00", "a.md::$DATA"),
    *("x" * 255, "x" * 256, "é" * 128, "x" * 5_000, "\u200b", "a\u200d.md", "\u202e", "-rf", "*", "$HOME", "\n"),
)
# In the place of a slash.
SLASHES = ("//", "/./", "/", "///", "\\", "%2f", "%5c", "／", "∕", "/sub/../", "/none/../", "/to-dir/../", "/\\/")
# What is put at the end of a root: the names beside it.
ENDINGS = ("2", "-side", ".md", " ", ".", "\0", "'", '"', "%20", "/", "//", "/.", "/..", "/../", "\u0301", "\u200b")


@dataclass
class World:
    """Folders with traps. ``drop`` may be written and not be read, ``read`` the other way round."""

    base: str
    fd: int = -1
    trusted: bool = True
    """Whether a prefix of the scope may itself be a link; for a store only its own folder may."""
    scope: ScopedStorageScope = field(init=False)

    def __post_init__(self) -> None:
        def paths(names: tuple[str, ...]) -> list[str]:
            return [f"{self.base}/{name}" for name in names]

        self.scope = ScopedStorageScope(paths(READABLE), paths(WRITABLE), paths(DENIED))
        self.denied = [_folded(f"{self.base}/{name}") for name in DENIED]

    @cached_property
    def starts(self) -> list[str]:
        """Where a path may begin: in the scope, beside it, at a trap, or somewhere in the system."""
        base, fd = self.base, self.fd
        return [
            *(f"{base}/{name}" for name in (*READABLE, *WRITABLE) * 6),
            *(f"{base}/{name}" for name in (*_FILES[INSIDE], *_LINKS, *_HARD) * 2),
            *(f"{base}/{name}" for name in (*_FILES[OUTSIDE], *DENIED)),
            *(f"/proc/self/fd/{fd}", f"/dev/fd/{fd}", f"/proc/self/root{base}/out", f"/proc/self/cwd/{base}/out"),
            *(f"/proc/{os.getpid()}/root{base}/out", "/proc/self/environ", "/proc/self/mem", "/dev/stdin"),
            *("/etc/passwd", "/etc", "/sys/kernel", "/", "", "//", "/proc", "/dev/shm", "/run", "/.", "/..", "in/a.md"),
            *(f"//{base}/out", f"file://{base}/in/a.md", f"~{base}/in", f"\\\\?\\{base}", os.path.dirname(base)),
        ]

    def lay_out(self) -> None:
        for name in os.listdir(self.base):
            path = f"{self.base}/{name}"
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        for kind, names in _FILES.items():
            for name in names:
                path = f"{self.base}/{name}"
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"{kind} {path}")
        for name, target in _LINKS.items():
            os.symlink(target.format(base=self.base), f"{self.base}/{name}")
        for name, target in _HARD.items():
            os.link(f"{self.base}/{target}", f"{self.base}/{name}")

    def outside(self) -> dict[str, object]:
        """Everything that no probe may change, with what it holds."""
        found: dict[str, object] = {}
        pending = [self.base]
        while pending:
            folder = pending.pop()
            for entry in os.scandir(folder):
                name = entry.path[len(self.base) + 1 :]
                if self._is_writable(name):
                    # What is denied lies in the midst of what is not.
                    if entry.is_dir(follow_symlinks=False) and any(one.startswith(f"{name}/") for one in DENIED):
                        pending.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    found[name] = None
                    pending.append(entry.path)
                elif entry.is_symlink():
                    found[name] = os.readlink(entry.path)
                else:
                    with open(entry.path, encoding="utf-8") as file:
                        found[name] = file.read(), entry.stat().st_mtime_ns
        return found

    def _is_writable(self, name: str) -> bool:
        def below(ones: tuple[str, ...]) -> bool:
            return any(name == one or name.startswith(f"{one}/") for one in ones)

        return below(("in", "drop", "home", "alias")) and not below(DENIED)

    def is_safe_to_change(self, path: str) -> bool:
        """Whether the worst that a bug can make of this path stays below the base."""
        return f"{_plain(path)}/".startswith(
            (f"{self.base}/", f"/proc/self/fd/{self.fd}/", f"/dev/fd/{self.fd}/", f"/proc/self/root{self.base}/")
        )


@dataclass(frozen=True)
class Probe:
    verb: str
    path: str
    target: str = ""


def probe(chance: random.Random, world: World) -> Probe:
    """One attempt, made of tricks that are combined freely."""
    verb = chance.choice(VERBS)
    path = _path(chance, world)
    target = _path(chance, world) if verb == "rename" else ""
    return safe(Probe(verb, path, target), world)


def safe(tried: Probe, world: World) -> Probe:
    """The same, but what could hurt the machine if it came through is only looked at."""
    paths = [tried.path, tried.target] if tried.verb == "rename" else [tried.path]
    if tried.verb in LOOKS or all(world.is_safe_to_change(path) for path in paths):
        return tried
    return Probe(LOOKS[len(tried.path) % len(LOOKS)], tried.path)


def _path(chance: random.Random, world: World) -> str:
    path = chance.choice(world.starts)
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 5))):
        path = chance.choice(_TRICKS)(chance, path, world)
    return path


Trick = Callable[[random.Random, str, World], str]


def _go_on(chance: random.Random, path: str, world: World) -> str:
    return "/".join((path, *chance.choices(NAMES, k=chance.choice((1, 1, 2, 3)))))


def _go_up(chance: random.Random, path: str, world: World) -> str:
    up = chance.choice(("..", "..", "..", "../.", "sub/../..", "none/../..", "%2e%2e", "．．", ".. ", "..\\.."))
    there = chance.choice((*_FILES[OUTSIDE], *_FILES[INSIDE], *DENIED))
    return f"{path}{f'/{up}' * chance.choice((1, 1, 2, 3, 8))}/{there}"


def _slash(chance: random.Random, path: str, world: World) -> str:
    spots = [at for at, letter in enumerate(path) if letter == "/"]
    if not spots:
        return path
    at = chance.choice(spots)
    return path[:at] + chance.choice(SLASHES) + path[at + 1 :]


def _end(chance: random.Random, path: str, world: World) -> str:
    return path + chance.choice(ENDINGS)


def _case(chance: random.Random, path: str, world: World) -> str:
    names = path.split("/")
    at = chance.randrange(len(names))
    names[at] = chance.choice((str.upper, str.swapcase, str.title, str.casefold))(names[at])
    return "/".join(names)


def _form(chance: random.Random, path: str, world: World) -> str:
    return unicodedata.normalize(chance.choice(("NFC", "NFD", "NFKC", "NFKD")), path)


def _wide(chance: random.Random, path: str, world: World) -> str:
    """Some letters in their full width."""
    return "".join(
        chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" and chance.random() < 0.1 else letter for letter in path
    )


def _percent(chance: random.Random, path: str, world: World) -> str:
    return "".join(f"%{ord(letter):02x}" if letter in "./" and chance.random() < 0.3 else letter for letter in path)


def _insert(chance: random.Random, path: str, world: World) -> str:
    at = chance.randrange(len(path) + 1)
    return path[:at] + chance.choice(("\0", "\u200d", "\u0301", ".", " ", "'", '"', "\\", "/", "\udcff")) + path[at:]


def _graft(chance: random.Random, path: str, world: World) -> str:
    """Another absolute path behind this one: joined carelessly, it takes its place."""
    return f"{path}{chance.choice(('/', '', '//'))}{chance.choice(world.starts)}"


_TRICKS: tuple[Trick, ...] = (
    *(_go_on, _go_on, _go_on, _go_up, _go_up, _slash, _slash),
    *(_end, _case, _form, _wide, _percent, _insert, _graft),
)


# What a path means.

REFUSED, SERVED, EITHER = "refused", "served", "either"


def expected(world: World, tried: Probe) -> str:
    kind = "read" if tried.verb in LOOKS else "write"
    found = _expected(world, tried.verb, kind, tried.path, final=tried.verb == "remove")
    if tried.verb != "rename" or found == REFUSED:
        return found
    target = _expected(world, tried.verb, kind, tried.target, final=True)
    return REFUSED if target == REFUSED else EITHER  # it may make something readable, or go into itself


def _expected(world: World, verb: str, kind: str, path: str, *, final: bool) -> str:
    if "\0" in path or _is_no_path(path):
        return REFUSED
    plain = _plain(path)
    roots = world.scope.read if kind == "read" else world.scope.write
    root = next((root for root in roots if plain == root or plain.startswith(f"{root}/")), None)
    if root is None or _is_below(_folded(plain), world.denied):
        return REFUSED
    here = root if world.trusted else world.base
    names = plain[len(here) :].split("/")[1:]
    for number, name in enumerate(names):
        here += f"/{name}"
        try:
            found = os.lstat(here)
        except OSError:
            break
        if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
            is_last = number == len(names) - 1
            if is_last and (final or (verb == "mkdir" and stat.S_ISREG(found.st_mode))):
                return EITHER
            if stat.S_ISREG(found.st_mode) and not is_last:
                return EITHER  # nothing can lie below a file
            return REFUSED
    if not names and os.path.islink(root) and kind == "write":
        return EITHER  # a folder, or a link in the way: it cannot be written in any case
    real = _folded(os.path.realpath(os.path.dirname(plain)) + "/" + os.path.basename(plain))
    if _is_below(real, world.denied):
        return REFUSED
    if verb in ("remove", "rename") and any(_is_below(denied, [real]) for denied in world.denied):
        return REFUSED
    return EITHER if final or verb in ("remove", "rename") else SERVED


def _is_no_path(path: str) -> bool:
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return True
    return not path.startswith("/")


def _is_too_long(path: str) -> bool:
    return len(path.encode("utf-8", "surrogatepass")) > 4_000


def _plain(path: str) -> str:
    return "/" + os.path.normpath(path).lstrip("/") if path.startswith("/") else path


def _is_below(path: str, roots: list[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _folded(path: str) -> str:
    names = (unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold()) for name in path.split("/"))
    return "/".join((name.rstrip(". ") or name).replace("/", "\0") for name in names)


# Who is attacked.

Answer = Any
Attempt = Callable[[Probe], Answer]


class _AtOnce(ThreadPoolExecutor):
    """Does what it is given there and then: a million hops to a thread would measure nothing but themselves."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


@contextmanager
def driven(storage: Any) -> Iterator[Attempt]:
    """The verbs of a storage as plain calls, on one loop."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_AtOnce(1))
    try:
        yield lambda tried: loop.run_until_complete(_called(storage, tried))
    finally:
        loop.close()


async def _called(storage: Any, tried: Probe) -> Answer:
    verb = getattr(storage, tried.verb)
    if tried.verb == "rename":
        return await verb(tried.path, tried.target)
    if tried.verb == "remove":
        return await verb(tried.path, recursive=len(tried.path) % 2 == 0)
    if tried.verb in CHANGES[:3]:
        return await verb(tried.path, _text(tried.path))
    return await verb(tried.path)


def _text(path: str) -> str:
    """What a probe writes says whether it may be read there."""
    return f"{OUTSIDE if '/drop' in _plain(path) else INSIDE} written"


def through_backend(backend: ScopedBackend) -> Attempt:
    """The same verbs in those of the seam."""

    def attempt(tried: Probe) -> Answer:
        place = Locator(tried.path)
        match tried.verb:
            case "read":
                return (backend.read_versioned(place).content if len(tried.path) % 2 else backend.read(place)) or None
            case "exists":
                return backend.exists(place)
            case "mtime":
                return backend.info(place).mtime
            case "list" | "list_entries":
                return [child.name for child in backend.list(place)]
            case "write":
                return backend.write(place, _text(tried.path))
            case "append":
                return backend.append(place, _text(tried.path))
            case "write_atomic":
                return backend.write_many([(place, _text(tried.path)), (place.child("more"), _text(tried.path))])
            case "mkdir":
                return backend.mkdir(place)
            case "remove":
                return backend.remove(place)
            case _:
                return backend.rename(place, Locator(tried.target), overwrite=True)

    return attempt


# The attack and its judge.


class Escape(AssertionError):
    """A probe got what it must not get, changed what it must not change, or learnt more than no."""


@dataclass
class Tally:
    refused: int = 0
    served: int = 0
    failed: int = 0

    @property
    def probes(self) -> int:
        return self.refused + self.served + self.failed


def judged(world: World, tried: Probe, meant: str, attempt: Attempt, tally: Tally) -> None:
    """Make one attempt and hold the answer against what the path means."""
    try:
        answer = attempt(tried)
    except BoundaryError as refusal:
        tally.refused += 1
        if meant == SERVED:
            raise Escape(f"refused without need: {tried}") from refusal
        _check_refusal(world, tried, refusal)
        return
    except AgentmError as error:
        tally.failed += 1
        # What the path itself says tells nothing; and of a move one end may fail before the other is looked at.
        by_itself = error.code in ("invalid_path", "invalid_locator") or _is_too_long(tried.path)
        if meant == REFUSED and tried.verb != "rename" and not by_itself:
            raise Escape(f"an error that tells of what is outside: {tried}: {error!r}") from error
        return
    tally.served += 1
    # A name that no disk can have is missing, whatever it would lead through: the path alone says so.
    if meant == REFUSED and (answer or not _is_too_long(tried.path)):
        raise Escape(f"served {answer!r}: {tried}")
    if tried.verb == "read" and answer is not None and not answer.startswith(INSIDE):
        raise Escape(f"read {answer!r}: {tried}")


def _check_refusal(world: World, tried: Probe, refusal: BoundaryError) -> None:
    """Every no is the same no: all it says was known to who asked."""
    kinds = ("read",) if tried.verb in LOOKS else ("write", "read") if tried.verb == "rename" else ("write",)
    paths = {tried.path, tried.target} if tried.verb == "rename" else {tried.path}
    allowed = ", ".join(world.scope.read if refusal.kind == "read" else world.scope.write)
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in refusal.path)
    plain = f"{refusal.kind} not permitted: {shown} not in [{allowed}]"
    given = (type(refusal), refusal.code, refusal.errno, refusal.__cause__)
    if (
        given != (BoundaryError, "storage-boundary", 13, None)
        or refusal.kind not in kinds
        or refusal.path not in paths
        or str(refusal) not in (f"{plain} (outside the scope)", f"{plain} (always-deny floor)")
        or set(vars(refusal)) - {"kind", "path", "errno"} - set(vars(AgentmError("", locator="")))
    ):
        raise Escape(f"a refusal of its own kind: {tried}: {refusal!r}")
    if str(refusal).endswith("floor)") and not _folds_into_floor(world, refusal.path, tried.verb):
        raise Escape(f"the floor where there is none: {tried}")


def _folds_into_floor(world: World, path: str, verb: str) -> bool:
    plain = _folded(_plain(path))
    floor = [_folded(one) for one in world.scope.always_deny]
    return _is_below(plain, floor) or (
        verb in ("remove", "rename") and any(_is_below(one, [plain.rstrip("/")]) for one in floor)
    )


@contextmanager
def world_on(directory: str) -> Iterator[World]:
    """A world, with its outside open on a descriptor that /proc shows."""
    base = os.path.join(os.path.realpath(directory), "world")
    os.makedirs(base)
    world = World(base)
    world.lay_out()
    world.fd = os.open(f"{base}/out", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield world
    finally:
        os.close(world.fd)


def attack_disk(directory: str, seed: int, count: int, *, batch: int = 40) -> Tally:
    """Probe a scope over files, batch by batch, each in a world that is new."""
    tally = Tally()
    chance = random.Random(seed)
    with world_on(directory) as world, driven(ScopedStorage(FsStorage(), world.scope)) as attempt:
        while tally.probes < count:
            probes_in(world, (probe(chance, world) for _ in range(batch)), attempt, tally)
    return tally


def probes_in(world: World, probes: Iterator[Probe], attempt: Attempt, tally: Tally) -> None:
    """Make some attempts, then see that nothing outside is other than it was."""
    with unchanged(world) as made:
        for tried in probes:
            made.append(tried)
            judged(world, tried, expected(world, tried), attempt, tally)


@contextmanager
def unchanged(world: World) -> Iterator[list[Probe]]:
    world.lay_out()
    before = world.outside()
    made: list[Probe] = []
    yield made
    if world.outside() != before:
        raise Escape(f"something outside was changed by one of {made}")


def attack_store(directory: str, seed: int, count: int, *, as_files: bool, batch: int = 40) -> Tally:
    """Probe a scoped store whose folder is the world: what is a path elsewhere is a key there."""
    tally = Tally()
    chance = random.Random(seed)
    with world_on(directory) as world, ExitStack() as stack:
        world.trusted = False
        inner = World("")
        store = DeviceLocalBackend(world.base)
        if as_files:
            attempt = stack.enter_context(driven(ScopedStorage(BackendStorage(store), inner.scope)))
        else:
            attempt = through_backend(ScopedBackend(store, inner.scope))
        while tally.probes < count:
            with unchanged(world) as made:
                for _ in range(batch):
                    tried = _as_keys(probe(chance, world), world)
                    made.append(tried)
                    judge = _judge_path if as_files else _judge_key
                    judge(world, inner, tried, attempt, tally)
    return tally


def _as_keys(tried: Probe, world: World) -> Probe:
    return Probe(tried.verb, *(path.replace(world.base, "", 1) for path in (tried.path, tried.target)))


def _judge_path(world: World, inner: World, tried: Probe, attempt: Attempt, tally: Tally) -> None:
    paths = [
        path if _is_no_path(path) or "\0" in path else f"{world.base}{_plain(path)}"
        for path in (tried.path, tried.target)
    ]
    judged(inner, tried, expected(world, Probe(tried.verb, *paths)), attempt, tally)


def _judge_key(world: World, inner: World, tried: Probe, attempt: Attempt, tally: Tally) -> None:
    """A key is judged as the path that it has on the disk; the way to what may be read can be looked at."""
    try:
        places = [Locator(path) for path in (tried.path, tried.target)]
    except AgentmError:
        tally.failed += 1
        return
    plain = [f"/{place.key}" for place in places]
    meant = expected(world, Probe(tried.verb, *(world.base + path for path in plain)))
    on_the_way = plain[0] == "/" and tried.verb in LOOKS and tried.verb != "read"
    if tried.verb == "write_atomic" and meant == SERVED:
        meant = EITHER  # a second text lies below the first
    if tried.verb == "remove" and plain[0] in ("/in", "/home", "/home/.config"):
        meant = EITHER  # it is not empty, and a store removes nothing else
    judged(inner, Probe(tried.verb, *plain), SERVED if on_the_way else meant, attempt, tally)


def attack_memory(seed: int, count: int, *, batch: int = 40) -> Tally:
    """Probe a scope over files in the process: no links, but the same paths."""
    tally = Tally()
    chance = random.Random(seed)
    world = World("/work/world", fd=9)
    while tally.probes < count:
        inner = InMemoryStorage()
        files = inner.blocking
        for kind, names in _FILES.items():
            for name in names:
                files.write(f"{world.base}/{name}", f"{kind} {name}")
        with driven(ScopedStorage(inner, world.scope)) as attempt:
            for _ in range(batch):
                tried = probe(chance, world)
                judged(world, tried, expected(world, tried), attempt, tally)  # of this world nothing is on the disk
        for name in _FILES[OUTSIDE]:
            if not name.startswith("drop/") and files.read(f"{world.base}/{name}") != f"{OUTSIDE} {name}":
                raise Escape(f"{name} was changed, seed {seed}")
    return tally
