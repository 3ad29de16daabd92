"""Whether the files of a full-text index are as they were written.

tantivy writes each of its files once, with a checksum at the end, and looks at that no more: what is damaged later
makes it fail, or find nothing. Adding up all bytes whenever an index is opened would take too long. So whoever writes
leaves a list of the files with their sizes and times, and only what is not as it stands there is added up.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from struct import unpack
from typing import Any

META = "meta.json"
"""tantivy's own list of its segments, replaced with every commit."""
NAME = "sealed.json"
_MAGIC = 1337
"""The last number in a file of tantivy's."""
_TAIL = 8
_AT_ONCE = 1 << 20

Stamp = list[int]
"""Size and time."""


class Seal:
    """The files in one directory of tantivy's."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._sound: dict[str, Stamp] = {}
        """Files that are as they were written, as they were when that was found out."""

    def check(self) -> None:
        """ValueError if a file of a segment that is searched is not as it was written."""
        self._sound = self._sealed()
        for name, stamp in self._files():
            if self._sound.get(name) != stamp:
                if not _is_whole(os.path.join(self._path, name)):
                    raise ValueError(f"{name} is damaged")
                self._sound[name] = stamp

    def put(self) -> None:
        """Leave word of what is there; what has come since the check was written a moment ago."""
        new = os.path.join(self._path, f"{NAME}.new")
        with suppress(OSError, ValueError):  # without it, all is added up
            known = {**self._sealed(), **self._sound}
            self._sound = {name: known.get(name, stamp) for name, stamp in self._files()}
            with open(new, "w", encoding="utf-8") as file:
                json.dump(self._sound, file)
            os.replace(new, os.path.join(self._path, NAME))

    def _sealed(self) -> dict[str, Stamp]:
        try:
            with open(os.path.join(self._path, NAME), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _files(self) -> Iterator[tuple[str, Stamp]]:
        """Those of the segments that are searched, with their stamps."""
        kept = {one["segment_id"].replace("-", ""): _deletes(one) for one in self.segments()}
        with os.scandir(self._path) as entries:
            for entry in entries:
                segment, _, kind = entry.name.partition(".")
                # Of what is deleted there may be an older list, and a newer one that somebody is writing.
                if segment in kept and (not kind.endswith("del") or entry.name == kept[segment]):
                    with suppress(FileNotFoundError):  # merged with others meanwhile
                        found = entry.stat()
                        yield entry.name, [found.st_size, found.st_mtime_ns]

    def segments(self) -> list[dict[str, Any]]:
        """What tantivy says of each segment that is searched, in its order."""
        with open(os.path.join(self._path, META), encoding="utf-8") as file:
            try:
                return list(json.load(file)["segments"])
            except (KeyError, TypeError) as cause:
                raise ValueError(f"{META} is damaged") from cause


def _deletes(segment: dict[str, Any]) -> str | None:
    """The file that says what of a segment is deleted."""
    deletes = segment["deletes"]
    return deletes and f"{segment['segment_id'].replace('-', '')}.{deletes['opstamp']}.del"


def _is_whole(path: str) -> bool:
    """Whether what a file says of itself at its end is so."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _TAIL:
                return False
            file.seek(size - _TAIL)
            length, magic = unpack("<II", file.read(_TAIL))
            body = size - _TAIL - length
            if magic != _MAGIC or body < 0:
                return False
            file.seek(body)
            said = json.loads(file.read(length))["crc"]
            file.seek(0)
            crc = 0
            while body:
                some = file.read(min(body, _AT_ONCE))
                body -= len(some)
                crc = zlib.crc32(some, crc)
    except FileNotFoundError:
        return True  # merged with others meanwhile
    except (ValueError, KeyError, TypeError):
        return False
    return bool(crc == said)
