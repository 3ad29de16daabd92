"""How far an agent reaches: a small file that says what it may read and write, and where it works.

    # reach.toml
    read = ["${cwd}", "${home}/notes"]
    write = ["${cwd}/src", "${self}"]
    workdir = "${cwd}"

``${home}`` is the user's home, ``${self}`` the agent's own folder, ``${cwd}`` where it was started. A token that stands
for nothing is an error, never an empty text: ``${self}/memory`` must not become ``/memory``.
"""

from __future__ import annotations

import os
import re
import tomllib

from agentm.errors import ReachError
from agentm.files.scope import ScopedStorageScope
from agentm.records import record_class

_KEYS = ("read", "write", "always_deny", "workdir")
_TOKEN = re.compile(r"\$\{([^}]*)\}")


@record_class(frozen=True)
class Reach:
    """What an agent may read and write, and where it works."""

    scope: ScopedStorageScope
    workdir: str | None


def load_reach(path: str, *, self_dir: str | None = None, home: str | None = None, cwd: str | None = None) -> Reach:
    """The reach that a file declares; ReachError if it cannot be read or meant.

    :param self_dir: the agent's own folder; unless said, the one that the file lies in
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8")
    except OSError as cause:
        raise ReachError(f"the reach {path!r} cannot be read ({cause.strerror}); check the path.") from cause
    except UnicodeDecodeError as cause:
        raise ReachError(f"the reach {path!r} is not UTF-8 (byte {cause.start}); save it as such.") from cause
    own = os.path.dirname(os.path.abspath(path)) if self_dir is None else self_dir
    return parse_reach(text, name=path, self_dir=own, home=home, cwd=cwd)


def parse_reach(
    text: str,
    *,
    name: str = "reach",
    self_dir: str | None = None,
    home: str | None = None,
    cwd: str | None = None,
) -> Reach:
    """The reach that a text declares."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise ReachError(f"{name} is no TOML: {cause}; see the example in docs/files.md.") from cause
    for key in found:
        if key not in _KEYS:
            raise ReachError(f"{name} has {key!r}, which means nothing; it may have {', '.join(_KEYS)}.")
    tokens = {
        "home": _home() if home is None else home,
        "self": self_dir,
        "cwd": os.getcwd() if cwd is None else cwd,
    }
    lists = {key: _paths(name, key, found.get(key, []), tokens) for key in _KEYS[:3]}
    workdir = found.get("workdir")
    if workdir is not None:
        [workdir] = _paths(name, "workdir", [workdir], tokens)
    scope = ScopedStorageScope(lists["read"], lists["write"], lists["always_deny"])
    return Reach(scope, workdir)


def _home() -> str:
    """What the user calls home, even if that is nothing: without this, an empty one would pass for the root."""
    return os.path.expanduser("~") if os.environ.get("HOME") != "" else ""


def _paths(name: str, key: str, given: object, tokens: dict[str, str | None]) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ReachError(f'{key} in {name} is no list of paths; write {key} = ["${{cwd}}"].')

    def meant(match: re.Match[str]) -> str:
        token = match[1].strip().lower()
        if token not in tokens:
            known = ", ".join(f"${{{one}}}" for one in tokens)
            raise ReachError(f"{key} in {name} holds {match[0]}, which stands for nothing; use one of {known}.")
        value = tokens[token]
        if not value or not value.startswith("/"):
            raise ReachError(f"{key} in {name} holds {match[0]}, which is {value!r} here; say it, or leave it out.")
        return value.rstrip("/")

    found = []
    for one in given:
        path = _TOKEN.sub(meant, one) or ("/" if one else "")  # "${home}" of somebody who lives at the root
        if not path.startswith("/"):
            raise ReachError(f"{key} in {name} holds {one!r}, which is not absolute; begin it with / or a token.")
        found.append(path)
    return found
