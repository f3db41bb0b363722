"""The program of MPI ranks: every rank runs it, rank 0 prints what was found. Started by launch.py."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperslab import formats
from hyperslab.cases.context import Context
from hyperslab.cases.mpi.communicator import Ranks, give_up
from hyperslab.cases.mpi.launch import MARK
from hyperslab.data.values import open_values
from hyperslab.measuring.machine import node_name


def _gone(measuring: str) -> bool:
    """Tell whether the process NODE:PID is not there any more; on another node it cannot be seen."""
    node, _, process = measuring.rpartition(":")
    return node == node_name() and not Path("/proc", process).exists()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="module of hyperslab.cases that has run(ranks, context)")
    parser.add_argument("--specification", required=True, help="the cell's specification as JSON")
    parser.add_argument("--file", required=True, help="the test file")
    parser.add_argument("--donor", help="prepared donor (.npy) that fills the array, if any")
    parser.add_argument("--memory-resident", action="store_true", help="the file system lies in memory")
    parser.add_argument("--for-process", required=True, help="NODE:PID of the process that measures the cell")
    options = parser.parse_args()
    if _gone(options.for_process):
        # It was killed, and the launcher with it, before this one could notice.
        sys.exit(f"the measuring process {options.for_process} has gone")
    try:
        spec = json.loads(options.specification)
        ranks = Ranks(spec["case"]["workers"])
        context = Context(
            spec,
            formats.load(spec["layout"]["format"]),
            options.file,
            open_values(spec["dataset"], options.donor),
            options.memory_resident,
        )
        run: Callable[[Ranks, Context], dict[str, Any]]
        run = importlib.import_module(f"hyperslab.cases.{options.run}").run
        result = run(ranks, context)
    except BaseException as error:  # noqa: BLE001
        give_up(error)
    if ranks.rank == 0:
        print(MARK + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
