"""What processes of this machine are: who started them, by which command, and on which ports they listen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def every_process(file: str) -> Iterator[tuple[int, bytes]]:
    """Every process of this machine, with the content of this file about it."""
    # Tests look again and again, and to find a path for each process takes longer than to read what it says.
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/{file}", "rb", buffering=0) as opened:
                content = opened.read()
        except OSError:
            # It has ended.
            continue
        yield int(name), content


def commands() -> list[bytes]:
    """The command of every process of this machine."""
    return [command for _, command in every_process("cmdline")]


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


def named(process: int, name: str) -> bool:
    """Whether a process bears this name, which one that was forked may have given itself."""
    try:
        return Path(f"/proc/{process}/comm").read_text() == f"{name}\n"
    except OSError:
        return False


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def age(process: int) -> float:
    """Seconds for which a process has run."""
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


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
