"""The situations in which a verb is made to die: a little tree, one call, and the tree as it must be then."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentm.conformance.expect import short
from agentm.records import field, record_class
from agentm.seam import ABSENT, Append, CompareAndSwap, Locator, Remove, Rename, StorageBackend, WriteMany, require

# Longer than any buffer on the way, so that a torn text can be told from a whole one.
OLD = "".join(f"old line {number}\n" for number in range(1_000))
NEW = "".join(f"a new line, number {number}\r\n" for number in range(1_000))


@record_class(frozen=True, slots=False)
class Scenario:
    """One call of a verb. ``before`` and ``after`` are all the files; a crash may show either, nothing else."""

    verb: str
    name: str
    act: Callable[[StorageBackend, Locator], object]
    before: Mapping[str, str]
    after: Mapping[str, str]
    before_dirs: tuple[str, ...] = ()
    """Directories that are made, beside those that the files need."""
    after_dirs: tuple[str, ...] = ()
    on_the_way: frozenset[str] = field(default=frozenset())
    """Directories that may be there already though the verb did not come to its end."""
    one_by_one: bool = False
    """Each file may be old or new by itself; otherwise all are the one or all are the other."""

    @property
    def keys(self) -> list[str]:
        return sorted({*self.before, *self.after})

    def judge(self, state: Mapping[str, str | None], *, done: bool) -> str:
        """What is wrong with a tree as the backend shows it; "" when nothing is."""
        files = {key: text for key, text in state.items() if text is not None}
        dirs = {key for key, text in state.items() if text is None}
        after_dirs = _dirs(self.after, self.after_dirs)
        if files == self.after and dirs == after_dirs:
            return ""
        before_dirs = _dirs(self.before, self.before_dirs)
        if not done and self._on_the_way(files) and before_dirs <= dirs <= before_dirs | self.on_the_way:
            return ""
        return self._complaint(files, done) or f"the directories are {short(sorted(dirs))}"

    def judge_bytes(self, files: Mapping[str, bytes], *, done: bool) -> str:
        """The same for the raw bytes of the files."""
        texts = {key: data.decode("utf-8", "replace") for key, data in files.items()}
        if texts == self.after or (self._on_the_way(texts) and not done):
            return ""
        return self._complaint(texts, done)

    def _on_the_way(self, files: Mapping[str, str]) -> bool:
        """Whether files may look so before the verb has returned."""
        if not self.one_by_one:
            return files in (self.before, self.after)
        return all(files.get(key) in (self.before.get(key), self.after.get(key)) for key in {*files, *self.keys})

    def _complaint(self, files: Mapping[str, str], done: bool) -> str:
        for key in sorted({*files, *self.keys}):
            got, old, new = files.get(key), self.before.get(key), self.after.get(key)
            if old is None and new is None:
                return f"{key!r} is there, which nobody wrote"
            if done and got != new:
                return f"the verb had returned, but {key!r} is {_state(got, old, new)}"
            if got not in (old, new):
                return f"{key!r} is {_state(got, old, new)}"
        return "" if self._on_the_way(files) else f"old and new are mixed: {short(sorted(files))}"


def _dirs(files: Mapping[str, str], more: tuple[str, ...]) -> set[str]:
    keys = [key.rpartition("/")[0] for key in files] + list(more)
    return {"/".join(parts[: n + 1]) for parts in (key.split("/") for key in keys if key) for n in range(len(parts))}


def _state(got: str | None, old: str | None, new: str | None) -> str:
    if got is None:
        return "gone"
    if got == old:
        return "as before"
    return f"torn: {len(got)} characters, neither the old {len(old or '')} nor the new {len(new or '')}"


def _swap(backend: StorageBackend, base: Locator) -> object:
    store = require(backend, CompareAndSwap)
    place = base.child("note.md")
    return store.write_versioned(place, NEW, if_version=store.read_versioned(place).version)


def _write_many(backend: StorageBackend, base: Locator) -> None:
    require(backend, WriteMany).write_many([(base.child(key), text) for key, text in _MANY_NEW.items()])


_BYSTANDER = {"bystander.md": "untouched\n"}
_NOTE = {**_BYSTANDER, "note.md": OLD}
_NEW_NOTE = {**_BYSTANDER, "note.md": NEW}
_DEEP_NOTE = {**_BYSTANDER, "deep/er/note.md": NEW}
_TREE = {**_BYSTANDER, "tree/a.md": OLD, "tree/sub/b.md": "b\n"}
_DEEP = frozenset(("deep", "deep/er"))

# Enough of them that a store which shares flushes among many texts does so.
_MANY_OLD = {f"old/{number}.md": f"{number} {OLD}" for number in range(5)}
_MANY_NEW = {
    **{key: f"{key} {NEW}" for key in _MANY_OLD},
    **{f"deep/er/{number}.md": f"{number} {NEW}" for number in range(5)},
}

_ALL = (
    Scenario("write", "new file", lambda b, at: b.write(at.child("deep/er/note.md"), NEW), _BYSTANDER, _DEEP_NOTE,
             on_the_way=_DEEP),
    Scenario("write", "overwrite", lambda b, at: b.write(at.child("note.md"), NEW), _NOTE, _NEW_NOTE),
    Scenario("mkdir", "mkdir", lambda b, at: b.mkdir(at.child("deep/er")), _BYSTANDER, _BYSTANDER,
             after_dirs=("deep/er",), on_the_way=_DEEP),
    Scenario("remove", "remove file", lambda b, at: require(b, Remove).remove(at.child("note.md")), _NOTE, _BYSTANDER),
    Scenario("remove", "remove directory", lambda b, at: require(b, Remove).remove(at.child("empty")), _NOTE, _NOTE,
             before_dirs=("empty",)),
    Scenario("rename", "rename file",
             lambda b, at: require(b, Rename).rename(at.child("note.md"), at.child("deep/er/note.md")),
             _NOTE, {**_BYSTANDER, "deep/er/note.md": OLD}, on_the_way=_DEEP),
    Scenario("rename", "rename over",
             lambda b, at: require(b, Rename).rename(at.child("other.md"), at.child("note.md"), overwrite=True),
             {**_NOTE, "other.md": NEW}, _NEW_NOTE),
    Scenario("rename", "rename directory",
             lambda b, at: require(b, Rename).rename(at.child("tree"), at.child("deep/er/tree")),
             _TREE, {**_BYSTANDER, "deep/er/tree/a.md": OLD, "deep/er/tree/sub/b.md": "b\n"}, on_the_way=_DEEP),
    Scenario("append", "append to nothing", lambda b, at: require(b, Append).append(at.child("deep/er/note.md"), NEW),
             _BYSTANDER, _DEEP_NOTE, on_the_way=_DEEP),
    Scenario("append", "append", lambda b, at: require(b, Append).append(at.child("note.md"), NEW),
             _NOTE, {**_BYSTANDER, "note.md": OLD + NEW}),
    Scenario("write_versioned", "versioned create",
             lambda b, at: require(b, CompareAndSwap).write_versioned(at.child("note.md"), NEW, if_version=ABSENT),
             _BYSTANDER, _NEW_NOTE),
    Scenario("write_versioned", "versioned swap", _swap, _NOTE, _NEW_NOTE),
    Scenario("write_many", "write many", _write_many, {**_BYSTANDER, **_MANY_OLD}, {**_BYSTANDER, **_MANY_NEW},
             on_the_way=_DEEP, one_by_one=True),
)  # fmt: skip

SCENARIOS = {scenario.name: scenario for scenario in _ALL}


def scenarios_of(verb: str) -> tuple[Scenario, ...]:
    return tuple(scenario for scenario in _ALL if scenario.verb == verb)
