"""Run a server of several processes for as long as whoever started it wants it, and end all of them then.

    python -IS supervise.py LIFE DIRECTORY COMMAND…

LIFE is the number of a descriptor that reaches its end when the one who wants the server ends, however that
happens. DIRECTORY is the server's own and is removed with it. It imports nothing of Hyperslab: it lives
beside every measurement of a server and has next to nothing to do.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

# <linux/prctl.h>
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Between two looks at whether all processes of the server are still there. One that was there for so many of
# them is no helper that is meant to end.
LOOK_S, LOOKS = 0.25, 8
ENDED = "supervise: a process of the server has ended, so all of it is ended\n"


def below(parent: int) -> set[int]:
    """Return the processes that a process has started, and those that they have."""
    found: set[int] = set()
    with suppress(OSError):
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            for child in map(int, children.read_text(encoding="ascii").split()):
                found |= {child} | below(child)
    return found


def end(group: int) -> None:
    """End every process of the server, those that left its group too, and wait for all of them."""
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    while left := below(os.getpid()):
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def main() -> None:
    """Run the command."""
    life, directory, *command = int(sys.argv[1]), sys.argv[2], *sys.argv[3:]
    libc = ctypes.CDLL(None)
    # What loses its parent below this process becomes its child.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # What ends a run tells every process of it to end; this one ends with the one that it serves.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    mine = os.getpid()

    def begin() -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != mine:
            os._exit(1)

    # Descriptors that it was handed are the server's.
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=begin, close_fds=False
    )
    # A socket that this one held, too, would take connections for a server that has ended.
    for held in map(int, os.listdir("/proc/self/fd")):
        if held > 2 and held != life:
            # The one by which they were listed is closed already.
            with suppress(OSError):
                os.close(held)
    # Unlike select() it takes descriptors of any number.
    wanted = select.poll()
    wanted.register(life, select.POLLIN)
    seen: dict[int, int] = {}
    try:
        while not wanted.poll(LOOK_S * 1000):
            now = below(mine)
            ended = any(looks >= LOOKS for process, looks in seen.items() if process not in now)
            if ended or server.poll() is not None:
                sys.stderr.write(ENDED)
                break
            seen = {process: seen.get(process, 0) + 1 for process in now}
    finally:
        end(server.pid)
        # Who wanted it may still want to read what it said last.
        if wanted.poll():
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
