from __future__ import annotations

import json
import os

import pytest

import agentm
from agentm import selection
from agentm.backends.device_local import DeviceLocalBackend
from agentm.backends.memory import MemoryBackend
from agentm.backends.sqlite import SqliteBackend
from agentm.backends.vault import VaultBackend
from agentm.config import CONFIG_NAME
from agentm.errors import BackendLoadError, CapabilityMismatchError, StorageSelectionError
from agentm.seam import BackendRegistry, Capabilities, protocol_of
from agentm.selection import choose_protocol, select_backend, storage_preview
from tests.snapshot import snapshot

UNREGISTERED = (
    "storage backend 'acme' is configured (storage.backend) but no installed plugin registers it. "
    "Install the plugin that provides the 'acme' backend, or set storage.backend to an installed backend "
    "(currently registered: {})."
)


@pytest.fixture
def configure(home):
    """Write the config of the default prefix, as JSON or as it is."""

    def write(content: object) -> str:
        prefix = os.path.join(home, ".agentm")
        os.makedirs(prefix, exist_ok=True)
        path = os.path.join(prefix, CONFIG_NAME)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.fixture
def plugins(monkeypatch):
    """A registry with the usual names and room for a test's own."""
    mine = BackendRegistry()
    for backend in (DeviceLocalBackend, MemoryBackend, SqliteBackend, VaultBackend):
        mine.register(backend.protocol, backend)
    monkeypatch.setattr(selection, "registry", mine)
    return mine


@pytest.fixture
def vault(tmp_path) -> str:
    folder = tmp_path / "Vault"
    folder.mkdir()
    return str(folder)


def refused(home, code: str, **options) -> StorageSelectionError:
    """Selection refuses with this code, and leaves no trace anywhere in the home; the preview says the same."""
    before = snapshot(home)
    with pytest.raises(StorageSelectionError) as caught:
        select_backend(**options)
    assert caught.value.code == code
    assert isinstance(caught.value, RuntimeError)
    if "required" not in options and "device_local_root" not in options:
        preview = storage_preview(**options)
        assert (preview.status, preview.line) == ("fail", f"storage [FAIL] {caught.value}")
    assert snapshot(home) == before
    return caught.value


@pytest.mark.spec("SEAM-21")
def test_a_fresh_install_is_device_local_and_choosing_makes_nothing(home):
    before = snapshot(home)
    assert choose_protocol() == "device-local"
    assert snapshot(home) == before


@pytest.mark.spec("SEAM-21")
def test_the_variable_chooses_the_vault_unless_it_is_empty(monkeypatch):
    monkeypatch.setenv("MEMORY_VAULT_PATH", "/nowhere/at/all")
    assert choose_protocol() == "vault"
    monkeypatch.setenv("MEMORY_VAULT_PATH", "")
    assert choose_protocol() == "device-local"


@pytest.mark.spec("SEAM-21")
def test_the_config_goes_before_the_variable(configure, monkeypatch):
    configure({"storage.backend": "acme"})
    monkeypatch.setenv("MEMORY_VAULT_PATH", "/nowhere/at/all")
    assert choose_protocol() == "acme"


@pytest.mark.spec("SEAM-21")
def test_a_vault_path_alone_chooses_nothing(configure, vault):
    configure({"plugins.obsidian-vault.vault_path": vault, "vault_path": vault})
    assert choose_protocol() == "device-local"


@pytest.mark.spec("SEAM-21", "SEAM-20")
def test_the_prefix_is_the_argument_then_the_variable(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / CONFIG_NAME).write_text(json.dumps({"storage.backend": name}))
    monkeypatch.setenv("AGENTM_INSTALL_PREFIX", str(tmp_path / "two"))
    assert choose_protocol() == "two"
    assert choose_protocol(install_prefix=tmp_path / "one") == "one"


