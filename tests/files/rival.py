"""A rival who swaps folders and files for links that lead outside, as fast as one process can.

    python rival.py BASE

Prints "ready" once everything was swapped, swaps until its input ends, and then prints how often it did.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys

_EXCHANGE = 2
_HERE = -100  # AT_FDCWD

FOLDERS = (("in/dir", "../out"), ("in/sub", "../out"), ("in/top/deep", "../../out"))
"""What is swapped, and where the link in its place leads."""

FILE, FILE_LINK = "in/file", "../out/f"


_libc = ctypes.CDLL(None, use_errno=True)


def exchange(first: str, second: str) -> None:
    if _libc.renameat2(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), first)


def put(base: str, *, link: bool) -> None:
    """A file, or a link, in one step: writers replace what is there, so both are made anew."""
    temp = f"{base}/.swap"
    if link:
        os.symlink(FILE_LINK, temp)
    else:
        with open(temp, "w") as file:
            file.write("inside")
    os.rename(temp, f"{base}/{FILE}")


def main(base: str) -> None:
    pairs = []
    for number, (name, target) in enumerate(FOLDERS):
        pairs.append((f"{base}/{name}", f"{base}/in/link-{number}"))
        # Wherever it is moved to, it leads to the same folder.
        os.symlink(os.path.normpath(f"{base}/{os.path.dirname(name)}/{target}"), pairs[-1][1])
    swaps = swap_all(base, pairs)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        swaps += swap_all(base, pairs)
    print(swaps, flush=True)


def swap_all(base: str, pairs: list[tuple[str, str]]) -> int:
    for folder, link in pairs:
        exchange(folder, link)
    put(base, link=True)
    put(base, link=False)
    return len(pairs) + 2


if __name__ == "__main__":
    main(sys.argv[1])
