"""An ability that is declared False is refused with the typed error, and nothing changes.

A method that is there but does half of what it should is worse than none: callers find out too late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from agentm.conformance.expect import refuses, same
from agentm.conformance.trial import Trial, snapshot
from agentm.errors import UnsupportedAbilityError
from agentm.seam import ABILITIES, ABSENT, require


def _hold(backend: Any, trial: Trial) -> None:
    with backend.lock(trial.at("note.md")):
        pass  # refusing late, when the block is entered, is refusing too


# How a caller would use each ability's methods; `list` because a generator refuses only when it is pulled.
_CALLS: dict[str, dict[str, Callable[[Any, Trial], object]]] = {
    "remove": {"remove": lambda backend, trial: backend.remove(trial.at("note.md"))},
    "rename": {"rename": lambda backend, trial: backend.rename(trial.at("note.md"), trial.at("moved.md"))},
    "append": {"append": lambda backend, trial: backend.append(trial.at("note.md"), "more\n")},
    "compare_and_swap": {
        "read_versioned": lambda backend, trial: backend.read_versioned(trial.at("note.md")),
        "write_versioned": lambda backend, trial: backend.write_versioned(
            trial.at("new.md"), "new\n", if_version=ABSENT
        ),
    },
    "change_feed": {"changes": lambda backend, trial: list(backend.changes({}, trial.scratch))},
    "watch": {"watch": lambda backend, trial: backend.watch(trial.scratch).close()},
    "lock": {"lock": _hold},
    "write_many": {
        "write_many": lambda backend, trial: backend.write_many(
            [(trial.at("note.md"), "changed\n"), (trial.at("new.md"), "new\n")]
        )
    },
}


def refusal_of(flag: str) -> Callable[[Trial], str]:
    """The check that a backend which declares ``flag`` False refuses that ability."""

    def check(trial: Trial) -> str:
        trial.put("note.md", "kept\n")
        protocol, methods = ABILITIES[flag]
        refuses(f"require({protocol.__name__})", UnsupportedAbilityError, lambda: require(trial.backend, protocol))
        present = [method for method in methods if hasattr(trial.backend, method)]
        for method in present:
            refuses(f"{method}()", UnsupportedAbilityError, partial(_CALLS[flag][method], trial.backend, trial))
            same(f"the store after {method}()", snapshot(trial.backend, trial.scratch), {"note.md": "kept\n"})
        return f"{', '.join(present)} refused" if present else "it has no such method"

    return check
