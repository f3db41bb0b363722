"""A server of two processes, and the artifact that starts it: what every server of a format shares, alone.

Usage: little_server.py DIRECTORY [WORDS]; with WORDS it says them and ends instead.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOCKET = "socket"


def main() -> None:
    """Fork a worker that answers whoever connects, and wait for it."""
    directory, *words = sys.argv[1:]
    if words:
        sys.exit(" ".join(words))
    if os.fork():
        os.wait()
        return
    # It leaves its group, as daemons do.
    os.setsid()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(directory, SOCKET))
        listener.listen()
        while True:
            client, _ = listener.accept()
            client.close()


def artifact(words: str = "") -> Any:
    """Return the class of artifacts of this server; with `words` it does not come up."""
    from hyperslab.measuring.servers import Connection, ServerArtifact

    class LittleArtifact(ServerArtifact):
        title = "the little server"

        def endpoint(self, directory: Path) -> str:
            return str(directory / SOCKET)

        def command(self, layout: Mapping[str, Any], connection: Connection) -> list[str]:
            if not self.data.exists():
                self.data.mkdir(parents=True)
            more = [words.format(password=connection.password)] if words else []
            return [sys.executable, "-IS", __file__, connection.directory, *more]

        def up(self, connection: Connection) -> bool:
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect_ex(connection.endpoint) == 0

    return LittleArtifact


if __name__ == "__main__":
    main()
