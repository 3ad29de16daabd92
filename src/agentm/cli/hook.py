"""`agentm hook`"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from agentm.cli import json_edit
from agentm.cli.dispatch import UsageError
from agentm.cli.output import print_json, say
from agentm.config import expand_path
from agentm.errors import ConfigError
from agentm.small_files import read_small

DESCRIPTION = """\
Let a coding agent begin each session with what memory holds for the project: the output of agentm recall-here.

agents:
  claude-code   a SessionStart hook in .claude/settings.json of the project (--user: in your home)
  generic       one line for a shell script or any program's own hook; --file appends it there"""
EXAMPLES = """\
  agentm hook install claude-code
  agentm hook install claude-code --user --dry-run
  agentm hook install generic
  agentm hook install generic --file .envrc
  agentm hook remove claude-code"""

AGENTS = ("claude-code", "generic")
EVENT = "SessionStart"
MATCHER = "startup|resume|clear|compact"
_PATH = ("hooks", EVENT)
_OURS = re.compile(r"""(?:^|[\s"'/\\])agentm(?:\.exe|\.process)?["']?\s+recall-here(?:\s|$)""")
_LINE_MARK = "  # agentm hook"

Place = tuple[json_edit.Key, ...]


def _agentm() -> str:
    """What a coding agent can type: by its name if the shell finds that, else by its whole path."""
    import shutil

    if shutil.which("agentm") is not None:
        return "agentm"
    beside = os.path.join(os.path.dirname(sys.executable), "agentm")
    return shlex.quote(beside) if os.path.exists(beside) else f"{shlex.quote(sys.executable)} -m agentm"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "remove"), help="put the hook in, or take it out")
    parser.add_argument("agent", nargs="?", choices=AGENTS, default=AGENTS[0], help=f"default: {AGENTS[0]}")
    parser.add_argument("--user", action="store_true", help="for all projects: the settings in your home directory")
    parser.add_argument("--cwd", metavar="DIR", help="a directory of the project (default: the current one)")
    parser.add_argument("--file", metavar="FILE", help="generic: the shell file to write the line to")
    parser.add_argument("--phase", metavar="PHASE", help="recall for this phase (default: work)")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--json", action="store_true", help="print JSON, errors too (on stderr)")


def run(options: Namespace) -> int:
    command = f"{_agentm()} recall-here" + (f" --phase {shlex.quote(options.phase)}" if options.phase else "")
    if options.agent == "generic":
        return _generic(options, command)
    if options.file is not None:
        raise UsageError("--file is for the generic hook; leave it out, or say: agentm hook install generic.")
    path = _settings_path(options)
    old = _read(path)
    new = _with_hook(path, old, command) if options.action == "install" else _without_hook(path, old)
    return _finish(options, path, old, new, command)


def _settings_path(options: Namespace) -> str:
    if options.user:
        return os.path.join(expand_path("~"), ".claude", "settings.json")
    from agentm.process.reading import Nowhere
    from agentm.projects import resolve_project

    root = resolve_project(expand_path(options.cwd or os.curdir), Nowhere())["project_root"]
    return os.path.join(root, ".claude", "settings.json")


def _with_hook(path: str, old: str | None, command: str) -> str:
    """The settings with the hook in them, once."""
    text = "{}\n" if old is None or not old.strip() else old
    if [_command(text, place) for place in _places(path, text)] == [command]:
        return text
    text = _without_hook(path, text) or text
    settings = json_edit.parse(text)
    group = {"matcher": MATCHER, "hooks": [{"type": "command", "command": command}]}
    if "hooks" not in settings:
        return json_edit.insert(text, (), "hooks", {EVENT: [group]})
    if EVENT not in settings["hooks"]:
        return json_edit.insert(text, ("hooks",), EVENT, [group])
    return json_edit.insert(text, _PATH, len(settings["hooks"][EVENT]), group)


