"""A person's text while it is being changed: in an editor, in a file that is only removed once it is safe elsewhere."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agentm.cli.output import say
from agentm.cli.texts import file_text
from agentm.errors import AgentmError, ConfigError


class Draft:
    """A text in a file of its own."""

    def __init__(self, text: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="agentm-")
        self.path = os.path.join(self.folder, "memory.md")
        self._before = text.encode()
        with open(self.path, "wb") as file:
            file.write(self._before)

    def edited(self) -> str:
        """The text after the person has closed the editor."""
        command = [*_editor(), self.path]
        try:
            with _deaf_to_interrupts():
                status = subprocess.run(command, check=False).returncode
        except OSError as cause:
            raise _editor_failed(command[0], cause.strerror or str(cause)) from cause
        if status:
            raise _editor_failed(command[0], f"it ended with status {status}")
        return file_text(self.path)

    def changed(self) -> bool:
        try:
            with open(self.path, "rb") as file:
                return file.read() != self._before
        except OSError:
            return False

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def copy_of(text: str, *, json: bool = False) -> Iterator[Draft]:
    """A copy to edit. What was changed in it stays, and is named, when it could not be written."""
    draft = Draft(text)
    try:
        yield draft
    except BaseException as error:
        if draft.changed():
            _name(error, draft.path, json)
        else:
            draft.remove()
        raise
    draft.remove()


@contextmanager
def keeping(text: str, file: str | None, *, json: bool = False) -> Iterator[None]:
    """Keep a text that came in once, and cannot be asked for again, if it could not be written."""
    try:
        yield
    except BaseException as error:
        _name(error, Draft(text).path if file is None or file == "-" else file, json)
        raise


def _name(error: BaseException, path: str, json: bool) -> None:
    """Say where a text is kept: beside the error, or in it where that is JSON."""
    if json and isinstance(error, AgentmError):
        error.kept = path  # type: ignore[attr-defined]  # what is described is what it says
    else:
        say(f"agentm: hint: your text is kept in {path}", sys.stderr)


def _editor() -> list[str]:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if os.name == "nt" else "vi")
    try:
        command = shlex.split(chosen, posix=os.name != "nt")
    except ValueError as cause:
        raise _editor_failed(chosen, str(cause)) from cause
    if not command:
        raise _editor_failed(chosen, "it names no program")
    return command


def _editor_failed(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"the editor {name!r} cannot be used: {why}; set EDITOR, or give the text with --file or '-'.",
        code="editor_failed",
    )


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C in an editor is the editor's; a handler, unlike an ignored signal, is not inherited by it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
