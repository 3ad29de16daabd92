"""No file-system path type crosses the seam: the source is walked, and the loaded signatures are asked too."""

from __future__ import annotations

import inspect
import os
import typing
from importlib import import_module

import pytest

import agentm
from agentm.seam import ABILITIES, StorageBackend, registry
from tests.spec.no_path import functions, path_leaks

_PACKAGE = os.path.dirname(os.path.abspath(agentm.__file__))
_VERBS = frozenset({"resolve", "read", "write", "list", "exists", "info", "mkdir", "capabilities"})
_ABILITIES = frozenset(method for _, methods in ABILITIES.values() for method in methods)
_ROUTING = {
    "projects": {"resolve_project"},
    "repo_registry": {
        "list_repos",
        "read_registry",
        "register_repo",
        "registry_locator",
        "unregister_repo",
        "write_registry",
    },
}


def _modules(package: str) -> list[str]:
    names = os.listdir(os.path.join(_PACKAGE, package))
    return sorted(os.path.join(package, name) for name in names if name.endswith(".py"))


def _source(module: str) -> str:
    with open(os.path.join(_PACKAGE, module), encoding="utf-8") as file:
        return file.read()


@pytest.mark.spec("SEAM-08")
@pytest.mark.parametrize("module", _modules("backends"))
def test_backends_know_no_path_type(module):
    assert path_leaks(_source(module), _VERBS | _ABILITIES) == []


@pytest.mark.spec("SEAM-08", "SEAM-02")
@pytest.mark.parametrize("module", _modules("seam"))
def test_the_seam_knows_no_path_type(module):
    assert path_leaks(_source(module), _VERBS | _ABILITIES) == []


@pytest.mark.spec("SEAM-08")
@pytest.mark.parametrize("module", _ROUTING)
def test_routing_knows_no_path_type(module):
    source = _source(f"{module}.py")
    assert functions(source) >= _ROUTING[module]
    assert path_leaks(source) == []


def _parts(hint: object) -> typing.Iterator[object]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _path_hints(function: typing.Any) -> list[object]:
    hints = typing.get_type_hints(function)
    assert "return" in hints, f"{function.__qualname__} does not say what it returns"
    return [part for hint in hints.values() for part in _parts(hint) if _is_path(part)]


def _is_path(part: object) -> bool:
    origin = typing.get_origin(part) or part
    return isinstance(origin, type) and issubclass(origin, os.PathLike)


@pytest.mark.spec("SEAM-08")
@pytest.mark.parametrize("protocol", ["device-local", "memory", "sqlite", "vault"])
def test_signatures_of_a_loaded_backend_hold_no_path(protocol):
    backend = registry.get(protocol)
    assert backend is not None
    verbs = sorted(_VERBS | {name for name in _ABILITIES if hasattr(backend, name)})
    for verb in verbs:
        attribute = inspect.getattr_static(backend, verb)
        assert _path_hints(attribute.fget if isinstance(attribute, property) else getattr(backend, verb)) == []


@pytest.mark.spec("SEAM-08")
@pytest.mark.parametrize(("module", "function"), sorted((m, f) for m, names in _ROUTING.items() for f in names))
def test_signatures_of_routing_hold_no_path(module, function):
    assert _path_hints(getattr(import_module(f"agentm.{module}"), function)) == []


def test_the_contract_has_no_verb_this_file_does_not_walk():
    public = {name for name in vars(StorageBackend) if not name.startswith("_")}
    assert public - {"conflict_strategy"} == _VERBS


# The walker must bite: each planted leak is found, and honest source is left alone.


@pytest.mark.parametrize(
    ("leak", "found"),
    [
        ("import pathlib", ["line 1 imports pathlib"]),
        ("import os, pathlib as p", ["line 1 imports pathlib"]),
        ("from pathlib import PurePath as P", ["line 1 imports pathlib", "line 1 mentions PurePath"]),
        ("def f():\n    from pathlib import Path", ["line 2 imports pathlib", "line 2 mentions Path"]),
        ("def f():\n    import_module('pathlib')", ["line 2 imports pathlib"]),
        ("def read(self, locator: Path) -> str: ...", ["line 1 mentions Path"]),
        ("def read(self, locator) -> 'list[Path] | None': ...", ["line 1 mentions Path"]),
        ("def read(self, *, at: 'pathlib.Path' = None): ...", ["line 1 mentions Path"]),
        ("async def read(self) -> dict[str, 'PurePosixPath']: ...", ["line 1 mentions PurePosixPath"]),
        ("class B:\n    root: 'Path'", ["line 2 mentions Path"]),
        ("def read(self):\n    return helper.Path('x')", ["line 2 mentions Path"]),
        ("def read(self) -> os.PathLike[str]: ...", ["line 1 mentions PathLike"]),
    ],
)
def test_the_walker_finds_a_planted_leak(leak, found):
    assert path_leaks(leak, frozenset({"read"})) == found


@pytest.mark.parametrize(
    "honest",
    [
        "import os.path\ndef read(self, path: str) -> str:\n    return os.path.join('Path', path)",
        "class B:\n    '''Never a Path.'''\n    def __init__(self, root: str | os.PathLike[str]) -> None: ...",
    ],
)
def test_the_walker_leaves_honest_source_alone(honest):
    assert path_leaks(honest, frozenset({"read"})) == []


def test_the_signature_check_finds_a_planted_leak():
    def planted(where: dict[str, os.PathLike[str]]) -> str:
        return str(where)

    assert _path_hints(planted) == [os.PathLike[str]]
