"""What lies in a folder of memories, and what is wrong with what cannot be shown."""

from __future__ import annotations

from agentm.context.node import NodeStatus
from agentm.context.reader import is_shown, read_meta
from agentm.context.uri import ContextUri, Folder, child_of
from agentm.errors import InvalidUriError, NodeBrokenError, NodeHiddenError, NodeNotFoundError
from agentm.seam import StorageBackend


def children(backend: StorageBackend, folder: Folder) -> list[ContextUri | Folder]:
    """The places right below a folder, whether something is shown there or not."""
    found = []
    for place in backend.list(folder.locator):
        try:
            found.append(child_of(folder, place.name))
        except InvalidUriError:
            continue  # somebody else's file or folder, not a memory
    return found


def is_there(backend: StorageBackend, child: ContextUri | Folder) -> bool:
    if isinstance(child, Folder):
        return backend.info(child.locator).is_dir
    return is_shown(backend, child)


def damage(backend: StorageBackend, address: ContextUri) -> str:
    """Why a memory cannot be shown though there is one; nothing if there is none, or nothing is wrong."""
    try:
        meta = read_meta(backend, address.locator)
    except NodeBrokenError as error:
        return error.message
    if meta is not None and meta.uri != str(address):
        return f"the folder of {address} is a copy of another memory; agentm repair makes it one of its own."
    if meta is not None and meta.status is NodeStatus.BROKEN:
        return not_found(address, is_broken=True).message
    return ""


def not_found(address: ContextUri, *, is_broken: bool = False) -> NodeNotFoundError:
    if is_broken:
        return NodeHiddenError(
            f"the memory {address} is broken and not shown; look at its files, or agentm undo brings back a version.",
            locator=address.locator.key,
        )
    return NodeNotFoundError(
        f"there is no memory {address}; list its folder to see what is there.", locator=address.locator.key
    )
