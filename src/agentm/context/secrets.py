"""Secrets in a text: keys and passwords that somebody pasted along. A memory is no place for them.

Known shapes only, so that ordinary text is left alone: a key of a service by its prefix, a private key by its armour, a
token by its three parts, and what is plainly assigned to the name of a secret. Nothing here can be sure to find all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentm.errors import SecretFoundError
from agentm.records import record_class

REFUSE, REDACT, ALLOW = "refuse", "redact", "allow"

_SHAPES = {
    "private key": (
        r"-----BEGIN (?:[A-Z]+ ){0,2}PRIVATE KEY-----[\s\S]{0,8000}?(?:-----END (?:[A-Z]+ ){0,2}PRIVATE KEY-----|\Z)"
    ),
    "AWS access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "Slack token": r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    "Google API key": r"\bAIza[A-Za-z0-9_-]{35}\b",
    "Anthropic key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "OpenAI key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}",
    "Stripe key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "PyPI token": r"\bpypi-[A-Za-z0-9_-]{50,}",
    "JSON web token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "password in an address": r"(?<=://)[^\s:/@]{1,80}:[^\s:/@]{3,80}(?=@[A-Za-z0-9.-])",
    "assigned secret": (
        r"(?i)(?<![A-Za-z])(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret)"
        r"[\"']?\s{0,3}(?:=|:=|:)\s{0,3}(?=[\"']?[^\s\"']*[0-9])(?P<value>\"[^\"\n]{8,200}\"|'[^'\n]{8,200}'|[^\s\"',;]{8,200})"
    ),
}
_PLACEHOLDER = re.compile(r"(?i)^[\"']?(?:\$|<|\{|%|x{3,}|\*{3,}|\.{3,}|your|example|changeme|redacted|\[redacted)")


@record_class(frozen=True)
class Secret:
    """What was found, without its value."""

    kind: str
    line: int
    start: int
    end: int


def secrets(text: str) -> list[Secret]:
    """The secrets in a text, in order; of two that overlap the first."""
    found: list[Secret] = []
    for one in sorted(_all(text), key=lambda one: (one.start, -one.end)):
        if not found or one.start >= found[-1].end:
            found.append(one)
    return found


def _all(text: str) -> Iterator[Secret]:
    for kind, shape in _compiled().items():
        for match in shape.finditer(text):
            start, end = match.span("value") if "value" in shape.groupindex else match.span()
            if not _PLACEHOLDER.match(text[start:end]):
                yield Secret(kind, text.count("\n", 0, start) + 1, start, end)


def _compiled() -> dict[str, re.Pattern[str]]:
    if not _patterns:
        _patterns.update({kind: re.compile(shape) for kind, shape in _SHAPES.items()})
    return _patterns


_patterns: dict[str, re.Pattern[str]] = {}


def without_secrets(text: str, policy: str) -> tuple[str, tuple[str, ...]]:
    """The text as it may be kept, and what was taken out of it; SecretFoundError where nothing may be."""
    found = secrets(text) if policy != ALLOW else []
    if found and policy == REFUSE:
        raise SecretFoundError(
            f"line {found[0].line} holds what looks like a secret ({found[0].kind}); take it out, or say what to do "
            "with it: secrets='redact' or 'allow' (on the command line: --secrets redact)."
        )
    for one in reversed(found):
        text = f"{text[: one.start]}[redacted: {one.kind}]{text[one.end :]}"
    return text, tuple(dict.fromkeys(one.kind for one in found))
