"""Why an index cannot be kept where it belongs, and what to do about it."""

from __future__ import annotations

import os


def obstacle(home: str) -> str | None:
    """What is in the way of an index at a place, as one sentence; None if nothing is."""
    path = home
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        return f"{path} is no folder, and the index belongs there; move it away"
    if not os.access(path, os.W_OK | os.X_OK):
        return f"nothing can be written in {path}, where the index belongs; type: chmod u+wx {path}"
    return None
