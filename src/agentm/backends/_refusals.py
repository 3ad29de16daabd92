"""The refusals that all stores share, so that the same mistake reads the same everywhere."""

from __future__ import annotations

import errno
import os

from agentm.errors import (
    ConcurrentModificationError,
    InvalidLocatorError,
    InvalidVersionError,
    StoreError,
    could_not,
    store_error,
)
from agentm.seam.locator import Locator

_LONGEST_NAME = 255


def refusal(number: int, *, backend: str, verb: str, locator: Locator) -> StoreError:
    """What an operating system would say."""
    return store_error(OSError(number, os.strerror(number)), backend=backend, verb=verb, locator=locator.key)


def changed(*, backend: str, verb: str, locator: Locator, current: str, expected: str) -> ConcurrentModificationError:
    """Another version stands there than the caller knew."""
    return ConcurrentModificationError(
        f"{could_not(backend, verb, locator.key)}: it changed since you read it; read it again and retry.",
        current=current,
        expected=expected,
        backend=backend,
        verb=verb,
        locator=locator.key,
    )


def check_token(version: object, *, backend: str, locator: Locator) -> None:
    """Refuse what is no token: taken for "any version", a forgotten one would overwrite what nobody has read."""
    if not isinstance(version, str):
        raise InvalidVersionError(
            f"{could_not(backend, 'write', locator.key)}: if_version is {version!r}, not a version token; pass the one "
            "you read, or ABSENT.",
            backend=backend,
            verb="write",
            locator=locator.key,
        )


def is_root(*, backend: str, verb: str) -> StoreError:
    """The root was to be removed or renamed."""
    return StoreError(
        f"{could_not(backend, verb, '')}: the root always stays; name what it holds instead.",
        code="is_root",
        errno=errno.EBUSY,
        backend=backend,
        verb=verb,
        locator="",
    )


def into_itself(*, backend: str, source: Locator) -> StoreError:
    """A directory was to move below itself."""
    return StoreError(
        f"{could_not(backend, 'rename', source.key)}: a directory cannot move into itself; choose a target outside it.",
        code="into_itself",
        errno=errno.EINVAL,
        backend=backend,
        verb="rename",
        locator=source.key,
    )


def check_names(locator: Locator, *, backend: str, verb: str) -> None:
    """Refuse a key that files could not have, so that a tree moves between all stores."""
    try:
        names = locator.key.encode("utf-8").split(b"/")
    except UnicodeEncodeError as cause:
        raise InvalidLocatorError(
            f"{could_not(backend, verb, locator.key)}: character {cause.start} of the key is half of a surrogate "
            "pair and has no UTF-8 form; choose plain characters.",
            backend=backend,
            verb=verb,
            locator=locator.key,
        ) from cause
    if max(map(len, names)) > _LONGEST_NAME:
        raise refusal(errno.ENAMETOOLONG, backend=backend, verb=verb, locator=locator)
