"""Reading one whole version of a node, whatever is happening to it.

The meta names the version and the hash of each part. While a writer is at work, or after one died, some parts are
already newer than the meta; then the version comes from the history, where it lies whole in a single file.
"""

from __future__ import annotations

from agentm.context.node import HISTORY, META, PARTS, Meta, NodeStatus, Version, digest, load_meta, load_version
from agentm.context.uri import ContextUri, parse_uri
from agentm.errors import InvalidNodeError, InvalidUriError, NodeBrokenError, NotTextError
from agentm.records import record_class
from agentm.seam import ABSENT, CompareAndSwap, Locator, StorageBackend, require

_ATTEMPTS = 20


@record_class(frozen=True)
class Part:
    """A file of a node as it stands: its text (None if absent) and its version token (None if the store has none)."""

    text: str | None
    token: str | None


@record_class(frozen=True)
class Standing:
    """The files of a node as they are, to be replaced only while they are so."""

    files: dict[str, Part]
    meta: Meta | None

    def sound(self) -> bool:
        """Whether the parts are those that the meta was written for."""
        if self.meta is None or not self.meta.parts:
            return True
        hashes = self.meta.parts
        return all((text := self.files[name].text) is not None and digest(text) == hashes.get(name) for name in PARTS)


def standing(backend: StorageBackend, node: Locator) -> Standing:
    """What a node holds. One that is no text is an error, and so nothing is written over it."""
    if not backend.exists(node):
        return Standing({}, None)
    try:
        meta = read_part(backend, node.child(META))
        known = None if meta.text is None else load_meta(meta.text)
    except (InvalidNodeError, NotTextError) as cause:
        raise _unreadable(node) from cause
    return Standing({**{name: read_part(backend, node.child(name)) for name in PARTS}, META: meta}, known)


def read_part(backend: StorageBackend, place: Locator) -> Part:
    try:
        if not backend.capabilities.compare_and_swap:
            return Part(backend.read(place), None)
        found = require(backend, CompareAndSwap).read_versioned(place)
        return Part(found.content, found.version)
    except (FileNotFoundError, NotADirectoryError):
        return Part(None, ABSENT if backend.capabilities.compare_and_swap else None)


def read_text(backend: StorageBackend, place: Locator) -> str | None:
    try:
        return backend.read(place)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def read_meta(backend: StorageBackend, node: Locator) -> Meta | None:
    """The meta of a node; None if there is none, NodeBrokenError if it cannot be understood."""
    try:
        text = read_text(backend, node.child(META))
        return None if text is None else load_meta(text)
    except (InvalidNodeError, NotTextError) as cause:
        raise _unreadable(node) from cause


def _unreadable(node: Locator) -> NodeBrokenError:
    return broken(node, "its .meta.json cannot be understood")


def read_version(backend: StorageBackend, node: Locator) -> Version | None:
    """The version of a node that is shown, whole; None if none is."""
    meta = read_meta(backend, node)
    for _ in range(_ATTEMPTS):
        if meta is None or not is_visible(backend, meta):
            return None if _still(backend, node, meta) else read_version(backend, node)
        found = _parts_of(backend, node, meta) or kept_version(backend, node, meta)
        if found is not None:
            return found
        # A writer may have committed and cleared away while we looked: then there is a newer meta to go by.
        before, meta = meta, read_meta(backend, node)
        if meta == before:
            break
    raise broken(node, "its files do not belong together, and its history does not hold the version they were")


def untouched_version(backend: StorageBackend, node: Locator) -> Version | None:
    """The version that is shown, if the files are those it was written as."""
    meta = read_meta(backend, node)
    return _parts_of(backend, node, meta) if meta is not None and meta.status is NodeStatus.ACTIVE else None


def _still(backend: StorageBackend, node: Locator, meta: Meta | None) -> bool:
    """Whether the meta is what it was. Only one that waits for a move can have come to be shown by another's change."""
    return meta is None or meta.status is not NodeStatus.PENDING or read_meta(backend, node) == meta


def _parts_of(backend: StorageBackend, node: Locator, meta: Meta) -> Version | None:
    texts: dict[str, str] = {}
    for name in PARTS:
        try:
            text = read_text(backend, node.child(name))
        except NotTextError:
            return None
        if text is None:
            return None
        texts[name] = text
    version = Version(meta, texts)
    return version if version.sound() else None


def has_no_text(backend: StorageBackend, node: Locator) -> bool:
    """Whether a file of a node holds what is no text."""
    for name in PARTS:
        try:
            read_text(backend, node.child(name))
        except NotTextError:
            return True
    return False


def kept_version(backend: StorageBackend, node: Locator, meta: Meta) -> Version | None:
    """A version from the history, if it is there and whole."""
    try:
        text = read_text(backend, node.child(HISTORY, meta.history_name))
        kept = None if text is None else load_version(text)
    except (InvalidNodeError, NotTextError):
        return None
    if kept is None or kept.meta.parts != meta.parts or not kept.sound():
        return None
    return Version(meta, kept.parts)


def is_visible(backend: StorageBackend, meta: Meta | None) -> bool:
    """Whether a node is shown. A move shows the target from the instant at which the source says that it has gone."""
    if meta is None:
        return False
    return meta.status is NodeStatus.ACTIVE or has_arrived(backend, meta)


def has_arrived(backend: StorageBackend, meta: Meta) -> bool:
    """Whether this is the target of a move that has happened, though it was not finished."""
    if meta.status is not NodeStatus.PENDING or meta.other_uri is None:
        return False
    try:
        source = read_meta(backend, parse_uri(meta.other_uri).locator)
    except (NodeBrokenError, InvalidUriError):
        return False
    return source is not None and source.status is NodeStatus.MOVED and source.other_uri == meta.uri


def is_shown(backend: StorageBackend, address: ContextUri) -> bool:
    """Whether a node is shown at this very address; one that is damaged, or another's on a store that folds names, is
    not."""
    try:
        meta = read_meta(backend, address.locator)
    except NodeBrokenError:
        return False
    if meta is None or meta.uri != str(address):
        return False
    return is_visible(backend, meta) or (
        not _still(backend, address.locator, meta) and is_visible(backend, read_meta(backend, address.locator))
    )


def broken(node: Locator, why: str) -> NodeBrokenError:
    return NodeBrokenError(
        f"the memory at {node.key!r} is damaged: {why}; agentm repair --dry-run says what can be done.",
        locator=node.key,
    )
