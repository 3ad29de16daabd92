"""What the commands about memories share: who asks, which store, which memory, and how it is shown."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from agentm.cli.output import add_common_arguments, print_json, say
from agentm.context.addresses import full_address, own_space
from agentm.context.node import ContextNode
from agentm.context.tenancy import RequestContext
from agentm.context.uri import Folder, parse_place, parse_uri
from agentm.errors import NodeHiddenError, NodeNotFoundError
from agentm.memory import Memory
from agentm.open import ACCOUNT, caller, open_store as opened
from agentm.records import as_dict, replace
from agentm.seam import StorageBackend, protocol_of

if TYPE_CHECKING:
    from agentm.context.contextfs import ContextFS, Receipt


def add_caller_arguments(parser: ArgumentParser, *, writes: bool = False) -> None:
    """Who asks; and for a command that changes something, who is to be named for it and from what."""
    add_common_arguments(parser)
    who = parser.add_argument_group("on whose behalf")
    who.add_argument("--account", metavar="NAME", help=f"default: the setting identity.account, else {ACCOUNT}")
    who.add_argument("--user", metavar="NAME", help="default: the setting identity.user, else your login name")
    who.add_argument("--agent", metavar="NAME", help="the space of this agent, instead of the user's")
    if writes:
        who.add_argument("--as", dest="actor", metavar="ACTOR", help="who it is by (default: human:USER)")
        who.add_argument(
            "--source", dest="sources", action="append", default=[], metavar="S", help="what it is from; repeatable"
        )


def version_number(text: str) -> int:
    """An argument type: a version as `agentm history` numbers them."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no version; it is a number such as 2")
    return int(text)


def add_if_version(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--if-version", type=version_number, metavar="N", help="only if this is still its version (0: only if new)"
    )


def add_secrets_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--secrets",
        choices=("refuse", "redact", "allow"),
        default="refuse",
        help="what to do with what looks like a key or a password (default: refuse)",
    )


class Memories:
    """A caller, the memory on the configured store, and addresses as the caller writes them."""

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self.ctx = request_context(options)

    @cached_property
    def memory(self) -> Memory:
        options = self._options
        return Memory(opened(configured_store(options), self.ctx, install_prefix=options.install_prefix), self.ctx)

    @property
    def fs(self) -> ContextFS:
        return self.memory.fs

    def address(self, text: str) -> str:
        """The URI of the memory that a full or a short address means."""
        return str(parse_uri(full_address(text, self.ctx)))

    def place(self, text: str | None) -> str:
        """The URI of the folder or memory that a full or a short address means; the caller's space for none."""
        return str(parse_place(full_address(text or "", self.ctx)))

    def short(self, uri: str) -> str:
        """The address that this caller may type for a URI."""
        own = own_space(self.ctx)
        for root in (f"{own}/memories/", f"{own}/"):
            if uri.startswith(root) and full_address(uri.removeprefix(root), self.ctx) == uri:
                return uri.removeprefix(root)
        return uri

    @contextmanager
    def suggesting(self, *uris: str) -> Iterator[None]:
        """Name what was probably meant when one of these memories is not there."""
        try:
            yield
        except NodeHiddenError:
            raise
        except NodeNotFoundError as error:
            near = [found for uri in uris if not self.fs.exists(uri, self.ctx) for found in self._near(uri)]
            if not near:
                raise
            message = f"{error.message.partition(';')[0]}; did you mean {near[0]}?"
            raise NodeNotFoundError(message, code=error.code, locator=error.locator) from error

    def _near(self, uri: str) -> list[str]:
        import difflib

        folder, _, name = uri.rpartition("/")
        if not isinstance(parse_place(folder), Folder):
            return []
        names = [child.rpartition("/")[2] for child in self.fs.list_children(folder, self.ctx)]
        begun = [known for known in names if known.startswith(name)]
        found = begun or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        return [self.short(f"{folder}/{match}") for match in found]


def request_context(options: Namespace) -> RequestContext:
    return caller(
        options.account,
        options.user,
        options.agent,
        actor=getattr(options, "actor", None),
        sources=tuple(getattr(options, "sources", ())),
        install_prefix=options.install_prefix,
    )


def configured_store(options: Namespace) -> StorageBackend:
    from agentm.selection import select_backend

    backend = select_backend(install_prefix=options.install_prefix)
    if protocol_of(backend) == "memory":
        say("agentm: hint: the store 'memory' forgets everything when this command ends.", sys.stderr)
    return backend


def show_receipt(receipt: Receipt, done: str, options: Namespace, **more: object) -> int:
    """Say what became of a change."""
    if options.json:
        print_json({**as_dict(receipt), **more})
    else:
        say(f"{done} (version {receipt.version})")
        if receipt.redacted:
            say(f"agentm: hint: taken out of the text: {', '.join(receipt.redacted)}.", sys.stderr)
        if receipt.duplicates:
            say(f"agentm: hint: {receipt.duplicates[0]} says the same, or nearly.", sys.stderr)
    if receipt.indexed == "failed":
        say("agentm: hint: the index could not be told; agentm repair makes up for it.", sys.stderr)
    return 0


def node_fields(node: ContextNode) -> dict[str, object]:
    """What a listing says about a memory, as JSON."""
    kept = ("uri", "version", "status", "abstract", "tags", "created_at", "updated_at", "actor", "sources")
    return {name: getattr(node, name) for name in kept}


def rewritten(node: ContextNode, text: str) -> ContextNode:
    """A memory with another text; its abstract and overview are made anew, its relations and tags stay."""
    return replace(node, content=text, abstract=None, overview=None)


def kept_versions(memories: Memories, uri: str) -> list[ContextNode]:
    """The versions of a memory, oldest first; NodeNotFoundError if there never was one."""
    versions = memories.fs.history(uri, memories.ctx)
    if not versions:
        from agentm.context.folders import not_found

        with memories.suggesting(uri):
            raise not_found(parse_uri(uri))
    return versions
