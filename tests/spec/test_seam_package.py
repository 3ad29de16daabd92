"""What the seam package exports, and what it must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import agentm.seam

_TWELVE = {
    "BackendRegistry",
    "Capabilities",
    "DerivedMaintenance",
    "Info",
    "InvalidLocatorError",
    "Locator",
    "ProtocolError",
    "StorageBackend",
    "Tier",
    "TierLayout",
    "normalize_key",
    "registry",
}
_DATABASES = {"dbm", "shelve", "sqlite3", "_sqlite3"}


@pytest.mark.spec("SEAM-12")
def test_the_seam_exports_its_twelve_names():
    assert set(agentm.seam.__all__) >= _TWELVE
    assert all(hasattr(agentm.seam, name) for name in agentm.seam.__all__)


@pytest.mark.spec("SEAM-11")
def test_the_seam_loads_no_database():
    # In a process of its own: here, another test may have loaded one already.
    script = "import sys, agentm.seam; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "agentm.seam.backend" in loaded
    assert not _DATABASES & {name.partition(".")[0] for name in loaded}
    assert not [name for name in loaded if name.startswith("agentm.backends")]
