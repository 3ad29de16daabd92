"""Memories as one zip of plain files: the folder of each node as it is on the store, with its whole history.

    agentm-export.json                      what this is
    accounts/…/NAME/.history/…              every kept version
    accounts/…/NAME/content.md  …           the parts
    accounts/…/NAME/.meta.json              last, as on the store

The same memories always give the same bytes. What is derived (backlinks, events for the index) is left out: whoever
brings an export back makes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from agentm.context import folders, history
from agentm.context.holding import own_meta
from agentm.context.node import CONTENT, HISTORY, META, PARTS, Meta, NodeStatus, Version, dump_meta, dump_version
from agentm.context.reader import kept_version, read_meta, read_text, read_version
from agentm.context.tenancy import RequestContext, check, may
from agentm.context.uri import ContextUri, Folder, parse_place
from agentm.errors import NodeBrokenError, NotTextError
from agentm.records import field, record_class, replace
from agentm.seam import StorageBackend

if TYPE_CHECKING:
    from zipfile import ZipFile

MANIFEST = "agentm-export.json"
FORMAT = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can name; the times of a memory are in its meta."""


@record_class(frozen=True)
class LeftOut:
    """Something that could not be taken along, and why."""

    source: str
    code: str
    message: str


@record_class()
class ExportReport:
    place: str
    exported: int = 0
    left_out: list[LeftOut] = field(default_factory=list)


@record_class(frozen=True)
class Whole:
    """A node with everything that is to be known of it. One that was deleted has no parts, only versions."""

    address: ContextUri
    version: Version
    history: tuple[Version, ...]

    @property
    def meta(self) -> Meta:
        return self.version.meta


def export(
    backend: StorageBackend,
    ctx: RequestContext,
    place: str,
    stream: BinaryIO,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write every memory at or below a place, as far as the caller may see it, into a zip."""
    from zipfile import ZIP_DEFLATED, ZipFile

    found = parse_place(place)
    check(ctx, found)
    report = ExportReport(str(found))
    with ZipFile(stream, "w", ZIP_DEFLATED) as archive:
        manifest = {"format": FORMAT, "place": str(found)}
        _add(archive, MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=2) + "\n")
        for address in nodes_below(backend, ctx, found):
            whole = _whole(backend, address, report)
            if whole is None:
                continue
            for name, text in files_of(whole):
                _add(archive, f"{address.locator.key}/{name}", text)
            report.exported += 1
            if progress is not None:
                progress(report.exported)
    return report


def nodes_below(backend: StorageBackend, ctx: RequestContext, place: ContextUri | Folder) -> Iterator[ContextUri]:
    """The addresses at which a node is or was, as far as the caller may see them, in the order of their names."""
    if isinstance(place, ContextUri):
        yield place
        return
    for child in folders.children(backend, place):
        if may(ctx, child, write=False):
            yield from nodes_below(backend, ctx, child)


def files_of(whole: Whole) -> Iterator[tuple[str, str]]:
    """The files of a node in the order in which they are written, the meta last."""
    for version in whole.history:
        yield f"{HISTORY}/{version.meta.history_name}", dump_version(version)
    for name in PARTS:
        if name in whole.version.parts:
            yield name, whole.version.parts[name]
    yield META, dump_meta(whole.meta)


def _whole(backend: StorageBackend, address: ContextUri, report: ExportReport) -> Whole | None:
    try:
        version = _version(backend, address)
    except NodeBrokenError as error:
        report.left_out.append(LeftOut(str(address), error.code, error.message))
        return None
    if _is_edited(backend, address, version):
        report.left_out.append(
            LeftOut(
                str(address),
                "edit_not_adopted",
                f"an edit of {address} by hand is in no version yet; agentm repair adopts it, then export again.",
            )
        )
    if version is None:
        return None
    return Whole(address, version, tuple(history.committed(backend, address, version.meta)))


def _version(backend: StorageBackend, address: ContextUri) -> Version | None:
    """The version that a node is at; None if there is none, or it has gone elsewhere, or without a trace."""
    shown = read_version(backend, address.locator)
    if shown is not None:
        # The target of a move that has happened and was not finished is as any other node.
        settled = Version(replace(shown.meta, status=NodeStatus.ACTIVE, other_uri=None), shown.parts)
        return settled if shown.meta.uri == str(address) else None
    meta = own_meta(address, read_meta(backend, address.locator))
    if meta is not None and meta.status is NodeStatus.BROKEN:
        raise NodeBrokenError(folders.not_found(address, is_broken=True).message, locator=address.locator.key)
    if meta is None or meta.purge or meta.status not in (NodeStatus.ARCHIVED, NodeStatus.DELETED):
        return None
    kept = kept_version(backend, address.locator, meta) if meta.status is NodeStatus.ARCHIVED else None
    return kept or Version(meta, {})


def _is_edited(backend: StorageBackend, address: ContextUri, version: Version | None) -> bool:
    """Whether there is a text that would not come along."""
    try:
        text = read_text(backend, address.locator.child(CONTENT))
    except NotTextError:
        return True
    return text is not None and (version is None or text != version.parts.get(CONTENT))


def _add(archive: ZipFile, name: str, text: str) -> None:
    from zipfile import ZIP_DEFLATED, ZipInfo

    info = ZipInfo(name, _EPOCH)
    info.create_system = 3  # the same on every system, with the mode of a plain file
    info.external_attr = 0o644 << 16
    info.compress_type = ZIP_DEFLATED
    archive.writestr(info, text.encode())
