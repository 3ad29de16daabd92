"""The memory tool of Anthropic's SDK, with any agentm store behind it.

The model's ``/memories/notes.md`` is the plain file ``memories/notes.md`` of the store. Answers and refusals are those
of the SDK's own implementation, so that the model reads what it was taught. Two things differ, on purpose: an edit is
a compare-and-swap, so that nobody's edit is lost, and an edit that does not fit comes back with the text of now.

    tool = AgentmMemoryTool()
    client.beta.messages.tool_runner(tools=[tool], ...)
"""

from __future__ import annotations

import errno
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from agentm.adapters._extras import missing
from agentm.errors import AgentmError, BoundaryError, ConcurrentModificationError, NotTextError
from agentm.files.scope import ScopedStorageScope
from agentm.layers.scoped import ScopedBackend
from agentm.records import record_class
from agentm.seam import Locator, Rename, StorageBackend, require, update
from agentm.seam.trees import empty, entries, remove_tree
from agentm.selection import select_backend

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand as CreateCommand,
        BetaMemoryTool20250818DeleteCommand as DeleteCommand,
        BetaMemoryTool20250818InsertCommand as InsertCommand,
        BetaMemoryTool20250818RenameCommand as RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand as StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand as ViewCommand,
    )
    from anyio.to_thread import run_sync
except ImportError as cause:
    raise missing("anthropic", cause) from cause

__all__ = ["AgentmMemoryTool", "AsyncAgentmMemoryTool"]

_TOP = "/memories"
_LEVELS_SHOWN = 2
_LEVELS_COUNTED = 8
"""How deep the size of a folder is added up: a look must not take for ever."""
_MOST_LINES = 999_999
_NUMBER_WIDTH = len(str(_MOST_LINES))
_MOST_MATCHES = 100
"""How many lines an ambiguous edit is told of."""
_LONGEST_REMINDER = 8_000
"""Characters. A longer text is not sent along with a refusal: the model can view the part it needs."""


class AgentmMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for a synchronous client.

    :param backend: any store, a scoped one included; without one, the configured store
    :param folder: where in the store ``/memories`` lies
    """

    def __init__(
        self,
        backend: StorageBackend | None = None,
        *,
        folder: str = "memories",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = _Folder(backend, folder)

    def view(self, command: ViewCommand) -> str:
        return self._folder.view(command)

    def create(self, command: CreateCommand) -> str:
        return self._folder.create(command)

    def str_replace(self, command: StrReplaceCommand) -> str:
        return self._folder.str_replace(command)

    def insert(self, command: InsertCommand) -> str:
        return self._folder.insert(command)

    def delete(self, command: DeleteCommand) -> str:
        return self._folder.delete(command)

    def rename(self, command: RenameCommand) -> str:
        return self._folder.rename(command)

    def clear_all_memory(self) -> str:
        return self._folder.clear()


class AsyncAgentmMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an asynchronous client: the same, each command in a thread."""

    def __init__(
        self,
        backend: StorageBackend | None = None,
        *,
        folder: str = "memories",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = _Folder(backend, folder)

    async def view(self, command: ViewCommand) -> str:
        return await run_sync(self._folder.view, command)

    async def create(self, command: CreateCommand) -> str:
        return await run_sync(self._folder.create, command)

    async def str_replace(self, command: StrReplaceCommand) -> str:
        return await run_sync(self._folder.str_replace, command)

    async def insert(self, command: InsertCommand) -> str:
        return await run_sync(self._folder.insert, command)

    async def delete(self, command: DeleteCommand) -> str:
        return await run_sync(self._folder.delete, command)

    async def rename(self, command: RenameCommand) -> str:
        return await run_sync(self._folder.rename, command)

    async def clear_all_memory(self) -> str:
        return await run_sync(self._folder.clear)


@record_class(frozen=True)
class _Place:
    """One path as the model knows it, and where that is in the store."""

    path: str
    locator: Locator


class _Folder:
    """The commands on one folder of a store."""

    def __init__(self, backend: StorageBackend | None, folder: str) -> None:
        store = select_backend() if backend is None else backend
        self._top = _Place(_TOP, store.resolve(folder))
        # The folder is the model's whole world: not even a link in it leads out.
        here = [f"/{self._top.locator.key}"]
        self._backend = ScopedBackend(store, ScopedStorageScope(read=here, write=here))

    def view(self, command: ViewCommand) -> str:
        place = self._place(command.path)
        with _answering(place):
            if place == self._top or self._backend.info(place.locator).is_dir:
                return self._listing(place)
            text = self._backend.read(place.locator)
        lines = text.split("\n")
        if len(lines) > _MOST_LINES:
            raise ToolError(f"File {place.path} exceeds maximum line limit of 999,999 lines.")
        first, last = _range(command.view_range, len(lines))
        return _numbered(place, lines[first - 1 : last], first)

    def create(self, command: CreateCommand) -> str:
        place, text = self._place(command.path), _text("file_text", command.file_text)
        exists = f"File {place.path} already exists"

        def made(old: str | None) -> str:
            if old is not None:
                raise ToolError(exists)
            return text

        if place == self._top:
            raise ToolError(exists)
        with _answering(place, is_folder=exists):
            update(self._backend, place.locator, made)
        return f"File created successfully at: {place.path}"

    def str_replace(self, command: StrReplaceCommand) -> str:
        place = self._place(command.path)
        old, new = _text("old_str", command.old_str), _text("new_str", command.new_str)
        line = 0

        def replaced(text: str) -> str:
            nonlocal line
            found = _matches(text, old)
            if not found:
                what = f"No replacement was performed, old_str `{old}` did not appear verbatim in {place.path}."
                raise _unfit(what, place, text)
            if len(found) > 1:
                lines = ", ".join(str(number) for _, number in found)
                what = f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
                raise _unfit(f"{what} Please ensure it is unique", place, text)
            start, line = found[0]
            return text[:start] + new + text[start + len(old) :]

        lines = self._edit(place, replaced).split("\n")
        first = max(1, line - 2)
        snippet = _with_numbers(lines[first - 1 : line + 2], first)
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    def insert(self, command: InsertCommand) -> str:
        place, line, text = self._place(command.path), command.insert_line, _text("insert_text", command.insert_text)
        meant: list[str] | None = None

        def inserted(old: str) -> str:
            nonlocal meant
            lines = _lines(old)
            if meant is None:
                if not _is_number(line) or not 0 <= line <= len(lines):
                    what = f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                    raise _unfit(what, place, old)
                meant = lines
            at = _moved(line, meant, lines)
            if at is None:
                what = f"No insertion was performed, {place.path} was changed around line {line} in the meantime."
                raise _unfit(what, place, old)
            return "\n".join([*lines[:at], text.removesuffix("\n"), *lines[at:], ""])

        self._edit(place, inserted)
        return f"The file {place.path} has been edited."

    def delete(self, command: DeleteCommand) -> str:
        place = self._place(command.path)
        if place == self._top:
            raise ToolError("Cannot delete the /memories directory itself")
        with _answering(place, advice=""):
            self._backend.info(place.locator)  # what cannot be looked at, such as a link, is not there to be deleted
            remove_tree(self._backend, place.locator)
        return f"Successfully deleted {place.path}"

    def rename(self, command: RenameCommand) -> str:
        old, new = self._place(command.old_path), self._place(command.new_path)
        if old == self._top:
            raise ToolError("Cannot rename the /memories directory itself")
        exists = f"The destination {new.path} already exists"
        if new == self._top:
            raise ToolError(exists)
        with _answering(old, advice=""):
            try:
                require(self._backend, Rename).rename(old.locator, new.locator)
            except FileExistsError as cause:
                raise ToolError(exists) from cause
            except BoundaryError as cause:
                refused = new if cause.path.strip("/") == new.locator.key else old
                raise ToolError(_said(refused.path, cause)) from cause
        return f"Successfully renamed {old.path} to {new.path}"

    def clear(self) -> str:
        with _answering(self._top):
            empty(self._backend, self._top.locator)
        return "All memory cleared"

    def _place(self, path: object) -> _Place:
        """Whole names are compared: ``/memories_backup`` does not begin with ``/memories``."""
        names = path.split("/") if isinstance(path, str) else []
        if names[:2] != ["", "memories"]:
            raise ToolError(f"Path must start with /memories, got: {path}")
        below = [name for name in names[2:] if name not in ("", ".")]
        if any(map(_is_tricky, below)):
            raise ToolError(f"Path {path} would escape /memories directory")
        return _Place("/".join([_TOP, *below]), self._top.locator.child(*below))

    def _edit(self, place: _Place, change: Callable[[str], str]) -> str:
        """Change a text as it is now; what somebody else writes in between is changed in its turn, never replaced."""

        def changed(old: str | None) -> str:
            if old is None:
                raise ToolError(f"The path {place.path} does not exist. Please provide a valid path.")
            return change(old)

        with _answering(place):
            return update(self._backend, place.locator, changed)

    def _listing(self, place: _Place) -> str:
        size, below = self._below(place, 1)
        head = f"Here're the files and directories up to 2 levels deep in {place.path}, excluding hidden items:"
        return "\n".join([head, *(f"{_human(size)}\t{path}" for size, path in [(size, place.path), *below])])

    def _below(self, place: _Place, level: int) -> tuple[int, list[tuple[int, str]]]:
        """What a folder holds: bytes, and a line for each entry that is to be shown."""
        total = 0
        shown: list[tuple[int, str]] = []
        for info in entries(self._backend, place.locator):
            if info.locator.name.startswith("."):
                continue
            entry = _Place(f"{place.path}/{info.locator.name}", info.locator)
            if not info.is_dir:
                lines = [(info.size, entry.path)]
            else:
                size, inside = self._below(entry, level + 1) if level < _LEVELS_COUNTED else (0, [])
                lines = [(size, f"{entry.path}/"), *inside]
            total += lines[0][0]
            if level <= _LEVELS_SHOWN:
                shown += lines
        return total, shown


@contextmanager
def _answering(
    place: _Place, *, advice: str = ". Please provide a valid path.", is_folder: str | None = None
) -> Iterator[None]:
    """What the store refuses becomes a sentence for the model, in the SDK's words where it has some."""
    try:
        yield
    except FileNotFoundError as cause:
        raise ToolError(f"The path {place.path} does not exist{advice}") from cause
    except IsADirectoryError as cause:
        raise ToolError(is_folder or f"The path {place.path} is not a file.") from cause
    except (AgentmError, OSError, UnicodeError) as cause:
        raise ToolError(_said(place.path, cause)) from cause


def _said(path: str, cause: Exception) -> str:
    if isinstance(cause, BoundaryError):  # whatever is there, and whether anything is
        return f"Permission denied: {path} cannot be used."
    if isinstance(cause, ConcurrentModificationError):
        return f"{path} is being changed by others all the time, and was left as it is. Please try again."
    if isinstance(cause, UnicodeDecodeError) or (isinstance(cause, NotTextError) and cause.verb == "read"):
        return f"{path} is not a valid UTF-8 text file."
    if getattr(cause, "errno", None) == errno.ENOTEMPTY:
        return f"{path} was written to while it was being deleted, and is still there. Please view it again."
    return str(cause)


def _unfit(what: str, place: _Place, text: str) -> ToolError:
    """The refusal of an edit, with the text as it is now, so that the model can go on without another look."""
    lines = _lines(text)
    if len(text) > _LONGEST_REMINDER:
        return ToolError(f"{what}\n{place.path} has {len(lines)} lines now; view the part you need with view_range.")
    return ToolError(f"{what}\n{_numbered(place, lines, 1)}")


def _is_tricky(name: str) -> bool:
    """Whether a name means something else to whoever decodes it: a step up, a separator, nothing at all."""
    plain = name
    while (decoded := unicodedata.normalize("NFKC", unquote(plain))) != plain:
        plain = decoded
    return not plain.strip(" .") or any(one in "/\\\x7f" or one < " " for one in plain)


def _text(name: str, value: object) -> str:
    """A parameter of the command; the SDK does not look at what the model left out."""
    if not isinstance(value, str):
        raise ToolError(f"Missing or invalid `{name}` parameter: it should be a text.")
    return value


def _range(asked: object, count: int) -> tuple[int, int]:
    """First and last line to show."""
    if asked is None:
        return 1, count
    if isinstance(asked, list) and len(asked) == 2 and all(map(_is_number, asked)):
        first, last = max(1, asked[0]), count if asked[1] == -1 else min(asked[1], count)
        if first <= last:
            return first, last
    raise ToolError(f"Invalid `view_range` parameter: {asked}. It should be within the range [1, {count}].")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(text: str, part: str) -> list[tuple[int, int]]:
    """Where a part begins, and in which line; overlapping ones count, because which one is meant cannot be told."""
    found: list[tuple[int, int]] = []
    start, line, counted = text.find(part) if part else -1, 1, 0
    while start != -1 and len(found) < _MOST_MATCHES:
        line += text.count("\n", counted, start)
        counted = start
        found.append((start, line))
        start = text.find(part, start + 1)
    return found


def _moved(at: int, before: list[str], now: list[str]) -> int | None:
    """Where a place between two lines is in the text of now: what stood above it, or below it, is still the same."""
    if now[:at] == before[:at]:
        return at
    below = len(now) - (len(before) - at)
    return below if below >= 0 and now[below:] == before[at:] else None


def _lines(text: str) -> list[str]:
    """Split at line feeds only, without the empty rest behind the last one."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _numbered(place: _Place, lines: list[str], first: int) -> str:
    return f"Here's the content of {place.path} with line numbers:\n{_with_numbers(lines, first)}"


def _with_numbers(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _human(size: int) -> str:
    """Bytes as the SDK writes them: 0B, 512B, 5.5K, 2M."""
    unit = min(max(size.bit_length() - 1, 0) // 10, 3)
    amount = size / 1024**unit
    return f"{amount:.0f}{'BKMG'[unit]}" if amount == int(amount) else f"{amount:.1f}{'BKMG'[unit]}"