def _without_hook(path: str, text: str | None) -> str | None:
    """The settings without any hook of ours, and without what that leaves empty."""
    if text is None or not text.strip():
        return text
    while places := _places(path, text):
        place = places[-1]
        text = json_edit.remove(text, place)
        # The group, the event, the table of events: each goes if this was all it held.
        for holder, whole in ((place[:4], place[:3]), (place[:2], place[:2]), (place[:1], place[:1])):
            if _at(text, holder):
                break
            text = json_edit.remove(text, whole)
    return text


def _places(path: str, text: str) -> list[Place]:
    """Where in the settings hooks of ours are; ConfigError for settings that cannot be understood."""
    settings = _parsed(path, text)
    found: list[Place] = []
    hooks = settings.get("hooks", {})
    groups = hooks.get(EVENT, []) if isinstance(hooks, dict) else None
    if not isinstance(groups, list):
        raise _bad(path, f"hooks.{EVENT} in it is no list")
    for number, group in enumerate(groups):
        inner = group.get("hooks") if isinstance(group, dict) else None
        for place, hook in enumerate(inner if isinstance(inner, list) else []):
            if isinstance(hook, dict) and _OURS.search(str(hook.get("command", ""))):
                found.append((*_PATH, number, "hooks", place))
    return found


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        settings = json_edit.parse(text)
    except (ValueError, RecursionError) as cause:
        raise _bad(path, f"it is not JSON ({cause})") from cause
    if not isinstance(settings, dict):
        raise _bad(path, "it holds no JSON object")
    return settings


def _at(text: str, place: Place) -> Any:
    value = json_edit.parse(text)
    for key in place:
        value = value[key]
    return value


def _command(text: str, place: Place) -> str:
    return str(_at(text, place)["command"])


def _generic(options: Namespace, command: str) -> int:
    if options.file is None:
        if options.action == "remove":
            raise UsageError("say which file the line is in: agentm hook remove generic --file FILE.")
        if options.json:
            print_json({"agent": "generic", "command": command, "path": None, "changed": False})
        else:
            say(command)
        return 0
    path = expand_path(options.file)
    old = _read(path)
    kept = [line for line in (old or "").splitlines(keepends=True) if not line.rstrip().endswith(_LINE_MARK)]
    new = "".join(kept)
    if options.action == "install":
        gap = "\n" if new and not new.endswith("\n") else ""
        new = f"{new}{gap}{command}{_LINE_MARK}\n"
    return _finish(options, path, old, new if old is not None or new else None, command)


def _finish(options: Namespace, path: str, old: str | None, new: str | None, command: str) -> int:
    changed = new is not None and new != old
    if changed and new is not None and not options.dry_run:
        _write(path, new)
    if options.json:
        facts = {"agent": options.agent, "command": command, "path": path, "changed": changed}
        print_json({**facts, "dry_run": options.dry_run})
    elif not changed:
        say(f"nothing to do: the hook is {'' if options.action == 'install' else 'not '}in {path}")
    elif options.dry_run:
        say(_difference(path, old or "", new or ""), end="")
    else:
        say(f"{'wrote the hook to' if options.action == 'install' else 'took the hook out of'} {path}")
    if options.action == "install" and shutil.which("agentm") is None:
        say("agentm: hint: no agentm is on the PATH, so the hook will not find it; add its folder.", sys.stderr)
    return 0


def _difference(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _read(path: str) -> str | None:
    try:
        return read_small(path).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as cause:
        raise _bad(path, f"it cannot be read ({getattr(cause, 'strerror', None) or 'it is not UTF-8'})") from cause


def _write(path: str, text: str) -> None:
    from agentm.backends import _durable

    path = os.path.realpath(path)  # a link into somebody's dotfiles stays one
    try:
        _durable.make_dirs(os.path.dirname(path))
        _durable.write_file(path, text.encode())
    except OSError as cause:
        raise ConfigError(
            f"{path!r} cannot be written ({cause.strerror or cause}); check owner, mode and free space of its folder.",
            code="hook_unwritable",
        ) from cause


def _bad(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"{path!r} is left as it is, because {why}; correct it, then run this again.", code="hook_settings_invalid"
    )
