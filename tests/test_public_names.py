"""Every public name is importable from `agentm`, is the very object of its home, and costs nothing until used."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module

import pytest

import agentm
import agentm.errors
import agentm.seam

_SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(agentm.__file__)))
_NAMES = {name: module for module, names in agentm._HOME.items() for name in names}

_PROMISED = {
    "BackendRegistry",
    "Capabilities",
    "CapabilityMismatchError",
    "ConcurrentModificationError",
    "DerivedMaintenance",
    "DeviceLocalBackend",
    "Info",
    "InvalidLocatorError",
    "Locator",
    "MemoryBackend",
    "ProtocolError",
    "SqliteBackend",
    "StorageBackend",
    "StoragePreview",
    "StorageSelectionError",
    "Tier",
    "TierLayout",
    "VaultBackend",
    "choose_protocol",
    "detect_conflict_files",
    "list_repos",
    "normalize_key",
    "read_registry",
    "register_repo",
    "registry",
    "registry_locator",
    "resolve_project",
    "run_conformance",
    "select_backend",
    "storage_preview",
    "unregister_repo",
    "write_registry",
}
"""What programs written against the specification import; taking one away breaks them."""


def _fresh(script: str) -> list[str]:
    """Run a script in an interpreter that loads nothing on its own, and return the list it prints."""
    prelude = f"import sys; sys.path.insert(0, {_SOURCE!r}); "
    command = [sys.executable, "-I", "-S", "-c", prelude + script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(ast.literal_eval(done.stdout))


@pytest.mark.parametrize("name", sorted(_NAMES))
def test_a_name_is_the_object_of_its_home(name):
    assert getattr(agentm, name) is getattr(import_module(_NAMES[name]), name)


def test_promised_names_are_public():
    assert set(agentm.__all__) >= _PROMISED


def test_the_seam_and_every_error_are_public():
    errors = {
        name
        for name, value in vars(agentm.errors).items()
        if inspect.isclass(value) and value.__module__ == "agentm.errors"
    }
    assert set(agentm.__all__) >= {*agentm.seam.__all__, *errors}


def test_all_is_sorted_without_repeats_and_complete():
    assert agentm.__all__ == sorted(set(agentm.__all__))
    assert set(agentm.__all__) == {*_NAMES, "__version__"}
    assert sum(len(names) for names in agentm._HOME.values()) == len(_NAMES)


def test_star_import_and_dir_give_every_name():
    scope: dict[str, object] = {}
    exec("from agentm import *", scope)
    assert set(agentm.__all__) <= set(scope)
    assert set(agentm.__all__) <= set(dir(agentm))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'agentm' has no attribute 'Typo'"):
        getattr(agentm, "Typo")  # noqa: B009 - the type checker would refuse the plain spelling


def test_type_checkers_see_the_same_names():
    checks = [node for node in ast.walk(ast.parse(inspect.getsource(agentm))) if isinstance(node, ast.If)]
    imports = [node for node in checks[0].body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(checks[0].body)
    seen = {node.module: tuple(alias.name for alias in node.names) for node in imports}
    assert seen == agentm._HOME
    # Without the repeated name, a strict checker takes an import for a private one.
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


def test_importing_agentm_loads_nothing_else():
    assert _fresh("old = set(sys.modules); import agentm; print(sorted(set(sys.modules) - old))") == ["agentm"]


def test_a_name_loads_its_home_only_when_used():
    script = "import agentm; agentm.InvalidLocatorError; print(sorted(m for m in sys.modules if 'agentm' in m))"
    assert _fresh(script) == ["agentm", "agentm.errors"]
