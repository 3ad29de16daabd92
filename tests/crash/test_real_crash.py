"""A real file system that is shut down in the middle of things: what the simulator claims, on ext4 or XFS."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentm.seam import Locator
from tests.crash.one_write import open_store
from tests.crash.put_loop import text
from tests.crash.straced import HERE, SOURCE

pytestmark = [pytest.mark.lab, pytest.mark.spec("SEAM-06", "SEAM-13", "SEAM-14")]

GOING_DOWN = 0x8004587D
WITHOUT_FLUSHING_THE_LOG = 2


class Disk:
    """A file system in a file, which can be made to lose power."""

    def __init__(self, kind: str, base: str) -> None:
        self.image, self.point = f"{base}/image", f"{base}/mounted"
        os.mkdir(self.point)
        with open(self.image, "wb") as file:
            file.truncate(320 << 20)
        command = ["mkfs.xfs", "-q", self.image] if kind == "xfs" else ["mkfs.ext4", "-q", "-F", self.image]
        subprocess.run(command, check=True, capture_output=True)

    def mount(self) -> None:
        done = subprocess.run(["mount", "-o", "loop", self.image, self.point], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no loop mounts here: {done.stderr.strip()}")

    def unmount(self) -> None:
        subprocess.run(["umount", self.point], check=True, capture_output=True)

    def lose_power(self) -> None:
        fd = os.open(self.point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, GOING_DOWN, struct.pack("I", WITHOUT_FLUSHING_THE_LOG))
        finally:
            os.close(fd)


@contextmanager
def disk(kind: str, base: str) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"there is no mkfs.{kind}")
    made = Disk(kind, base)
    made.mount()
    try:
        yield made
    finally:
        if os.path.ismount(made.point):
            made.unmount()


def crash_while_writing(made: Disk, store: str, root: str, locks: str, acks: int, *options: str) -> int:
    """Start a writer, cut the power after some acknowledgements, bring the disk back; returns how many there were."""
    writer = subprocess.Popen(
        [sys.executable, os.path.join(HERE, "put_loop.py"), store, root, locks, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.path.dirname(os.path.dirname(HERE))])},
    )
    assert writer.stdout is not None
    try:
        acknowledged = 0
        for _ in range(acks):
            said = writer.stdout.read(8)
            assert said, "the writer ended before the crash"
            acknowledged = int(said)
        made.lose_power()  # acknowledgements that are not read yet do not count
    finally:
        writer.kill()
        writer.communicate()
    made.unmount()
    made.mount()
    return acknowledged


def lost(store: str, root: str, locks: str, acknowledged: int) -> list[str]:
    """What was acknowledged and is not there, or not whole."""
    if not os.path.isdir(root):
        return ["everything"]
    backend = open_store(store, root, locks)
    gone = []
    for n in range(1, acknowledged + 1):
        place = Locator(f"new-{n}/deep/note")
        if not backend.exists(place) or backend.read(place) != text(n):
            gone.append(place.key)
    now = backend.read(Locator("same")) if backend.exists(Locator("same")) else ""
    if now[:8].strip() == "" or int(now[:8]) < acknowledged or now != text(int(now[:8])):
        gone.append("same")
    left = [name for name in os.listdir(root) if name.startswith(".agentm")]
    return gone + left


def rounds(kind: str, store: str, base: str, count: int, *options: str) -> tuple[int, list[str]]:
    """Crash after crash on one disk, each time with a new store; returns the acknowledgements and what was lost."""
    chance = random.Random(count)
    total, gone = 0, []
    with disk(kind, base) as made:
        for n in range(count):
            root = f"{made.point}/{n}/store"
            os.makedirs(os.path.dirname(root))
            os.sync()
            acknowledged = crash_while_writing(made, store, root, f"{base}/locks", chance.randint(1, 25), *options)
            total += acknowledged
            gone += [f"round {n}: {what}" for what in lost(store, root, f"{base}/locks", acknowledged)]
    return total, gone


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("store", ["device-local", "vault", "sqlite"])
def test_nothing_acknowledged_is_lost(tmp_path_factory: pytest.TempPathFactory, kind: str, store: str) -> None:
    total, gone = rounds(kind, store, str(tmp_path_factory.mktemp("disk")), 25)
    print(f"{store} on {kind}: 25 crashes, {2 * total} acknowledged writes, {len(gone)} lost")
    assert not gone, "\n".join(gone)
    assert total > 100


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_the_crash_is_a_real_one(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    """Without flushing directories something is lost: else the test above would prove nothing."""
    _, gone = rounds(kind, "device-local", str(tmp_path_factory.mktemp("disk")), 10, "--forget-directories")
    assert gone
