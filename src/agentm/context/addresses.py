"""Short addresses: ``events/visit`` is the caller's own, ``users/…`` lies below the caller's account."""

from __future__ import annotations

from agentm.context.tenancy import RequestContext
from agentm.context.uri import SCHEME
from agentm.errors import InvalidUriError


def own_space(ctx: RequestContext) -> str:
    """Where a caller's memories lie: the agent's, if one is named, else the user's."""
    kind, name = ("agents", ctx.agent_id) if ctx.agent_id else ("users", ctx.user_id)
    return f"{SCHEME}{ctx.account_id}/{kind}/{name}"


def full_address(text: str, ctx: RequestContext) -> str:
    """A short address written out: ``events/visit`` lies below the caller's memories, ``users/…`` below the account."""
    if not isinstance(text, str):
        raise InvalidUriError(f"{text!r} is no address; give a text, as in events/first-visit.")
    if text.startswith(SCHEME):
        return text
    if text.casefold().startswith("ctx:"):
        raise InvalidUriError(f"{text!r} does not begin with ctx://; write it so, or leave it out: events/first-visit.")
    text = text.strip("/")
    first = text.partition("/")[0]
    if first in ("users", "agents"):
        return f"{SCHEME}{ctx.account_id}/{text}"
    if first in ("", "memories") or (first == "skills" and ctx.agent_id):
        return f"{own_space(ctx)}/{text}".rstrip("/")
    return f"{own_space(ctx)}/memories/{text}"
