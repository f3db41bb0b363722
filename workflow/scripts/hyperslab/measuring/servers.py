"""Servers as test artifacts: started by a cell, proven up, counted, and ended with it whatever happens.

A server has a directory of its own for its socket, its log and the password that was made for this one run;
nobody else can enter it. A process that watches over the server (supervise.py) ends all of it and removes
that directory as soon as the cell has ended. Clients find it by a file beside the data; the password is in no
argument, record, log or report.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from hyperslab.measuring import received, supervise
from hyperslab.measuring.artifact import Artifact, end_servers
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.records import read_json
from hyperslab.states import STARTED_ANEW

# Beside the data, for clients: where the server's own directory is; and what is in that.
PLACE = "server"
CONNECTION, LOG = "connection.json", "log"
USER = "hyperslab"
# A socket's path has at most 108 bytes, and servers add names to it.
LONGEST_DIRECTORY = 60
# Until a server answers, or has ended.
PATIENCE_S, LOOK_S = 60.0, 0.05
# Of the environment, what a server needs: nothing that may hold somebody's keys.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE")


class ServerError(OSError):
    """A server that does not come up, does not answer, or refuses; one line that says so."""


class Busy(ServerError):
    """A server that is up, and turned a request away as often as it was made."""


@dataclass(frozen=True)
class Connection:
    """How clients of this machine reach the server of some data."""

    data: str
    directory: str
    endpoint: str
    user: str
    password: str

    def __repr__(self) -> str:
        """Return all but the password: what is printed may end in a log."""
        return f"Connection({self.endpoint!r}, of {self.data!r})"

    def ended(self) -> bool:
        """Return whether the server has ended by itself."""
        with suppress(OSError):
            return supervise.ENDED in Path(self.directory, LOG).read_text(encoding="utf-8", errors="replace")
        return True

    def last_words(self) -> str:
        """Return the last line of the server's log, without the password."""
        return last_line(Path(self.directory)).replace(self.password, "…")


def connection_of(path: str) -> Connection:
    """Return how the server of the data at `path` is reached; raises ServerError where there is none."""
    with suppress(OSError, ValueError):
        directory = Path(path).with_name(PLACE).read_text(encoding="utf-8")
        found = Connection(**read_json(Path(directory, CONNECTION)))
        if found.data == os.path.abspath(path):
            return found
    raise ServerError(f"no server of {path} is there; it has ended, or nobody has started one")


