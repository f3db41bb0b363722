"""What tests run in the environment of a format behind a server: server_program.py FORMAT DIRECTORY

One line of JSON says what was found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from process_tree import age, called
from samples import read_cell, summed, values_of
from server_cells import SHAPE, behind

from hyperslab import cases, formats
from hyperslab.cases.context import Context
from hyperslab.data.daily_grid import MISSING
from hyperslab.data.models import open_content
from hyperslab.data.selections import Box
from hyperslab.data.values import DAILY_GRID, Values
from hyperslab.measuring import servers, supervise
from hyperslab.measuring.servers import connection_of
from hyperslab.measuring.workers import Workers

WHOLE = Box((0, 0, 0), SHAPE)
PART = Box((1, 15, 3), (4, 30, 50))
# Of the others there are cells.
FILTERS = ["lz4", "lz4hc", "blosclz"]


@contextmanager
def served(spec: Any, directory: Path) -> Iterator[tuple[Any, str, Any]]:
    """Start the server of a cell: its format, the path of its data, and the artifact."""
    format_ = formats.load(spec["layout"]["format"])
    artifact = format_.artifact.in_directory(directory, ".data")
    directory.mkdir(parents=True, exist_ok=True)
    format_.prepare(spec)
    artifact.start(spec["layout"])
    try:
        yield format_, str(artifact.data), artifact
    finally:
        artifact.stop()


def right(format_: Any, path: str, spec: Any) -> bool:
    """Whether whole and part are read as they were written."""
    opened, values = format_.open(path, spec), open_content(spec["dataset"])
    boxes = (WHOLE, PART, Box((6, 49, 59), (1, 1, 1)))
    found = [(opened.read(box), values.block(box.origin, box.extent)) for box in boxes]
    opened.close()
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in found)


def summarised(format_: Any, path: str, spec: Any, values: Values) -> list[int]:
    """Summarise all planes through the server that runs; how many workers did, for each time that was right.

    An error is raised where one number of a plane is not numpy's.
    """
    cell = summed(read_cell(spec, SHAPE, {"session": 1}), states=["session"])
    # What lies in memory needs no server that starts anew.
    outcome = cases.load("summaries")(Context(cell, format_, path, values, memory_resident=True))
    return [row["processes"] for row in outcome.repeats]


def codecs(format_: Any, path: str, artifact: Any) -> Any:
    """Write one dataset after the other, as JSON and with filters, and read the last from a server that
    starts anew, which has nothing of it in memory.
    """
    found = {}
    chosen: dict[str, Any] = {"json": {"transfer": "json", "dtype": "float64"}}
    chosen |= {name: {"filters": [{"name": name}]} for name in FILTERS}
    import h5pyd

    # Folders are there when a server is up: a write whose time is taken makes none.
    h5pyd.Folder = None
    for name, more in chosen.items():
        spec = behind("hsds", **more)
        if name == "json":
            opened = format_.create(path, spec)
            opened.write(WHOLE, values_of(spec).block(WHOLE.origin, WHOLE.extent))
            opened.flush()
            opened.close()
        else:
            format_.generate(path, spec, values_of(spec))
        opened = format_.open(path, spec)
        compression = opened.dataset.compression
        opened.close()
        if name == FILTERS[-1]:
            before = artifact.processes()
            artifact.restart()
            assert len(before) == 4 and not set(before) & set(artifact.processes())
        found[name] = [right(format_, path, spec), compression]
    return found


def wait_until(met: Any) -> bool:
    """Whether something comes true within a minute."""
    end = time.monotonic() + 60
    while not met() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(met())


def said(call: Any) -> str:
    """What an error says, in its lines."""
    try:
        call()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


class Reader:
    """A worker that reads for as long as it is let."""

    def __init__(self, spec: Any, path: str) -> None:
        self._opened = formats.load(spec["layout"]["format"]).open(path, spec)

    def command(self, name: str) -> float:
        """There is nothing to do."""
        return 0.0

    def prepare(self, task: Any) -> Any:
        """Read again and again."""

        def go() -> None:
            os.write(1, b"busy\n")
            while True:
                self._opened.read(PART)

        return go

    def result(self) -> dict[str, Any]:
        """There is none."""
        return {}


def connections(format_: Any, path: str, spec: Any) -> int:
    """How many sockets a client has that has asked for several boxes."""

    def sockets() -> int:
        # What lists them has one for as long as that takes.
        there = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sum(os.readlink(fd).startswith("socket:") for fd in there if os.path.exists(fd))

    before = sockets()
    opened = format_.open(path, spec)
    for number in range(6):
        opened.read(Box((number, 0, 0), (1, 2, 3)))
    found = sockets() - before
    opened.close()
    return found


def held(artifact: Any) -> list[str]:
    """The files of an artifact's data that what serves them has open."""
    found = []
    for process in artifact.processes():
        for descriptor in os.listdir(f"/proc/{process}/fd"):
            # Some are closed meanwhile.
            with suppress(OSError):
                found.append(os.readlink(f"/proc/{process}/fd/{descriptor}"))
    return [file for file in found if file.startswith(os.path.realpath(artifact.data))]


