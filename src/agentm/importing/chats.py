"""A conversation as one memory: each turn is a section that says who spoke, and when."""

from __future__ import annotations

from collections.abc import Iterable

from agentm.importing.items import Item, Nothing, shown
from agentm.records import record_class

USER, ASSISTANT = "User", "Assistant"


@record_class(frozen=True)
class Turn:
    speaker: str
    moment: str
    text: str


def conversation(source: str, title: str, created_at: str, turns: Iterable[Turn]) -> Item | Nothing:
    told = [turn for turn in turns if turn.text.strip()]
    if not told:
        return Nothing(source)
    title = " ".join(title.split()) or told[0].text.strip().splitlines()[0][:80]
    sections = "\n".join(f"\n## {_heading(turn)}\n\n{turn.text.strip()}\n" for turn in told)
    return Item(
        source=source,
        name=title,
        content=f"# {title}\n{sections}",
        category="events",
        created_at=created_at or next((turn.moment for turn in told if turn.moment), ""),
    )


def _heading(turn: Turn) -> str:
    return f"{turn.speaker} · {shown(turn.moment)}" if turn.moment else turn.speaker
