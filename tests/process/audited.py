"""Run a command of agentm while the interpreter itself tells what it does; print each event that changes something."""

from __future__ import annotations

import os
import sys

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS = """
    os.chmod os.chown os.exec os.fork os.forkpty os.link os.mkdir os.posix_spawn os.remove os.removexattr os.rename
    os.rmdir os.setxattr os.spawn os.symlink os.system os.truncate os.utime fcntl.flock fcntl.lockf pty.spawn
    shutil.copyfile shutil.move shutil.rmtree socket.bind socket.connect subprocess.Popen tempfile.mkdtemp
    tempfile.mkstemp
"""
_CHANGES = frozenset(_EVENTS.split())
_seen: list[str] = []


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITES):
        _seen.append(f"{event} {args!r}")
    if event == "sqlite3.connect" and "immutable=1" not in repr(args):
        _seen.append(f"{event} {args!r}")


if __name__ == "__main__":
    from agentm.cli import main

    sys.addaudithook(_hook)
    code = main(sys.argv[1:])
    sys.stdout.flush()
    for line in _seen:
        sys.stderr.write(f"AUDIT {line}\n")
    sys.exit(code)
