"""Going through folders for `agentm ls` and `agentm tree`."""

from __future__ import annotations

from collections.abc import Iterator

from agentm.cli.memories import Memories
from agentm.context.node import ContextNode
from agentm.context.uri import Folder, parse_place
from agentm.errors import NodeBrokenError, NodeNotFoundError


def below(memories: Memories, place: str, broken: list[str]) -> Iterator[ContextNode]:
    """Every memory at or below a place that may be seen; why some cannot be shown goes into ``broken``."""
    if not isinstance(parse_place(place), Folder):
        with memories.suggesting(place):
            yield memories.fs.read_node(place, memories.ctx)
        return
    for child in memories.fs.list_children(place, memories.ctx):
        if isinstance(parse_place(child), Folder):
            yield from below(memories, child, broken)
        else:
            yield from shown(memories, child, broken)
    broken += memories.fs.damaged_children(place, memories.ctx).values()


def shown(memories: Memories, uri: str, broken: list[str]) -> Iterator[ContextNode]:
    """A memory that was just listed, unless somebody has taken it away since."""
    try:
        yield memories.fs.read_node(uri, memories.ctx)
    except NodeBrokenError as error:
        broken.append(error.message)
    except NodeNotFoundError:
        return
