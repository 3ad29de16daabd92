"""The processes of the race tests. Each says what it does on its output, and waits on its input, never on the clock.

python worker.py ROLE STORE DIRECTORY ARGUMENTS...
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from agentm.backends import _durable
from agentm.errors import AgentmError, ConcurrentModificationError
from agentm.seam import ABSENT, Locator, update


def open_store(store, directory):
    if store == "device-local":
        from agentm.backends.device_local import DeviceLocalBackend

        return DeviceLocalBackend(f"{directory}/root")
    if store == "vault":
        from agentm.backends.vault import VaultBackend

        VaultBackend.lock_patience = float(os.environ.get("LOCK_PATIENCE", "10"))
        return VaultBackend(f"{directory}/root", lock_root=f"{directory}/locks")
    if store == "memory":
        from agentm.backends.memory import MemoryBackend

        return MemoryBackend()
    from agentm.backends.sqlite import SqliteBackend

    os.makedirs(f"{directory}/root", exist_ok=True)
    return SqliteBackend(f"{directory}/root/store.db")


def say(*words):
    print(*words, flush=True)


def hear():
    """Wait for the parent; without one, end."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(3)
    return line.strip()


def one_more(text):
    return str(int(text or 0) + 1)


def count(backend, times):
    """Add one to a counter, again and again, by compare-and-swap."""
    say("ready")
    hear()
    for _ in range(int(times)):
        update(backend, Locator("a/counter"), one_more, patience=600)
    say("done")


def fill(backend, name, times):
    """Write keys that nobody else writes."""
    say("ready")
    hear()
    for n in range(int(times)):
        backend.write(Locator(f"shared/{name}-{n}"), f"{name} wrote {n}")
    say("done")


def interrupted(point, meanwhile):
    """Have the next call of a function of the durable-write module do something else first, once."""
    real = getattr(_durable, point)

    def once(*arguments):
        setattr(_durable, point, real)
        meanwhile()
        return real(*arguments)

    setattr(_durable, point, once)


def stop(backend, point, text):
    """Hold the lock and stop, as SIGSTOP does, just before one step of a write."""
    version = backend.read_versioned(Locator("a/note")).version

    def sleep():
        say("holding")
        os.kill(os.getpid(), signal.SIGSTOP)

    interrupted(point, sleep)
    try:
        backend.write_versioned(Locator("a/note"), text, if_version=version)
    except AgentmError as error:
        say("refused", type(error).__name__)
    else:
        say("written")


def pause(backend, point, text):
    """Wait for the parent's word just before one step of a write; what it says until then is run as Python."""

    def wait():
        say("holding")
        while (order := hear()) != "go":
            exec(order, {"os": os, "path": backend._mutex.path})
            say("did")

    old = backend.read_versioned(Locator("a/note"))
    interrupted(point, wait)
    try:
        backend.write_versioned(Locator("a/note"), old.content + text, if_version=old.version)
    except AgentmError as error:
        say("refused", type(error).__name__)
    else:
        say("written")


def add(backend, text):
    """Add to the note, waiting for whoever is writing it."""
    say("ready")
    hear()
    update(backend, Locator("a/note"), lambda old: f"{old}{text}")
    say("done")


def write_once(backend, text):
    say("ready")
    hear()
    backend.write(Locator("a/note"), text)
    say("done")


def dies(store, directory, times):
    """Kill a writer at an unforeseeable moment of a write, many times; after each death the store must be whole."""
    kill_often(store, directory, times, write_for_ever, leftovers, check_after_death)


