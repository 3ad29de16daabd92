"""What `agentm export` wrote, read back: whole nodes, proven to be whole, at the addresses of whoever imports them."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from zipfile import BadZipFile, ZipFile, ZipInfo

from agentm.context import relations
from agentm.context.node import (
    CONTENT,
    HISTORY,
    LARGEST_CONTENT,
    META,
    PARTS,
    RELATIONS,
    Meta,
    NodeStatus,
    Version,
    check_content,
    digest,
    dump_relations,
    load_meta,
    load_relations,
    load_version,
)
from agentm.context.tenancy import RequestContext
from agentm.context.uri import ContextUri, Folder, parse_uri, place_of, uri_of
from agentm.errors import AgentmError, InvalidLocatorError, InvalidNodeError, InvalidUriError
from agentm.exporting import FORMAT, MANIFEST, LeftOut, Whole
from agentm.importing.archives import is_inside
from agentm.records import record_class, replace
from agentm.seam import Locator

LARGEST_FILE = 8 * LARGEST_CONTENT
"""Bytes. A version in the history has every part of it, as JSON."""
_WRITE_ID = re.compile(r"[0-9a-f]+")

Files = dict[str, ZipInfo]


def check_format(archive: ZipFile) -> None:
    """InvalidNodeError if this is no export, or one of a newer agentm."""
    try:
        found = json.loads(_text(archive, archive.getinfo(MANIFEST)))
        number = found["format"]
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidNodeError(
            f"the zip has no {MANIFEST} that says what it is; name one that agentm export wrote.",
            code="import_unrecognised",
        ) from cause
    if not isinstance(number, int) or number > FORMAT:
        raise InvalidNodeError(
            f"the export has the format {number!r}, of a newer agentm; update agentm and try again.",
            code="export_too_new",
        )


def nodes(archive: ZipFile) -> tuple[dict[ContextUri, Files], list[LeftOut]]:
    """The files of each node, and what is none of a node."""
    found: dict[ContextUri, Files] = {}
    strange: list[LeftOut] = []
    for member in archive.infolist():
        if member.filename == MANIFEST or member.is_dir():
            continue
        address, name = _place(member.filename)
        if address is None:
            why = f"{member.filename!r} is no file of a memory; it is passed over."
            strange.append(LeftOut(member.filename, "unexpected_file", why))
        else:
            found.setdefault(address, {})[name] = member
    return dict(sorted(found.items(), key=lambda one: str(one[0]))), strange


def _place(name: str) -> tuple[ContextUri | None, str]:
    """The node that a file belongs to, and its name in there."""
    folder, _, last = name.rpartition("/")
    if folder.endswith(f"/{HISTORY}"):
        folder, last = folder.removesuffix(f"/{HISTORY}"), f"{HISTORY}/{last}"
    if not is_inside(name) or not (last in (*PARTS, META) or last.startswith(f"{HISTORY}/")):
        return None, last
    try:
        return uri_of(Locator(folder)), last
    except (InvalidUriError, InvalidLocatorError):
        return None, last


def whole(archive: ZipFile, address: ContextUri, files: Files) -> Whole:
    """A node from its files; InvalidNodeError if they are not what was exported."""
    texts = {name: _text(archive, member) for name, member in files.items()}
    try:
        meta = load_meta(texts.pop(META))
        kept = {name: load_version(texts.pop(name)) for name in sorted(texts) if name.startswith(f"{HISTORY}/")}
        found = Whole(address, Version(meta, texts), tuple(kept.values()))
        _prove(found, kept)
    except (KeyError, AgentmError) as cause:
        why = str(cause) if isinstance(cause, AgentmError) else f"it has no {cause}"
        raise InvalidNodeError(
            f"the files of {address} are damaged ({why}); export it anew.", code="export_damaged"
        ) from cause
    return found


def _prove(found: Whole, kept: dict[str, Version]) -> None:
    meta, parts = found.meta, found.version.parts
    ended = meta.status is NodeStatus.DELETED and not parts
    if meta.uri != str(found.address) or meta.status not in (
        NodeStatus.ACTIVE,
        NodeStatus.ARCHIVED,
        NodeStatus.DELETED,
    ):
        raise InvalidNodeError(f"its {META} is not that of a memory there.")
    if not ended and (set(parts) != set(PARTS) or not found.version.sound()):
        raise InvalidNodeError("its parts are not those that belong to its version.")
    for name, version in kept.items():
        ours = name == f"{HISTORY}/{version.meta.history_name}" and version.meta.version <= meta.version
        if not ours or not _WRITE_ID.fullmatch(version.meta.write_id) or not version.sound():
            raise InvalidNodeError(f"{name} is no version of it.")
    if not ended:
        check_content(parts[CONTENT])
        relations.checked(load_relations(parts[RELATIONS]), found.address)


def _text(archive: ZipFile, member: ZipInfo) -> str:
    if member.file_size > LARGEST_FILE:
        raise InvalidNodeError(
            f"{member.filename!r} has {member.file_size:,} bytes, more than any file of a memory; export it anew.",
            code="content_too_big",
        )
    try:
        return archive.read(member).decode()
    except (BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as cause:
        why = f"{member.filename!r} is damaged ({cause}); export it anew."
        raise InvalidNodeError(why, code="archive_damaged") from cause


@record_class(frozen=True)
class Homes:
    """Where the owners of an export are at home here: whoever imports gets what was one user's, or one agent's."""

    account: str
    owners: dict[str, str]

    @classmethod
    def of(cls, addresses: Iterable[ContextUri], ctx: RequestContext) -> Homes:
        exported = {address.owner_space for address in addresses}
        owners: dict[str, str] = {}
        for space in ctx.spaces:
            kind = space.partition(":")[0]
            theirs = sorted(one for one in exported if one.partition(":")[0] == kind)
            # Of several, only one's own: two owners' memories are not to be thrown together.
            if space not in theirs and len(theirs) == 1:
                owners[theirs[0]] = space
        return cls(ctx.account_id, owners)

    def address(self, uri: ContextUri) -> ContextUri:
        owner = self.owners.get(uri.owner_space, uri.owner_space)
        here = place_of(self.account, (uri.path[0], owner.partition(":")[2], *uri.path[2:]))
        assert not isinstance(here, Folder)
        return here

    def bring(self, found: Whole) -> Whole:
        """The node at its address here, with all its versions; one that stays where it was is as it was."""
        here = self.address(found.address)
        if here == found.address:
            return found
        return Whole(here, self._version(found.version), tuple(map(self._version, found.history)))

    def _version(self, version: Version) -> Version:
        parts = dict(version.parts)
        hashes = dict(version.meta.parts)
        if RELATIONS in parts:
            edges = load_relations(parts[RELATIONS])
            led = (replace(one, from_uri=self._uri(one.from_uri), to_uri=self._uri(one.to_uri)) for one in edges)
            parts[RELATIONS] = dump_relations(tuple(led))
            if RELATIONS in hashes:
                hashes[RELATIONS] = digest(parts[RELATIONS])
        return Version(self._meta(version.meta, hashes), parts)

    def _meta(self, meta: Meta, hashes: dict[str, str]) -> Meta:
        here = self.address(parse_uri(meta.uri))
        other = self._uri(meta.other_uri) if meta.other_uri else None
        return replace(meta, uri=str(here), owner_space=here.owner_space, other_uri=other, parts=hashes)

    def _uri(self, uri: str) -> str:
        return str(self.address(parse_uri(uri)))
