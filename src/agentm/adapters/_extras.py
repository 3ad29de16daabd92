"""One sentence for every adapter whose framework is not installed."""

from __future__ import annotations

from agentm.errors import MissingExtraError


def missing(extra: str, cause: ImportError) -> MissingExtraError:
    """The error to raise in place of ``cause``: it says what to type. Also for a framework that is too old."""
    return MissingExtraError(
        f"this adapter needs packages that are not installed ({cause}); type: pip install 'agentm[{extra}]'.",
    )
