"""An adapter without its framework: one sentence that says what to type, and nothing else of agentm needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentm import MissingExtraError
from agentm.adapters._extras import missing

pytestmark = pytest.mark.spec("FILES-06")


@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("anthropic_memory", "anthropic", "anthropic"),
        ("deepagents", "deepagents", "deepagents"),
        ("fsspec", "fsspec", "fsspec"),
        ("langgraph", "langgraph", "langgraph"),
        ("openai_session", "agents", "openai"),
    ],
)
def test_without_the_framework_the_error_is_the_install_line(module, framework, extra):
    script = (
        f"import sys; sys.path[:] = {sys.path!r}; sys.modules[{framework!r}] = None\n"
        f"try:\n    import agentm.adapters.{module}\n"
        "except ImportError as error:\n    print(error.code, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("missing_extra ")
    assert f"pip install 'agentm[{extra}]'" in done.stdout


def test_the_error_tells_a_framework_that_is_too_old_from_none():
    error = missing("openai", ImportError("cannot import name 'SessionSettings' from 'agents.memory'"))
    assert isinstance(error, MissingExtraError)
    assert "SessionSettings" in str(error)


def test_no_framework_is_loaded_that_nobody_asked_for():
    script = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from agentm import *\nimport agentm.adapters, agentm.cli, agentm.memory\n"
        "print({'agents', 'anthropic', 'deepagents', 'fsspec', 'langgraph'} & sys.modules.keys())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
