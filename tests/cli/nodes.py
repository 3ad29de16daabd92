"""What the tests of the commands about memories share: a user, and a way to type a command."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from agentm.cli import main

Typed = tuple[int, str, str]


class Shell:
    """Types commands as alice."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("LOGNAME", "alice")

    def __call__(self, *args: str, stdin: bytes | None = None) -> Typed:
        """Exit status, stdout and stderr."""
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self._capsys.readouterr()
        code = main(list(args))
        return (code, *self._capsys.readouterr())

    def done(self, *args: str, stdin: bytes | None = None) -> str:
        """What a command prints that succeeds and has nothing to complain about."""
        code, out, err = self(*args, stdin=stdin)
        assert (code, err) == (0, ""), err
        return out

    def json(self, *args: str, stdin: bytes | None = None) -> Any:
        return json.loads(self.done(*args, "--json", stdin=stdin))

    def refused(self, *args: str, stdin: bytes | None = None, code: str, status: int = 1) -> str:
        """The one line about a command that fails with this code, and prints nothing else."""
        given, out, err = self(*args, stdin=stdin)
        assert (given, out) == (status, ""), (given, out, err)
        assert err.startswith(f"agentm: {code}: "), err
        assert err.count("\n") == 1
        return err

    def refused_json(self, *args: str, code: str) -> Any:
        given, out, err = self(*args, "--json")
        assert (given, out) == (1, "")
        error = json.loads(err)["error"]
        assert error["code"] == code
        return error


MINE = "ctx://local/users/alice/memories"
