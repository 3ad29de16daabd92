"""What became of each thing that was to be imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from agentm.exporting import LeftOut
from agentm.records import field, record_class

Progress = Callable[[int, int], None]
"""Told how many are done, of how many that are known of so far."""


class Action(StrEnum):
    """What is, or would be, done about one of them."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    KEPT = "kept"
    EMPTY = "empty"
    LEFT_OUT = "left_out"


@record_class(frozen=True)
class Outcome:
    source: str
    action: Action
    uri: str = ""
    version: int = 0
    code: str = ""
    message: str = ""
    """Why it was left out, or kept as it is."""


@record_class()
class ImportReport:
    outcomes: list[Outcome] = field(default_factory=list)
    edges_lost: int = 0
    """Edges of an export to memories that are neither in it nor here."""
    under_way: int = 0
    """Memories that are written, of a batch whose outcomes are not known yet."""
    owners: dict[str, int] = field(default_factory=dict)
    """Of a source that tells people apart: whose memories it holds, and how many."""

    @property
    def counts(self) -> dict[Action, int]:
        counted = Counter(one.action for one in self.outcomes)
        return {action: counted[action] for action in Action}

    @property
    def written(self) -> int:
        """How many memories are written by now, also when it is stopped in the middle."""
        return len(self.of(Action.NEW)) + len(self.of(Action.CHANGED)) + self.under_way

    def of(self, action: Action) -> list[Outcome]:
        return [one for one in self.outcomes if one.action is action]

    def leave_out(self, one: LeftOut, uri: str = "") -> None:
        self.outcomes.append(Outcome(one.source, Action.LEFT_OUT, uri, 0, one.code, one.message))