@pytest.mark.spec("SEAM-22")
def test_the_default_is_opened_under_the_home_or_where_it_is_told(home, tmp_path):
    told = select_backend(device_local_root=tmp_path / "here")
    assert isinstance(told, DeviceLocalBackend)
    assert told.root == str(tmp_path / "here")
    assert os.listdir(home) == []
    default = select_backend()
    assert isinstance(default, DeviceLocalBackend)
    assert default.root == os.path.join(home, ".agentm", "memory")


@pytest.mark.spec("SEAM-22", "SEAM-20")
def test_an_explicit_vault_takes_the_plugin_key_then_the_older_key_then_the_variable(
    configure, vault, tmp_path, monkeypatch
):
    for name in ("legacy", "variable"):
        (tmp_path / name).mkdir()
    legacy, variable = str(tmp_path / "legacy"), str(tmp_path / "variable")
    monkeypatch.setenv("MEMORY_VAULT_PATH", variable)
    locks = tmp_path / "locks"
    keys = {"storage.backend": "vault", "plugins.obsidian-vault.vault_path": vault, "vault_path": legacy}
    for expected, without in (
        (vault, ()),
        (legacy, ("plugins.obsidian-vault.vault_path",)),
        (variable, ("plugins.obsidian-vault.vault_path", "vault_path")),
    ):
        configure({key: value for key, value in keys.items() if key not in without})
        backend = select_backend(vault_lock_root=locks)
        assert isinstance(backend, VaultBackend)
        assert (backend.root, backend.lock_root) == (expected, str(locks))


