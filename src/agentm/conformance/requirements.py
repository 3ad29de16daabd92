"""Every check of the kit, as data: its name, the line of the specification, what is due, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from agentm.conformance import checks, declared, declined, faults, flags, locking, many, processes
from agentm.conformance.derived import derived
from agentm.conformance.trial import Setup, Trial
from agentm.records import record_class
from agentm.seam import ABILITIES, Capabilities

Kind = Literal["always", "processes", "crashes", "derived", "routing"]


@record_class(frozen=True, slots=False)
class Requirement:
    """One obligation and the check that proves it."""

    name: str
    spec: str
    obligation: str
    check: Callable[[Trial], str | None]
    when: tuple[str, ...] = ()
    """Flags that must be declared."""
    unless: str = ""
    """A flag that must not be declared."""
    kind: Kind = "always"

    def concerns(self, capabilities: Capabilities) -> bool:
        """Whether a backend that declares this has the obligation."""
        declares = all(getattr(capabilities, flag) for flag in self.when)
        return declares and not (self.unless and getattr(capabilities, self.unless))

    def why_not(self, setup: Setup) -> str:
        """The reason why a run leaves it out; "" if it does not."""
        if self.kind == "processes" and not setup.processes:
            return "checks with several processes are switched off"
        if self.kind == "crashes" and not setup.crashes:
            return "checks with crashes are switched off"
        return ""

    def wanted(self, setup: Setup) -> bool:
        """The derived and the routing check have to be asked for."""
        if self.kind == "derived":
            return setup.derived_layout is not None
        return self.kind != "routing" or setup.include_routing


def _routing(trial: Trial) -> None:
    # The registry of repositories is loaded only by those who ask for it.
    from agentm.conformance.routing import routing

    routing(trial)


_UNIVERSAL = (
    Requirement("resolve_and_locator", "SEAM-05", "resolve names places and touches nothing",
                checks.resolve_and_locator),
    Requirement("round_trip", "SEAM-06", "what is written is read; nothing, and a directory, cannot be read",
                checks.round_trip),
    Requirement("lf_exact_round_trip", "SEAM-07", "every text comes back byte for byte", checks.lf_exact_round_trip),
    Requirement("exists_flips", "SEAM-06", "exists is true for files and directories, and for nothing else",
                checks.exists_flips),
    Requirement("info", "SEAM-03", "size in bytes, mtime in epoch seconds; nothing there is an error", checks.info),
    Requirement("mkdir_idempotent", "SEAM-06", "mkdir makes parents, may be repeated, and harms nothing",
                checks.mkdir_idempotent),
    Requirement("list_children", "SEAM-06", "immediate children only, sorted by key, as locators",
                checks.list_children),
    Requirement("list_on_absent", "SEAM-06", "the list of nothing, and of a file, is empty", checks.list_on_absent),
    Requirement("invalid_locator_rejected", "SEAM-01", "'..', a backslash and NUL are refused",
                checks.invalid_locator_rejected),
)  # fmt: skip

_DECLARED = {
    "remove": Requirement("remove", "SEAM-09", "files and empty directories go, and nothing else does",
                          declared.remove, ("remove",)),
    "rename": Requirement("rename", "SEAM-09", "a file or a whole directory moves, over nothing that is there",
                          declared.rename, ("rename",)),
    "append": Requirement("append", "SEAM-09", "text is added at the end, and two appenders both land",
                          declared.append, ("append",)),
    "compare_and_swap": Requirement("compare_and_swap", "SEAM-09", "a write against an old version is refused",
                                    declared.compare_and_swap, ("compare_and_swap",)),
    "change_feed": Requirement("change_feed", "SEAM-09", "no change is missed", declared.change_feed,
                               ("change_feed",)),
    "watch": Requirement("watch", "SEAM-09", "every change below the place wakes the watcher", declared.watch,
                         ("watch",)),
    "lock": Requirement("lock", "SEAM-09", "one holder at a time, and nobody waits who did not ask", locking.lock,
                        ("lock",)),
    "write_many": Requirement("write_many", "SEAM-09", "many texts land in one call, each as if written alone",
                              many.write_many, ("write_many",)),
}  # fmt: skip


def _abilities() -> tuple[Requirement, ...]:
    """Each ability is kept if it is declared, and refused if it is not."""
    found: list[Requirement] = []
    for flag in ABILITIES:
        due = f"{flag} is not declared, so it is refused with the typed error"
        refusal = Requirement(f"refuses_{flag}", "SEAM-18", due, declined.refusal_of(flag), unless=flag)
        found += [_DECLARED[flag], refusal]
    return tuple(found)


_FLAGS = (
    Requirement("conflict_files", "SEAM-04", "conflict copies stay, and a strategy is named for them",
                flags.conflict_files, ("conflict_files",)),
    Requirement("encryption", "SEAM-04", "no plain text lies in the store", flags.encryption, ("encryption",)),
    Requirement("sync", "SEAM-04", "nothing but texts lies in the replicated tree", flags.sync, ("sync",)),
)  # fmt: skip

_PROCESSES = (
    Requirement("survives_reopen", "SEAM-19", "another process finds what this one wrote, and the reverse",
                processes.survives_reopen, kind="processes"),
    Requirement("atomic_to_readers", "SEAM-19", "a reader sees the old text or the new one, whole",
                processes.atomic_to_readers, kind="processes"),
    Requirement("concurrent_writes", "SEAM-19", "every write of many processes survives",
                processes.concurrent_writes, ("concurrent_writers",), kind="processes"),
    Requirement("concurrent_increments", "SEAM-19", "no compare-and-swap of many processes is lost",
                processes.concurrent_increments, ("concurrent_writers", "compare_and_swap"), kind="processes"),
    Requirement("concurrent_appends", "SEAM-19", "every append of many processes lands whole",
                processes.concurrent_appends, ("concurrent_writers", "append"), kind="processes"),
    Requirement("lock_between_processes", "SEAM-19", "processes that ask for a lock take turns",
                locking.lock_between_processes, ("lock",), kind="processes"),
    Requirement("lock_freed_by_death", "SEAM-19", "the lock of a killed process is free at once",
                locking.lock_freed_by_death, ("lock",), kind="processes"),
)  # fmt: skip


def _crash(verb: str, *when: str) -> Requirement:
    due = f"whole after death at any step of {verb}, and writable again"
    return Requirement(f"crash_{verb}", "SEAM-19", due, faults.crash_of(verb), when, kind="crashes")


_CRASHES = (
    _crash("write"),
    _crash("mkdir"),
    _crash("remove", "remove"),
    _crash("rename", "rename"),
    _crash("append", "append"),
    _crash("write_versioned", "compare_and_swap"),
    _crash("write_many", "write_many"),
)

_ON_REQUEST = (
    Requirement("derived", "SEAM-11", "an emptied derived tier is rebuilt from the source, identically", derived,
                kind="derived"),
    Requirement("routing", "SEAM-27", "repositories are registered, listed and unregistered", _routing,
                kind="routing"),
)  # fmt: skip

REQUIREMENTS: tuple[Requirement, ...] = (
    *_UNIVERSAL,
    *_abilities(),
    *_FLAGS,
    *_PROCESSES,
    *_CRASHES,
    *_ON_REQUEST,
)
"""All of them, in the order in which they run."""

UNIVERSAL = tuple(requirement.name for requirement in _UNIVERSAL)
"""The names of the checks that every backend must pass."""
