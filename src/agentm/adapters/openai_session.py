"""A session of the OpenAI Agents SDK, kept as one plain file of an agentm store.

Each item of the conversation is one line of JSON in ``sessions/<id>.jsonl``. Adding and popping are a compare-and-swap
on that file: two processes that add at once both land, and an item is popped once. Clearing is one step, whatever there
is.

    session = AgentmSession("user-42")
    await Runner.run(agent, "Where were we?", session=session)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from agentm.adapters._extras import missing
from agentm.adapters._file_names import file_name
from agentm.errors import SessionFileError
from agentm.seam import Locator, Remove, StorageBackend, require, update
from agentm.selection import select_backend

try:
    from agents.memory import SessionSettings
except ImportError as cause:
    raise missing("openai", cause) from cause

if TYPE_CHECKING:
    from agents import TResponseInputItem

__all__ = ["AgentmSession"]

T = TypeVar("T")


class AgentmSession:
    """The history of one conversation.

    :param session_id: any text; equal ids are the same history, in every process
    :param backend: any store, a scoped one included; without one, the configured store
    :param folder: where in the store the sessions lie
    :param session_settings: the SDK's; its ``limit`` counts where ``get_items`` gets none
    """

    def __init__(
        self,
        session_id: str,
        backend: StorageBackend | None = None,
        *,
        folder: str = "sessions",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._backend = select_backend() if backend is None else backend
        self._place = self._backend.resolve(folder, _file_name(session_id))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, oldest first; all of them without a limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await _in_thread(lambda: self._read(limit))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Put items behind all others: all of them, or none if one cannot be written."""
        new = self._lines(items)
        if new:
            await _in_thread(lambda: update(self._backend, self._place, lambda old: _ended(old or "") + new))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item away; None if there is none. Two that pop at once get two items."""
        return await _in_thread(self._pop)

    async def clear_session(self) -> None:
        """Forget the whole history; of what is added at the same time, each addition is forgotten or stays alone."""
        await _in_thread(self._clear)

    def _read(self, limit: int | None) -> list[TResponseInputItem]:
        try:
            lines = self._backend.read(self._place).split("\n")
        except FileNotFoundError:
            return []
        numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
        if limit is not None:
            numbers = numbers[-limit:] if limit > 0 else []
        return [self._item(number, lines[number - 1]) for number in numbers]

    def _pop(self) -> TResponseInputItem | None:
        popped: TResponseInputItem | None = None

        def shortened(old: str | None) -> str:
            nonlocal popped
            text = (old or "").rstrip()
            before, _, last = text.rpartition("\n")
            popped = self._item(text.count("\n") + 1, last) if last else None
            return _ended(before)

        if self._backend.exists(self._place):
            update(self._backend, self._place, shortened)
        return popped

    def _clear(self) -> None:
        # Not a compare-and-swap: all that is there is to go, so there is no version to expect. Who adds meanwhile swaps
        # against a text that is gone by then, and begins anew.
        if not self._backend.capabilities.remove:
            update(self._backend, self._place, lambda _: "")
            return
        try:
            require(self._backend, Remove).remove(self._place)
        except FileNotFoundError:
            return

    def _item(self, number: int, line: str) -> TResponseInputItem:
        try:
            item = json.loads(line)
        except ValueError as cause:
            raise _unreadable(self._place, number, str(cause)) from cause
        if not isinstance(item, dict):
            raise _unreadable(self._place, number, "it is not an object")
        return item  # type: ignore[return-value]  # what was given to add_items

    def _lines(self, items: list[TResponseInputItem]) -> str:
        try:
            return "".join(map(_line, items))
        except (TypeError, ValueError) as cause:
            raise SessionFileError(
                f"this cannot be added to the session {self.session_id!r} ({cause}); "
                "add a list of plain dictionaries that can be written as JSON.",
                code="session_item_invalid",
            ) from cause


def _line(item: TResponseInputItem) -> str:
    # What the reader would refuse must not get in: one such line, and the whole history cannot be read any more.
    if not isinstance(item, dict):
        raise TypeError(f"an item is a dictionary, not {type(item).__name__}")
    line = json.dumps(item, ensure_ascii=False)
    # Half a surrogate pair is no UTF-8, but can be spelt out in JSON.
    return f"{line if _is_utf8(line) else json.dumps(item)}\n"


def _file_name(session_id: str) -> str:
    if not isinstance(session_id, str):
        raise SessionFileError(
            f"a session's id is text, not {type(session_id).__name__}; give one such as 'user-42'.",
            code="session_id_invalid",
        )
    return f"{file_name(session_id, 'session')}.jsonl"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ended(text: str) -> str:
    """The text with its last line ended, also if a person left it open."""
    return f"{text}\n" if text and not text.endswith("\n") else text


def _unreadable(place: Locator, number: int, why: str) -> SessionFileError:
    return SessionFileError(
        f"line {number} of {place.key!r} is no item of a conversation ({why}); mend that line or take it out.",
        locator=place.key,
    )


async def _in_thread(work: Callable[[], T]) -> T:
    """The work's result. Who cancels waits for its end too: a change must not land after the next one has begun."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    finally:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
