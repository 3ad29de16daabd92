"""ChatGPT's export: conversations as trees of messages, of which the branch that was last open is told.

What the service or a tool said to the model, and what it thought, is left out: nobody has seen it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentm.exporting import LeftOut
from agentm.importing.chats import ASSISTANT, USER, Turn, conversation
from agentm.importing.dumps import unknown, values
from agentm.importing.items import Kind, Read, instant

_SPEAKERS = {"user": USER, "assistant": ASSISTANT}
_SAID = ("text", "multimodal_text", "code")


def read(path: str) -> Iterator[Read]:
    for number, value in enumerate(values(path), 1):
        yield value if isinstance(value, LeftOut) else _conversation(value, number)


def is_mine(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def _conversation(value: Any, number: int) -> Read:
    identity = (value.get("conversation_id") or value.get("id")) if isinstance(value, dict) else None
    source = f"chatgpt:{identity or f'conversation {number}'}"
    if not is_mine(value) or not isinstance(identity, str):
        return unknown(source, "ChatGPT conversation")
    turns = [turn for node in _branch(value) for turn in _turn(node.get("message"))]
    return conversation(source, str(value.get("title") or ""), instant(value.get("create_time")), turns)


def _branch(value: dict[str, Any]) -> list[dict[str, Any]]:
    """From the first message to the one that was last open."""
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    at = value.get("current_node")
    if not isinstance(at, str) or at not in nodes:
        at = _last(nodes)
    branch: dict[str, dict[str, Any]] = {}
    while isinstance(at, str) and at in nodes and at not in branch:
        branch[at] = nodes[at]
        at = nodes[at].get("parent")
    return list(branch.values())[::-1]


def _last(nodes: dict[str, dict[str, Any]]) -> str | None:
    """The newest message that nothing answers."""
    ends = [key for key, node in nodes.items() if not node.get("children") and isinstance(node.get("message"), dict)]
    return max(ends, key=lambda key: instant(nodes[key]["message"].get("create_time")), default=None)


def _turn(message: Any) -> Iterator[Turn]:
    if not isinstance(message, dict):
        return
    author, content, about = (_object(message.get(name)) for name in ("author", "content", "metadata"))
    speaker = _SPEAKERS.get(str(author.get("role")))
    addressed = message.get("recipient") in (None, "all")
    hidden = about.get("is_visually_hidden_from_conversation") or about.get("is_user_system_message")
    if speaker and addressed and not hidden and content.get("content_type") in _SAID:
        yield Turn(speaker, instant(message.get("create_time")), _text(content))


def _text(content: dict[str, Any]) -> str:
    if content["content_type"] == "code":
        return f"```\n{content.get('text') or ''}\n```" if content.get("text") else ""
    parts = content.get("parts")
    return "\n\n".join(filter(None, map(_part, parts if isinstance(parts, list) else [])))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = _object(part).get("content_type", "")
    if kind == "audio_transcription":
        return str(part.get("text") or "")
    return "(an image)" if "image" in str(kind) else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


KIND = Kind("chatgpt", "ChatGPT's export: the zip, or its conversations.json", read)
