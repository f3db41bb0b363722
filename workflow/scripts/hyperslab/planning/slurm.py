"""What is asked of Slurm itself: partitions, nodes, and the end of the jobs of a run."""

from __future__ import annotations

import functools
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hyperslab.planning.batches import PATTERN

# Longer than a controller under load takes to answer.
ANSWER_SECONDS = 30
# The comment that Snakemake gives the job of a batch: rule, study and batch.
BATCH_COMMENT = re.compile(rf"rule_batch_(?P<site>.+)_wildcards_(?P<study>.+)_(?P<batch>{PATTERN})$")
# Days, hours, minutes and seconds.
TIME_LIMIT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
# Why a job waits where others merely come first, or where it was only just requeued.
IN_TURN = ("None", "Priority", "Resources", "BeginTime")


def _said(*command: str) -> str | None:
    """Return what a command of Slurm prints; None where there is none, or it fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@functools.cache
def partitions() -> dict[str, float] | None:
    """Return the longest time of a job by partition of the cluster at hand, in minutes; None where no Slurm
    answers.
    """
    if shutil.which("sinfo") is None:
        return None
    # Jobs go to hidden partitions, too.
    said = _said("sinfo", "--all", "--noheader", "--format=%R %l")
    if said is None:
        return None
    rows = filter(None, map(str.split, said.splitlines()))
    return {name: _minutes("".join(limit)) for name, *limit in rows}


def _minutes(limit: str) -> float:
    """Return a time limit of Slurm, such as 1-12:00:00 or 30:00, in minutes; infinity for any word."""
    if not (found := TIME_LIMIT.fullmatch(limit)):
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 60 * (24 * days + hours) + minutes + seconds / 60


@functools.cache
def node_count(partition: str | None) -> int:
    """Return the nodes of partitions (of the default one, without a name) that are up; at least one."""
    # Where partitions are named hidden ones are among them, and --all is refused.
    asked = [f"--partition={partition}"] if partition else []
    # A line for each node in each partition: a node may be in several.
    said = _said("sinfo", "--noheader", "--responding", "--Node", "--format=%N %P", *asked) or ""
    rows = [line.split() for line in said.splitlines()]
    return max(1, len({node for node, name in rows if partition or name.endswith("*")}))


def answers() -> bool:
    """Tell whether the controller answers."""
    return _said("squeue", "--noheader", "--me", "--format=%A") is not None


def has_accounting() -> bool:
    """Tell whether sacct has something to say: it may be installed on a cluster without accounting."""
    return shutil.which("sacct") is not None and _said("sacct", "--noheader", "--allocations") is not None


class Queued(NamedTuple):
    """What the queue says of a job: which one, its name, and why it waits."""

    comment: str
    name: str
    reason: str


def _rows(said: str, fields: int) -> Iterator[list[str]]:
    """Yield the fields of every line of the queue; comments and names of other jobs may be several lines."""
    for line in said.splitlines():
        if len(row := line.split("|", maxsplit=fields - 1)) == fields:
            yield row


def jobs() -> dict[str, Queued] | None:
    """Return all jobs of this user that the controller knows, ended ones too; None without an answer."""
    # Named as by the plug-in: to %A the task of an array is another job, and those that wait share a line.
    options = ("--me", "--noheader", "--array", "--states=all", "--format=%i|%T|%k|%j|%r")
    said = _said("squeue", *options)
    if said is None:
        return None
    return {
        job: Queued(comment, name, reason if state == "PENDING" else "None")
        for job, state, comment, name, reason in _rows(said, 5)
    }


def held_up(known: Mapping[str, Queued], run: str) -> dict[str, str]:
    """Return which of the jobs named `run` wait for more than their turn, with Slurm's reason."""
    found = {}
    for queued in known.values():
        if queued.name != run or queued.reason in IN_TURN:
            continue
        said = f"job {queued.comment}"
        if batch := BATCH_COMMENT.match(queued.comment):
            said = "{study}: batch {batch} of {site}".format(**batch.groupdict())
        found[said] = queued.reason
    return found


def cancel_jobs(run: str) -> None:
    """Cancel the Slurm jobs in the queue of the run whose jobs are named `run`, and of those inside it, whose
    names begin so.

    Snakemake cancels its jobs when it is interrupted, except those whose status it was just asking for.
    """
    listed = _said("squeue", "--me", "--noheader", "--format=%A|%j") if run else None
    ours = [job for job, name in _rows(listed or "", 2) if name == run or name.startswith(f"{run}_")]
    if ours and _said("scancel", *ours) is not None:
        print(f"hyperslab: cancelled {len(ours)} Slurm jobs of this run", file=sys.stderr, flush=True)
