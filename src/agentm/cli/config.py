"""`agentm config`"""

from __future__ import annotations

import json
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import Any

from agentm import config as settings
from agentm.cli.dispatch import UsageError
from agentm.cli.output import add_common_arguments, print_json, say
from agentm.errors import ConfigError
from agentm.seam import registry

DESCRIPTION = """\
Read and change the settings of this machine. They are one JSON file, which may be edited by hand too.

keys:
""" + "\n".join(f"  {key}\n      {what}" for key, what in settings.KNOWN_KEYS.items())
EXAMPLES = """\
  agentm config --vault-path ~/Notes        use this folder, and the vault store
  agentm config set storage.backend sqlite
  agentm config get storage.backend
  agentm config unset storage.backend
  agentm config list --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--vault-path", metavar="DIR", help="use this folder as the vault; sets storage.backend=vault")
    parser.add_argument("--storage-backend", metavar="NAME", help="set storage.backend")
    parser.add_argument("--state-mode", metavar="MODE", help="set state_mode ('vault' is the old name of 'backend')")
    add_common_arguments(parser)
    actions = parser.add_subparsers(dest="action", metavar="get|set|unset|list")
    for name, arguments, what in (
        ("get", ("key",), "print one value"),
        ("set", ("key", "value"), "write one value"),
        ("unset", ("key",), "take a key out"),
        ("list", (), "print every key and value (the default)"),
    ):
        action = actions.add_parser(name, help=what, argument_default=SUPPRESS)
        for argument in arguments:
            action.add_argument(argument, metavar=argument.upper())
        # Not given here, they keep what was given before the action.
        action.add_argument("--json", action="store_true", default=SUPPRESS)
        action.add_argument("--install-prefix", metavar="DIR", default=SUPPRESS)


def run(options: Namespace) -> int:
    values = _flags(options)
    if values and options.action:
        raise UsageError(f"give either an option or {options.action!r}, not both; see agentm config --help.")
    if options.action == "set":
        values = {options.key: options.value}
    if values:
        _set(values, options)
    else:
        {"get": _get, "unset": _unset, "list": _list, None: _list}[options.action](options)
    return 0


def _flags(options: Namespace) -> dict[str, str]:
    values = {
        settings.VAULT_PATH: options.vault_path,
        settings.STORAGE_BACKEND: options.storage_backend,
        settings.STATE_MODE: options.state_mode,
    }
    if options.vault_path is not None:
        if options.storage_backend not in (None, "vault"):
            raise UsageError("--vault-path means the vault store; leave out --storage-backend.")
        values[settings.STORAGE_BACKEND] = "vault"
    return {key: value for key, value in values.items() if value is not None}


def _set(values: dict[str, str], options: Namespace) -> None:
    written = settings.set_values(values, options.install_prefix)
    for key in written:
        near = settings.nearest_key(key)
        if near:
            say(f"agentm: hint: nobody reads {key!r}; did you mean {near}?", sys.stderr)
    chosen = written.get(settings.STORAGE_BACKEND)
    if chosen is not None and chosen not in registry:
        known = ", ".join(registry.protocols())
        say(f"agentm: hint: no installed plugin registers {chosen!r} yet; there are {known}.", sys.stderr)
    _show(written, options)


def _get(options: Namespace) -> None:
    missing = object()
    value = settings.get_value(options.key, options.install_prefix, missing)
    if value is missing:
        near = settings.nearest_key(options.key)
        meant = f"did you mean {near}?" if near else "agentm config list prints what is."
        raise ConfigError(f"the key {options.key!r} is not set; {meant}", code="config_key_unset")
    if options.json:
        print_json({"key": options.key, "value": value})
    else:
        say(_plain(value))


def _unset(options: Namespace) -> None:
    removed = settings.unset_value(options.key, options.install_prefix)
    if options.json:
        print_json({"key": options.key, "removed": removed})
    elif not removed:
        say(f"agentm: hint: {options.key!r} was not set.", sys.stderr)


def _list(options: Namespace) -> None:
    _show(settings.read_config(options.install_prefix), options)


def _show(values: dict[str, Any], options: Namespace) -> None:
    if options.json:
        print_json(values)
    else:
        for key, value in values.items():
            say(f"{key} = {_plain(value)}")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
