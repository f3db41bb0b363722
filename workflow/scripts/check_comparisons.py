#!/usr/bin/env python3
"""How often intervals tell a layout from its twin, and a twin that is really slower from the layout.

The study has each layout twice, as NAME and NAME-twin (config/studies/same-twice.yaml). Every pair is
compared in every case and state as the report compares layouts, adjusted over the pairs of a case and state.
Then the twins' measured times are made longer by a planted delay, and the comparisons are counted again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from scipy import stats

from hyperslab.results.statistics import compare_pairs, summarise
from hyperslab.results.tables import read_table

TWIN = "-twin"
FAMILY = ["site", "case", "state"]


def told_apart(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return one row a pair, case and state: the interval of twin over layout,
    and whether it leaves out 1.
    """
    summary = summarise(measurements)
    found = []
    for (site, case, state), rows in summary.groupby(FAMILY, observed=True):
        names = sorted(set(rows["layout"]))
        pairs = [(f"{name}{TWIN}", name) for name in names if f"{name}{TWIN}" in names]
        compared = compare_pairs(summary, str(site), str(case), str(state), "main", pairs)
        found.append(compared.assign(site=site, case=case, state=state))
    table = pd.concat(found, ignore_index=True)
    table["slower"] = table["different"] & (table["ratio"] > 1)
    return table


def delayed(measurements: pd.DataFrame, delay: float) -> pd.DataFrame:
    """Return the measurements with every time of a twin longer by the share `delay`."""
    twins = measurements["layout"].str.endswith(TWIN)
    times = measurements["time_s"].where(~twins, measurements["time_s"] * (1 + delay))
    return measurements.assign(time_s=times)


def rank_correlation(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlation of the layouts' order in two runs of a study, by site, case and state."""
    both = [summarise(run).drop_duplicates([*FAMILY, "layout"]) for run in (one, other)]
    merged = both[0].merge(both[1], on=[*FAMILY, "layout"], suffixes=("", "_other"))
    rows = [
        (*key, len(rows), stats.spearmanr(rows["pooled_median_s"], rows["pooled_median_s_other"]).statistic)
        for key, rows in merged.groupby(FAMILY, observed=True)
    ]
    return pd.DataFrame(rows, columns=[*FAMILY, "layouts", "spearman"])


def fresh(file: Path) -> pd.DataFrame:
    """Return the measurements of a file that are not stale."""
    measurements = read_table(file)
    return measurements[~measurements["stale"]]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", nargs="?", default="same-twice", help="a study of twins that has results")
    parser.add_argument("--delay", type=float, default=0.15, help="planted delay as a share (default 0.15)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument(
        "--against",
        type=Path,
        help="measurements.parquet of another run of the study: also correlate the order of layouts",
    )
    options = parser.parse_args()
    file = options.results / options.study / "measurements.parquet"
    if not file.exists():
        parser.error(
            f"{file} is missing; run: snakemake --profile profiles/local results/{options.study}/summary.csv"
        )
    measurements = fresh(file)
    if options.against:
        print(rank_correlation(measurements, fresh(options.against)).to_string(index=False), end="\n\n")
        if not measurements["layout"].str.endswith(TWIN).any():
            return
    same, planted = told_apart(measurements), told_apart(delayed(measurements, options.delay))
    per_state = same.assign(found=planted["slower"]).groupby(FAMILY, observed=True)
    print(
        per_state.agg(
            pairs=("different", "size"), called_different=("different", "sum"), delay_found=("found", "sum")
        )
    )
    print(f"\n{int(same['different'].sum())} of {len(same)} pairs of equals called different")
    print(f"a planted {options.delay:.0%} found in {int(planted['slower'].sum())} of {len(planted)}")


if __name__ == "__main__":
    main()
