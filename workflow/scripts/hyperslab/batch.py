"""Measure one batch of a site's cells inside a Slurm job. Usage: python -m hyperslab.batch --help

A Snakemake runs inside the job, so that every cell stays a unit of its own: a failing one costs no other,
and a requeued or repeated batch measures only what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.measuring import fork_server, job_nodes, machine
from hyperslab.measuring.locks import exclusive
from hyperslab.measuring.machine import node_name
from hyperslab.measuring.parent import end_with_parent
from hyperslab.planning import inner_run
from hyperslab.planning.batches import parse
from hyperslab.planning.confirmation import RUN_VARIABLE
from hyperslab.records import write_record

# What generate runs under: nothing, or the way to another node of the job.
WRITER_VARIABLE = "HYPERSLAB_WRITER"


def command(study: str, site: str, batch: str, run: dict[str, Any]) -> list[str]:
    """Return the Snakemake that measures the batch's cells one after another on this node."""
    config = {**run["config"], "study": study, "batched": site, "batch": batch}
    options = ("--executor", "local", "--cores", "1", "--jobs", "1", "--keep-going", "--quiet", "rules")
    return inner_run.command(
        run["snakefile"], config, "batch_cells", *options, "--show-failed-logs", triggers=run["triggers"]
    )


def other_node() -> str:
    """Return the first node of this job that is not this one; raises SystemExit where there is none."""
    try:
        others = [name for name in job_nodes.names() if name != node_name()]
    except OSError as error:
        sys.exit(f"hyperslab.batch: {error}")
    if not others:
        sys.exit("hyperslab.batch: `reader: other-node` needs a second node, and this job has one")
    return others[0]


def restarts() -> str:
    """Return how often Slurm has started this job again."""
    found = re.search(r"\bRestarts=(\d+)", job_nodes.described())
    return found[1] if found else "0"


def _status_of(inside: list[str], environment: dict[str, str], lock: int) -> int:
    """Return the exit status of the Snakemake inside; it holds the open lock too,
    and never outlives this process.

    Slurm tells all processes of a job to end, and soon kills those that it knows: a Snakemake that does not
    come to its end, once this process is gone, would hold the lock for ever.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)
    parent = os.getpid()
    started = subprocess.Popen(
        inside, env=environment, pass_fds=[lock], preexec_fn=lambda: end_with_parent(parent)
    )
    return started.wait()


def forget_others(marker: Path) -> None:
    """Remove the markers of when the same cells were shared among another number of jobs.

    They would say that a study which is changed back has been measured.
    """
    own = parse(marker.stem)
    for file in marker.parent.glob("*.json"):
        # Whatever else lies there is no marker.
        with suppress(ValueError):
            other = parse(file.stem)
            if other.phase == own.phase and other.count != own.count:
                file.unlink(missing_ok=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--site", required=True, help="name of the site")
    parser.add_argument("--batch", required=True, help="which part of the site's cells, such as r0of2")
    parser.add_argument("--reader", default="any", help="other-node: write test files on another node")
    parser.add_argument("--output", required=True, type=Path, help="marker, written when every cell is there")
    options = parser.parse_args()
    run = json.loads(os.environ[RUN_VARIABLE])
    environment = {key: value for key, value in os.environ.items() if key != "SNAKEMAKE_PROFILE"}
    environment["SLURM_RESTART_COUNT"] = restarts()
    if options.reader == "other-node":
        # The fork server of this run is on this node.
        there = f"srun --overlap --nodes=1 --ntasks=1 --nodelist={other_node()}"
        environment[WRITER_VARIABLE] = f"{there} env --unset={fork_server.VARIABLE}"
    inside = command(options.study, options.site, options.batch, run)
    # A batch that was requeued while its first job still ends must not measure beside it: the lock is held
    # until the last process of this one has gone.
    waiting = f"hyperslab.batch: {options.batch} of {options.site}: waits until an earlier job of it has gone"
    place = options.output.with_name(f".{options.output.stem}.lock")
    with exclusive(place, passing=True, waiting=waiting) as lock:
        print(f"hyperslab.batch: {options.batch} of {options.site} on {node_name()}", flush=True)
        forget_others(options.output)
        status = _status_of(inside, environment, lock.descriptor)
    if status:
        sys.exit("hyperslab.batch: not every cell could be measured; the next run measures what is missing")
    # Snakemake takes a marker with the content of an earlier one for that.
    ended = machine.now()
    write_record(options.output, {"site": options.site, "batch": options.batch, "ended": ended})


if __name__ == "__main__":
    main()
