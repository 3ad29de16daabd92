"""What a caller gave, looked at before anything is done with it: one sentence about it, not a traceback from inside."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from agentm.errors import AgentmError

T = TypeVar("T")

_LONGEST = 40

Wrong = type[AgentmError]
"""What to raise."""


def check_text(wrong: Wrong, **given: object) -> None:
    """Texts, or None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise wrong(f"{name} is {_shown(value)}; give a text, or leave it out.")


def check_flag(wrong: Wrong, **given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, bool):
            raise wrong(f"{name} is {_shown(value)}; give True or False.")


def check_number(wrong: Wrong, **given: object) -> None:
    """Whole numbers from 0 on, or None."""
    for name, value in given.items():
        fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if value is not None and not fine:
            raise wrong(f"{name} is {_shown(value)}; give a whole number, or leave it out.")


def check_seconds(wrong: Wrong, **given: object) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise wrong(f"{name} is {_shown(value)}; give a number of seconds, such as 0.5.")


def check_texts(wrong: Wrong, **given: object) -> None:
    """Lists of texts: one text is none, though Python would take it apart."""
    for name, value in given.items():
        fine = isinstance(value, list | tuple | set | frozenset) and all(isinstance(one, str) for one in value)
        if not fine:
            raise wrong(f"{name} is {_shown(value)}; give a list of texts.")


def check_callable(wrong: Wrong, **given: object) -> None:
    """Functions, or None."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise wrong(f"{name} is {_shown(value)}; give a function, or leave it out.")


def check_path(wrong: Wrong, **given: object) -> None:
    """Places on the disk, or None."""
    for name, value in given.items():
        fine = isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str) and os.fspath(value)
        if value is not None and not fine:
            raise wrong(f"{name} is {_shown(value)}; give the path of a folder, or leave it out.")


def all_of(wrong: Wrong, kind: type[T], given: object, name: str) -> list[T]:
    """What is in something that can be gone through, if each is of a kind."""
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else None
    if found is None or not all(isinstance(one, kind) for one in found):
        raise wrong(f"{name} is {_shown(given)}; give a list of {kind.__name__}.")
    return found


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return (
        f"{text[:_LONGEST]}… ({type(value).__name__})" if len(text) > _LONGEST else f"{text} ({type(value).__name__})"
    )
