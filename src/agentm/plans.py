"""Which plan a working copy is bound to, and what its files are called.

The name comes from the caller, else from `.harness/active-plan` in the project, else there is none and the files are
`PLAN.md` and `progress.md`. A marker that leads nowhere is an error: to take another plan for it would set somebody to
work on what belongs to somebody else.
"""

from __future__ import annotations

import os
import re

from agentm.errors import ActivePlanError, StateFileError
from agentm.projects import is_slug
from agentm.small_files import read_small

LOCAL_FOLDER = ".harness"
MARKER = os.path.join(LOCAL_FOLDER, "active-plan")
_FILES = {"plan": "PLAN", "progress": "progress"}

_NAME = re.compile(r"[^\W_][\w.-]*")
_LONGEST_NAME = 200
"""Bytes, so that the file's name stays below what file systems take."""


def check_which(which: object) -> str:
    """Refuse what is neither of the two files."""
    if not isinstance(which, str) or which not in _FILES:
        raise StateFileError(f"there is no state file {which!r}; ask for 'plan' or 'progress'.")
    return which


def resolve_active_plan(project_root: str, folder: str, plan: object = None) -> str | None:
    """The name of the plan to use, None for the one without a name.

    ``plan`` is the caller's choice and need not be there yet. What the marker names must be in ``folder``.
    """
    if plan is not None and plan != "":
        if not _is_name(plan):
            raise StateFileError(f"{plan!r} cannot name a plan; use one plain word such as 'parser-rewrite'.")
        return str(plan)
    marker = os.path.join(project_root, MARKER)
    name = _read_marker(marker)
    if name is None:
        return None
    if not _is_name(name):
        raise ActivePlanError(
            f"the marker {marker!r} holds {name[:80]!r}, which cannot name a plan; write one plain word into it, "
            "or remove it."
        )
    expected = os.path.join(folder, state_file("plan", name))
    if not os.path.isfile(expected):
        raise ActivePlanError(
            f"the marker {marker!r} names the plan {name!r}, but there is no {expected!r}; create that, correct the "
            "marker, or remove it."
        )
    return name


def state_file(which: str, name: str | None) -> str:
    """The file name of one of the two files of a plan."""
    stem = _FILES[check_which(which)]
    return f"{stem}.md" if name is None else f"{stem}-{name}.md"


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and is_slug(name)
        and _NAME.fullmatch(name) is not None
        and len(name.encode()) <= _LONGEST_NAME
    )


def _read_marker(path: str) -> str | None:
    try:
        return read_small(path).decode("utf-8-sig").strip()
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.islink(path):
            return None
        why = "it is a link to nothing"
    except OSError as cause:
        why = cause.strerror or str(cause)
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    raise ActivePlanError(f"the marker {path!r} cannot be read ({why}); write a plan's name into it, or remove it.")
