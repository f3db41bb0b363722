"""Measure a study's finalists again in fresh rounds: choosing the fastest of many flatters it.

Which cells these are is known only after the recommendation, so that Snakemake cannot plan them: this runs it
once more, for their records alone. Usage: python -m hyperslab.confirm --help
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from hyperslab.measuring.workers import end_with_parent
from hyperslab.planning.confirmation import CONFIRMING, RUN_VARIABLE, wanted_records
from hyperslab.records import write_record

# How far a run is begins so (planning/progress.py).
PROGRESS = "hyperslab: confirming rounds: "


def measure(study: str, run: dict[str, Any], log: Path) -> int:
    """Run Snakemake for the confirming rounds of `study`, as `run` says; returns the exit status.

    Its output goes into `log`, its progress to the terminal.
    """
    config = {**run["config"], "study": study}
    # The profile's number of jobs and its executor come in through `executing`, nothing else of it.
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", run["snakefile"], "--nolock", "--cores", "all",
        "--profile", "none", "--workflow-profile", "none", *run["executing"], "--keep-going",
        "--scheduler", "greedy", "--rerun-incomplete", "--rerun-triggers", "mtime", "params", "input", "code",
        "--config", *(f"{key}={value}" for key, value in config.items()), "--", CONFIRMING,
    ]  # fmt: skip
    parent = os.getpid()
    with log.open("a", encoding="utf-8") as kept:
        inner = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: end_with_parent(parent, signal.SIGTERM),
        )
        # Whoever stops this waits for it: its cells lie in the results of the run around it.
        signal.signal(signal.SIGTERM, lambda number, _: inner.send_signal(number))
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # What the terminal sends reaches the inner run, too.
            signal.signal(signal.SIGINT, lambda *_: None)
        assert inner.stdout is not None
        for line in inner.stdout:
            kept.write(line)
            if line.startswith(PROGRESS):
                print(line.rstrip(), file=sys.stderr, flush=True)
    return inner.wait()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recommendation", required=True, type=Path, help="recommendation.json")
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--cases", required=True, nargs="*", help="cases to measure again")
    parser.add_argument("--rounds", required=True, type=int, help="number of confirming rounds")
    parser.add_argument("--log", required=True, type=Path, help="where the inner run's output goes")
    parser.add_argument("--output", required=True, type=Path, help="the list of records, as JSON")
    options = parser.parse_args()
    run = json.loads(os.environ[RUN_VARIABLE])
    recommendation = json.loads(options.recommendation.read_text(encoding="utf-8"))
    records = wanted_records(recommendation, options.study, options.cases, options.rounds)
    measuring = run["config"].get("measure", True)
    if measuring and records and measure(options.study, run, options.log):
        sys.exit(f"hyperslab.confirm: not every confirming round could be measured; see {options.log}")
    present = [record for record in records if Path(record).exists()]
    write_record(options.output, {"wanted": records, "records": present})


if __name__ == "__main__":
    main()
