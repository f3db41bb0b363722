"""The gateway between a cell and its object store: it counts what passes, and holds it back as the site says.

Usage: python -m hyperslab.measuring.object_store.gateway

It is told what to do by lines of JSON on standard input, and answers each by one on standard output: first
what to stand before (`Task`), to which it answers its port or an error, then {"do": …} with one of `DONE`. It
ends with its input or by SIGTERM, and removes before what the cell has put into the bucket. It is two
processes, of which one waits for the other: whichever is killed, what is left removes all that. Clients sign
with a key that the cell has made for itself; the store's own credentials come from the environment of this
process, which signs every request anew, and are nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import mmap
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from hyperslab.measuring.object_store.emptying import SETTLED_SECONDS, remove_at_last
from hyperslab.measuring.object_store.passing import Gateway, Task, endpoint_of
from hyperslab.measuring.object_store.signing import Refused, Signer, of_environment
from hyperslab.measuring.parent import end_with_parent

# What is done for a line of the input.
DONE: dict[str, Callable[[Gateway], Awaitable[dict[str, Any]]]] = {
    "counts": Gateway.counted,
    "remove": Gateway.removed,
    "control": Gateway.control_begun,
    "control ended": Gateway.control_ended,
}


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


async def serve(task: Task, owned: mmap.mmap) -> None:
    """Run a gateway until the input ends or a signal comes."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    gateway = None
    try:
        gateway = Gateway(task, owned)
        _say({"port": await gateway.begin()})
        while not ended.is_set():
            stopped, told = asyncio.create_task(ended.wait()), asyncio.create_task(lines.readline())
            await asyncio.wait((stopped, told), return_when=asyncio.FIRST_COMPLETED)
            line = told.result() if told.done() else b""
            stopped.cancel()
            told.cancel()
            if not line:
                break
            try:
                _say(await DONE[json.loads(line)["do"]](gateway))
            except Refused as refused:
                _say({"error": str(refused)})
    except Refused as refused:
        with suppress(BrokenPipeError):
            _say({"error": str(refused)})
    finally:
        # Before the first client is turned away: it asks here whether the gateway has ended.
        _answer_no_more()
        if gateway is not None:
            await gateway.end()


def _answer_no_more() -> None:
    """Let go of standard output, of which the cell then sees the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _first_line() -> bytes:
    """Return the first line of the input, and leave all that follows for whoever reads on."""
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:
        return unbuffered.readline()


def _wait_for(gateway: int, task: Task, owned: mmap.mmap) -> None:
    """Wait for the process that is the gateway; where it was killed, remove what it would have removed."""
    # This process ends when that one has, however the cell ends.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Held here too, the output would not end with the gateway's.
    _answer_no_more()
    _, status = os.waitpid(gateway, 0)
    if os.WIFSIGNALED(status) and owned[0] and not task["start"]:
        time.sleep(SETTLED_SECONDS)
        signer = Signer(task["region"], of_environment())
        remove_at_last(endpoint_of(task), task["region"], signer, task["bucket"], task["prefix"])


def main() -> None:
    """Run the command."""
    # What the terminal sends to the whole group, as it does when it is closed, is the cell's to act on.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # What goes wrong between client and store is the client's to say.
    logging.disable()
    task: Task = json.loads(_first_line())
    owned, waiting = mmap.mmap(-1, 1), os.getpid()
    if gateway := os.fork():
        _wait_for(gateway, task, owned)
        return
    end_with_parent(waiting, signal.SIGTERM)
    asyncio.run(serve(task, owned))


if __name__ == "__main__":
    main()
