"""From repeats to rounds, from rounds to intervals and comparisons; noise and overlap.

A round is a block: every cell once, in shuffled order, with new files in new processes. Repeats inside one
process share that process's luck, so the statistic is the natural logarithm of what stands for a round, and
its error the deviation between rounds (`comparisons.py` says which test is used when). A round's median
stands for it; of a session, a ramp whose median is that of no state, the geometric mean. Where a limit holds
I/O back but lets bursts pass, the mean of a round's cold reads or writes stands for its median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from hyperslab.measuring.throttling import BURST_SECONDS
from hyperslab.results.columns import CARRIED, KEYS, POOLED, ROUND, THROTTLE
from hyperslab.results.comparisons import Contrasts, of_average_round, of_rounds, table
from hyperslab.states import COLD_STATES

FAMILY = ["site", "case", "kind", "phase", "state"]
# States whose repeats a limit holds back alike, so that their mean stands for them; a session is a ramp.
THROTTLED_STATES = ("cold", "write")
ANSWER = "answer_median_s"


def summarise(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return one row a site x layout x case x kind x phase x state x round, from one row a repeat.

    Needs `KEYS`, `repeat` and `time_s` (seconds); the file columns are carried over where present. Adds to
    the round's own statistics (`ROUND`, quartiles by linear interpolation) those of the cell over
    its rounds (`POOLED`). `typical_s` stands for a round: its median, of a session the geometric mean, or of
    cold reads and writes that a limit holds back their mean, and at least what the limit alone takes
    (`throttled_s`). `first_access_s` is of cold states alone, `first_selection_s` of sessions.
    `pooled_median_s` is the geometric mean of the rounds' `typical_s`, `sd_log` the deviation of their logs
    between rounds, and low and high the 95 % t interval of the cell alone (not of a ratio: use `compare`),
    NaN under three rounds. Nothing is dropped: choose rows before calling. Raises
    ValueError for missing columns, a time that is not positive, or a repeat that appears twice.
    """
    missing = [name for name in [*KEYS, "repeat", "time_s"] if name not in measurements]
    if missing:
        raise ValueError(f"measurements lack the columns {', '.join(missing)}")
    present = [name for name in CARRIED if name in measurements]
    if measurements.empty:
        return pd.DataFrame(columns=[*KEYS, *ROUND, *THROTTLE, *POOLED, *present])
    times = measurements["time_s"]
    if not (np.isfinite(times) & (times > 0)).all():
        raise ValueError("every time_s must be a positive, finite number of seconds")
    # One grouping for all: it takes long to tell cells apart by seven names.
    grouped = measurements.assign(request_s=_requests(measurements)).groupby(KEYS, sort=True, observed=True)
    twice = measurements[["repeat"]].assign(cell=grouped.ngroup().to_numpy()).duplicated()
    if twice.any():
        first = measurements.loc[twice, [*KEYS, "repeat"]].iloc[0]
        raise ValueError(f"repeat measured twice: {first.to_dict()}")
    summary = grouped["time_s"].agg(n="size", min_s="min", mean_s="mean", max_s="max")
    # At once: for each call the repeats of every cell are sorted anew.
    quartiles = grouped["time_s"].quantile([0.25, 0.5, 0.75]).to_numpy()
    summary[["q1_s", "median_s", "q3_s"]] = quartiles.reshape(-1, 3)
    requests = grouped["request_s"]
    summary["request_s"], summary["mean_request_s"] = requests.median(), requests.mean()
    summary["answers"] = grouped[ANSWER].count() > 0 if ANSWER in measurements else False
    session = measurements[measurements["state"] == "session"]
    summary["first_selection_s"] = session[session["repeat"] == 0].set_index(KEYS)["time_s"]
    ramp = np.exp(np.log(session["time_s"]).groupby([session[key] for key in KEYS], observed=True).mean())
    summary[present] = grouped[present].first()
    summary[list(THROTTLE)] = math.nan, False
    if "throttled_s" in measurements:
        summary["throttled_s"] = grouped["throttled_s"].sum(min_count=1)
        summary["throttle_artefact"] = bursts(measurements).groupby([measurements[key] for key in KEYS]).any()
    summary["typical_s"] = ramp.reindex(summary.index).fillna(summary["median_s"])
    summary = summary.reset_index()
    means = (summary["throttled_s"] > 0) & summary["state"].isin(THROTTLED_STATES)
    # What the limit alone takes is what a mean falls short of that profits from pauses between operations.
    at_least = np.fmax(summary["mean_s"], summary["throttled_s"] / summary["n"])
    summary["typical_s"] = summary["typical_s"].where(~means, at_least)
    cold, opening = summary["state"].isin(COLD_STATES), summary["mean_request_s"] - summary["mean_s"]
    each = summary["request_s"].where(cold & ~means, summary["typical_s"] + opening)
    # A repeat of several clients has many requests, whose times are its own.
    summary["request_s"] = summary["request_s"].where(summary["answers"], each)
    summary["first_access_s"] = summary["request_s"].where(cold)
    narrow = summary[[*FAMILY, "layout", "round", "typical_s"]]
    families = {key: _pooled(rows) for key, rows in narrow.groupby(FAMILY, sort=True, observed=True)}
    pooled = pd.concat(families, names=FAMILY).reset_index(FAMILY)
    summary = summary.merge(pooled, on=[*FAMILY, "layout"], how="left", validate="many_to_one")
    return summary[[*KEYS, *ROUND, *THROTTLE, *POOLED, *present]]


