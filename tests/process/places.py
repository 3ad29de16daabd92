"""A home with a memory and a project in it, on any of the built-in stores that last."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import agentm

NOTES = {
    "personal/_always-load/style.md": "Tests first.",
    "projects/loom/_index.md": "The loom project.",
    "projects/loom/decisions/dobby.md": "We build our own dobby.",
    "projects/loom/known-issues/crlf.md": "CRLF breaks the parser.",
}
STORES = ("device-local", "vault", "sqlite")


@dataclass
class Place:
    """Where everything is: the home, the project's directory, and the store's file or folder."""

    home: str
    project: str
    store: str

    @property
    def context(self) -> dict[str, Any]:
        return {"cwd": self.project}


def put(path: str, content: str | bytes) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


def configure(home: str, values: object) -> None:
    text = values if isinstance(values, str) else json.dumps(values)
    put(os.path.join(home, ".agentm", ".agentm-config.json"), text)


def build(home: str, protocol: str, notes: dict[str, str] | None = None) -> Place:
    """A configured home with a project `loom`, and its notes in a store of that kind."""
    project = os.path.join(home, "code", "loom")
    put(os.path.join(project, ".harness", "project.json"), '{"vault_project": "loom"}')
    store = {
        "device-local": os.path.join(home, ".agentm", "memory"),
        "vault": os.path.join(home, "Notes"),
        "sqlite": os.path.join(home, ".agentm", "memory.db"),
    }[protocol]
    configure(home, {"storage.backend": protocol, "plugins.obsidian-vault.vault_path": os.path.join(home, "Notes")})
    backend = agentm.select_backend()
    for key, text in (NOTES if notes is None else notes).items():
        backend.write(backend.resolve(key), text)
    if isinstance(backend, agentm.SqliteBackend):
        backend.close()
    return Place(home, project, store)
