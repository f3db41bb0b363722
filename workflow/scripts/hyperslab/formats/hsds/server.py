"""The HSDS of a cell: the command that starts it, how it is known to be up, and requests that it refuses.

It listens on sockets in a directory of its own, keeps its objects as files below the cell's data, and knows
one user, with a password made for this one server.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from hyperslab.formats import Unavailable
from hyperslab.measuring import received
from hyperslab.measuring.servers import Busy, Connection, ServerArtifact, ServerError, write_private

# No bucket of a store is called so: their names have no underscore.
BUCKET = "hyperslab_cell"
FOLDERS = ("/home/", "/home/hyperslab/")
DOMAIN = "/home/hyperslab/data.h5"
PASSWORDS, PROGRAM = "passwords", "serve.py"
# Of a request that finds the server busy, and between two tries of it.
TRIES, PAUSE_S = 6, 0.25
# A request may take this long; for the first sign of life of a server see servers.PATIENCE_S.
TIMEOUT_S = 120.0
# HSDS's own `timeout`, within which a node has to answer another; what is late is said like what is too much.
NODE_S = 30
# Where one of its processes has ended, so long it may take until all of it has.
ENDED_S = 2.0
# Where h5pyd gives the status of an answer as text.
STATUS = re.compile(r"\bstatus(?: code)?: (\d{3})\b")
OK, CREATED, NO_CONTENT, UNAUTHORISED, NOT_FOUND, GONE = 200, 201, 204, 401, 404, 410
FAILED, BUSY = 500, 503
Result = TypeVar("Result")


def client() -> Any:
    """Return the package h5pyd; raises Unavailable where it is not installed."""
    try:
        import h5pyd
    except ImportError:
        raise Unavailable("the package h5pyd is not installed here") from None
    received.begin()
    _one_pool_of_connections()
    # What it warns of, answers that are no values, becomes an error or is as it should be.
    logging.getLogger("h5pyd").setLevel(logging.CRITICAL)
    return h5pyd


@cache
def _one_pool_of_connections() -> None:
    """Let a client keep its connections to a socket in one pool, as it does those to a host.

    The package `requests_unixsocket` keeps one for each address with its query, up to 25. A new selection is
    a new connection, and each idle one counts among the tasks after which HSDS turns requests away.
    """
    from requests_unixsocket.adapters import UnixAdapter

    of_address = UnixAdapter.get_connection

    def of_socket(self: Any, url: str, proxies: Any = None) -> Any:
        place = urlsplit(url)
        return of_address(self, f"{place.scheme}://{place.netloc}", proxies)

    setattr(UnixAdapter, "get_connection", of_socket)  # noqa: B010


def status_of(error: BaseException) -> int | None:
    """Return the status of the answer that is behind an error of h5pyd's; None where there was no answer."""
    number = next(iter(error.args), None)
    if isinstance(number, int):
        # Numbers of the kernel's errors, such as 111 of a refused connection, are smaller.
        return number if number >= OK else None
    # Of what is written it stands in the text.
    found = STATUS.search(str(error))
    return int(found[1]) if found else None


def answered(connection: Connection, ask: Callable[[], Result]) -> Result:
    """Return what `ask` gives; where the server is too busy it is asked again, a few times.

    Raises Busy, in one line without the password, where it is too busy each time, and ServerError for any
    other failure of server or client.
    """
    for left in reversed(range(TRIES)):
        try:
            return ask()
        except ServerError:
            raise
        # What h5pyd makes of an answer that is not whole is a ValueError.
        except (OSError, ValueError) as error:
            status = status_of(error)
            if status == BUSY and left:
                time.sleep(PAUSE_S * (TRIES - left))
                continue
            kind = Busy if status == BUSY else ServerError
            raise kind(explained(connection, status, error)) from None
    raise AssertionError


