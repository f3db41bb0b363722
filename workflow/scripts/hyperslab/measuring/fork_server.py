"""A server that forks processes which find everything imported; run_forked.py asks it for them.

An interpreter takes ten times as long for its imports as for the work of a small cell. So a parent imports
once, and processes are forked from it (fork_parent.py): new ones, each with memory, counters and limits of
its own.

The server belongs to one run of Snakemake, and to those inside it. Only their jobs know the name under which
it listens, and it ends when the run does, however that ends: then its standard input is closed. Being asked
for the first process of a kind it starts a parent of that kind: the interpreter, what is imported, and the
environment.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hyperslab.measuring import fork_requests
from hyperslab.measuring.fork_requests import Request

# Under which name the run's server listens (run_forked.py).
VARIABLE = "HYPERSLAB_FORK_SERVER"
# What shells set anew for every job, and what a run tells those inside it, bears on no import; nor do
# credentials of a store, which no parent needs.
OF_SHELLS = (b"PWD", b"OLDPWD", b"SHLVL", b"_", b"HYPERSLAB_RUN")
OF_STORES = b"AWS_"
# Of more kinds, the parent that has rested for longest ends.
MOST_PARENTS = 6

Kind = tuple[tuple[str, ...], frozenset[tuple[bytes, bytes]]]


@dataclass(frozen=True)
class Parent:
    """A process that forks others, and the socket by which it is told to."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def end(self) -> None:
        """Have it end as soon as no process is left that it forked."""
        self.control.close()


def begin(program: Sequence[str]) -> None:
    """Start `program`, a server, for the jobs of this process, with whose end, whatever that is, it ends.

    To the command the number of the descriptor is added at which it is to listen.
    """
    # A name without a file (unix(7), abstract): nothing is left behind. Jobs that ask early wait.
    name = f"hyperslab-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        process = subprocess.Popen(
            [*program, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    os.environ[VARIABLE] = name
    # Nothing of a run that ends in good order goes on after it.
    atexit.register(_end, process)


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    # A process that hangs in the kernel holds up its parent, but not the run.
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(fork_requests.PATIENCE_S)


class Server:
    """Answers clients at `listener`; `command` says which program is to fork the process of a request.

    To that command the number of the descriptor is added at which requests come.
    """

    def __init__(self, listener: socket.socket, command: Callable[[Request], Sequence[str]]) -> None:
        self._listener = listener
        self._command = command
        self._parents: dict[Kind, Parent] = {}

    def serve(self, life: int) -> None:
        """Serve until the descriptor `life` reaches its end."""
        # What ends a run tells every process of it to end; this one outlasts those that it serves.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        with selectors.DefaultSelector() as selector:
            selector.register(life, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while all(key.fileobj is self._listener or os.read(life, 1) for key, _ in selector.select()):
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError, EOFError):
                    self._pass_on(connection)
        for parent in self._parents.values():
            parent.end()
        for parent in self._parents.values():
            parent.process.wait()

    def _pass_on(self, connection: socket.socket) -> None:
        """Read a client's request and hand it, and the client, to a parent of its kind."""
        if not fork_requests.is_ours(connection):
            return
        connection.settimeout(fork_requests.PATIENCE_S)
        content, descriptors = fork_requests.receive(connection, fork_requests.DESCRIPTORS)
        try:
            parent = self._parent_of(fork_requests.parsed(content))
            fork_requests.send(parent.control, content, [*descriptors, connection.fileno()])
        except Exception:  # noqa: BLE001
            # Whatever is wrong with it, its own process will say so.
            connection.sendall(fork_requests.REFUSED)
        finally:
            fork_requests.close(descriptors)

    def _parent_of(self, request: Request) -> Parent:
        command = tuple(self._command(request))
        environment = {
            key: value
            for key, value in request.environment.items()
            if key not in OF_SHELLS and not key.startswith(OF_STORES)
        }
        kind = (command, frozenset(environment.items()))
        found = self._parents.pop(kind, None)
        if found is None or found.process.poll() is not None:
            while len(self._parents) >= MOST_PARENTS:
                self._parents.pop(next(iter(self._parents))).end()
            found = _started(command, environment)
        # The last one used is the last one to go.
        self._parents[kind] = found
        return found


def _started(command: Sequence[str], environment: dict[bytes, bytes]) -> Parent:
    """Start a parent."""
    mine, theirs = socket.socketpair()
    # Idle threads of its own would not survive a fork, and nothing that is measured computes with BLAS.
    environment = {**environment, b"OPENBLAS_NUM_THREADS": b"1"}
    with theirs:
        process = subprocess.Popen(
            [*command, str(theirs.fileno())],
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return Parent(process, mine)
