"""What processes of this machine are: who started them, by which command, and on which ports they listen."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def commands() -> list[bytes]:
    """The command of every process of this machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes())
        except OSError:
            continue
    return found


def children(process: int) -> list[int]:
    """The processes that another has started, dead ones included, and none if it has ended itself."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return found


def below(process: int) -> list[int]:
    """Those, and all that they have started."""
    return [found for child in children(process) for found in (child, *below(child))]


def called(process: int, word: str) -> bool:
    """Whether the command of a process has a word in it."""
    try:
        return word in Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return False


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ports(*processes: int) -> list[int]:
    """Ports of loopback on which processes listen, none of those that have ended."""
    found = []
    for process in processes:
        with suppress(OSError):
            found += _ports(process)
    return found


def _ports(process: int) -> list[int]:
    sockets = set()
    for descriptor in os.listdir(f"/proc/{process}/fd"):
        with suppress(OSError):
            sockets.add(os.readlink(f"/proc/{process}/fd/{descriptor}"))
    found = []
    for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        # 0A: it listens.
        if state == "0A" and f"socket:[{inode}]" in sockets:
            found.append(int(local.rpartition(":")[2], 16))
    return found
