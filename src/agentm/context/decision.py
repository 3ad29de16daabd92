"""What is to be done about a node: a pure function of what it holds."""

from __future__ import annotations

from enum import StrEnum

from agentm.context.node import CONTENT, NodeStatus, digest
from agentm.context.observed import Observed

BY_HAND = ("edit:by-hand",)
"""The source of an adopted version. Its text stood in the node before it: it does not show how far a writer got."""


class Action(StrEnum):
    """What is to be done about a node."""

    NOTHING = "nothing"
    WAIT = "wait until nobody is editing it by hand"
    COMPLETE = "complete a first write that was cut short"
    DISCARD = "discard the beginning of a write"
    RESTORE = "put back the committed version where a cut-short write, or something that is no text, stood"
    ACTIVATE = "show a node that was written whole"
    BREAK = "mark as broken what cannot be made whole"
    REPORT = "nothing that can be done without you: it is broken"
    FINISH_MOVE = "finish a move"
    CANCEL_MOVE = "discard the target of a move that did not happen"
    TELL = "register the event that was lost"
    CLEAR = "remove the files of a node that has ended"
    RELINK = "lead edges to where a node went, or take them away with it"
    KEEP = "put the current version back into the history, where it is missing or damaged"
    ADOPT = "adopt an edit made by hand as a new version"
    REHOME = "adopt a folder that was copied or renamed by hand as a node of its own"


def decide(seen: Observed) -> Action:
    """From what is there to what is to be done; nothing else comes in."""
    if seen.meta_damaged:
        return Action.BREAK
    if seen.meta is None:
        return _without_meta(seen)
    if seen.misplaced:
        return _misplaced(seen)
    return _OF_STATUS[seen.meta.status](seen)


def _without_meta(seen: Observed) -> Action:
    if seen.begun is not None and seen.begun.meta.other_uri is not None:
        return Action.DISCARD  # the target of a move: its source still has it
    if seen.parts[CONTENT] is not None:
        # A text that no writer began was put there by hand, and may still be typed.
        return Action.COMPLETE if seen.begun or seen.at_rest else Action.WAIT
    if CONTENT in seen.damaged:
        return Action.BREAK
    if seen.unfinished or any(seen.parts.values()):
        # What was told once, or has a past, was a node: somebody took its meta away, and its text.
        own = [one.meta for one in seen.unfinished if one.meta.uri == str(seen.address) and not one.meta.other_uri]
        had_a_past = seen.told_once or any(meta.version > 1 for meta in own)
        return Action.BREAK if had_a_past else Action.DISCARD
    # Somebody points at what was never written.
    return Action.RELINK if seen.pointed_at and seen.at_rest else Action.NOTHING


def _misplaced(seen: Observed) -> Action:
    assert seen.meta is not None
    if seen.meta.status is not NodeStatus.ACTIVE:
        left = seen.parts[CONTENT] is not None or seen.meta.status is NodeStatus.BROKEN
        return Action.REPORT if left else Action.NOTHING
    if seen.damaged or seen.parts[CONTENT] is None:
        return Action.REPORT
    return Action.REHOME if seen.at_rest or not seen.differs else Action.WAIT


def _pending(seen: Observed) -> Action:
    assert seen.meta is not None
    if seen.meta.other_uri is not None:
        return Action.FINISH_MOVE if seen.source_moved_here else Action.CANCEL_MOVE
    return Action.ACTIVATE if seen.complete and not seen.differs else Action.BREAK


def _active(seen: Observed) -> Action:
    if seen.damaged or seen.differs:
        return _about_parts(seen)
    if seen.unfinished:
        return Action.DISCARD
    if seen.kept is None and seen.meta is not None and seen.meta.parts:
        return Action.KEEP
    return Action.NOTHING if seen.told else Action.TELL


def _about_parts(seen: Observed) -> Action:
    reached = any(
        text is not None and digest(text) == version.meta.parts.get(name)
        for version in seen.unfinished
        if version.meta.sources != BY_HAND
        for name, text in seen.parts.items()
        if seen.meta is None or version.meta.parts.get(name) != seen.meta.parts.get(name)
    )
    if seen.kept is not None and (reached or seen.damaged or seen.parts[CONTENT] is None):
        return Action.RESTORE
    if seen.parts[CONTENT] is not None and CONTENT not in seen.damaged:
        return Action.ADOPT if seen.at_rest else Action.WAIT
    return Action.BREAK


def _ended(seen: Observed) -> Action:
    assert seen.meta is not None
    if not seen.told:
        return Action.TELL
    if seen.rewritten and seen.begun is None:
        return Action.ADOPT if seen.at_rest else Action.WAIT
    if seen.meta.status is NodeStatus.ARCHIVED:
        if seen.kept is not None and (seen.damaged or seen.differs):
            return Action.RESTORE
    elif seen.damaged or any(text is not None for text in seen.parts.values()):
        # Before the beginning of a write that put them there: without it they would pass for an edit by hand.
        return Action.CLEAR
    if seen.unfinished:
        return Action.DISCARD
    if seen.has_history and (seen.meta.purge or seen.meta.status is NodeStatus.MOVED):
        return Action.CLEAR
    return Action.RELINK if seen.pointed_at else Action.NOTHING


_OF_STATUS = {
    NodeStatus.PENDING: _pending,
    NodeStatus.ACTIVE: _active,
    NodeStatus.BROKEN: lambda seen: Action.REPORT if seen.told else Action.TELL,
    NodeStatus.ARCHIVED: _ended,
    NodeStatus.DELETED: _ended,
    NodeStatus.MOVED: _ended,
}
