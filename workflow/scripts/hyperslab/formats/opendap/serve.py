"""Serve a directory by pydap: python serve.py DESCRIPTOR DIRECTORY WORKERS

DESCRIPTOR is a listening socket. Who asks needs the user and the password that connection.json says, in the
directory in which this runs. It imports nothing of Hyperslab: what serves is pydap alone.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
from gunicorn.app.base import BaseApplication
from pydap.handlers.lib import BaseHandler
from pydap.model import BaseType, DatasetType
from pydap.wsgi.app import DapServer

# As connection.json has it (servers.py).
CONNECTION = "connection.json"


class Hdf5Handler(BaseHandler):  # type: ignore[misc]
    """How pydap reads a file: each dataset at the top is an array, opened anew for each request.

    pydap's own handler of NetCDF gives a part of an array the shape of all of it, and fails.
    """

    extensions = re.compile(r"^.*\.h5$")

    def __init__(self, path: str) -> None:
        super().__init__()
        self.dataset = DatasetType(Path(path).name)
        self._file = h5py.File(path)
        for name, array in self._file.items():
            if isinstance(array, h5py.Dataset):
                axes = tuple(f"{name}_{axis}" for axis in range(array.ndim))
                self.dataset[name] = BaseType(name, array, dims=axes)

    def close(self) -> None:
        """Close the file, which pydap's dataset, a ring, would keep with its cache until it is collected."""
        self._file.close()


class Directory(DapServer):  # type: ignore[misc]
    """pydap's server, which knows files of HDF5."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.handlers = [Hdf5Handler]


class Guarded:
    """An application that answers only who has the password."""

    def __init__(self, application: Callable[..., Iterable[bytes]], user: str, password: str) -> None:
        self._application = application
        self._wanted = b"Basic " + base64.b64encode(f"{user}:{password}".encode())

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode()
        if not hmac.compare_digest(given, self._wanted):
            start_response("401 Unauthorized", [("Content-Type", "text/plain"), ("Content-Length", "0")])
            return []
        return self._application(environ, start_response)


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn, as pydap's own command starts it, at a socket that is there already."""

    def __init__(self, application: Guarded, descriptor: int, workers: int) -> None:
        self._guarded = application
        self._chosen = {
            "bind": f"fd://{descriptor}", "workers": workers, "worker_class": "sync", "timeout": 0,
            "loglevel": "warning", "control_socket_disable": True,
        }  # fmt: skip
        super().__init__()

    def load_config(self) -> None:
        """Take what was chosen."""
        for name, value in self._chosen.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Guarded:
        """Return the application."""
        return self._guarded


def main() -> None:
    """Run the command."""
    described = json.loads(Path(CONNECTION).read_text(encoding="utf-8"))
    application = Guarded(Directory(sys.argv[2]), described["user"], described["password"])
    Server(application, int(sys.argv[1]), int(sys.argv[3])).run()


if __name__ == "__main__":
    main()
