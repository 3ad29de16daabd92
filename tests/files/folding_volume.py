"""A volume that takes ``ACME`` for ``acme``, and both forms of ``é`` for one: a file system in Python on /dev/fuse.

    python folding_volume.py MOUNTPOINT

Names are kept as they were first given and found in any case and any normal form. Everything is in main memory. It
prints "mounted" and serves until it is unmounted, or until who started it ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_libc = ctypes.CDLL(None, use_errno=True)

_LAZY = 2  # MNT_DETACH
_NOSUID, _NODEV = 2, 4
_SIGNAL_WHEN_PARENT_ENDS = 1

_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQ10I")
_ENTRY = struct.Struct("<QQQQII")
_NO_REPLACE = 1
_LARGEST_WRITE = 1 << 17


class Unusable(Exception):
    """Such a volume cannot be mounted here."""


@contextmanager
def folding_volume(directory: str) -> Iterator[str]:
    """The path of a mounted volume, below a directory."""
    if not sys.platform.startswith("linux") or not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        raise Unusable("mounting a volume needs Linux, /dev/fuse and root")
    path = os.path.join(os.path.realpath(directory), "volume")
    os.mkdir(path)
    server = subprocess.Popen([sys.executable, __file__, path], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != "mounted\n":
            raise Unusable("the system let no volume be mounted")
        yield path
    finally:
        _unmount(path)
        server.kill()
        server.communicate()
        os.rmdir(path)


def _unmount(path: str) -> None:
    _libc.umount2(os.fsencode(path), _LAZY)


def folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


class Node:
    """A file or a folder."""

    def __init__(self, number: int, mode: int) -> None:
        self.number = number
        self.mode = mode
        self.data = bytearray()
        self.names: dict[str, tuple[str, Node]] = {}
        """For a folder: what is in it, by folded name, with the name as it was given."""
        self.changed = time.time_ns()
        self.gone = False

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    def attributes(self) -> bytes:
        seconds, rest = divmod(self.changed, 10**9)
        links = 0 if self.gone else 2 if self.is_dir else 1
        size = len(self.data)
        times = (seconds, seconds, seconds, rest, rest, rest)
        return _ATTR.pack(self.number, size, (size + 511) // 512, *times, self.mode, links, 0, 0, 0, 4096, 0)

    def entry(self) -> bytes:
        """Found, and to be asked for anew every time."""
        return _ENTRY.pack(self.number, 0, 0, 0, 0, 0) + self.attributes()


class Volume:
    """Answers what the kernel asks; an OSError is the answer no."""

    def __init__(self) -> None:
        self._nodes = {1: Node(1, stat.S_IFDIR | 0o755)}
        self._verbs: dict[int, Callable[[Node, bytes], bytes]] = {
            1: lambda node, data: self._found(node, _name(data)).entry(),
            3: lambda node, data: _attributes(node),
            4: self._set_attributes,
            9: self._mkdir,
            10: lambda node, data: self._remove(node, _name(data), is_dir=False),
            11: lambda node, data: self._remove(node, _name(data), is_dir=True),
            12: lambda node, data: self._rename(node, data[:8], data[8:], 0),
            14: lambda node, data: _OPENED,
            15: _read,
            16: _write,
            17: lambda node, data: struct.pack("<5Q10I", 1 << 20, 1 << 20, 1 << 20, 0, 0, 4096, 255, 4096, *[0] * 7),
            18: _done,
            20: _done,
            25: _done,
            26: _init,
            27: lambda node, data: _OPENED,
            28: _listed,
            29: _done,
            30: _done,
            34: _done,
            35: self._create,
            38: _done,
            45: lambda node, data: self._rename(node, data[:8], data[16:], struct.unpack_from("<I", data, 8)[0]),
        }

    def answer(self, verb: int, number: int, data: bytes) -> bytes:
        act = self._verbs.get(verb)
        if act is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return act(self._nodes.get(number, self._nodes[1]), data)

    def _found(self, folder: Node, name: str) -> Node:
        if folded(name) not in folder.names:
            _no(errno.ENOENT)
        return folder.names[folded(name)][1]

    def _made(self, folder: Node, name: str, mode: int) -> Node:
        if len(os.fsencode(name)) > 255:
            _no(errno.ENAMETOOLONG)
        if folded(name) in folder.names:
            _no(errno.EEXIST)
        node = Node(max(self._nodes) + 1, mode)
        self._nodes[node.number] = node
        folder.names[folded(name)] = name, node
        folder.changed = time.time_ns()
        return node

    def _mkdir(self, folder: Node, data: bytes) -> bytes:
        mode, _ = struct.unpack_from("<II", data)
        return self._made(folder, _name(data[8:]), stat.S_IFDIR | stat.S_IMODE(mode)).entry()

    def _create(self, folder: Node, data: bytes) -> bytes:
        _, mode = struct.unpack_from("<II", data)
        return self._made(folder, _name(data[16:]), stat.S_IFREG | stat.S_IMODE(mode)).entry() + _OPENED

    def _remove(self, folder: Node, name: str, *, is_dir: bool) -> bytes:
        node = self._found(folder, name)
        if node.is_dir != is_dir:
            _no(errno.EISDIR if node.is_dir else errno.ENOTDIR)
        if node.names:
            _no(errno.ENOTEMPTY)
        del folder.names[folded(name)]
        node.gone = True
        folder.changed = time.time_ns()
        return b""

    def _rename(self, folder: Node, target: bytes, names: bytes, flags: int) -> bytes:
        old, new, _ = (os.fsdecode(part) for part in names.split(b"\0"))
        into = self._nodes[struct.unpack("<Q", target)[0]]
        if flags & ~_NO_REPLACE:
            _no(errno.EINVAL)
        node = self._found(folder, old)
        there = into.names.get(folded(new))
        if there is not None and there[1] is not node:
            if flags & _NO_REPLACE:
                _no(errno.EEXIST)
            self._remove(into, new, is_dir=node.is_dir)
        del folder.names[folded(old)]
        into.names[folded(new)] = new, node
        folder.changed = into.changed = time.time_ns()
        return b""

    def _set_attributes(self, node: Node, data: bytes) -> bytes:
        valid, size = struct.unpack_from("<I12xQ", data)
        if valid & 1:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(struct.unpack_from("<I", data, 68)[0])
        if valid & 8:
            del node.data[size:]
            node.data.extend(bytes(size - len(node.data)))
            node.changed = time.time_ns()
        return _attributes(node)


_OPENED = struct.pack("<QII", 0, 1, 0)  # and past the page cache


def _attributes(node: Node) -> bytes:
    return struct.pack("<QII", 0, 0, 0) + node.attributes()


def _init(node: Node, data: bytes) -> bytes:
    return struct.pack("<IIIIHHIIHHIIH22x", 7, 31, 0, 0, 12, 10, _LARGEST_WRITE, 1, 0, 0, 0, 0, 0)


def _done(node: Node, data: bytes) -> bytes:
    return b""


def _read(node: Node, data: bytes) -> bytes:
    _, offset, size = struct.unpack_from("<QQI", data)
    return bytes(node.data[offset : offset + size])


def _write(node: Node, data: bytes) -> bytes:
    _, offset, size = struct.unpack_from("<QQI", data)
    node.data.extend(bytes(max(0, offset - len(node.data))))
    node.data[offset : offset + size] = data[40 : 40 + size]
    node.changed = time.time_ns()
    return struct.pack("<II", size, 0)


def _listed(node: Node, data: bytes) -> bytes:
    _, offset, size = struct.unpack_from("<QQI", data)
    found = b""
    for number, (name, child) in enumerate(node.names.values(), 1):
        if number <= offset:
            continue
        raw = os.fsencode(name)
        one = struct.pack("<QQII", child.number, number, len(raw), stat.S_IFMT(child.mode) >> 12) + raw
        one += bytes(-len(one) % 8)
        if len(found) + len(one) > size:
            break
        found += one
    return found


def _name(data: bytes) -> str:
    return os.fsdecode(data.split(b"\0", 1)[0])


def _no(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))


def serve(path: str) -> None:
    def end(*_: object) -> None:
        _unmount(path)
        sys.exit()

    signal.signal(signal.SIGTERM, end)
    _libc.prctl(_SIGNAL_WHEN_PARENT_ENDS, signal.SIGTERM)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if _libc.mount(b"folding", os.fsencode(path), b"fuse", _NOSUID | _NODEV, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    print("mounted", flush=True)
    volume = Volume()
    silent = (2, 36, 42)  # forgotten and interrupted: nobody waits for an answer
    while True:
        try:
            asked = os.read(device, _LARGEST_WRITE + 4096)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            return  # unmounted
        _, verb, unique, number, *_ = _IN.unpack_from(asked)
        if verb in silent:
            continue
        try:
            code, answer = 0, volume.answer(verb, number, asked[_IN.size :])
        except OSError as error:
            code, answer = -(error.errno or errno.EIO), b""
        try:
            os.write(device, _OUT.pack(_OUT.size + len(answer), code, unique) + answer)
        except OSError as error:
            if error.errno != errno.ENOENT:  # who asked is gone
                raise


if __name__ == "__main__":
    serve(sys.argv[1])
