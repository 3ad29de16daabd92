"""What a run found: typed, readable as a table, and JSON-able."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agentm.records import as_dict, record_class
from agentm.seam import Capabilities

Status = Literal["pass", "fail", "skip"]

_MARKS: dict[Status, str] = {"pass": "✓", "fail": "✗", "skip": "–"}
_ASCII_MARKS: dict[Status, str] = {"pass": "+", "fail": "x", "skip": "-"}


@record_class(frozen=True)
class CheckResult:
    """How one check went."""

    name: str
    requirement: str
    """The line of the specification that it checks."""
    status: Status
    detail: str
    """What was wrong, why it was left out, or, of a pass, what was counted."""
    seconds: float


@record_class(frozen=True)
class ConformanceReport:
    """Every check that was selected for a backend, in order."""

    backend: str
    capabilities: Capabilities
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Something ran and nothing failed: a run that checked nothing proves nothing."""
        return self.count("pass") > 0 and not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.status == "fail")

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results)

    def count(self, status: Status) -> int:
        return sum(result.status == status for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back."""
        return {
            "backend": self.backend,
            "passed": self.passed,
            "counts": {status: self.count(status) for status in _MARKS},
            "capabilities": as_dict(self.capabilities),
            "results": [as_dict(result) for result in self.results],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConformanceReport:
        return cls(
            backend=data["backend"],
            capabilities=Capabilities(**data["capabilities"]),
            results=tuple(CheckResult(**result) for result in data["results"]),
        )

    def table(self, *, ascii_only: bool = False) -> str:
        """The report as text, one line per check."""
        rows = [line(result, ascii_only=ascii_only) for result in self.results]
        return "\n".join([title(self.backend), "", *rows, "", self.summary()])

    def summary(self) -> str:
        """The last lines: what was declared, and the verdict with counts and time."""
        declared = ", ".join(name for name, value in as_dict(self.capabilities).items() if value)
        counts = f"{self.count('pass')} passed, {self.count('fail')} failed, {self.count('skip')} skipped"
        return (
            f"{self.backend} declares {declared or 'nothing beyond the seven verbs'}.\n"
            f"{counts} in {self.seconds:.1f} s: {self.backend} {self._verdict()}."
        )

    def _verdict(self) -> str:
        if self.passed:
            return "conforms"
        return "does not conform" if self.failures else "was not checked, which is a failure"


def title(backend: str) -> str:
    return f"Conformance of {backend}"


def line(result: CheckResult, *, ascii_only: bool = False) -> str:
    """One row; the same whether it is printed as the check ends or with the whole table."""
    mark = (_ASCII_MARKS if ascii_only else _MARKS)[result.status]
    text = f"  {mark} {result.name:<24} {result.requirement:<8} {result.seconds:6.2f} s  {result.detail}".rstrip()
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text
