"""A program for tests of the fork server: as a script it is server or parent, as a module what they run."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

# What the parent has in memory and its children share with it.
PAGES = 4000
MEMORY = bytearray(PAGES * mmap.PAGESIZE)
SEEN: list[int] = []


def tell(*words: str) -> None:
    """Print all that a process was given."""
    mask = os.umask(0)
    told = {
        "words": words,
        "directory": os.getcwd(),
        "umask": mask,
        "input": sys.stdin.read(),
        "environment": {name: value for name, value in os.environ.items() if name.startswith("TEST_")},
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
        "main": sys.modules["__main__"].__file__,
        "program": sys.argv[0],
        "ignored": [number for number in signal.Signals if signal.getsignal(number) == signal.SIG_IGN],
        "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }
    print(json.dumps(told), flush=True)
    print("and this is an error", file=sys.stderr)


def whoami() -> None:
    """Print the processes' ids, whether this one was forked, and what an earlier one left in memory."""
    SEEN.append(os.getpid())
    print(json.dumps([os.getpid(), os.getppid(), os.environ.get("HYPERSLAB_FORKED"), len(SEEN)]))


def end(how: str) -> NoReturn:
    """End in one of many ways."""
    if how.startswith("signal "):
        os.kill(os.getpid(), int(how.split()[1]))
    if how == "exception":
        raise KeyError("no such thing")
    sys.exit(int(how) if how.isdecimal() else how or None)


def linger(path: str, seconds: str) -> None:
    """Keep a file for so long, or until told to end; killed, leave it."""

    def stop(number: int, _: object) -> None:
        Path(path).unlink()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    Path(path).write_text(str(os.getpid()))
    end = time.monotonic() + float(seconds)
    # A signal that comes just before a sleep is handled after it.
    while time.monotonic() < end:
        time.sleep(0.01)
    Path(path).unlink()


def write() -> None:
    """Print how many page faults writing to the memory costs that this process shares with its parent."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for page in range(PAGES):
        MEMORY[page * mmap.PAGESIZE] = 1
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def places() -> None:
    """Print where the heap ends and where a new mapping lies, within a huge page of 2 MiB.

    One that fits into no gap, and that the kernel does not align to huge pages, as it does whole ones.
    """
    library = ctypes.CDLL(None)
    library.sbrk.restype = ctypes.c_size_t
    mapping = mmap.mmap(-1, 2**26 + mmap.PAGESIZE)
    mapped = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    print(json.dumps([library.sbrk(0) % 2**21, mapped % 2**21]))


def main() -> None:
    """Entry point of a process."""
    name, *arguments = sys.argv[1:]
    deeds: dict[str, Callable[..., None]] = {
        "tell": tell, "whoami": whoami, "end": end, "linger": linger, "write": write, "places": places,
    }  # fmt: skip
    deeds[name](*arguments)


def _prepare() -> None:
    """Import what processes need; how that fails a variable says."""
    MEMORY[:] = b"\1" * len(MEMORY)
    match os.environ.get("TEST_PREPARE"):
        case "fails":
            raise ImportError
        case "cannot fork once":
            fork = os.fork

            def full() -> int:
                os.fork = fork
                raise BlockingIOError(errno.EAGAIN, "no process can be had")

            os.fork = full
        case "starts a thread":
            threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


def _serve() -> None:
    from hyperslab.measuring.fork_parent import Parent
    from hyperslab.measuring.fork_requests import Request
    from hyperslab.measuring.fork_server import Server, begin

    def parent(request: Request) -> list[str]:
        if request.module != "forked_program":
            raise ValueError(request.module)
        return [sys.executable, "-m", "forked_program", "parent"]

    role, *numbers = sys.argv[1:]
    if role == "run":
        # What Snakemake does: begin a server, then live.
        begin([sys.executable, "-m", "forked_program", "server"])
        print(os.environ["HYPERSLAB_FORK_SERVER"], flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()
    elif role == "server":
        Server(socket.socket(fileno=int(numbers[0])), parent).serve(sys.stdin.fileno())
    else:
        # The module and this script are two: what is prepared is the module's.
        import forked_program

        timed = os.environ.get("TEST_TIMED", "forked_program")
        Parent(socket.socket(fileno=int(numbers[0])), timed).serve(forked_program._prepare)


if __name__ == "__main__":
    if sys.argv[1] in ("run", "server", "parent"):
        _serve()
    else:
        main()
