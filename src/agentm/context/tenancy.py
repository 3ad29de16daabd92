"""Who asks, and what they may reach: one account, and in it their own space and those shown to them."""

from __future__ import annotations

import unicodedata

from agentm.context.uri import ContextUri, Folder
from agentm.errors import AccessDeniedError, InvalidNodeError
from agentm.records import record_class


@record_class(frozen=True)
class RequestContext:
    """On whose behalf something is done.

    ``visible`` names spaces of others (``user:bob``, ``agent:scout``) that may be read, never written. ``actor`` (who:
    ``human:alice``, ``process:import``, ``model/1.0``) and ``sources`` (from what) are kept with every version.
    """

    account_id: str
    user_id: str | None = None
    agent_id: str | None = None
    visible: tuple[str, ...] = ()
    actor: str | None = None
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("visible", "sources"):
            if isinstance(getattr(self, name), str):
                raise InvalidNodeError(f"{name} of a request context is one text; give a tuple of them.")

    @property
    def spaces(self) -> frozenset[str]:
        """The spaces that are the caller's own."""
        named = (("user", self.user_id), ("agent", self.agent_id))
        return frozenset(f"{kind}:{_nfc(name)}" for kind, name in named if isinstance(name, str) and name)

    @property
    def author(self) -> str:
        if self.actor:
            return self.actor
        return f"human:{self.user_id}" if self.user_id else f"process:{self.agent_id or 'agentm'}"


def may(ctx: RequestContext, place: ContextUri | Folder, *, write: bool) -> bool:
    """Whether a caller may reach a place. Names are compared whole, never by prefix."""
    if not isinstance(ctx.account_id, str) or not ctx.account_id or _nfc(ctx.account_id) != place.account:
        return False
    if place.owner_space is None:
        return not write
    if place.owner_space in ctx.spaces:
        return True
    return not write and place.owner_space in {_nfc(space) for space in ctx.visible if isinstance(space, str)}


def check(ctx: RequestContext, place: ContextUri | Folder, *, write: bool = False) -> None:
    """Refuse before anything is looked at, in words that do not tell whether something is there."""
    if not may(ctx, place, write=write):
        raise AccessDeniedError(
            f"{'writing' if write else 'reading'} {place} is not permitted to account {ctx.account_id!r}, "
            f"{_named(ctx)}; ask as its owner (on the command line with --account, --user or --agent).",
            locator=str(place),
        )


def _named(ctx: RequestContext) -> str:
    return " and ".join(sorted(ctx.spaces)) or "no user or agent"


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)
