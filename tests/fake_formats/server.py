"""The server of one artifact: it hands a client's questions to a worker, which reads the files.

Usage: server.py DESCRIPTOR-OF-THE-LISTENING-SOCKET DIRECTORY
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading


def answer(client: socket.socket, directory: str) -> None:
    """Send each file that a client names, its size before it, until the client leaves."""
    name = b""
    while byte := client.recv(1):
        if byte != b"\n":
            name += byte
            continue
        descriptor = os.open(os.path.join(directory, name.decode()), os.O_RDONLY)
        content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        os.close(descriptor)
        client.sendall(len(content).to_bytes(8) + content)
        name = b""
    client.close()


def main() -> None:
    """Entry point."""
    listener, directory = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    parent = os.getpid()
    if worker := os.fork():
        print(parent, worker, flush=True)
        os.waitpid(worker, 0)
        return
    # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    while True:
        client, _ = listener.accept()
        threading.Thread(target=answer, args=(client, directory), daemon=True).start()


if __name__ == "__main__":
    main()
