"""What a client asks a fork server for, as it travels; run_forked.py writes it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Answer to a client that is to start its process by itself; any other is the exit code of a process, or minus
# the signal that ended it.
REFUSED = b"refused\n"
# Standard streams and directory of the client, and in the server's hands the connection to it.
DESCRIPTORS = 4
# A client sends at once what it has to say.
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Request:
    """A process that is asked for: all that it is given but its standard streams and its directory."""

    umask: int
    interpreter: str
    module: str
    arguments: tuple[str, ...]
    environment: Mapping[bytes, bytes]


def parsed(content: bytes) -> Request:
    """Return the request of a message; raises ValueError where it is none."""
    umask, count, *words = content.split(b"\0")
    given, environment = words[: int(count)], words[int(count) :]
    interpreter, module, *arguments = map(os.fsdecode, given)
    pairs = (entry.split(b"=", 1) for entry in environment)
    return Request(int(umask), interpreter, module, tuple(arguments), dict(pairs))


def is_ours(connection: socket.socket) -> bool:
    """Tell whether the other end of a connection is a process of this user."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", peer)
    return bool(user == os.geteuid())


def receive(connection: socket.socket, descriptors: int) -> tuple[bytes, list[int]]:
    """Return a message and the descriptors that came with it; raises EOFError where it is not whole."""
    data, passed, _, _ = socket.recv_fds(connection, 2**16, descriptors, socket.MSG_CMSG_CLOEXEC)
    try:
        length, found, content = data.partition(b"\n")
        # A signal that hits a client while it sends may put a byte in front of the length.
        if not found or not length.isdigit() or len(passed) != descriptors:
            raise EOFError
        parts, missing = [content], int(length) - len(content)
        while missing > 0:
            if not (part := connection.recv(missing)):
                raise EOFError
            parts.append(part)
            missing -= len(part)
    except BaseException:
        close(passed)
        raise
    return b"".join(parts), passed


def send(connection: socket.socket, content: bytes, descriptors: Sequence[int]) -> None:
    """Send one message with descriptors."""
    whole = b"%d\n" % len(content) + content
    sent = socket.send_fds(connection, [whole], descriptors)
    connection.sendall(whole[sent:])


def close(descriptors: Sequence[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