def said_while_killed(artifact: Any, path: str, spec: Any) -> str:
    """What is said of a worker who asks a server of which a process is killed meanwhile."""
    workers = Workers(Reader, [(spec, path)])
    try:
        workers.prepare(None)
        victim = max(artifact.processes())
        # It has been there long enough to be missed, and takes part in answers.
        assert wait_until(lambda: age(victim) > 2 * supervise.LOOKS * supervise.LOOK_S)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(victim, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        return said(workers.go)
    finally:
        workers.kill()


def faults(format_name: str, directory: Path) -> Any:
    """Summarise daily grids; ask with a wrong password, then of a server that was killed."""
    hsds = format_name == "hsds"
    settings: dict[str, Any] = {"nodes": 2} if hsds else {}
    spec: Any = behind(format_name, **settings)
    spec["dataset"]["fill"] = DAILY_GRID
    values = open_content(spec["dataset"])
    found: dict[str, Any] = {}
    with served(spec, directory) as (format_, path, artifact):
        format_.generate(path, spec, values)
        connection = connection_of(path)
        passwords = [connection.password]
        place = Path(connection.directory, servers.CONNECTION)
        kept = place.read_text(encoding="utf-8")
        place.write_text(kept.replace(connection.password, "0" * 32), encoding="utf-8")
        found["password"] = said(lambda: format_.open(path, spec))
        place.write_text(kept, encoding="utf-8")
        found["right"] = right(format_, path, spec)
        found["closed"] = wait_until(lambda: not held(artifact))
        found["connections"] = connections(format_, path, spec)
        found["missing"] = int((values.block(WHOLE.origin, WHOLE.extent) == MISSING).sum())
        found["summarised"] = summarised(format_, path, spec, values)
        if hsds:
            # After what lists the files of the data: HSDS removes those of a replaced dataset later.
            found["codecs"] = codecs(format_, path, artifact)
            passwords.append(connection_of(path).password)
            # Of those who ask when a node is killed tests/unit/test_store_faults.py has some.
            (node,) = (one for one in artifact.processes() if called(one, "--node_type=sn"))
            os.kill(node, signal.SIGKILL)
        else:
            found["killed"] = said_while_killed(artifact, path, spec)
        assert wait_until(lambda: not artifact.processes())
        found["gone"] = said(lambda: format_.open(path, spec))
        found["words"] = any(password in json.dumps(found) for password in passwords)
    found["stopped"] = said(lambda: format_.open(path, spec))
    return found


def main() -> None:
    """Run the command."""
    format_, directory = sys.argv[1:]
    print(json.dumps(faults(format_, Path(directory)), default=str))


if __name__ == "__main__":
    main()
