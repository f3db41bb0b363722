#!/usr/bin/env python3
"""What it costs to schedule a cell: wall time of a run less the cells' own time, over many tiny cells.

First with an interpreter of its own for every process, then with forked ones, as is the default.

scheduling_cost.py             on this machine
scheduling_cost.py --slurm     through a Slurm cluster of its own (tests/slurm/cluster.py)

A cell's own time is from the start to the end of writing its file and of measuring it, both as recorded;
everything else counts as cost: interpreters, imports, probes, Snakemake, the queue and polling it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from clones import Clone, make_clone

sys.path.insert(0, str(Path(__file__).parent / "slurm"))

from cluster import running_cluster
from slurm_clones import NODES, make_slurm_clone

LAYOUTS = 10


def study(cells: int) -> dict[str, Any]:
    """A study of so many cells (a multiple of ten) at its one site, each over in milliseconds."""
    return {
        "title": "Many tiny cells",
        "dataset": {"axes": ["x", "y", "z"], "shape": [4, 4, 64], "dtype": "uint16"},
        "layouts": {f"z{number}": {"chunks": [4, 4, number]} for number in range(1, LAYOUTS + 1)},
        "cases": {"slice": {"read": {"z": 1}, "states": ["warm"], "repeats": {"warm": 1}}},
        "sites": "all",
        "rounds": cells // LAYOUTS,
        "recommendation": {"confirm_rounds": 0},
    }


def own_seconds(record: dict[str, Any]) -> float:
    """Seconds in which a cell's file was written and it was measured."""
    parts = [record["writer"], record]
    return sum(float(part["ended"]["boottime_s"] - part["began"]["boottime_s"]) for part in parts)


def cost(clone: Clone, cells: int, name: str, forked: bool) -> str:
    """Return one line about a run of the clone, which measures a study of this name."""
    clone.write_study(name, study(cells))
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    clone.build("--config", f"fork={forked}", "--", f"results/{name}/summary.csv")
    wall, now = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    files = (clone.directory / "results" / name / "cells").glob("*/*/*.json")
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert {"HYPERSLAB_FORKED" in record["environment"] for record in records} == {forked}
    own = sum(map(own_seconds, records))
    text = (
        f"{len(records)} cells, profile {clone.profile}, {'forked' if forked else 'each its interpreter'}: "
    )
    text += f"{wall:.1f} s, the cells' own time {own:.1f} s: "
    text += f"{(wall - own) / len(records):.3f} s a cell"
    processor = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    # What a cluster's jobs use is not counted here.
    return text if clone.profile == "slurm" else f"{text}, {processor / len(records):.3f} s of processor"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", action="store_true", help="through a Slurm cluster of its own")
    parser.add_argument("--cells", type=int, default=300, help="number of cells (default 300)")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hs-")))
        if options.slurm:
            stack.enter_context(running_cluster(top / "cluster"))
            disk = {"disk": {"root": str(top / "files")}}
            clone = make_slurm_clone(top / "clone", {"nodes": NODES}, disk, {"node": ("nodes", "disk")})
        else:
            clone = make_clone(top / "clone")
            sites = "file_systems: {disk: {root: testfiles}}\nsites: {disk: {file_system: disk}}\n"
            (clone.directory / "config/sites.local.yaml").write_text(sites, encoding="utf-8")
        for name, forked in (("started", False), ("forked", True)):
            print(cost(clone, options.cells, name, forked), flush=True)


if __name__ == "__main__":
    main()
