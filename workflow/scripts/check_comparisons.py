#!/usr/bin/env python3
"""Whether comparisons keep their promises: equal layouts, a planted delay, and gates that can fail.

    check_comparisons.py                                 the results of same-twice
    check_comparisons.py --pack packs/same-twice.tar.xz  those of a pack
    check_comparisons.py --first 3                       as if rounds had ended when a pair was told apart
    check_comparisons.py --split 3                       rounds in sets of three, each a study of its own

The study has each layout twice, as NAME and NAME-twin (config/studies/same-twice.yaml). Every pair is
compared in every case and state as the report compares layouts, adjusted over the pairs of a case and state.
Then the twins' measured times are made longer by a planted delay, and the comparisons are made again.

Gates, each within the 99 % interval of the binomial distribution:

    p values    of equals are uniform: 5 % of the unadjusted ones lie under 0.05, of all pairs, of the
                noisiest fifth and of the quietest half (by the deviation of their differences between
                rounds; only from ten rounds on, as with fewer it says as much of luck as of noise)
    families    with any pair of equals called different (Holm at 5 %) are at most 5 %
    the delay   is found in at least 80 % of the pairs: a plain share, with nothing taken off for chance

With --split the rounds are divided into sets of so many, each of which is compared as a study of its own: 28
rounds in sets of three are 54 families instead of six, of which a test with a family-wise error of 31 % would
call equals different in some 17, where at most 7 are allowed. So few rounds are not asked to find the delay:
what is found of it is shown and is no gate.

With --first the rule of adaptive rounds is applied to the measured rounds: after so many of them a pair gets
more only while it is not told apart from its twin, and each look tests at its share of the level. What such
a rule leaves is not uniform, since most of the level is spent on looks that end nothing, so that the gate is
that not more than 5 % of equals are called different.

Exit status 1 where a gate fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import scipy

from hyperslab.results.comparisons import ALPHA, MIN_ROUNDS, of_rounds, table
from hyperslab.results.looks import as_if_stopped, level, looks
from hyperslab.results.packs import PackError, measurements
from hyperslab.results.statistics import compare_pairs, log_medians, summarise
from hyperslab.results.tables import read_table

TWIN = "-twin"
FAMILY = ["site", "case", "state"]
# A family of one set of rounds, where these are split.
OF_SET = [*FAMILY, "set"]
LEVEL = 0.99
FOUND = 0.8
# From so many rounds on a pair's own deviation tells how noisy it is.
ENOUGH_ROUNDS = 10


def told_apart(measured: pd.DataFrame, first: int | None = None, split: int | None = None) -> pd.DataFrame:
    """Return one row a pair, case, state and set of rounds: the interval of twin over layout, and whether 1
    is outside.

    `first`: as if rounds had been added after so many, only while a pair is not told apart. `split`: each so
    many rounds that follow each other are a set, of which what is left over at the end is none.
    """
    summary = summarise(measured)
    summary = summary[summary["phase"] == "main"]
    sets = summary["round"].rank(method="dense").astype(int) - 1
    whole = sets.max() + 1 if split is None else split
    summary = summary.assign(set=sets // whole)[sets < (sets.max() + 1) // whole * whole]
    found = []
    for (site, case, state, number), rows in summary.groupby(OF_SET, observed=True):
        names = sorted(set(rows["layout"]))
        pairs = [(f"{name}{TWIN}", name) for name in names if f"{name}{TWIN}" in names]
        if first is None:
            compared = compare_pairs(rows, str(site), str(case), str(state), "main", pairs)
        else:
            compared = _stopped(log_medians(rows), pairs, first)
        found.append(compared.assign(site=site, case=case, state=state, set=number))
    everything = pd.concat(found, ignore_index=True)
    everything["slower"] = everything["different"] & (everything["ratio"] > 1)
    return everything


def _stopped(logs: pd.DataFrame, pairs: Sequence[tuple[str, str]], first: int) -> pd.DataFrame:
    """Return what adaptive rounds would have told of pairs; p values are those that looking is paid with."""
    twins, names = ([pair[side] for pair in pairs] for side in (0, 1))
    seen = as_if_stopped(logs.loc[twins].to_numpy() - logs.loc[names].to_numpy(), first)
    most = logs.shape[1]
    compared = table(of_rounds(seen), level(first, most, ALPHA))
    paid = (compared["p"] * len(looks(first, most))).clip(upper=1.0)
    return compared.assign(layout=twins, reference=names, p=paid)


def delayed(measured: pd.DataFrame, delay: float) -> pd.DataFrame:
    """Return the measurements with every time of a twin longer by the share `delay`."""
    twins = measured["layout"].str.endswith(TWIN)
    times = measured["time_s"].where(~twins, measured["time_s"] * (1 + delay))
    return measured.assign(time_s=times)


def rank_correlation(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlation of the layouts' order in two runs of a study, by site, case and state."""
    both = [summarise(run).drop_duplicates([*FAMILY, "layout"]) for run in (one, other)]
    merged = both[0].merge(both[1], on=[*FAMILY, "layout"], suffixes=("", "_other"))
    names = ["pooled_median_s", "pooled_median_s_other"]
    rows = [
        (*key, len(rows), scipy.stats.spearmanr(*(rows[name] for name in names)).statistic)
        for key, rows in merged.groupby(FAMILY, observed=True)
    ]
    return pd.DataFrame(rows, columns=[*FAMILY, "layouts", "spearman"])


