"""The server that forks the processes of cells for one run, and the parents that it starts.

The run begins it (planning/run_course.py); how it works is in hyperslab/measuring/fork_server.py.
"""

from __future__ import annotations

import argparse
import importlib
import json
import socket
import sys
from collections.abc import Sequence

from hyperslab.layouts import layout_of
from hyperslab.layouts.environments import of_cell
from hyperslab.measuring.fork_requests import Request
from hyperslab.measuring.fork_server import Server
from hyperslab.measuring.process import interpreter_of

# What a process may be asked to run, and what of it is timed.
TIMED = "hyperslab.measure"
MODULES = ("hyperslab.generate", TIMED)


def parent_command(request: Request) -> list[str]:
    """Return the command of the parent for a cell: the interpreter of its environment, its format, and the
    clients of that.

    Raises ValueError for what is no process of a cell.
    """
    if request.module not in MODULES:
        raise ValueError(request.module)
    spec = json.loads(request.arguments[request.arguments.index("--specification") + 1])
    layout, python = layout_of(spec["layout"]), request.interpreter
    environment = layout.environment()
    if request.module == TIMED:
        # Whose workers need another one is written without.
        environment = of_cell(spec["case"], environment)
    # Where it is not there, the process says so.
    if environment and (own := interpreter_of(environment)).exists():
        python = str(own)
    clients = [f"--client={module}" for module in layout.clients()]
    return [python, __file__, "--format", spec["layout"]["format"], *clients]


def import_everything(name: str, clients: Sequence[str] = ()) -> None:
    """Import what writing and measuring an array of format `name` needs, with the modules of its clients, and
    look up what never changes.
    """
    # numpy leaves its generators until they are used.
    for module in (*MODULES, "numpy.random", *clients):
        importlib.import_module(module)
    from hyperslab import cases, formats
    from hyperslab.measuring import machine, probes

    format_ = formats.load(name)
    for kind in cases.CASES:
        cases.load(kind)
    machine.describe_versions()
    format_.versions()
    probes.packed()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", help="be the parent of processes for this format, not the server")
    parser.add_argument("--client", action="append", default=[], help="a module that these need, too")
    parser.add_argument("socket", type=int, help="the descriptor of the socket at which requests come")
    options = parser.parse_args()
    requests = socket.socket(fileno=options.socket)
    if options.format is None:
        Server(requests, parent_command).serve(sys.stdin.fileno())
        return
    from hyperslab.measuring.fork_parent import Parent

    Parent(requests, TIMED).serve(lambda: import_everything(options.format, options.client))


if __name__ == "__main__":
    main()
