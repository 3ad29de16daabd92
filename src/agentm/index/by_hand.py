"""What somebody wrote into the files of a memory with an editor: adopted as a new version, to be indexed."""

from __future__ import annotations

import time

from agentm.context.decision import Action, decide
from agentm.context.holding import QUIET_SECONDS
from agentm.context.mending import mend
from agentm.context.node import CONTENT, digest
from agentm.context.observed import Observed, observe
from agentm.context.uri import ContextUri
from agentm.errors import AgentmError
from agentm.index.catalogue import Catalogue
from agentm.seam import StorageBackend


def adopt(backend: StorageBackend, address: ContextUri, catalogue: Catalogue) -> bool:
    """Adopt an edit made by hand, if there is one; False while its file may be only half saved.

    Nothing else is put right here: whatever a crash left behind is for the repair.
    """
    if not backend.exists(address.locator.child(CONTENT)):
        return True  # most of what is not as it was written has ended
    seen = observe(backend, address, QUIET_SECONDS)
    if seen.meta is None or seen.misplaced:
        return True
    action = decide(seen)
    if action not in (Action.ADOPT, Action.WAIT):
        return True
    stayed = not backend.capabilities.sync or _has_stayed(seen, catalogue)
    if action is Action.WAIT or not stayed:
        return False
    _adopt(backend, address)
    return True


def drop_seen(catalogue: Catalogue, uri: str) -> None:
    """There is no edit any more, or there was none: inside `change`."""
    catalogue.drop_fact(_name(uri))


def _has_stayed(seen: Observed, catalogue: Catalogue) -> bool:
    """Whether an earlier look, a while ago, saw the same; if not, the next one knows that this one did.

    What a sync client brings has the times it had elsewhere, and one file comes after the other: a version that was
    written there must not pass for an edit because its content is here before the rest of it.
    """
    name = _name(str(seen.address))
    # The same in every process, and no clock that somebody sets; after a restart it begins anew.
    now, what = time.monotonic(), digest("\n".join(f"{part}" for part in seen.parts.values()))
    before, _, since = (catalogue.fact(name) or "").partition(" ")
    if before == what and now >= float(since):
        return now - float(since) >= QUIET_SECONDS
    with catalogue.change():
        catalogue.put_fact(name, f"{what} {now:.3f}")
    return False


def _name(uri: str) -> str:
    """Of the fact that an edit was seen."""
    return f"edited {digest(uri)[:16]}"


def _adopt(backend: StorageBackend, address: ContextUri) -> None:
    try:
        mend(backend, address, quiet=QUIET_SECONDS)
    except PermissionError:
        pass  # whoever may write to this store adopts it
    except OSError:
        raise  # the next look tries again
    except AgentmError:
        pass  # what can be no version; the repair says why
