"""What somebody wrote into the files of a memory with an editor: adopted as a new version, to be indexed."""

from __future__ import annotations

from agentm.context.decision import Action, decide
from agentm.context.holding import QUIET_SECONDS
from agentm.context.mending import mend
from agentm.context.node import CONTENT
from agentm.context.observed import observe
from agentm.context.uri import ContextUri
from agentm.errors import AgentmError
from agentm.seam import StorageBackend


def adopt(backend: StorageBackend, address: ContextUri) -> bool:
    """Adopt an edit made by hand, if there is one; False while its file may be only half saved.

    Nothing else is put right here: whatever a crash left behind is for the repair.
    """
    if not backend.exists(address.locator.child(CONTENT)):
        return True  # most of what is not as it was written has ended
    seen = observe(backend, address, QUIET_SECONDS)
    if seen.meta is None or seen.misplaced:
        return True
    action = decide(seen)
    if action is Action.ADOPT:
        _adopt(backend, address)
    return action is not Action.WAIT


def _adopt(backend: StorageBackend, address: ContextUri) -> None:
    try:
        mend(backend, address, quiet=QUIET_SECONDS)
    except PermissionError:
        pass  # whoever may write to this store adopts it
    except OSError:
        raise  # the next look tries again
    except AgentmError:
        pass  # what can be no version; the repair says why
