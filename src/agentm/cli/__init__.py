"""The command `agentm`.

This module is all that `agentm --version` loads; the rest comes in when a command is given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 refused or failed, 2 called wrongly."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _answer(args)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as cause:
        _drop_output()
        sys.stderr.write(f"agentm: output_failed: the output cannot be written ({cause.strerror}); redirect it.\n")
        return 1
    return code


def _answer(args: list[str]) -> int:
    if args[:1] in (["--version"], ["-V"]):
        from agentm import __version__

        print(f"agentm {__version__}")
        return 0
    from agentm.cli.dispatch import run

    return run(args)


def _drop_output() -> None:
    """Python flushes once more when it ends, and would complain about what nobody reads."""
    from contextlib import suppress

    with suppress(OSError, ValueError):  # not a real stream, as in a test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