@pytest.mark.spec("SEAM-22")
def test_a_vault_chosen_by_the_variable_is_the_one_it_names(configure, vault, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    configure({"vault_path": str(tmp_path / "other")})
    monkeypatch.setenv("MEMORY_VAULT_PATH", vault)
    backend = select_backend(vault_lock_root=tmp_path / "locks")
    assert isinstance(backend, VaultBackend)
    assert backend.root == vault


@pytest.mark.spec("SEAM-22")
def test_sqlite_has_a_path_of_its_own_and_a_default(configure, home, tmp_path):
    configure({"storage.backend": "sqlite"})
    default = select_backend()
    assert isinstance(default, SqliteBackend)
    assert default.path == os.path.join(home, ".agentm", "memory.db")
    configure({"storage.backend": "sqlite", "plugins.sqlite.path": str(tmp_path / "x.db")})
    told = select_backend()
    assert isinstance(told, SqliteBackend)
    assert told.path == str(tmp_path / "x.db")
    default.close()
    told.close()


@pytest.mark.spec("SEAM-22")
def test_memory_and_a_third_party_need_no_argument(configure, plugins):
    configure({"storage.backend": "memory"})
    assert type(select_backend()) is MemoryBackend

    class Acme(MemoryBackend):
        pass

    plugins.register("acme", Acme)
    configure({"storage.backend": "acme"})
    assert type(select_backend()) is Acme


@pytest.mark.spec("SEAM-22", "SEAM-24")
def test_an_unregistered_backend_is_refused_in_the_words_of_the_contract(configure, home):
    configure({"storage.backend": "acme"})
    error = refused(home, "backend_unregistered", install_prefix=None)
    assert str(error) == UNREGISTERED.format("device-local, memory, sqlite, vault")
    assert not os.path.exists(os.path.join(home, ".agentm", "memory"))


@pytest.mark.spec("SEAM-22")
def test_with_nothing_registered_the_list_says_none(configure, home, monkeypatch):
    monkeypatch.setattr(selection, "registry", BackendRegistry())
    configure({"storage.backend": "acme"})
    assert str(refused(home, "backend_unregistered")) == UNREGISTERED.format("(none)")


@pytest.mark.spec("SEAM-22")
def test_there_is_no_silent_fall_back_to_device_local(configure, home, tmp_path, monkeypatch):
    def made(*_):
        raise AssertionError("a device-local store was constructed")

    monkeypatch.setattr(DeviceLocalBackend, "__init__", made)
    configure({"storage.backend": "acme"})
    refused(home, "backend_unregistered", device_local_root=tmp_path / "root")
    assert not (tmp_path / "root").exists()


@pytest.mark.spec("SEAM-22")
@pytest.mark.parametrize("config", [{}, {"vault_path": ""}, {"plugins.obsidian-vault.vault_path": None}])
def test_a_vault_without_a_path_is_refused(configure, home, config):
    configure({"storage.backend": "vault", **config})
    assert "agentm config --vault-path DIR" in str(refused(home, "vault_path_missing"))


@pytest.mark.spec("SEAM-22")
def test_a_new_vault_is_made_in_a_folder_that_is_there(home, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_VAULT_PATH", os.path.join(home, "Notes"))
    assert storage_preview().status == "ok"
    assert not os.path.exists(os.path.join(home, "Notes"))
    vault = select_backend(vault_lock_root=tmp_path / "locks")
    assert (protocol_of(vault), os.listdir(home)) == ("vault", ["Notes"])


@pytest.mark.spec("SEAM-22")
@pytest.mark.parametrize("where", ["config", "variable"])
@pytest.mark.parametrize("what", ["nothing", "file"])
def test_a_vault_without_even_a_parent_is_refused_and_not_made(configure, home, monkeypatch, where, what):
    path = os.path.join(home, "Nots", "Mine")
    if what == "file":
        os.mkdir(os.path.dirname(path))
        with open(path, "w"):
            pass
    if where == "config":
        configure({"storage.backend": "vault", "vault_path": path})
    else:
        monkeypatch.setenv("MEMORY_VAULT_PATH", path)
    assert path in str(refused(home, "vault_path_missing"))


@pytest.mark.spec("SEAM-22")
@pytest.mark.parametrize("content", ["", "{", '["vault"]', '"vault"', "null", '{"storage.backend": "a", "b": }'])
def test_a_config_that_cannot_be_read_is_refused(configure, home, content):
    path = configure(content)
    assert path in str(refused(home, "config_unreadable"))
    with pytest.raises(StorageSelectionError):
        choose_protocol()


@pytest.mark.spec("SEAM-22")
@pytest.mark.parametrize("value", [None, "", "  ", 5, True, [], ["vault"], {"name": "vault"}])
def test_a_backend_that_is_no_text_is_refused(configure, home, value, monkeypatch):
    monkeypatch.setenv("MEMORY_VAULT_PATH", home)
    configure({"storage.backend": value})
    refused(home, "storage_backend_invalid")


@pytest.mark.spec("SEAM-22")
def test_a_backend_inside_an_object_is_refused_instead_of_overlooked(configure, home):
    configure({"storage": {"backend": "vault"}})
    refused(home, "storage_backend_invalid")


@pytest.mark.spec("SEAM-22")
@pytest.mark.parametrize("value", ["notes", "./notes", 7, ["/x"]])
@pytest.mark.parametrize(("backend", "key"), [("vault", "vault_path"), ("sqlite", "plugins.sqlite.path")])
def test_a_path_that_depends_on_the_working_directory_is_refused(configure, home, backend, key, value, monkeypatch):
    os.mkdir(os.path.join(home, "notes"))
    monkeypatch.chdir(home)
    configure({"storage.backend": backend, key: value})
    assert key in str(refused(home, "store_path_invalid"))


@pytest.mark.spec("SEAM-22")
@pytest.mark.parametrize(
    "failure", [BackendLoadError("gone"), SyntaxError("bad"), RuntimeError("line one\nline two"), SystemExit("no")]
)
def test_a_plugin_that_cannot_be_imported_is_refused(configure, home, monkeypatch, failure):
    class Broken(BackendRegistry):
        def get(self, protocol):
            raise failure

    monkeypatch.setattr(selection, "registry", Broken())
    configure({"storage.backend": "acme"})
    error = refused(home, "backend_load")
    assert error.backend == "acme"
    assert "\n" not in str(error)


@pytest.mark.spec("SEAM-22")
def test_a_constructor_that_fails_is_refused(configure, home, plugins):
    class Acme(MemoryBackend):
        def __init__(self) -> None:
            raise KeyError("token")

    plugins.register("acme", Acme)
    configure({"storage.backend": "acme"})
    before = snapshot(home)
    with pytest.raises(StorageSelectionError, match="'acme' cannot be opened: 'token'") as caught:
        select_backend()
    assert caught.value.code == "backend_unusable"
    assert snapshot(home) == before


@pytest.mark.spec("SEAM-22")
def test_a_root_that_cannot_be_made_is_refused(home):
    with open(os.path.join(home, ".agentm"), "w"):
        pass
    before = snapshot(home)
    with pytest.raises(StorageSelectionError):
        select_backend()
    assert snapshot(home) == before


@pytest.mark.spec("SEAM-22")
def test_the_codes_tell_the_refusals_apart_and_text_from_outside_stays_on_one_line(configure, home):
    configure({"storage.backend": "a\n\x1b[31mb"})
    error = refused(home, "backend_unregistered")
    assert str(error).startswith("storage backend 'a\\n\\x1b[31mb' is configured")


@pytest.mark.spec("SEAM-23")
def test_unmet_requirements_name_the_backend_and_what_it_lacks_and_make_nothing(home):
    error = refused(
        home, "capability_mismatch", required=Capabilities(concurrent_writers=True, encryption=True, remove=True)
    )
    assert isinstance(error, CapabilityMismatchError)
    assert (error.protocol, error.unsatisfied) == ("device-local", ["concurrent_writers", "encryption"])
    for word in ("device-local", "concurrent_writers", "encryption"):
        assert word in str(error)


@pytest.mark.spec("SEAM-23")
def test_met_requirements_give_the_store(configure, vault, tmp_path):
    configure({"storage.backend": "vault", "vault_path": vault})
    backend = select_backend(
        vault_lock_root=tmp_path / "locks", required=Capabilities(concurrent_writers=True, sync=True)
    )
    assert isinstance(backend, VaultBackend)
    assert isinstance(select_backend(vault_lock_root=tmp_path / "locks", required=Capabilities()), VaultBackend)


@pytest.mark.spec("SEAM-23")
def test_a_third_party_is_asked_after_it_was_made_because_only_then_it_knows(configure, plugins):
    class Probing(MemoryBackend):
        encrypts = False

        def __init__(self) -> None:
            super().__init__()
            self.encrypts = True

        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(encryption=self.encrypts)

    plugins.register("acme", Probing)
    configure({"storage.backend": "acme"})
    assert type(select_backend(required=Capabilities(encryption=True))) is Probing
    assert selection.confirm_required(Capabilities(encryption=True)) == "acme"
    with pytest.raises(CapabilityMismatchError) as caught:
        select_backend(required=Capabilities(encryption=True, sync=True))
    assert caught.value.unsatisfied == ["sync"]


@pytest.mark.spec("SEAM-23")
def test_capabilities_that_cannot_be_told_are_a_refusal(configure, plugins):
    class Acme(MemoryBackend):
        @property
        def capabilities(self) -> Capabilities:
            raise OSError("offline")

    plugins.register("acme", Acme)
    configure({"storage.backend": "acme"})
    with pytest.raises(StorageSelectionError, match="offline"):
        select_backend(required=Capabilities(sync=True))


@pytest.mark.spec("SEAM-24")
def test_the_preview_of_a_fresh_install_makes_nothing(home):
    before = snapshot(home)
    preview = storage_preview()
    assert (preview.status, preview.protocol) == ("ok", "device-local")
    assert preview.line == f"storage [OK] device-local at {home}/.agentm/memory (nothing is configured)"
    assert snapshot(home) == before


@pytest.mark.spec("SEAM-24")
def test_the_preview_constructs_nothing(configure, vault, plugins, monkeypatch):
    class Acme(MemoryBackend):
        def __init__(self) -> None:
            raise AssertionError("constructed")

    plugins.register("acme", Acme)
    for backend in (DeviceLocalBackend, SqliteBackend, VaultBackend):
        monkeypatch.setattr(backend, "__init__", Acme.__init__)
    for name in ("acme", "device-local", "sqlite", "vault"):
        configure({"storage.backend": name, "vault_path": vault})
        preview = storage_preview()
        assert (preview.status, preview.protocol) == ("ok", name)
        assert preview.line.startswith(f"storage [OK] {name}")


@pytest.mark.spec("SEAM-24")
def test_the_preview_tells_where_the_choice_came_from(configure, vault, monkeypatch):
    monkeypatch.setenv("MEMORY_VAULT_PATH", vault)
    assert storage_preview().line == f"storage [OK] vault at {vault} ($MEMORY_VAULT_PATH)"
    path = configure({"storage.backend": "vault"})
    assert storage_preview().line == f"storage [OK] vault at {vault} (storage.backend in {path})"


@pytest.mark.spec("SEAM-24")
@pytest.mark.parametrize("what", ["prefix is a file", "root is a file", "read-only", "nearest parent read-only"])
def test_a_root_that_cannot_be_written_is_a_warning(home, tmp_path, monkeypatch, what):
    root = tmp_path / "a" / "b" / "memory"
    if what == "prefix is a file":
        (tmp_path / "a").write_text("in the way")
    else:
        root.parent.mkdir(parents=True)
    if what == "root is a file":
        root.write_text("in the way")
    if what == "read-only":
        root.mkdir()
    denied = str(root if what == "read-only" else root.parent)
    # Permission bits do not hold root back, so the system's answer is given in its stead.
    if "read-only" in what:
        monkeypatch.setattr(os, "access", lambda path, mode: str(path) != denied)
    before = snapshot(str(tmp_path))
    preview = storage_preview(device_local_root=root)
    assert (preview.status, preview.protocol) == ("warn", "device-local")
    assert preview.line.startswith("storage [WARN] device-local at ")
    assert snapshot(str(tmp_path)) == before


@pytest.mark.spec("SEAM-24")
@pytest.mark.parametrize(("backend", "made"), [("vault", os.mkdir), ("sqlite", os.mkdir)])
def test_other_stores_that_cannot_be_written_are_a_warning_too(configure, tmp_path, monkeypatch, backend, made):
    place = str(tmp_path / "place")
    made(place)
    configure({"storage.backend": backend, "vault_path": place, "plugins.sqlite.path": place})
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert storage_preview().line.startswith(f"storage [WARN] {backend} at {place}: ")


GARBAGE = ['{"storage.backend": "\\ud800"}', '{"storage.backend": "' + "x" * 100_000 + '"}', '{"": {}}', "\0", "[[[["]


@pytest.mark.spec("SEAM-24")
@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_the_preview_never_raises(configure, home, content):
    configure(content)
    preview = storage_preview()
    assert preview.line.startswith(f"storage [{preview.status.upper()}] ")
    assert "\n" not in preview.line


@pytest.mark.spec("SEAM-24")
@pytest.mark.parametrize("prefix", ["~nobody-of-that-name/x", "a\0b", "x" * 5000])
def test_the_preview_never_raises_whatever_the_prefix(prefix):
    assert storage_preview(install_prefix=prefix).line.startswith("storage [FAIL] ")


@pytest.mark.spec("SEAM-24")
def test_the_preview_survives_a_registry_that_breaks(configure, monkeypatch):
    class Broken(BackendRegistry):
        def protocols(self):
            raise MemoryError("no entry points today")

    monkeypatch.setattr(selection, "registry", Broken())
    configure({"storage.backend": "acme"})
    preview = storage_preview()
    assert (preview.status, preview.protocol) == ("fail", "acme")


@pytest.mark.spec("SEAM-22", "SEAM-23")
def test_the_module_exports_what_programs_catch_and_call():
    assert {
        "StorageSelectionError",
        "CapabilityMismatchError",
        "Capabilities",
        "choose_protocol",
        "select_backend",
        "StoragePreview",
        "storage_preview",
    } <= set(selection.__all__)
    assert agentm.select_backend is select_backend
    assert agentm.StorageSelectionError is StorageSelectionError
