"""`agentm outbox`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from agentm.cli.dispatch import UsageError, nearest
from agentm.cli.memories import configured_store
from agentm.cli.output import add_common_arguments, print_json, say
from agentm.cli.texts import one_line
from agentm.context import outbox
from agentm.context.outbox import Found
from agentm.context.uri import uri_of
from agentm.errors import NodeNotFoundError
from agentm.seam import StorageBackend

DESCRIPTION = """\
What the index has yet to be told. An event that could not be told after several attempts is dead: retry it once the
cause is mended, or drop it. The start of an ID is enough, if only one begins so."""
EXAMPLES = """\
  agentm outbox list
  agentm outbox retry 3f2a
  agentm outbox drop 3f2a
  agentm outbox list --account acme --json"""

_ACTIONS = ("list", "retry", "drop")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", metavar="list|retry|drop", help="default: list")
    parser.add_argument("id", nargs="?", metavar="ID", help="which event, for retry and drop")
    parser.add_argument("--account", metavar="NAME", help="only this account (default: all of them)")
    add_common_arguments(parser)


def run(options: Namespace) -> int:
    if options.action not in _ACTIONS:
        raise UsageError(
            f"there is no {options.action!r}{nearest(options.action, _ACTIONS)}; see agentm outbox --help."
        )
    if (options.id is None) != (options.action == "list"):
        raise UsageError("retry and drop need the ID of an event, and list takes none; see agentm outbox --help.")
    backend = configured_store(options)
    if options.action == "list":
        return _list(list(outbox.events(backend, options.account)), options)
    found = _find(backend, options)
    act = outbox.retry if options.action == "retry" else outbox.drop
    act(backend, uri_of(found.node), found.event.event_id)
    done = "will be told again" if options.action == "retry" else "dropped"
    if options.json:
        print_json({"event_id": found.event.event_id, "uri": found.event.uri, "done": options.action})
    else:
        say(f"{done}: {found.event.event_id}")
    return 0


def _find(backend: StorageBackend, options: Namespace) -> Found:
    near = [one for one in outbox.events(backend, options.account) if one.event.event_id.startswith(options.id)]
    exact = [one for one in near if one.event.event_id == options.id] or near
    identities = {one.event.event_id for one in exact}
    if not identities:
        raise NodeNotFoundError(f"there is no event {options.id!r}; agentm outbox list shows those there are.")
    if len(identities) > 1:
        raise UsageError(f"{len(identities)} events begin with {options.id!r}; give more of the ID.")
    found = max(exact, key=lambda one: one.dead)
    if options.action == "retry" and not found.dead:
        raise NodeNotFoundError(f"the event {found.event.event_id} is not dead: it waits to be told, without a retry.")
    return found


def _list(events: list[Found], options: Namespace) -> int:
    if options.json:
        print_json({"events": [_as_json(found) for found in events]})
        return 0
    for found in events:
        event = found.event
        state = "damaged" if found.damaged else "dead" if found.dead else event.status.lower()
        error = f"  {one_line(event.last_error)}" if event.last_error else ""
        say(f"{event.event_id}  {state:<10}  {event.event_type:<15}  {event.uri} v{event.version}{error}")
    if not events:
        say("agentm: hint: there is nothing that the index has yet to be told.", sys.stderr)
    return 0


def _as_json(found: Found) -> dict[str, object]:
    names = ("event_id", "event_type", "uri", "version", "status", "retry_count", "created_at", "last_error")
    return {**{name: getattr(found.event, name) for name in names}, "dead": found.dead, "damaged": found.damaged}
