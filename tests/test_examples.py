"""The examples run as they are, and do what they say."""

from __future__ import annotations

import os
import subprocess
import sys

_EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")


def test_first_steps_leaves_a_readable_note_and_can_run_again(home):
    script = [sys.executable, os.path.join(_EXAMPLES, "first_steps.py")]
    first = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    again = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert first == again
    assert [line.split()[0] for line in first.splitlines()] == [
        "store",
        "wrote",
        "read",
        "changed",
        "refused",
        "listed",
    ]
    with open(os.path.join(home, ".agentm", "memory", "notes", "first.md"), encoding="utf-8") as file:
        assert file.read() == "# First note\n\nThe owner likes green tea.\n"
