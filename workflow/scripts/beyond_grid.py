"""What layouts outside a published grid, and two copies in one file, gain over all that the grid has.

beyond_grid.py STUDY        such as spectrum-image-advised, which extends the study that has the grid

All read cases cold, each asked as often as the others. First the layout outside the grid with the least
geometric mean against the best one inside. Then two copies against the best single layout whose file is no
larger than the raw array, of all and of the grid. Which layouts these are, the first half of the rounds says;
the ratio is that of the other half, formed within each round, with a 95 % interval: what chose a layout would
flatter it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hyperslab.layouts import layout_of
from hyperslab.results.comparisons import of_rounds
from hyperslab.results.requests import request_times
from hyperslab.results.tables import read_summary
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.study import LoadedStudy
from hyperslab.text import significant
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.yaml_files import read_yaml

STUDIES = Path("config/studies")
# What is to be reached.
OUTSIDE, COPIES = 1.2, 1.5


def means(rows: pd.DataFrame, cases: Sequence[str]) -> pd.DataFrame:
    """Return layouts x rounds of the log of the geometric mean over cases of a cold request's seconds."""
    logs = [np.log(request_times(rows, (case, "cold"))) for case in cases]
    return sum(logs[1:], logs[0]) / len(logs)


def compared(logs: pd.DataFrame, better: str, than: str) -> str:
    """Return how many times as fast one layout is as another, in words."""
    found = of_rounds(logs.loc[[than]].to_numpy() - logs.loc[[better]].to_numpy())
    low, high = found.interval()
    times, ends = np.exp(found.value[0]), [significant(float(np.exp(end[0]))) for end in (low, high)]
    return (
        f"{better} is {significant(times)} times as fast as {than} (95 % {ends[0]} to {ends[1]}, "
        f"{found.rounds[0]} rounds)"
    )


def judged(study: LoadedStudy, inside: set[str], summary: pd.DataFrame) -> list[str]:
    """Return the lines for one site; raises ConfigurationError where too little was measured there."""
    cases = [name for name, case in study.cases.items() if kind_of(case).reads_selections]
    where = str(summary["site"].iloc[0])
    if not cases:
        raise ConfigurationError(study.file, where, "no case of this study reads selections")
    logs = means(summary, cases)
    rounds = list(logs.columns)
    chosen_by, told_by = rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]
    order = logs[chosen_by].mean(axis=1).dropna().sort_values().index
    if order.empty:
        why = "needs layouts that were read cold in every case, in two rounds or more: one half chooses"
        raise ConfigurationError(study.file, where, why)
    logs = logs[told_by]
    sizes = summary.groupby("layout", observed=True)["file_bytes"].max()
    two = [name for name in order if layout_of(study.layouts[name]).named_cases()]
    single = [name for name in order if name not in two]
    grid = next((name for name in single if name in inside), None)
    outside = next((name for name in single if name not in inside), None)
    within = [name for name in single if sizes[name] <= study.dataset.nbytes]
    small = next((name for name in within if name in inside), None)
    if grid is None or (two and small is None):
        why = f"measured no layout of the grid{' in a file as small as the raw array' if grid else ''}"
        raise ConfigurationError(study.file, where, why)
    lines = [f"outside the grid, to be {OUTSIDE}: {compared(logs, outside, grid)}"] if outside else []
    for name in two:
        share = significant(sizes[name] / study.dataset.nbytes, 2)
        rivals = dict.fromkeys([within[0], str(small)])
        lines += [
            f"two copies, to be {COPIES}: {compared(logs, name, rival)}; {share} of the raw array"
            for rival in rivals
        ]
    return lines


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="a study that was measured, and extends the one with the grid")
    options = parser.parse_args()
    try:
        study = LoadedStudy(STUDIES / f"{options.study}.yaml")
        extended = read_yaml(study.file).get("extends")
        if not extended:
            raise ConfigurationError(study.file, "extends", "names no study whose layouts are the grid")
        inside = set(LoadedStudy(STUDIES / f"{extended}.yaml").layouts)
        file = Path("results") / options.study / "summary.csv"
        if not file.exists():
            raise ConfigurationError(file, "", "is not there: measure the study first")
        summary = read_summary(file)
        for site, rows in summary[summary["phase"] == "main"].groupby("site", observed=True):
            for line in judged(study, inside, rows):
                print(f"{site}: {line}")
    except ConfigurationError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
