"""Names of files for whatever a caller calls its things: none share a file, on any disk.

A name of plain lower-case characters is its own file name. Any other one becomes what can be read of it and a digest:
disks that ignore case or Unicode's spellings tell them apart as well. Only ASCII is kept, so that what a name becomes
does not change with the version of Unicode.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$)[a-z0-9_-]{1,100}")
_LONGEST_HINT = 48


def file_name(name: str, fallback: str = "item") -> str:
    """The same name always gives the same file name; no plain one holds the ``~`` before the digest."""
    if _PLAIN.fullmatch(name):
        return name
    hint = re.sub(r"[^a-z0-9_]+", "-", name[:_LONGEST_HINT].lower()).strip("-")
    return f"{hint or fallback}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
