"""Proof that a backend keeps the contract, for its author and for whoever relies on it.

    from agentm import run_conformance
    report = run_conformance(lambda: MyBackend("/some/where"))
    print(report.table())

The same checks run as a pytest class (`agentm.conformance.pytest.BackendConformance`) and from the shell
(``agentm conformance mypkg.store:MyBackend``).
"""

from agentm.conformance.report import CheckResult, ConformanceReport
from agentm.conformance.requirements import REQUIREMENTS, UNIVERSAL, Requirement
from agentm.conformance.runner import run_check, run_conformance

__all__ = [
    "REQUIREMENTS",
    "UNIVERSAL",
    "CheckResult",
    "ConformanceReport",
    "Requirement",
    "run_check",
    "run_conformance",
]
