"""From what a user types to a maker of backends: a protocol name, or ``module:Class``, or ``module:factory``."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentm.conformance.expect import describe
from agentm.errors import AgentmError, BackendLoadError
from agentm.seam import StorageBackend, registry

# Parameters by which a backend is told where to keep things, and what a fresh store gets for each.
_PLACES = {"root": "store", "directory": "store", "path": "store.data", "lock_root": "locks"}
_MADE = ("root", "directory")


@contextmanager
def fresh_backends(target: str) -> Iterator[Callable[[], StorageBackend]]:
    """A maker of backends, each with an empty store; all of them are gone when the block ends."""
    build = find(target)
    arguments = _arguments(target, build)
    with TemporaryDirectory(prefix="agentm-conformance-", ignore_cleanup_errors=True) as home, _own_cache(home):
        yield lambda: build(**_places(home, arguments))


@contextmanager
def _own_cache(home: str) -> Iterator[None]:
    """Have locks that are kept in the user's cache kept here instead, by this process and those that it starts."""
    name = "XDG_CACHE_HOME"
    before = os.environ.get(name)
    os.environ[name] = os.path.join(home, "cache")
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def find(target: str) -> Callable[..., StorageBackend]:
    """The class or factory that a target names; BackendLoadError, in one sentence, if there is none."""
    if ":" in target:
        return _import(target)
    backend = registry.get(target)
    if backend is None:
        known = ", ".join(registry.protocols())
        raise BackendLoadError(
            f"there is no backend {target!r}; name one of {known}, or a class as module:Class.", backend=target
        )
    return backend


def _import(target: str) -> Callable[..., StorageBackend]:
    module, _, attribute = target.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # a backend is usually tried from the folder it is written in
    try:
        found: Any = import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as cause:
        raise BackendLoadError(
            f"{target!r} cannot be loaded: {describe(cause)}; write it as module:Class, with a module that Python can "
            "import from here.",
            backend=target,
        ) from cause
    _check(target, found)
    return found  # type: ignore[no-any-return]


def _check(target: str, found: Any) -> None:
    if isinstance(found, type) and not issubclass(found, StorageBackend):
        problem = f"the class {found.__name__} does not derive from StorageBackend; derive it"
    elif inspect.isabstract(found):
        problem = f"{found.__name__} is abstract; implement {', '.join(sorted(found.__abstractmethods__))}"
    elif not callable(found):
        problem = f"it is {type(found).__name__}, not a class or a function; name what makes a backend"
    else:
        return
    raise BackendLoadError(f"{target!r} cannot be checked: {problem}.", backend=target)


def _arguments(target: str, build: Callable[..., StorageBackend]) -> dict[str, bool]:
    """The parameters to fill, each with whether it wants a Path; an error for one that nobody can fill."""
    try:
        parameters = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):
        return {}
    fill: dict[str, bool] = {}
    for parameter in parameters:
        if parameter.name in _PLACES:
            fill[parameter.name] = parameter.annotation in (Path, "Path", "pathlib.Path")
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise AgentmError(
                f"{target!r} needs the argument {parameter.name!r}, which the kit cannot guess; write a function "
                "without parameters that returns the backend, and name that.",
                code="target_needs_arguments",
            )
    return fill


def _places(home: str, arguments: dict[str, bool]) -> dict[str, str | Path]:
    """Values for the parameters, inside a new directory of this store's own."""
    own = os.path.join(home, os.urandom(6).hex())
    os.mkdir(own)
    values: dict[str, str | Path] = {}
    for name, as_path in arguments.items():
        place = os.path.join(own, _PLACES[name])
        if name in _MADE:
            os.mkdir(place)
        values[name] = Path(place) if as_path else place
    return values
