"""Names of backends: registering badly is loud, an unknown name is merely absent."""

from __future__ import annotations

import subprocess
import sys

import pytest

import agentm.seam
from agentm import BackendRegistry, MemoryBackend, ProtocolError, StorageBackend, registry
from agentm.errors import BackendLoadError, BackendTypeError

# `agentm.seam.registry` is the instance; this is the module of that name.
REGISTRY = sys.modules[type(registry).__module__]


class Other(MemoryBackend):
    pass


@pytest.fixture
def names() -> BackendRegistry:
    return BackendRegistry()


@pytest.mark.spec("SEAM-10")
def test_what_is_registered_is_found(names: BackendRegistry) -> None:
    names.register("zeta", MemoryBackend)
    names.register("alpha", Other)
    assert names.get("zeta") is MemoryBackend
    assert names.get("alpha") is Other
    assert "alpha" in names
    assert names.protocols() == ("alpha", "zeta")


@pytest.mark.spec("SEAM-10")
def test_what_is_not_registered_is_absent(names: BackendRegistry) -> None:
    assert names.get("nothing") is None
    assert "nothing" not in names
    assert names.protocols() == ()
    assert 7 not in names
    assert None not in names


@pytest.mark.spec("SEAM-10")
@pytest.mark.parametrize(
    "wrong",
    [MemoryBackend(), object, dict, None, "agentm:MemoryBackend", StorageBackend],
    ids=["an instance", "no backend", "a dict", "nothing", "a name", "the abstract class"],
)
def test_only_a_concrete_backend_class_is_taken(names: BackendRegistry, wrong) -> None:
    with pytest.raises(BackendTypeError) as raised:
        names.register("mine", wrong)
    assert isinstance(raised.value, TypeError)
    assert raised.value.code == "backend_type"
    assert str(raised.value).endswith(".")
    assert names.protocols() == ()


@pytest.mark.spec("SEAM-10")
def test_a_half_finished_class_is_told_what_it_lacks(names: BackendRegistry) -> None:
    class Half(StorageBackend):
        def mkdir(self, locator):
            return locator

    with pytest.raises(TypeError, match="capabilities, exists, info, list, read, resolve, write"):
        names.register("half", Half)


@pytest.mark.spec("SEAM-10")
@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_name_is_a_non_empty_text(names: BackendRegistry, name) -> None:
    with pytest.raises(ProtocolError) as raised:
        names.register(name, MemoryBackend)
    assert isinstance(raised.value, ValueError)
    assert names.protocols() == ()


@pytest.mark.spec("SEAM-10")
def test_a_taken_name_is_kept_unless_clobbered(names: BackendRegistry) -> None:
    names.register("mine", MemoryBackend)
    for again in (Other, MemoryBackend):
        with pytest.raises(ProtocolError, match="'mine'"):
            names.register("mine", again)
    assert names.get("mine") is MemoryBackend
    names.register("mine", Other, clobber=True)
    assert names.get("mine") is Other


@pytest.mark.spec("SEAM-10")
def test_instances_share_nothing(names: BackendRegistry) -> None:
    names.register("mine", MemoryBackend)
    assert "mine" not in BackendRegistry()
    assert "mine" not in registry


@pytest.mark.spec("SEAM-10")
def test_the_default_registry_holds_the_built_ins() -> None:
    assert isinstance(registry, BackendRegistry)
    assert registry is agentm.seam.registry
    for name in ("device-local", "memory", "sqlite", "vault"):
        assert name in registry
        assert name in registry.protocols()
        backend = registry.get(name)
        assert backend is not None
        assert getattr(backend, "protocol", None) == name
    assert registry.get("nothing-of-the-kind") is None


@pytest.mark.spec("SEAM-10")
def test_a_built_in_name_is_taken() -> None:
    with pytest.raises(ProtocolError):
        registry.register("vault", MemoryBackend)


@pytest.mark.spec("SEAM-10")
def test_knowing_a_name_imports_nothing_behind_it() -> None:
    script = (
        "import sys; from agentm.seam import registry; assert 'sqlite' in registry; registry.protocols();"
        "print([name for name in sys.modules if name.startswith('agentm.backends.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.spec("SEAM-10")
def test_a_third_party_is_found_through_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "_entry_points", lambda: {"theirs": f"{__name__}:Other"})
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Other.__module__])
    fresh = type(registry)()
    assert "theirs" in fresh
    assert "theirs" in fresh.protocols()
    assert fresh.get("theirs") is Other


@pytest.mark.spec("SEAM-10")
@pytest.mark.parametrize("target", ["no.such.module:Backend", "agentm:NoSuchName", "json:loads"])
def test_a_third_party_that_cannot_be_loaded_says_so(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setattr(REGISTRY, "_entry_points", lambda: {"theirs": target})
    with pytest.raises((BackendLoadError, BackendTypeError)) as raised:
        type(registry)().get("theirs")
    assert "'theirs'" in str(raised.value)
    assert str(raised.value).endswith(".")