def fresh(file: Path) -> pd.DataFrame:
    """Return the measurements of a file that are not stale."""
    measured = read_table(file)
    return measured[~measured["stale"]]


def gates(same: pd.DataFrame, planted: pd.DataFrame | None, stopped: bool = False) -> pd.DataFrame:
    """Return one row a gate: what it counts, of how many, the bounds of chance, and whether it holds.

    `planted` is None where the delay need not be found, `stopped` says that rounds ended when a pair was told
    apart.
    """
    spread = same.groupby(OF_SET, observed=True)["sd_log"].rank(pct=True)
    parts = {"all pairs": same}
    if same["rounds"].min() >= ENOUGH_ROUNDS:
        parts |= {"noisiest fifth": same[spread > 0.8], "quietest half": same[spread <= 0.5]}
    rows = []
    for name, part in parts.items():
        low, high = scipy.stats.binom.interval(LEVEL, len(part), ALPHA)
        low = 0.0 if stopped else low
        rows.append((f"p under {ALPHA:g}, {name}", int((part["p"] < ALPHA).sum()), len(part), low, high))
    families = same.groupby(OF_SET, observed=True)["different"].any()
    most = scipy.stats.binom.ppf(LEVEL, len(families), ALPHA)
    rows.append(("families with equals called different", int(families.sum()), len(families), 0, most))
    if planted is not None:
        least = FOUND * len(planted)
        rows.append(("planted delay found", int(planted["slower"].sum()), len(planted), least, len(planted)))
    found = pd.DataFrame(rows, columns=["gate", "count", "of", "least", "most"])
    found["holds"] = found["count"].between(found["least"], found["most"])
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", nargs="?", default="same-twice", help="a study of twins that has results")
    parser.add_argument("--pack", type=Path, help="a pack whose records are used in place of results")
    parser.add_argument("--delay", type=float, default=0.15, help="planted delay as a share (default 0.15)")
    parser.add_argument("--first", type=int, help="end rounds by the rule of adaptive rounds, after so many")
    parser.add_argument("--split", type=int, help="compare sets of so many rounds, each a study of its own")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument(
        "--against",
        type=Path,
        help="measurements.parquet of another run of the study: also correlate the order of layouts",
    )
    options = parser.parse_args()
    if options.against and not options.against.is_file():
        parser.error(f"--against: {options.against}: there is no such file")
    file = options.results / options.study / "measurements.parquet"
    if not options.pack and not file.exists():
        parser.error(
            f"{file} is missing; run: .venv/bin/snakemake --profile profiles/local "
            f"results/{options.study}/summary.csv"
        )
    try:
        measured = measurements(options.pack) if options.pack else fresh(file)
    except PackError as error:
        parser.error(str(error))
    if options.against:
        print(rank_correlation(measured, fresh(options.against)).to_string(index=False), end="\n\n")
    if not measured["layout"].str.endswith(TWIN).any():
        if options.against:
            return
        parser.error(f"study {options.study} has no twins: layouts called NAME and NAME{TWIN}")
    if options.split is not None and not MIN_ROUNDS <= options.split <= measured["round"].nunique():
        parser.error(f"--split: at least {MIN_ROUNDS} rounds make a set, and not more than there are")
    most = options.split or measured["round"].nunique()
    if options.first is not None and not MIN_ROUNDS <= options.first <= most:
        parser.error(f"--first: at least {MIN_ROUNDS} rounds, and no more than a set has")
    both = (measured, delayed(measured, options.delay))
    same, planted = (told_apart(one, options.first, options.split) for one in both)
    per_state = same.assign(
        found=planted["slower"], small=same["p"] < ALPHA, delay_rounds=planted["rounds"]
    ).groupby(FAMILY, observed=True)
    print(
        per_state.agg(
            pairs=("different", "size"),
            rounds=("rounds", "min"),
            mean_rounds=("rounds", "mean"),
            delay_rounds=("delay_rounds", "mean"),
            p_under_5=("small", "sum"),
            called_different=("different", "sum"),
            delay_found=("found", "sum"),
            median_sd_log=("sd_log", "median"),
        ).to_string(float_format="{:.3f}".format),
        end="\n\n",
    )
    found = gates(same, None if options.split else planted, options.first is not None)
    print(found.to_string(index=False))
    sys.exit(int(not found["holds"].all()))


if __name__ == "__main__":
    main()