def kill_often(store, directory, times, write, left, check, *, most_writes=4, longest_wait=20_000):
    """Kill whoever runs ``write``, until enough deaths have left something ``left``; ``check`` the store after each."""
    chance, wanted = random.Random(int(times)), int(times)
    kills = struck = 0
    while kills < wanted or (struck < wanted // 10 and kills < 20 * wanted):
        kills += 1
        inlet, outlet = os.pipe()
        child = os.fork()
        if not child:
            write(open_store(store, directory), outlet)
        os.close(outlet)
        acknowledged = 0
        for _ in range(chance.randint(1, most_writes)):
            acknowledged = int(os.read(inlet, 8))
        for _ in range(chance.randint(0, longest_wait)):  # somewhere in the middle of the next write
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while said := os.read(inlet, 8):
            acknowledged = int(said)
        os.close(inlet)
        struck += bool(left(directory))
        check(open_store(store, directory), directory, acknowledged)
    say("done", struck, kills)


def write_for_ever(backend, outlet):
    n = 0
    while True:
        n += 1
        backend.write(Locator(f"d{n % 3}/note"), f"{n:8}" + "x" * 20_000)
        backend.write(Locator("last"), f"{n:8}" + "x" * 20_000)
        os.write(outlet, b"%8d" % n)


def check_after_death(backend, directory, acknowledged):
    text = backend.read(Locator("last"))
    if int(text[:8]) not in (acknowledged, acknowledged + 1) or text[8:] != "x" * 20_000:
        sys.exit(f"acknowledged {acknowledged}, found {text[:20]!r} of length {len(text)}")
    backend.write(Locator("after"), "works")
    if left := leftovers(directory):
        sys.exit(f"left behind: {left}")


def leftovers(directory):
    """What only a write that is under way has beside the store's own files."""
    names = os.listdir(f"{directory}/root")
    return [name for name in names if name.startswith(_durable.TEMP_PREFIX) or name.endswith("-journal")]


def gather(backend, name):
    """Agentm's side of the rivalry: put a mark of its own to whatever is there, by compare-and-swap."""
    say("ready")
    hear()
    os.set_blocking(0, False)
    written: list[str] = []
    refused = 0
    while not told_to_stop():
        mark = f" {name}{len(written) + refused} "
        try:
            old = backend.read_versioned(Locator("a/note"))
            content, version = old.content, old.version
        except FileNotFoundError:
            content, version = "", ABSENT
        try:
            backend.write_versioned(Locator("a/note"), content + mark, if_version=version)
            written.append(mark.strip())
        except ConcurrentModificationError:
            refused += 1
    say("done", refused, *written)


def told_to_stop():
    try:
        return bool(os.read(0, 64))
    except BlockingIOError:
        return False


def rival(directory, how):
    """Someone who has never heard of the lock, but is careful: whatever it writes over goes into its archive."""
    path, spare = f"{directory}/root/a/note", f"{directory}/spare"
    archive = os.open(f"{directory}/archive", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    say("ready")
    hear()
    os.set_blocking(0, False)
    serial = 0
    while not told_to_stop():
        serial += 1
        while (old := WAYS[how](path, spare, f" r{serial} ".encode())) is None:
            pass  # what it meant to write over was gone or was there already: again
        os.write(archive, old)
    say("done", serial)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    with open(path, "wb") as file:
        file.write(data)


def by_replacing(path, spare, data):
    """A new file takes the old one's place, as sync clients and careful editors do."""
    put(spare, data)
    with suppress(FileNotFoundError):
        _durable.exchange(spare, path)
        return content_of(spare)
    return None


def by_writing_in_place(path, _, data):
    """The old file is opened, read, emptied and written to, as careless editors do."""
    with suppress(FileNotFoundError), open(path, "r+b", buffering=0) as file:
        old = file.read()
        file.truncate(0)
        file.seek(0)
        file.write(data)
        return old
    return None


def by_removing_first(path, spare, data):
    """The old file goes away, and a moment later a new one comes."""
    put(f"{spare}-new", data)
    old = b""
    while True:
        with suppress(FileNotFoundError):
            os.rename(path, spare)
            old += content_of(spare)
        with suppress(FileExistsError):
            _durable.rename_new(f"{spare}-new", path)
            return old


WAYS = {"replace": by_replacing, "in-place": by_writing_in_place, "remove": by_removing_first}

ROLES: dict[str, Callable[..., None]] = {
    "count": count,
    "fill": fill,
    "stop": stop,
    "pause": pause,
    "add": add,
    "write-once": write_once,
    "gather": gather,
}
ALONE: dict[str, Callable[..., None]] = {"rival": rival, "dies": dies}

if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role in ROLES:
        store, directory, *rest = arguments
        ROLES[role](open_store(store, directory), *rest)
    else:
        ALONE[role](*arguments)
