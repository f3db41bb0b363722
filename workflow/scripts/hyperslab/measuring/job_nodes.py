"""The nodes of the Slurm job of this process, and how other processes are started on all of them.

Whoever measures is a step of its job, on one node of it. The variables of that step say so, and srun takes
them for its own options: what it starts would stay on that node. So they are left out, the nodes are those
that the controller names, and srun is told them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping

from hyperslab.measuring.machine import node_name

JOB = "SLURM_JOB_ID"
OF_AN_ARRAY = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")
# Of what begins with SLURM_, all that is not of a step; how MPI starts is the choice of the user or the site.
OF_A_JOB = (JOB, "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_CONF", "SLURM_MPI_TYPE")
# How srun says on which node a task has ended.
ENDED = re.compile(r"srun: error: \S+: tasks? [\d,-]+: ")


def in_job() -> bool:
    """Return whether this process is part of a job of Slurm's."""
    return JOB in os.environ


def described() -> str:
    """Return what Slurm says of this job; the environment is a step's,
    and Snakemake takes variables from it.
    """
    return _said("scontrol", "show", "job", _own())


def _own() -> str:
    """Return what Slurm calls this job; one task of an array has the number of the whole."""
    array, task = (os.environ.get(name, "") for name in OF_AN_ARRAY)
    return f"{array}_{task}" if array and task else os.environ.get(JOB, "")


def names(said: str | None = None) -> list[str]:
    """Return the nodes of this job, in Slurm's order, from what Slurm has `said` of it, if it was asked.

    Raises OSError where Slurm does not say.
    """
    found = re.search(r"\bNodeList=(\S+)", described() if said is None else said)
    listed = _said("scontrol", "show", "hostnames", found[1]).split() if found else []
    if not listed:
        raise OSError(f"Slurm does not say which nodes job {os.environ.get(JOB, '')} has")
    return listed


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def spread(count: int) -> list[str]:
    """Return the options with which srun starts `count` tasks on as many nodes of this job as there are.

    This node comes first, and tasks beyond the job's processors share them. Nothing outside of a job; raises
    OSError where Slurm does not say which nodes.
    """
    if not in_job():
        return []
    here, said = node_name(), described()
    chosen = sorted(names(said), key=lambda name: name != here)[:count]
    processors = re.search(r"\bNumCPUs=(\d+)", said)
    shared = ["--overcommit"] if processors and count > int(processors[1]) else []
    return [f"--nodes={len(chosen)}", f"--nodelist={','.join(chosen)}", *shared]


def first_ended(lines: Iterable[str]) -> str | None:
    """Return the line in which srun says how the first task ended amiss, and where; None without one."""
    return next((line for line in lines if ENDED.match(line)), None)


def environment() -> Mapping[str, str]:
    """Return this process's environment without what says of a step how many nodes and tasks it has."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SRUN_")) or name in OF_A_JOB
    }
