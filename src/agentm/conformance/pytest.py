"""The kit as a pytest class: subclass it, and every check is a test of its own.

    from agentm.conformance.pytest import BackendConformance

    class TestMyBackend(BackendConformance):
        def make_backend(self, tmp_path):
            return MyBackend(tmp_path / "store")

Set ``derived_layout`` or ``include_routing`` to have those checks made too, and define ``reopen(self, backend)``,
``oracle(self, backend, locator)`` or ``maintenance(self, backend)`` where the backend needs them; all mean what they
mean to `agentm.run_conformance`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentm.conformance.requirements import REQUIREMENTS, Requirement
from agentm.conformance.runner import introduce, run_check
from agentm.conformance.trial import Setup
from agentm.seam import StorageBackend, TierLayout


def _items() -> dict[str, list[Requirement]]:
    """An ability is one test, whether it has to be kept or to be refused."""
    items: dict[str, list[Requirement]] = {}
    for requirement in REQUIREMENTS:
        items.setdefault(requirement.unless or requirement.name, []).append(requirement)
    return items


_ITEMS = _items()


class BackendConformance:
    """Every check of the kit on the backend that ``make_backend`` returns."""

    derived_layout: TierLayout | None = None
    include_routing: bool = False
    reopen: Callable[..., Any] | None = None
    oracle: Callable[..., Any] | None = None
    maintenance: Callable[..., Any] | None = None

    def make_backend(self, tmp_path: Path) -> StorageBackend:
        raise NotImplementedError("define make_backend(self, tmp_path) and return the backend to check")

    @pytest.mark.parametrize("check", list(_ITEMS))
    def test_conforms(self, check: str, tmp_path: Path) -> None:
        setup = self._setup(tmp_path)
        _, capabilities = introduce(setup)
        for requirement in _ITEMS[check]:
            if requirement.concerns(capabilities) and requirement.wanted(setup):
                _report(requirement, setup)
                return
        pytest.skip(f"{check} does not concern this backend")

    def _setup(self, tmp_path: Path) -> Setup:
        return Setup(
            lambda: self.make_backend(tmp_path),
            derived_layout=self.derived_layout,
            include_routing=self.include_routing,
            maintenance=self.maintenance,
            reopen=self.reopen,
            oracle=self.oracle,
        )


def _report(requirement: Requirement, setup: Setup) -> None:
    result = run_check(requirement, setup)
    if result.status == "skip":
        pytest.skip(result.detail)
    if result.status == "fail":
        pytest.fail(f"{requirement.obligation} ({requirement.spec}): {result.detail}", pytrace=False)