def _requests(measurements: pd.DataFrame) -> pd.Series:
    """Return what a request waits for, repeat by repeat: all of it, where it is cold with copying and
    opening, and of several clients the median of their requests.
    """
    waits, cold = measurements["time_s"], measurements["state"].isin(COLD_STATES)
    for name in ("open_s", "fetch_s"):
        if name in measurements:
            waits = waits + measurements[name].where(cold, 0.0).fillna(0.0)
    return measurements[ANSWER].fillna(waits) if ANSWER in measurements else waits


def by_mean(rows: pd.DataFrame) -> bool:
    """Return whether means stand for the rounds in rows of a summary or of repeats, or for some of them."""
    held = rows[rows["state"].isin(THROTTLED_STATES)]
    return bool((held["throttled_s"].astype(float) > 0).any())


def round_words(rows: pd.DataFrame) -> str:
    """Return what stands for the rounds in these rows, as for `by_mean`, in words: "medians" mostly."""
    if not by_mean(rows):
        return "medians"
    if set(rows["state"]) <= set(THROTTLED_STATES):
        return "means"
    return "medians (means of throttled cold reads and writes)"


def typical_column(summary: pd.DataFrame) -> str:
    """Return the column that stands for a round: `typical_s`, or in a summary without it the median."""
    return "typical_s" if "typical_s" in summary else "median_s"


