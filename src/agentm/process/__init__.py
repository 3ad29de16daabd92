"""The read-only door for other programs: what is remembered here, what could be saved, where the plan lies.

Each function takes a ``context``: a mapping with any of ``cwd`` (default: the process's), ``phase`` (default: `work`),
``plan`` (default: the active one) and ``install_prefix`` (default: the machine's), or None. Nothing here writes, makes
a directory or takes a lock. Without a memory there is a plain answer, not an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentm import config as settings
from agentm.plans import LOCAL_FOLDER, check_which, resolve_active_plan, state_file
from agentm.process.reading import Folder, Nowhere, reading
from agentm.projects import PROJECT_FILE, Project, resolve_project
from agentm.recall.phases import Ranked, budget_of, phase_of, phase_recall
from agentm.seam import StorageBackend

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["offer_save_here", "recall_here", "state_path"]

Context = Mapping[str, Any]

INDEX = "index"
STATE_FOLDER = "_harness"
"""Where a project in a synced store keeps its plans."""


def recall_here(context: Context | None, *, query: str | None = None, limit: int | None = None) -> str:
    """What memory holds for the project of a directory and a phase of work, as Markdown of at most ``limit`` tokens.

    - no memory, or nothing in it: ""
    - an unknown phase: `work`
    - ``query`` ranks what an index finds; without an index it changes nothing

    Never raises, never writes.
    """
    try:
        return _recall(_given(context), query, limit)
    except Exception:
        return ""


def offer_save_here(context: Context | None, candidate: object) -> list[dict[str, Any]]:
    """What could be saved from here: a copy of the candidate with ``project``, ``phase`` and ``target``; not saved.

    - the ``phase`` of the context, whatever its name; without one, the candidate's own, and there need be none
    - what is no mapping becomes ``{"body": candidate}``
    - no memory, no project, or an empty candidate: ``[]``
    - ``target`` is the project's folder if the store is one of plain files, else None
    """
    try:
        return _offer(_given(context), candidate)
    except Exception:
        return []


def state_path(context: Context | None, which: str) -> Path:
    """Where the plan or the progress file of the active plan is, or would be.

    - in a synced store that knows the project: its ``_harness`` folder
    - otherwise: ``.harness`` in the project itself

    Raises StateFileError (a ValueError) when ``which`` is neither `plan` nor `progress` or a plan's name is unsafe, and
    ActivePlanError when `.harness/active-plan` leads nowhere.
    """
    from pathlib import Path  # half as much as all the rest, and recall does without

    check_which(which)
    given = _given(context)
    folder, root = _state_folder(given)
    return Path(folder, state_file(which, resolve_active_plan(root, folder, given.get("plan"))))


def _recall(given: Context, query: str | None, limit: int | None) -> str:
    phase = phase_of(given.get("phase"))
    budget = budget_of(phase, limit)
    with reading(given.get("install_prefix")) as store:
        if store is None or budget <= 0:
            return ""
        project = _project(given, store)
        return phase_recall(
            store,
            phase,
            budget,
            slug=project["slug"],
            place=project["project_locator"],
            query=query if isinstance(query, str) else "",
            ranked=_ranked(store, given.get("install_prefix")),
        )


def _ranked(store: StorageBackend, install_prefix: Any) -> Ranked | None:
    """The index's part, if there is one."""
    if not os.path.isdir(os.path.join(settings.install_prefix(install_prefix), INDEX)):
        return None  # before anything is loaded that only an index needs
    from agentm.process.ranked import ranking

    try:
        return ranking(store, install_prefix)
    except Exception:
        return None


def _offer(given: Context, candidate: object) -> list[dict[str, Any]]:
    if not candidate or (isinstance(candidate, str) and not candidate.strip()):
        return []
    with reading(given.get("install_prefix")) as store:
        if store is None:
            return []
        project = _project(given, store)
    if project["slug"] is None:
        return []
    offered = dict(candidate) if isinstance(candidate, Mapping) else {"body": candidate}
    offered["project"] = project["slug"]
    if given.get("phase"):
        offered["phase"] = given["phase"]
    offered["target"] = _folder_of(project)
    return [offered]


def _folder_of(project: Project) -> str | None:
    store, place = project["backend"], project["project_locator"]
    return store.path(place) if isinstance(store, Folder) and place is not None else None


def _state_folder(given: Context) -> tuple[str, str]:
    """The folder of the state files, and the project's root."""
    with reading(given.get("install_prefix")) as store:
        project = _project(given, store or Nowhere())
    root = project["project_root"]
    folder = _folder_of(project)
    if folder is None or not project["backend"].capabilities.sync or _kept_local(given):
        return os.path.join(root, LOCAL_FOLDER), root
    return os.path.join(folder, STATE_FOLDER), root


def _kept_local(given: Context) -> bool:
    """Whether the owner wants the state files in the project, whatever the store."""
    return bool(settings.get_value(settings.STATE_MODE, given.get("install_prefix")) == "local")


def _project(given: Context, store: StorageBackend) -> Project:
    """The project of the directory: without a place if the store fails, without a name if its own file is broken."""
    cwd = _cwd(given)
    for asked in (store, Nowhere()):
        try:
            project = resolve_project(cwd, asked)
        except Exception:
            continue
        project["backend"] = store
        return project
    return Project(slug=None, project_locator=None, backend=store, project_root=_nearest_project(cwd), layout="none")


def _nearest_project(cwd: str) -> str:
    """Where the project file is that cannot be read, else the directory itself."""
    place = cwd
    while not os.path.lexists(os.path.join(place, PROJECT_FILE)):
        parent = os.path.dirname(place)
        if parent == place:
            return cwd
        place = parent
    return place


def _cwd(given: Context) -> str:
    named = given.get("cwd")
    try:
        return os.path.abspath(os.path.expanduser(os.fsdecode(named))) if named else os.getcwd()
    except (OSError, TypeError, ValueError):
        return os.curdir  # the directory we are in was removed, or what is named is no path


def _given(context: object) -> Context:
    return context if isinstance(context, Mapping) else {}