def last_line(directory: Path) -> str:
    """Return the last line with words in it of the log in a server's directory, or that there is none."""
    with suppress(OSError):
        lines = (directory / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
        words = [line for line in lines if line.strip() and f"{line}\n" != supervise.ENDED]
        if words:
            return " ".join(words[-1].split())[:500]
    return "nothing"


class ServerArtifact(Artifact):
    """Data behind a server; a format says which command serves them and when it is up."""

    # Words for the server in errors.
    title: ClassVar[str]
    remembers = True

    def __init__(self, data: str | Path) -> None:
        super().__init__(data)
        self._layout: Mapping[str, Any] = {}
        # Whether it is still to be started, by the first `restart` or `clear`.
        self._waits = False
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._life: int | None = None
        # The server's own directory, while it runs.
        self._own: Path | None = None
        self._place = self.data.with_name(PLACE)

    @abstractmethod
    def endpoint(self, directory: Path) -> str:
        """Return where a server listens that has this directory of its own."""

    @abstractmethod
    def command(self, layout: Mapping[str, Any], connection: Connection) -> list[str]:
        """Return what starts it, after making what it needs; the password is in no word of it."""

    @abstractmethod
    def up(self, connection: Connection) -> bool:
        """Return whether it answers; raises ServerError where it answers that it never will."""

    def settings(self, layout: Mapping[str, Any], connection: Connection) -> dict[str, str]:
        """Return what its environment has beside what every server's has."""
        return {}

    def handed(self) -> list[int]:
        """Return descriptors that the server is to have."""
        return []

    def begun(self) -> None:
        """Let go of them, once it has them."""

    def start_for_case(self, layout: Mapping[str, Any], states: Sequence[str]) -> None:
        """Start the server, unless each of `states` begins by starting it anew: it waits for that then."""
        self._layout, self._waits = layout, STARTED_ANEW.issuperset(states)
        if not self._waits:
            self.start(layout)

    def start(self, layout: Mapping[str, Any]) -> None:
        """Start the server, and wait until it answers; raises ServerError with its last words."""
        self._layout = layout
        directory = self._own = private_directory()
        described = Connection(
            os.path.abspath(self.data), str(directory), self.endpoint(directory), USER, secrets.token_hex(16)
        )
        end_servers.append(self._end)
        try:
            write_private(directory / CONNECTION, json.dumps(asdict(described)))
            self._begin(layout, described)
            self._place.write_text(str(directory), encoding="utf-8")
            self._await(described)
        except BaseException:
            self.stop()
            raise

    def _begin(self, layout: Mapping[str, Any], described: Connection) -> None:
        """Start the command, below a process that ends it as soon as this one has ended."""
        directory = Path(described.directory)
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        life, self._life = os.pipe()
        try:
            with (directory / LOG).open("ab") as log:
                command = self.command(layout, described)
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-IS", supervise.__file__, str(life), str(directory), *command],
                    env={**environment, **self.settings(layout, described)},
                    cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=[life, *self.handed()], start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(life)
            self.begun()

    def _await(self, described: Connection) -> None:
        assert self._supervisor is not None
        deadline = time.monotonic() + PATIENCE_S
        while not self.up(described):
            over = self._supervisor.poll() is not None
            ended = over or not below_with_words(self._supervisor.pid, described)
            if ended or time.monotonic() > deadline:
                how = "ended before it was up" if ended else f"is not up after {PATIENCE_S:g} s"
                raise ServerError(f"{self.title} {how}; it last said: {described.last_words()}")
            time.sleep(LOOK_S)

    def _end(self) -> None:
        """Have the server end, and wait for it; may interrupt `stop`, so that it takes no lock."""
        life, self._life = self._life, None
        if life is not None:
            os.close(life)
        if self._supervisor is not None:
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._supervisor.pid, os.WEXITED | os.WNOWAIT)
        own, self._own = self._own, None
        if own is not None:
            # Still there where who watches over the server was killed, or never began.
            shutil.rmtree(own, ignore_errors=True)

    def stop(self) -> None:
        """End the server with all its processes, and remove its directory."""
        self.end_server()

    def end_server(self) -> None:
        """Do so, and leave alone whatever else belongs to the artifact."""
        self._waits = False
        self._end()
        if self._supervisor is not None:
            self._supervisor.wait()
            self._supervisor = None
        if self._end in end_servers:
            end_servers.remove(self._end)
            self._place.unlink(missing_ok=True)

    def _wanted(self) -> bool:
        """Return whether it runs, or waits until it is started."""
        return self._waits or self._supervisor is not None

    def restart(self) -> None:
        """Start another server of the same data, or the one that waits: it holds nothing of them yet."""
        if self._wanted():
            self.end_server()
            self.start(self._layout)

    def clear(self) -> None:
        """Remove the data; a server that was running, or waits, is started anew without any."""
        wanted = self._wanted()
        self.remove()
        if wanted:
            self.start(self._layout)

    def clear_unasked(self) -> None:
        """Remove the data; a server that was running, or waits, waits until they are cleared again."""
        wanted = self._wanted()
        self.remove()
        self._waits = wanted

    def remove(self) -> None:
        """End the server and remove the data."""
        self.end_server()
        self.clear_data()

    def clear_data(self) -> None:
        """Remove the data, which nothing serves any more."""
        super().clear()

    def processes(self) -> Sequence[int]:
        """Return the processes of the server that there are now, but not the one that watches over them."""
        return sorted(supervise.below(self._supervisor.pid)) if self._supervisor else ()

    def received(self) -> int | None:
        """Return the bytes of answers that this process has had so far; None where nothing counts them."""
        return received.so_far()

    def memory_bytes(self) -> int:
        """Return the largest resident memory of each process of the server so far, summed."""
        return sum(map(largest_memory_bytes, self.processes()))


def below_with_words(supervisor: int, described: Connection) -> bool:
    """Return whether a server goes on: it has processes, or has not begun yet and said nothing."""
    return bool(supervise.below(supervisor)) or described.last_words() == "nothing"


def private_directory() -> Path:
    """Make a directory that only this user can enter, with a path short enough for sockets."""
    for place in (tempfile.gettempdir(), "/tmp", "/dev/shm"):  # noqa: S108
        if len(place) + len("/hyperslab-12345678") <= LONGEST_DIRECTORY:
            return Path(tempfile.mkdtemp(prefix="hyperslab-", dir=place))
    raise ServerError("no directory has a path that is short enough for a socket")


def write_private(path: Path, content: str) -> None:
    """Write a file that only this user can read, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
