"""What the documents show is true: every Python block runs, every console session prints what it says.

In a ``console`` block a line after ``$`` is typed into a shell, and the lines below it are what comes out; ``…`` is
anything. Blocks marked ``sh`` are for reading only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "docs/adapters.md",
    "docs/backends.md",
    "docs/cli.md",
    "docs/files.md",
    "docs/guarantees.md",
    "docs/import.md",
    "docs/memories.md",
    "docs/process.md",
    "docs/recall.md",
    "CONTRIBUTING.md",
)


def blocks(language: str) -> list[Any]:
    found: list[Any] = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text[: match.start()].count("\n") + 2
            found.append(pytest.param(match[1], id=f"{page}:{line}"))
    return found


def run(command: list[str], directory: Path, source: str | None = None) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        input=source,
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("source", [block for block in blocks("python") if "def test_" not in block.values[0]])
def test_a_python_block_runs(source: str, tmp_path: Path) -> None:
    done = run([sys.executable, "-W", "error", "-"], tmp_path, source)
    if "MissingExtraError: " in done.stderr:
        missing(done.stderr.strip().rpartition("MissingExtraError: ")[2])
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the sessions are typed into a POSIX shell")
@pytest.mark.parametrize("session", blocks("console"))
def test_a_console_session_prints_what_it_says(session: str, tmp_path: Path) -> None:
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = run(["sh", "-c", command], tmp_path)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        pattern = re.escape(expected.strip()).replace("…", r"(?s:.*)")
        assert re.fullmatch(pattern, done.stdout.strip()), f"{command} printed\n{done.stdout}"


def test_every_link_between_the_documents_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_the_checker_bites(tmp_path: Path) -> None:
    assert run([sys.executable, "-"], tmp_path, "raise SystemExit(3)").returncode == 3
    assert len(blocks("python")) > 3
    assert len(blocks("console")) > 2