def by_round(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return layouts x rounds of a `column` of numbers; NaN where a layout lacks a round.

    `rows` are one site, case, phase and state of a summary. Raises ValueError where a layout has a round
    twice.
    """
    # As DataFrame.pivot, which takes ten times as long on tables as short as these.
    row, layouts = pd.factorize(rows["layout"], sort=True)
    place, rounds = pd.factorize(rows["round"], sort=True)
    if len(np.unique(row * len(rounds) + place)) < len(rows):
        raise ValueError("a layout has the same round twice: select one site, case, kind, phase and state")
    values = np.full((len(layouts), len(rounds)), math.nan)
    values[row, place] = rows[column].to_numpy(dtype=float)
    return pd.DataFrame(values, layouts.rename("layout"), rounds.rename("round"))


def log_medians(rows: pd.DataFrame) -> pd.DataFrame:
    """Return layouts x rounds of log `typical_s` (of `median_s`, in a summary without it), as `by_round`."""
    return np.log(by_round(rows, typical_column(rows)))


def _pooled(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the pooled columns of one family, one row a layout."""
    logs = log_medians(rows)
    found = of_rounds(logs)
    middle, low, high = of_average_round(found, logs)
    columns = {"pooled_median_s": middle, "pooled_low_s": low, "pooled_high_s": high}
    return pd.DataFrame(
        {"layout": [str(name) for name in logs.index], "rounds": found.rounds}
        | {name: np.exp(value) for name, value in columns.items()}
        | {"sd_log": found.deviation}
    )


def compare(
    summary: pd.DataFrame,
    site: str,
    case: str,
    state: str,
    phase: str,
    reference_layout: str,
    layouts: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the time of every other layout over that of `reference_layout`, one row a layout.

    Columns `layout`, `reference` and those of `comparisons.table`, which says what each promises. `layouts`
    restricts what is compared (and adjusted for). Raises ValueError where `reference_layout` or one of
    `layouts` was not measured there.
    """
    if layouts is None:
        layouts = sorted(set(_select(summary, site, case, state, phase)["layout"]))
    pairs = [(name, reference_layout) for name in dict.fromkeys(layouts) if name != reference_layout]
    return compare_pairs(summary, site, case, state, phase, pairs)


def compare_pairs(
    summary: pd.DataFrame, site: str, case: str, state: str, phase: str, pairs: Sequence[tuple[str, str]]
) -> pd.DataFrame:
    """Return `compare` for chosen pairs (layout, reference), adjusted over these:
    layouts and their twins, say.
    """
    logs = log_medians(_select(summary, site, case, state, phase))
    measured = set(logs.index)
    for name in dict.fromkeys(name for pair in pairs for name in pair):
        if name not in measured:
            where = f"case {case!r} ({state}) at site {site!r}"
            raise ValueError(f"layout {name!r} has no {phase} round of {where}")
    names = {"layout": [pair[0] for pair in pairs], "reference": [pair[1] for pair in pairs]}
    found = paired(logs, names["layout"], names["reference"])
    return pd.concat([pd.DataFrame(names, dtype=object), table(found)], axis=1)


def paired(logs: pd.DataFrame, first: Sequence[str], second: Sequence[str]) -> Contrasts:
    """Return the logs of `first` less those of `second`, name by name, within each round (a column)."""
    return of_rounds(logs.loc[list(first)].to_numpy() - logs.loc[list(second)].to_numpy())


def _select(summary: pd.DataFrame, site: str, case: str, state: str, phase: str) -> pd.DataFrame:
    """Return the rows of a summary that share their error."""
    rows = summary[(summary["site"] == site) & (summary["case"] == case)]
    return rows[(rows["state"] == state) & (rows["phase"] == phase)]


def noisy(probes: pd.Series) -> pd.Series:
    """Return which probe times of one site lie further from their median than max(5 MAD, 25 % of the median).

    MAD is the plain median absolute deviation. Too fast counts as too slow does; an unknown probe (NaN) is
    not noisy.
    """
    median = probes.median()
    deviation = (probes - median).abs()
    return deviation > max(5 * deviation.median(), 0.25 * median)


def bursts(measurements: pd.DataFrame) -> pd.Series:
    """Return which repeats belong to a cell and state that a limit held back,
    but mostly not when it mattered.

    A limit lets short bursts pass: where the median repeat takes less than `BURST_SECONDS` at the limit
    (`throttled_s`), the median time is that of a burst, and only the mean says what the limit allows.
    """
    grouped = measurements.groupby(KEYS, observed=True)["throttled_s"]
    return (grouped.transform("median") < BURST_SECONDS) & (grouped.transform("sum") > 0)


def overlaps(intervals: pd.DataFrame, shared: str = "boot_id") -> pd.Series:
    """Return which intervals overlap another one with the same value of `shared`: columns `start`,
    `end`, `shared`.

    `start` and `end` are on one clock wherever `shared` is equal: the boot-time clock for a boot id, the wall
    clock for, say, a file system that several nodes use. Intervals are half open, so one may start at the
    instant at which another ends. Returns bools on the index of `intervals`; raises ValueError where a
    value is unknown or an interval ends before it starts.
    """
    unknown = intervals[[shared, "start", "end"]].isna().any(axis=None)
    if unknown or (intervals["end"] < intervals["start"]).any():
        raise ValueError(f"intervals need a {shared}, a start, and an end that is not before the start")
    found = np.zeros(len(intervals), dtype=bool)
    start, end = intervals["start"].to_numpy(), intervals["end"].to_numpy()
    for positions in intervals.groupby(shared).indices.values():
        order = positions[np.lexsort((end[positions], start[positions]))]
        latest = np.maximum.accumulate(end[order])[:-1]
        found[order[1:]] |= start[order[1:]] < latest
        found[order[:-1]] |= start[order[1:]] < end[order[:-1]]
    return pd.Series(found, index=intervals.index)
