"""Saying in one sentence what was due and what came instead."""

from __future__ import annotations

from collections.abc import Callable


class Failed(Exception):
    """The backend does not do what it must; the message says what it did."""


class Skipped(Exception):
    """The check cannot be made here; the message says why."""


def expect(condition: object, sentence: str) -> None:
    if not condition:
        raise Failed(sentence)


def same(what: str, got: object, wanted: object) -> None:
    """The value and its type: a str subclass or a Path that compares equal is still something else."""
    if type(got) is type(wanted) and got == wanted:
        return
    if isinstance(got, dict) and isinstance(wanted, dict):
        got, wanted = _without_common(got, wanted), _without_common(wanted, got)
    raise Failed(f"{what} gave {short(got)}, not {short(wanted)}")


def refuses(what: str, kinds: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> Exception:
    """Return the refusal; anything but one of these errors is a failure."""
    due = _names(kinds)
    try:
        got = call()
    except kinds as refusal:
        return refusal
    except Exception as other:
        raise Failed(f"{what} raised {describe(other)}, where {due} was due") from other
    raise Failed(f"{what} was not refused with {due}; it gave {short(got)}")


def describe(error: BaseException) -> str:
    """Type and message of an error, on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__} ({clip(message, 300)})" if message else type(error).__name__


def short(value: object) -> str:
    """A value as text that fits into a sentence; of a long text, the two ends and the length."""
    told = clip(repr(value), 90)
    return f"{told} ({len(value)} characters)" if isinstance(value, str) and len(value) > 90 else told


def clip(text: str, limit: int) -> str:
    half = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def _without_common(mapping: dict[object, object], other: dict[object, object]) -> dict[object, object]:
    return {key: value for key, value in mapping.items() if key not in other or other[key] != value}


def _names(kinds: type[Exception] | tuple[type[Exception], ...]) -> str:
    return " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
