"""What the tests of the imports share: sources of every kind, and a memory to bring them into."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from agentm import ContextFS, ContextNode, RequestContext
from agentm.importing.kinds import KINDS, detect
from agentm.importing.report import Action, ImportReport
from agentm.importing.restore import restore
from agentm.importing.run import import_from

ALICE = RequestContext("acme", user_id="alice", agent_id="scout", actor="human:alice")
MINE = "ctx://acme/users/alice/memories"


def lay(root: Path, files: dict[str, str | bytes]) -> Path:
    """A folder with these files."""
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def zipped(path: Path, members: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def bomb(path: Path, members: dict[str, str | bytes]) -> Path:
    """A zip that says of its last member that it unpacks to a gigabyte."""
    data = bytearray(zipped(path, members).read_bytes())
    at = data.rfind(b"PK\x01\x02") + 24
    data[at : at + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(data)
    return path


class Importer:
    """A memory, and a source beside it."""

    def __init__(self, fs: ContextFS, source: Path) -> None:
        self.fs = fs
        self.source = source
        self.ctx = ALICE

    def notes(self, files: dict[str, str | bytes], **options: Any) -> ImportReport:
        """Import a folder with these notes."""
        return self(lay(self.source, files), **options)

    def dump(self, value: Any, **options: Any) -> ImportReport:
        """Import a JSON file that says this."""
        lay(self.source, {"dump.json": value if isinstance(value, str | bytes) else json.dumps(value)})
        return self(self.source / "dump.json", **options)

    def __call__(self, path: Path, *, kind: str | None = None, to: str = "users/alice", **options: Any) -> ImportReport:
        named = {one.name: one for one in KINDS}
        chosen = named[kind] if kind else detect(str(path))
        if chosen.name == "agentm":
            return restore(self.fs, self.ctx, str(path), **options)
        return import_from(self.fs, self.ctx, chosen, str(path), f"ctx://acme/{to}", **options)

    def read(self, name: str) -> ContextNode:
        return self.fs.read_node(f"{MINE}/{name}", self.ctx)

    def edges(self, name: str) -> list[tuple[str, str]]:
        """Type and target of each edge that leads away from a memory."""
        found = self.fs.relations(f"{MINE}/{name}", self.ctx, direction="out")
        return [(edge.relation_type, edge.to_uri.removeprefix(f"{MINE}/")) for edge in found]

    def names(self) -> list[str]:
        """All memories of alice."""
        categories = self.fs.list_children(MINE, self.ctx)
        found = [uri for category in categories for uri in self.fs.list_children(category, self.ctx)]
        return [uri.removeprefix(f"{MINE}/") for uri in found]


def counts(report: ImportReport) -> dict[str, int]:
    """How many of each, without those that are none."""
    return {action.value: number for action, number in report.counts.items() if number}


def left_out(report: ImportReport) -> dict[str, str]:
    """File or ID, and the code, of everything that was left out."""
    return {one.source.rpartition("/")[2]: one.code for one in report.of(Action.LEFT_OUT)}
