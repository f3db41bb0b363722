"""Run a module of Hyperslab in a new process that finds everything imported. Usage, as for `python -m`:

    python -IS run_forked.py hyperslab.measure --specification …

Where this run of Snakemake has a fork server (hyperslab/measuring/fork_server.py), the process is forked by
it; everywhere else this becomes `python -m MODULE …` itself. Either way the process has this one's arguments,
directory, environment and standard streams, SIGTERM and SIGINT to this one reach it, and it does not outlive
this one, which ends with its status.

This interpreter lives for one request and imports next to nothing: `socket` and `signal`, which wrap the two
modules used here, would take as long as all the rest.
"""

import _signal
import _socket
import os
import sys

# The abstract name of the server's socket, which vanishes with the server and exists on its node alone.
VARIABLE = "HYPERSLAB_FORK_SERVER"
REFUSED = b"refused\n"
# The signals that reach the process through this one, which ends after it.
PASSED_ON = (_signal.SIGTERM, _signal.SIGINT)
# How long one `recv` waits.
LONGEST_S = 3600.0


def message(module: str, arguments: list[str]) -> bytes:
    """Return what the server is told, and before it its length."""
    mask = os.umask(0)
    os.umask(mask)
    words = [os.fsencode(word) for word in (sys.executable, module, *arguments)]
    environment = [name + b"=" + value for name, value in os.environb.items()]
    content = b"\0".join([b"%d" % mask, b"%d" % len(words), *words, *environment])
    return b"%d\n" % len(content) + content


def connected(name: str) -> "_socket.socket | None":
    """Return a connection to the server of this name; None where this user has none."""
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect(b"\0" + os.fsencode(name))
    except OSError:
        return None
    # struct ucred: process, user, group. The name of a server that ended is free for everybody.
    peer = server.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return server if int.from_bytes(peer[4:8], sys.byteorder) == os.geteuid() else None


def answer_of(server: "_socket.socket", told: bytes) -> bytes:
    """Return the line with which the server answers: the status of the process that it forked, or REFUSED.

    Raises EOFError where the server ended first.
    """
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    passed = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in (0, 1, 2, here))
    # A signal that comes while the process is asked for is passed on as soon as it has been.
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, PASSED_ON)
    line = b""
    try:
        # The descriptors travel with the first bytes; the kernel may not take all of a long message at once.
        sent = server.sendmsg([told], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
        if sent < len(told):
            server.sendall(told[sent:])
        # The C handler writes the number. One in Python would wait for the answer where a signal comes just
        # before `recv`. What it writes to must not block; a timeout makes it so, and `recv` waits itself.
        server.settimeout(LONGEST_S)
        _signal.set_wakeup_fd(server.fileno(), warn_on_full_buffer=False)
        for number in PASSED_ON:
            _signal.signal(number, lambda *_: None)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        while not line.endswith(b"\n"):
            try:
                part = server.recv(64)
            except TimeoutError:
                continue
            if not part:
                raise EOFError
            line += part
    except ConnectionError:
        raise EOFError from None
    return line


def main() -> None:
    """Run the command."""
    module, *arguments = sys.argv[1:]
    name = os.environ.get(VARIABLE)
    server = connected(name) if name else None
    if server is not None:
        try:
            answer = answer_of(server, message(module, arguments))
        except EOFError:
            # The process may have begun its work, so it is not begun once more.
            sys.exit(f"{module}: the server that forks processes has ended")
        if answer != REFUSED:
            # As a shell has it: 128 and the number of the signal that ended the process.
            status = int(answer)
            os._exit(status if status >= 0 else 128 - status)
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


if __name__ == "__main__":
    main()
