"""`python -m agentm.process`: the three functions for programs that are not written in Python, and nothing else."""

from __future__ import annotations

import sys

from agentm.cli import main

VERBS = ("recall-here", "state-path", "offer-save-here")

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in VERBS:
        sys.exit(main(sys.argv[1:]))
    sys.stderr.write(f"agentm: usage: say which of {', '.join(VERBS)}; --help behind it explains it.\n")
    sys.exit(2)
