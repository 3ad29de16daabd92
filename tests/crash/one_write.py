"""A process that opens a store, does one write between two recognisable system calls, and says how it went.

python one_write.py STORE ROOT LOCKS KEY TEXT [--again]
"""

import json
import os
import resource
import sys
from contextlib import contextmanager, suppress

from agentm.errors import AgentmError
from agentm.seam.locator import Locator

START, END = "/agentm-window-start", "/agentm-window-end"


def open_store(store, root, locks):
    if store == "device-local":
        from agentm.backends.device_local import DeviceLocalBackend

        return DeviceLocalBackend(root)
    if store == "vault":
        from agentm.backends.vault import VaultBackend

        return VaultBackend(root, lock_root=locks)
    from agentm.backends.sqlite import SqliteBackend

    return SqliteBackend(f"{root}/store.db")


@contextmanager
def opened(store, root, locks):
    """The store as long as it is needed: one that keeps a file open keeps its disk from being taken away."""
    backend = open_store(store, root, locks)
    try:
        yield backend
    finally:
        getattr(backend, "close", lambda: None)()


def attempt(backend, key, text):
    try:
        backend.write(Locator(key), text)
    except AgentmError as error:
        return {"ok": False, "code": error.code, "kind": type(error).__name__, "message": str(error)}
    except BaseException as error:
        return {"ok": False, "code": None, "kind": type(error).__name__, "message": str(error)}
    return {"ok": True}


def limit(option):
    name, _, value = option.partition("=")
    if name == "--biggest":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), int(value)))
    elif name == "--files":
        taken = 1 + max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken - 1 + int(value), taken - 1 + int(value)))


def main(store, root, locks, key, text, *options):
    backend = open_store(store, root, locks)
    for _ in range(2):
        attempt(backend, "warm", "so that everything is imported that a write needs")
    for option in options:
        limit(option)
    with suppress(OSError):
        os.stat(START)
    result = attempt(backend, key, text)
    with suppress(OSError):
        os.stat(END)
    if "--again" in options:
        result["again"] = attempt(backend, "again", "works")
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
