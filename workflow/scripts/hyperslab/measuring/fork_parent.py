"""A parent: a process of one thread that has imported what its children need, and forks them.

It never opens a file with a format's library, so there is nothing that a fork could break. A child belongs to
the client that asked for it: it has that one's directory, environment, standard streams and arguments, gets
its signals, and is told to end (SIGTERM) when client or parent die.

Parent and child share memory until one of them writes to it; the kernel then copies the page, and a stopwatch
would see that. So a child first makes all of it its own: then it has what a new interpreter has after the
same imports. And as a new program lies elsewhere in memory each time, by chance, so does what a child gets
anew: else what an address does to a time would be the same in all cells of a run, and rounds would not
average it out.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
import os
import secrets
import selectors
import signal
import socket
import sys
from array import array
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, NoReturn

from hyperslab.measuring import fork_requests
from hyperslab.measuring.fork_requests import Request
from hyperslab.measuring.parent import end_with_parent

# Set to 1 in a child, for its record.
FORKED = "HYPERSLAB_FORKED"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# <linux/prctl.h>; <linux/mman.h>, since Linux 5.14.
PR_SET_NAME, MADV_POPULATE_READ, MADV_POPULATE_WRITE = 15, 22, 23
# Of an entry of /proc/self/pagemap; and where addresses are the kernel's.
PRESENT, OF_A_FILE, KERNEL = 1 << 63, 1 << 61, 1 << 63
PAGE = os.sysconf("SC_PAGE_SIZE")
# Pages of a huge page of 2 MiB: within one, addresses differ in what counts.
MOST_SKIPPED = 2**21 // PAGE
# <bits/mman-linux.h>
PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


class Pages(NamedTuple):
    """Pages of this process that lie together in memory, and how another is to get the like of them."""

    address: int
    length: int
    advice: int


def pages_in_use() -> list[Pages]:
    """Return all memory that this process has at this moment: pages that it wrote, and those of files."""
    found = []
    with Path("/proc/self/pagemap").open("rb", buffering=0) as map_:
        for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
            place, permissions, _ = line.split(maxsplit=2)
            start, end = (int(number, 16) for number in place.split("-"))
            if start >= KERNEL:
                continue
            # Eight bytes a page (Documentation/admin-guide/mm/pagemap.rst).
            content = os.pread(map_.fileno(), (end - start) // PAGE * 8, start // PAGE * 8)
            advices = [_advice(entry, "w" in permissions) for entry in array("Q", content)]
            for advice, run in groupby(enumerate(advices), lambda page: page[1]):
                if advice:
                    numbers = [number for number, _ in run]
                    found.append(Pages(start + numbers[0] * PAGE, len(numbers) * PAGE, advice))
    return found


def _advice(entry: int, writable: bool) -> int:
    """Return what makes a page like this one: a write, a read, or nothing (0) where it is not there."""
    if not entry & PRESENT:
        return 0
    return MADV_POPULATE_WRITE if writable and not entry & OF_A_FILE else MADV_POPULATE_READ


def own(pages: Iterable[Pages]) -> None:
    """Have the kernel give this process now what else it would get page by page, as it comes to use them."""
    for address, length, advice in pages:
        failed = _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), advice)
        if failed and advice == MADV_POPULATE_WRITE:
            # An older kernel. Every page is written, with what it holds.
            for place in range(address, address + length, PAGE):
                ctypes.memmove(place, place, 1)


def lie_elsewhere() -> None:
    """Have all that this process gets anew lie at random pages, as the kernel has it for a new program.

    Which part of a large array lies on huge pages, for one, depends on its address.
    """
    heap, mappings = (PAGE * secrets.randbelow(MOST_SKIPPED) for _ in range(2))
    _libc.sbrk(ctypes.c_ssize_t(heap))
    # Addresses without memory, where mappings go; they stay taken.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    _libc.mmap(None, ctypes.c_size_t(mappings), PROT_NONE, flags, -1, ctypes.c_long(0))


class Parent:
    """Forks a child for each request that comes at `control`; one of the module `timed` owns its memory."""

    def __init__(self, control: socket.socket, timed: str) -> None:
        self._control = control
        self._timed = timed
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}
        self._pages: list[Pages] = []
        self._forks = True

    def serve(self, prepare: Callable[[], None]) -> None:
        """Serve until `control` is closed and every child has ended; `prepare` imports what children need.

        Where that fails or starts threads, which a fork would lose, clients are told to do without.
        """
        try:
            prepare()
            self._forks = len(os.listdir("/proc/self/task")) == 1
        except Exception:  # noqa: BLE001
            # The client's own process comes upon the same and says so in its log.
            self._forks = False
        # What ends a run tells all its processes to end; a child's fate is its client's to decide.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        ended, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._pages = pages_in_use()
        self._selector.register(ended, selectors.EVENT_READ, lambda: self._ended(ended))
        self._selector.register(self._control, selectors.EVENT_READ, self._asked)
        while self._clients or self._control.fileno() >= 0:
            for key, _ in self._selector.select():
                # What an earlier event of the same moment has closed is not there any more.
                if key.fd in self._selector.get_map():
                    key.data()

    def _asked(self) -> None:
        try:
            content, descriptors = fork_requests.receive(self._control, fork_requests.DESCRIPTORS + 1)
        except (OSError, EOFError):
            self._forget(self._control)
            return
        *given, connected = descriptors
        client = socket.socket(fileno=connected)
        client.setblocking(True)
        if not self._forks:
            self._refuse(client, given)
            return
        request = fork_requests.parsed(content)
        # A signal for the child waits until the child can be hit by it.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        parent = os.getpid()
        try:
            child = os.fork()
        except OSError:
            # Too many processes, or no memory, at this moment; the children that there are go on.
            self._refuse(client, given)
            return
        finally:
            # A child unblocks them when it can be hit.
            if os.getpid() == parent:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if not child:
            client.close()
            self._be_child(parent, request, given)
        fork_requests.close(given)
        self._clients[child] = client
        self._selector.register(client, selectors.EVENT_READ, lambda: self._signalled(child))

    def _refuse(self, client: socket.socket, given: list[int]) -> None:
        """Have a client start its process itself."""
        with client, contextlib.suppress(OSError):
            client.sendall(fork_requests.REFUSED)
        fork_requests.close(given)

    def _signalled(self, child: int) -> None:
        """Pass on the signals that a client got, each a byte; one that has died has its child end."""
        # Where an earlier event of the same moment has closed its descriptor, another may have that by now.
        if (client := self._clients.get(child)) is None:
            return
        try:
            numbers = client.recv(64)
        except OSError:
            numbers = b""
        for number in numbers or [signal.SIGTERM]:
            os.kill(child, number)
        if not numbers:
            self._selector.unregister(client)

    def _ended(self, ended: socket.socket) -> None:
        """Tell each client whose child has ended its status."""
        ended.recv(4096)
        while self._clients:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            client = self._clients.pop(child)
            with contextlib.suppress(OSError):
                client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            self._forget(client)

    def _forget(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection)
        connection.close()

    def _be_child(self, parent: int, request: Request, given: list[int]) -> NoReturn:
        """Become what was asked for, from which there is no way back."""
        end_with_parent(parent, signal.SIGTERM)
        signal.set_wakeup_fd(-1)
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        os.close(self._wakes.fileno())
        self._selector.close()
        for descriptor, number in zip(given, (0, 1, 2), strict=False):
            os.dup2(descriptor, number)
        os.fchdir(given[-1])
        fork_requests.close(given)
        os.umask(request.umask)
        os.environb.clear()
        os.environb.update(request.environment)
        os.environ[FORKED] = "1"
        _libc.prctl(PR_SET_NAME, request.module.rpartition(".")[2].encode(), 0, 0, 0)
        if request.module == self._timed:
            own(self._pages)
            lie_elsewhere()
        for number in (*SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        _run(request.module, request.arguments)


def _run(name: str, arguments: tuple[str, ...]) -> NoReturn:
    """Run `main` of a module as `python -m` does, and end.

    As a process of multiprocessing's it ends without the handlers of atexit, which are its parent's.
    """
    code = 1
    try:
        module = importlib.import_module(name)
        # Processes that this one starts import it in their turn.
        sys.modules["__main__"] = module
        sys.argv = [str(module.__file__), *arguments]
        sys.orig_argv = [sys.executable, "-m", name, *arguments]
        main: Callable[[], None] = module.main
        main()
        code = 0
    except SystemExit as stop:
        code = _code_of(stop)
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _code_of(stop: SystemExit) -> int:
    """Return the exit code that an interpreter makes of SystemExit, whose text it prints."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1
