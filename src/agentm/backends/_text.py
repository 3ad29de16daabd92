"""Text to bytes and back, exactly, or a refusal."""

from __future__ import annotations

from agentm.errors import NotTextError, could_not


def encode(content: str, *, backend: str, verb: str, locator: str) -> bytes:
    """UTF-8 bytes of a text, with every newline as it is."""
    if not isinstance(content, str):
        raise NotTextError(
            f"{could_not(backend, verb, locator)}: the content is {type(content).__name__}, not text; pass a str.",
            backend=backend,
            verb=verb,
            locator=locator,
        )
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise NotTextError(
            f"{could_not(backend, verb, locator)}: character {cause.start} is half of a surrogate pair and has no "
            "UTF-8 form; remove it.",
            backend=backend,
            verb=verb,
            locator=locator,
        ) from cause


def decode(data: bytes, *, backend: str, locator: str) -> str:
    """The text of UTF-8 bytes; never a guess at another encoding."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise NotTextError(
            f"{could_not(backend, 'read', locator)}: byte {cause.start} is not UTF-8; convert or move the file.",
            backend=backend,
            verb="read",
            locator=locator,
        ) from cause
