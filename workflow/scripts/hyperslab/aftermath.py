"""After a run that failed or was interrupted: no job is left behind, and what was measured is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SLURM_SECONDS = 30


def cancel_jobs(executor: str) -> None:
    """Cancel the Slurm jobs that were submitted from this directory and still are in the queue.

    Snakemake cancels its jobs when it is interrupted, except those whose status it was just asking for.
    """
    if executor != "slurm":
        return
    asked = ["squeue", "--me", "--noheader", "--format=%A|%k|%Z"]
    try:
        listed = subprocess.run(asked, capture_output=True, text=True, timeout=SLURM_SECONDS).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    here = os.path.realpath(os.getcwd())
    rows = [line.split("|") for line in listed.splitlines()]
    # Snakemake's comment names the rule, which no other program's job in this directory has.
    ours = [
        job
        for job, comment, where in rows
        if comment.startswith("rule_batch_") and os.path.realpath(where) == here
    ]
    if ours:
        subprocess.run(["scancel", *ours], check=False, timeout=SLURM_SECONDS)
        print(f"hyperslab: cancelled {len(ours)} Slurm jobs of this run", file=sys.stderr, flush=True)


def partial_reports(studies: Sequence[str], snakefile: Path, config: Mapping[str, Any]) -> None:
    """Make the report of each study that has any result, of what is there; it says what is missing."""
    for study in studies:
        if not any(Path(f"results/{study}/cells").glob("*/*/*.json")):
            continue
        target = f"results/{study}/report.html"
        inner = {**config, "study": study, "measure": False}
        inner.pop("remeasure", None)
        command = [
            sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--nolock", "--profile", "none",
            "--workflow-profile", "none", "--cores", "all", "--scheduler", "greedy", "--quiet", "all",
            "--rerun-incomplete", "--rerun-triggers", "mtime", "params", "input", "code",
            "--config", *(f"{key}={value}" for key, value in inner.items()), "--", target,
        ]  # fmt: skip
        done = subprocess.run(command, check=False)
        said = (
            f"{target} shows what was measured, and what is missing" if done.returncode == 0 else "no report"
        )
        print(f"hyperslab: {study}: not everything could be done; {said}", file=sys.stderr, flush=True)
