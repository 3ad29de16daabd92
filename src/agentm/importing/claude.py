"""Claude's export: conversations as lists of messages. What it thought, and what tools did, is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentm.exporting import LeftOut
from agentm.importing.chats import ASSISTANT, USER, Turn, conversation
from agentm.importing.dumps import unknown, values
from agentm.importing.items import Kind, Read, instant

_SPEAKERS = {"human": USER, "user": USER, "assistant": ASSISTANT}


def read(path: str) -> Iterator[Read]:
    for number, value in enumerate(values(path), 1):
        yield value if isinstance(value, LeftOut) else _conversation(value, number)


def is_mine(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def _conversation(value: Any, number: int) -> Read:
    identity = value.get("uuid") if isinstance(value, dict) else None
    source = f"claude:{identity or f'conversation {number}'}"
    if not is_mine(value) or not isinstance(identity, str):
        return unknown(source, "Claude conversation")
    turns = [turn for message in value["chat_messages"] for turn in _turn(message)]
    return conversation(source, str(value.get("name") or ""), instant(value.get("created_at")), turns)


def _turn(message: Any) -> Iterator[Turn]:
    speaker = _SPEAKERS.get(str(message.get("sender"))) if isinstance(message, dict) else None
    if speaker:
        texts = [_said(message), *_attached(message)]
        yield Turn(speaker, instant(message.get("created_at")), "\n\n".join(filter(None, texts)))


def _said(message: dict[str, Any]) -> str:
    """The text blocks; older exports have only the text."""
    blocks = message.get("content")
    said = [
        str(block.get("text") or "")
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    return "\n\n".join(filter(None, said)) or str(message.get("text") or "")


def _attached(message: dict[str, Any]) -> Iterator[str]:
    for field in ("attachments", "files"):
        given = message.get(field)
        for one in given if isinstance(given, list) else []:
            if isinstance(one, dict) and one.get("file_name"):
                text = str(one.get("extracted_content") or "").strip()
                yield f"Attached: {one['file_name']}" + (f"\n\n````\n{text}\n````" if text else "")


KIND = Kind("claude", "Claude's export: the zip, or its conversations.json", read)
