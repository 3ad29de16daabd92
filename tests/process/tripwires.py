"""Every function that could change something, replaced by one that tells; and a hash of everything below a directory.

The wires in `os` are all functions but those named here as harmless, so that one that is new to Python is a wire too.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentm.backends.device_local import DeviceLocalBackend
from agentm.backends.sqlite import SqliteBackend
from agentm.backends.vault import VaultBackend

_READS = """
    access close cpu_count device_encoding fstat fspath fstatvfs get_inheritable get_terminal_size getcwd getcwdb
    getegid geteuid getgid getgroups getlogin getpgid getpgrp getpid getppid getrandom getresgid getresuid getsid getuid
    getxattr isatty listdir listxattr lseek lstat open pread preadv read readlink readv scandir stat statvfs strerror
    sysconf times uname urandom
"""
_HARMLESS = frozenset(_READS.split())
_PATH_VERBS = (
    *("chmod", "hardlink_to", "lchmod", "link_to", "mkdir", "rename", "replace", "rmdir", "symlink_to", "touch"),
    *("unlink", "write_bytes", "write_text"),
)
_STORE_VERBS = ("__init__", "append", "lock", "mkdir", "remove", "rename", "write", "write_many", "write_versioned")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Tripped(BaseException):
    """Nothing may swallow it: whoever catches every Exception must not hide a write."""


class Wires:
    """What was stepped on."""

    def __init__(self) -> None:
        self.stepped_on: list[str] = []

    def wire(self, name: str) -> Callable[..., Any]:
        def trip(*_: object, **__: object) -> Any:
            self.stepped_on.append(name)
            raise Tripped(name)

        return trip

    def guard(self, name: str, real: Callable[..., Any], harmless: Callable[..., bool]) -> Callable[..., Any]:
        """Let through what is harmless."""

        def call(*args: Any, **options: Any) -> Any:
            return (real if harmless(*args, **options) else self.wire(name))(*args, **options)

        return call


@contextmanager
def tripwires() -> Iterator[Wires]:
    wires = Wires()
    with pytest.MonkeyPatch.context() as patch:
        for module in (os, shutil, tempfile):
            for name, value in vars(module).items():
                if _is_wire(module, name, value):
                    patch.setattr(module, name, wires.wire(f"{module.__name__}.{name}"))
        for name in filter(lambda verb: hasattr(pathlib.Path, verb), _PATH_VERBS):
            patch.setattr(pathlib.Path, name, wires.wire(f"Path.{name}"))
        for store in (DeviceLocalBackend, SqliteBackend, VaultBackend):
            for name in _STORE_VERBS:
                patch.setattr(store, name, wires.wire(f"{store.__name__}.{name}"))
        patch.setattr(subprocess.Popen, "__init__", wires.wire("subprocess.Popen"))
        patch.setattr(socket.socket, "connect", wires.wire("socket.connect"))
        patch.setattr(sqlite3, "connect", wires.guard("sqlite3.connect", sqlite3.connect, _reads_database))
        patch.setattr(os, "open", wires.guard("os.open", os.open, _reads_descriptor))
        patch.setattr(io, "open", wires.guard("io.open", io.open, _reads_file))
        patch.setattr(builtins, "open", wires.guard("open", builtins.open, _reads_file))
        if fcntl := _locks():
            patch.setattr(fcntl, "flock", wires.wire("fcntl.flock"))
            patch.setattr(fcntl, "lockf", wires.wire("fcntl.lockf"))
        yield wires


def _is_wire(module: types.ModuleType, name: str, value: object) -> bool:
    if module is os:
        python = isinstance(value, types.FunctionType) and name in (
            "makedirs",
            "removedirs",
            "renames",
            "popen",
            "fdopen",
        )
        built_in = isinstance(value, types.BuiltinFunctionType) and name not in _HARMLESS and not name.startswith("_")
        return python or built_in or name.startswith(("exec", "spawn"))
    if module is shutil:
        return isinstance(value, types.FunctionType) and name in shutil.__all__ and name not in ("which", "disk_usage")
    return name in ("NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory", "mkdtemp", "mkstemp", "mktemp")


def _locks() -> types.ModuleType | None:
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl


def _reads_database(address: object, *_: object, **options: object) -> bool:
    return bool(options.get("uri")) and str(address).endswith("?mode=ro&immutable=1")


def _reads_descriptor(_: object, flags: int, *__: object, **___: object) -> bool:
    return not flags & _WRITES


def _reads_file(_: object, mode: str = "r", *__: object, **___: object) -> bool:
    return not set(mode) & set("wxa+")


def fingerprint(root: str) -> str:
    """A hash of everything below a directory: names, kinds, modes, times, bytes. Reading does not change it."""
    digest = hashlib.sha256()
    for directory, folders, files in os.walk(root):
        folders.sort()
        for path in sorted([directory, *(os.path.join(directory, name) for name in (*folders, *files))]):
            digest.update(f"{path!r} {_what(path)}\n".encode())
    return digest.hexdigest()


def _what(path: str) -> str:
    found = os.lstat(path)
    facts = f"{found.st_mode:o} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    if os.path.islink(path):
        return f"{facts} {os.readlink(path)!r}"
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return f"{facts} {hashlib.sha256(file.read()).hexdigest()}"
    return facts
