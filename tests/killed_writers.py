"""A program whose processes write ragged rows until they are killed: what was flushed then has to be there.

It reads a line of JSON for each: what to do, the file, the longest row, the filters, and how many seconds
after its first flush the process is killed; and prints what that said of its flushes, as a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab import ragged
from hyperslab.ragged import held

# Rows that are replaced, in a file that has no others.
ROWS = 40
VERSIONS = 2**20
Said = Iterator[list[int]]


def row(number: int, version: int, size: int) -> npt.NDArray[np.int64]:
    """A row that tells its number and version, and how long it should be."""
    key = number * VERSIONS + version
    return np.full(1 + key * 7 % size, key)


def told(found: npt.NDArray[np.int64], size: int) -> tuple[int, int] | None:
    """Number and version of a row; None for one that is not whole."""
    number, version = divmod(int(found[0]), VERSIONS) if len(found) else (0, 0)
    return (number, version) if np.array_equal(found, row(number, version, size)) else None


def append(rows: ragged.RaggedDataset, size: int) -> Said:
    """Append five rows and flush; says how many there are."""
    while True:
        rows.append([row(len(rows) + number, 0, size) for number in range(5)])
        rows.flush()
        yield [len(rows)]


def append_block(rows: ragged.RaggedDataset, size: int) -> Said:
    """The same with blocks, of which some are gathered and some fill chunks."""
    while True:
        more = [row(len(rows) + number, 0, size) for number in range(1 + len(rows) * 13 % 60)]
        rows.append_block([len(one) for one in more], np.concatenate(more))
        rows.flush()
        yield [len(rows)]


def resize(rows: ragged.RaggedDataset, size: int) -> Said:
    """Append twenty rows, then cut off thirteen; says how many are left at least."""
    version = 0
    while True:
        version += 1
        rows.append([row(len(rows) + number, version, size) for number in range(20)])
        rows.flush()
        yield [len(rows) - 13]
        rows.resize(len(rows) - 13)
        rows.flush()
        yield [len(rows)]


def replace(rows: ragged.RaggedDataset, size: int) -> Said:
    """Replace rows in an odd order, and flush after every third; says which version each has at least."""
    versions = [0] * ROWS
    rows.append([row(number, 0, size) for number in range(ROWS)])
    rows.flush()
    yield versions
    turn = 0
    while True:
        turn += 1
        number = turn * 7 % ROWS
        versions[number] += 1
        rows[number] = row(number, versions[number], size)
        if turn % 3 == 0:
            rows.flush()
            yield versions


DEEDS: dict[str, tuple[Callable[[ragged.RaggedDataset, int], Said], dict[str, Any]]] = {
    "append": (append, {}),
    "append_block": (append_block, {}),
    "resize": (resize, {}),
    "replace": (replace, {}),
    "replace-reuse": (replace, {"reuse": True}),
}


def write(
    deed: str,
    path: Path,
    size: int,
    filters: dict[str, Any],
    say: Callable[[list[int]], object],
    *,
    chunk_bytes: int = 4096,
) -> None:
    """Write for ever, and say after every flush what it was."""
    # Small chunks, so that writes of whole ones are killed, too.
    held.LEAST_BYTES = chunk_bytes
    do, options = DEEDS[deed]
    options = {"chunk_bytes": chunk_bytes, "row_chunk": 64, "filters": filters, **options}
    with ragged.writer(path, "rows", "int64", **options) as rows:
        for said in do(rows, size):
            say(said)


def killed(deed: str, path: Path, size: int, filters: dict[str, Any], seconds: float) -> list[Any]:
    """What a process said before it was killed, so many seconds after its first flush."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        try:
            write(
                deed, path, size, filters, lambda said: os.write(writing, json.dumps(said).encode() + b"\n")
            )
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines, end = [pipe.readline()], time.monotonic() + seconds
        # What it says meanwhile may be more than a pipe holds.
        os.set_blocking(pipe.fileno(), False)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.01))
            lines.append(pipe.read() or b"")
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        lines.append(pipe.read() or b"")
    if not os.WIFSIGNALED(status):
        return []
    whole, _, _ = b"".join(lines).rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


def main() -> None:
    """Serve one request a line."""
    for line in sys.stdin:
        deed, path, size, filters, seconds = json.loads(line)
        print(json.dumps(killed(deed, Path(path), size, filters, seconds)), flush=True)


if __name__ == "__main__":
    assert h5py.version.hdf5_version
    main()
