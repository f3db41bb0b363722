"""Measure a study's finalists again in fresh rounds: choosing the fastest of many flatters it.

Which cells these are is known only after the recommendation, so that Snakemake cannot plan them: this runs it
once more, for their records alone. Usage: python -m hyperslab.confirm --help
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperslab.records import write_record

# The Snakefile exports here which workflow and configuration a run inside it takes.
RUN_VARIABLE = "HYPERSLAB_RUN"
PROGRESS = re.compile(r"^\d+ of \d+ steps \(\d+%\) done")


def wanted_records(
    recommendation: dict[str, Any], study: str, cases: Sequence[str], rounds: int
) -> list[str]:
    """The records of every finalist of every site, in each case and confirming round."""
    return [
        f"results/{study}/cells/{site['site']}/{layout}/{case}.c{number}.json"
        for site in recommendation["sites"]
        for number in range(rounds)
        for layout in site["finalists"]
        for case in cases
    ]


def measure(records: Sequence[str], snakefile: str, config: dict[str, Any], log: Path) -> int:
    """Run Snakemake for `records`, output into `log`, progress to the terminal; returns the exit status."""
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", snakefile, "--nolock", "--cores", "all",
        "--keep-going",
        "--scheduler", "greedy", "--rerun-incomplete", "--rerun-triggers", "mtime", "params", "input", "code",
        "--config", *(f"{key}={value}" for key, value in config.items()), "--", *records,
    ]  # fmt: skip
    with log.open("a", encoding="utf-8") as kept:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert run.stdout is not None
        for line in run.stdout:
            kept.write(line)
            if PROGRESS.match(line):
                print(f"confirming rounds: {line.strip()}", file=sys.stderr, flush=True)
    return run.wait()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recommendation", required=True, type=Path, help="recommendation.json")
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--cases", required=True, nargs="*", help="cases to measure again")
    parser.add_argument("--rounds", required=True, type=int, help="number of confirming rounds")
    parser.add_argument("--log", required=True, type=Path, help="where the inner run's output goes")
    parser.add_argument("--output", required=True, type=Path, help="the list of records, as JSON")
    options = parser.parse_args()
    inner = json.loads(os.environ[RUN_VARIABLE])
    recommendation = json.loads(options.recommendation.read_text(encoding="utf-8"))
    records = wanted_records(recommendation, options.study, options.cases, options.rounds)
    measuring = inner["config"].get("measure", True)
    if measuring and records and measure(records, inner["snakefile"], inner["config"], options.log):
        sys.exit(f"hyperslab.confirm: not every confirming round could be measured; see {options.log}")
    present = [record for record in records if Path(record).exists()]
    write_record(options.output, {"wanted": records, "records": present})


if __name__ == "__main__":
    main()
