"""``agentm conformance <target>``, all but the parsing of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TextIO

from agentm.conformance.report import CheckResult, ConformanceReport, line, title
from agentm.conformance.runner import run_conformance
from agentm.conformance.target import fresh_backends
from agentm.errors import AgentmError

CONFORMS, FAILS, BAD_TARGET = 0, 1, 2


def run(
    target: str,
    *,
    json: bool = False,
    only: Collection[str] | None = None,
    include_routing: bool = False,
    processes: bool = True,
    crashes: bool = True,
) -> int:
    """Check a backend on stores of its own, print the report, and return the exit code.

    ``target`` is a protocol name, ``module:Class`` or ``module:factory``. 0: it conforms; 1: it does not; 2: there is
    no such backend, or no such check in ``only``, which one sentence on standard error explains.
    """
    printer = _Printer(json)
    try:
        with fresh_backends(target) as make_backend:
            printer.start(target)
            report = run_conformance(
                make_backend,
                include_routing=include_routing,
                processes=processes,
                crashes=crashes,
                only=only,
                tidy=False,
                progress=printer.row,
            )
    except AgentmError as error:
        printer.complain(error)
        return BAD_TARGET
    printer.finish(report)
    return CONFORMS if report.passed else FAILS


class _Printer:
    """Rows come out as their checks end. With JSON on standard output they go to standard error, if one watches."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._rows: TextIO | None = sys.stdout if not json else sys.stderr if sys.stderr.isatty() else None

    def start(self, target: str) -> None:
        self._print(f"{title(target)}\n")

    def row(self, result: CheckResult) -> None:
        self._print(line(result, ascii_only=not self._unicode))

    def finish(self, report: ConformanceReport) -> None:
        self._print(f"\n{report.summary()}")
        if self._json:
            print(_json(report.to_dict()))

    def complain(self, error: AgentmError) -> None:
        plain = f"agentm: {error.code}: {error}"
        print(_json({"error": {"code": error.code, "message": str(error)}}) if self._json else plain, file=sys.stderr)

    @property
    def _unicode(self) -> bool:
        return "utf" in (getattr(self._rows, "encoding", None) or "").lower()

    def _print(self, text: str) -> None:
        if self._rows is not None:
            print(
                text if self._unicode else text.encode("ascii", "backslashreplace").decode(),
                file=self._rows,
                flush=True,
            )


def _json(value: object) -> str:
    import json

    return json.dumps(value, indent=2)
