"""Planes behind a server: an artifact that starts it, stops it, and has its processes count."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fake_formats import server
from fake_formats.planes import Planes, PlanesFormat, Spec
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.parent import end_with_parent


def address(path: str | Path) -> str:
    """Return the abstract name at which the server of data listens: a path may be too long for a socket."""
    return f"\0fake-format-{hashlib.sha256(os.path.abspath(path).encode()).hexdigest()}"


class ServedArtifact(Artifact):
    """Planes with a server and its worker, which end with the process that started them."""

    def __init__(self, data: str | Path) -> None:
        super().__init__(data)
        self._server: subprocess.Popen[bytes] | None = None
        self._processes: list[int] = []

    def start(self, layout: Mapping[str, Any]) -> None:
        """Start the server, and wait until it says who its processes are."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address(self.data))
            listener.listen()
            self._server = subprocess.Popen(
                [sys.executable, "-S", server.__file__, str(listener.fileno()), str(self.data)],
                stdout=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                preexec_fn=partial(end_with_parent, os.getpid()),
            )
        assert self._server.stdout is not None
        self._processes = [int(number) for number in self._server.stdout.readline().split()]

    def stop(self) -> None:
        """End the server, and with it its worker."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            assert self._server.stdout is not None
            # Its end is that of the last process that holds it.
            self._server.stdout.read()
            self._server.stdout.close()
            self._server = None

    def processes(self) -> Sequence[int]:
        """Return the server and its worker."""
        return self._processes


class ServedFormat(PlanesFormat):
    """As planes, read through the server."""

    artifact = ServedArtifact

    def open(self, path: str, spec: Spec) -> Planes:
        """Connect to the server; raises OSError where there is none."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address(path))
        return Connected(path, spec, connection)


class Connected(Planes):
    """The array of an open connection."""

    def __init__(self, path: str, spec: Spec, connection: socket.socket) -> None:
        super().__init__(path, spec, self._asked)
        self._connection = connection

    def _asked(self, name: str) -> bytes:
        self._connection.sendall(f"{name}\n".encode())
        size = int.from_bytes(self._received(8))
        return bytes(self._received(size))

    def _received(self, size: int) -> bytearray:
        found = bytearray(size)
        view: Any = memoryview(found)
        while view:
            view = view[self._connection.recv_into(view) :]
        return found

    def close(self) -> None:
        """Leave the server."""
        super().close()
        self._connection.close()


FORMAT = ServedFormat()