def explained(connection: Connection, status: int | None, error: BaseException) -> str:
    """Return why a request failed, as one line without the password."""
    said = f"; its log ends with: {connection.last_words()}"
    match status:
        case None if _ended_soon(connection):
            return f"HSDS has ended while it was asked: one of its processes was killed or failed{said}"
        case None if _waited_too_long(error):
            return f"HSDS has not answered within {TIMEOUT_S:g} s, after which its client gives up{said}"
        case None:
            words = " ".join(f"{type(error).__name__}: {error}".split()).replace(connection.password, "…")
            return f"HSDS does not answer ({words}){said}"
        case 401:
            return f"HSDS refuses the password of user {connection.user} (status {status})"
        case 404 | 410:
            return f"HSDS has no {DOMAIN} (status {status})"
        case 503:
            why = f"{status}: more tasks than settings.tasks, or a node beyond its own timeout of {NODE_S} s"
            return f"HSDS turned a request away {TRIES} times ({why}){said}"
        case _:
            return f"HSDS answers with status {status}{said}"


def _waited_too_long(error: BaseException) -> bool:
    """Return whether a client has given up; h5pyd makes of that an error which does not say so."""
    return any("Timeout" in type(one).__name__ for one in (error, error.__context__))


def _ended_soon(connection: Connection) -> bool:
    """Return whether the server has ended, or does so in a moment: who watches over it looks now and then."""
    deadline = time.monotonic() + ENDED_S
    while not connection.ended():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def keywords(connection: Connection) -> dict[str, Any]:
    """Return what h5pyd needs to reach the server; nothing is taken from a user's own configuration."""
    return {
        "endpoint": connection.endpoint,
        "username": connection.user,
        "password": connection.password,
        "bucket": BUCKET,
    }


class HsdsArtifact(ServerArtifact):
    """The objects of a dataset as files, and HSDS that reads and writes them."""

    title = "HSDS"

    def endpoint(self, directory: Path) -> str:
        """Return the address of the service node's socket."""
        return f"http+unix://{quote(f'{directory}/sn_1.sock', safe='')}"

    def command(self, layout: Mapping[str, Any], connection: Connection) -> list[str]:
        """Return the command of HSDS, with a file that holds the password."""
        directory = Path(connection.directory)
        write_private(directory / PASSWORDS, f"{connection.user}:{connection.password}\n")
        self._sockets = [directory / f"dn_{number + 1}.sock" for number in range(layout["settings"]["nodes"])]
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAM)
        passwords, nodes = str(directory / PASSWORDS), str(len(self._sockets))
        return [sys.executable, "-I", program, connection.directory, self.root(), passwords, nodes]

    def root(self) -> str:
        """Make and return the directory of its objects; "" where they are in a store."""
        os.makedirs(self.data / BUCKET, exist_ok=True)
        return os.path.abspath(self.data)

    def settings(self, layout: Mapping[str, Any], connection: Connection) -> dict[str, str]:
        """Return its configuration: the layout's, and nothing of what lies in a user's folders."""
        tasks = layout["settings"].get("tasks")
        return {
            "PYTHONUNBUFFERED": "1",
            "CONFIG_DIR": connection.directory,
            "CONFIG_OVERRIDE_PATH": os.devnull,
            "ADMIN_USER": connection.user,
            "ALLOW_NOAUTH": "false",
            "CHUNK_MEM_CACHE_SIZE": str(layout["settings"]["chunk_cache_bytes"]),
            "BUCKET_NAME": BUCKET,
            **({"MAX_TASK_COUNT": str(tasks)} if tasks else {}),
        }

    def up(self, connection: Connection) -> bool:
        """Return whether service node and data nodes answer; raises ServerError where they refuse.

        Where nothing was written yet, the folders above the domain are made: no write is timed with them.
        """
        connect = client().httpconn.HttpConn
        if not all(socket.exists() for socket in self._sockets):
            return False
        http = connect(FOLDERS[0].rstrip("/"), timeout=TIMEOUT_S, mode="r", **keywords(connection))
        http.open()
        try:
            answer = http.GET("/")
        except OSError:
            return False
        finally:
            http.close()
        if answer.status_code == UNAUTHORISED:
            raise ServerError(explained(connection, UNAUTHORISED, OSError()))
        if answer.status_code in (NOT_FOUND, GONE):
            _make_folders(connection)
            return True
        return bool(answer.status_code == OK)


def _make_folders(connection: Connection) -> None:
    """Make the folders above the domain."""
    h5pyd = client()
    for folder in FOLDERS:
        answered(connection, partial(_make, h5pyd, folder, connection))


def _make(h5pyd: Any, folder: str, connection: Connection) -> None:
    h5pyd.Folder(folder, mode="w", **keywords(connection)).close()
