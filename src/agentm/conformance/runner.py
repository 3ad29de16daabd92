"""Running the checks, without any test framework."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from agentm.conformance.expect import Failed, Skipped, describe
from agentm.conformance.oracles import Oracle
from agentm.conformance.report import CheckResult, ConformanceReport, Status
from agentm.conformance.requirements import REQUIREMENTS, Requirement
from agentm.conformance.trial import Setup, Trial, close_backend, open_backend
from agentm.errors import AgentmError
from agentm.seam import Capabilities, DerivedMaintenance, StorageBackend, TierLayout, protocol_of

Progress = Callable[[CheckResult], None]


def run_conformance(
    make_backend: Callable[[], StorageBackend],
    *,
    derived_layout: TierLayout | None = None,
    include_routing: bool = False,
    maintenance: Callable[[StorageBackend], DerivedMaintenance] | None = None,
    reopen: Callable[[StorageBackend], StorageBackend] | None = None,
    oracle: Oracle | None = None,
    processes: bool = True,
    crashes: bool = True,
    only: Collection[str] | None = None,
    tidy: bool = True,
    progress: Progress | None = None,
) -> ConformanceReport:
    """Prove that a backend keeps the contract.

    ``make_backend`` is called once for every check. It may return the same store each time, even one that is in
    use: a check works in a directory of its own, and removes it if the backend can remove (and ``tidy`` is set).

    - ``derived_layout``: also check the derived tiers, kept by ``maintenance(backend)`` or by the backend itself
    - ``include_routing``: also check the registry of repositories; what it held is restored
    - ``reopen``: opens a backend's store once more, for the checks with several processes and crashes; without it
      the backend is pickled, and if that does not lead to the same store these checks are skipped
    - ``oracle``: reads the raw bytes of a place behind the backend's back; the built-in backends have one
    - ``processes``, ``crashes``: False leaves those checks out, ``only`` all but the named ones
    - ``progress``: called with each result as it comes

    The report says what happened; an error in a check is a failure of that check, and nothing is raised.
    """
    setup = Setup(make_backend, derived_layout, include_routing, maintenance, reopen, oracle, processes, crashes, tidy)
    selected = choose(only)
    try:
        name, capabilities = introduce(setup)
    except Failed as failure:
        result = CheckResult("open", "SEAM-05", "fail", str(failure), 0.0)
        if progress:
            progress(result)
        return ConformanceReport("backend", Capabilities(), (result,))
    results = []
    for requirement in selected:
        if requirement.wanted(setup) and requirement.concerns(capabilities):
            results.append(run_check(requirement, setup))
            if progress:
                progress(results[-1])
    return ConformanceReport(name, capabilities, tuple(results))


def choose(only: Collection[str] | None) -> tuple[Requirement, ...]:
    """The checks of these names, or all."""
    if only is None:
        return REQUIREMENTS
    unknown = sorted(set(only) - {requirement.name for requirement in REQUIREMENTS})
    if unknown:
        raise AgentmError(
            f"there is no check named {unknown[0]!r}; agentm.conformance.REQUIREMENTS lists them all.",
            code="check_unknown",
        )
    return tuple(requirement for requirement in REQUIREMENTS if requirement.name in only)


def introduce(setup: Setup) -> tuple[str, Capabilities]:
    """The name of the backend that a run makes and what it declares."""
    backend = open_backend(setup)
    try:
        capabilities = backend.capabilities
    except Exception as cause:
        raise Failed(f"capabilities raised {describe(cause)}") from cause
    finally:
        close_backend(backend)
    if not isinstance(capabilities, Capabilities):
        raise Failed(f"capabilities gave {type(capabilities).__name__}, not Capabilities")
    return protocol_of(backend), capabilities


def run_check(requirement: Requirement, setup: Setup) -> CheckResult:
    """Run one check on a backend of its own."""
    started = time.perf_counter()
    status, detail = _verdict(requirement, setup)
    detail = detail or requirement.obligation
    return CheckResult(requirement.name, requirement.spec, status, detail, time.perf_counter() - started)


def _verdict(requirement: Requirement, setup: Setup) -> tuple[Status, str]:
    reason = requirement.why_not(setup)
    if reason:
        return "skip", reason
    try:
        with Trial(setup, requirement.name) as trial:
            return "pass", requirement.check(trial) or ""
    except Skipped as skipped:
        return "skip", str(skipped)
    except Failed as failure:
        return "fail", str(failure)
    except (Exception, SystemExit) as error:
        return "fail", f"{_culprit(error)} raised {describe(error)}"


def _culprit(error: BaseException) -> str:
    """The function that the check called when it went wrong."""
    names: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__", "")
        ours = module.startswith(f"{__package__}.")
        names = [] if ours else [*names, code.co_name]
        trace = trace.tb_next
    return names[0] if names else "the check"
