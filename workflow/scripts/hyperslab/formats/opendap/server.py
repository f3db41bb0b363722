"""The OPeNDAP server of a cell: the command that starts it, and how it is known to be up."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.measuring.servers import Connection, ServerArtifact, ServerError

# What is served, and what serves it, which only the environment of pydap can import.
FILE, PROGRAM = "data.h5", "serve.py"
# For a selection, and for the first answer: the kernel takes a connection before anybody serves it.
TIMEOUT_S, LOOK_S = 300, 10.0
OK, UNAUTHORISED = 200, 401
# Connections that wait while all workers answer others.
WAITING = 128


class OpendapArtifact(ServerArtifact):
    """A directory with a file of HDF5, and pydap that reads it, on a port of the loopback."""

    title = "pydap"

    def __init__(self, data: str | Path) -> None:
        super().__init__(data)
        self._listener: socket.socket | None = None

    def start_for_writing(self, layout: Mapping[str, Any]) -> None:
        """Do nothing: the protocol only reads, and its file is written beside the server."""

    def endpoint(self, directory: Path) -> str:
        """Return the address of a port that the kernel has chosen; nobody else can take it meanwhile."""
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(WAITING)
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def command(self, layout: Mapping[str, Any], connection: Connection) -> list[str]:
        """Return the command of the server, which finds the password in a file."""
        assert self._listener is not None
        os.makedirs(self.data, exist_ok=True)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAM)
        listening, workers = str(self._listener.fileno()), str(layout["workers"])
        # Not with the directory of the program, whose modules have names of the standard library's.
        return [sys.executable, "-I", program, listening, os.path.abspath(self.data), workers]

    def handed(self) -> list[int]:
        """Return the socket at which it listens."""
        assert self._listener is not None
        return [self._listener.fileno()]

    def begun(self) -> None:
        """Leave the socket to the server: with it, it vanishes."""
        assert self._listener is not None
        self._listener.close()

    def up(self, connection: Connection) -> bool:
        """Return whether it answers; raises ServerError where it refuses."""
        asked = http.client.HTTPConnection("127.0.0.1", int(connection.endpoint.rpartition(":")[2]), LOOK_S)
        word = base64.b64encode(f"{connection.user}:{connection.password}".encode()).decode()
        try:
            asked.request("GET", "/", headers={"Authorization": f"Basic {word}"})
            status = asked.getresponse().status
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()
        if status == UNAUTHORISED:
            raise ServerError(f"pydap refuses the password of user {connection.user} (status 401)")
        return status == OK
