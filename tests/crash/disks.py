"""File systems in a file that can be made to lose power, and processes that work on them until then."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentm.conformance.crashsim import scratch
from tests.crash.straced import HERE, SOURCE

GOING_DOWN = 0x8004587D
WITHOUT_FLUSHING_THE_LOG = 2

KINDS = {"ext4": (64 << 20, ("mkfs.ext4", "-q", "-F")), "xfs": (320 << 20, ("mkfs.xfs", "-q"))}
"""The size of the image, of which only what is written takes room (XFS will not have less), and what formats it."""


class Disk:
    """A file system in a file, which can be made to lose power."""

    def __init__(self, kind: str, base: str) -> None:
        self.image, self.point, self.locks = f"{base}/image", f"{base}/mounted", f"{base}/locks"
        os.mkdir(self.point)
        size, command = KINDS[kind]
        with open(self.image, "wb") as file:
            file.truncate(size)
        subprocess.run([*command, self.image], check=True, capture_output=True)

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

    def come_back(self) -> None:
        self.unmount()
        self.mount()

    @contextmanager
    def fresh_place(self, name: str) -> Iterator[str]:
        """Where a store will be, below a folder that survives; it goes afterwards, so that the disk never fills."""
        folder = f"{self.point}/{name}"
        os.makedirs(folder)
        os.sync()
        try:
            yield f"{folder}/store"
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def disk(kind: str) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"there is no mkfs.{kind}; tools/test-deps.sh crash installs it")
    with scratch() as base:  # the disk that loses power may itself lie in memory: what was not flushed to it is gone
        made = Disk(kind, base)
        made.mount()
        try:
            yield made
        finally:
            # Lazily: what a test that failed has left open must not keep the disk mounted for good.
            subprocess.run(["umount", "--lazy", made.point], capture_output=True)


@contextmanager
def process(script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of this folder, with a pipe to and from it; gone afterwards, whatever it was doing."""
    started = subprocess.Popen(
        [sys.executable, os.path.join(HERE, script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.path.dirname(os.path.dirname(HERE))])},
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def heard(speaker: subprocess.Popen[bytes], count: int) -> bytes:
    """So many bytes from a process, which must not end before."""
    assert speaker.stdout is not None
    assert speaker.stderr is not None
    said = speaker.stdout.read(count)
    assert len(said) == count, f"it ended before the crash: {speaker.stderr.read().decode()}"
    return said
