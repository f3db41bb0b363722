"""Sites whose I/O a cgroup holds back: the limits, how much was moved under them, and medians of bursts."""

from __future__ import annotations

import pandas as pd

from hyperslab import text as fmt
from hyperslab.measuring.throttling import BURST_SECONDS, ENOUGH_SECONDS
from hyperslab.report.data import Data
from hyperslab.report.model import Check, Table, table
from hyperslab.results.statistics import THROTTLED_STATES
from hyperslab.text import throttle_text

NAME = "Throttled sites"
RESULT = ["site", "layout", "case", "state", "phase"]


def throttled(data: Data) -> Check:
    """Return which sites are throttled, whether every mean rests on enough I/O,
    and which medians are of bursts.
    """
    limits: dict[str, set[str]] = {}
    uncounted = set()
    for entry in data.context:
        found = entry.get("throttle") or {}
        limits.setdefault(str(entry["site"]), set()).add(throttle_text(found))
        for word in ("read", "write"):
            if found.get(f"{word}s_per_s") and not found.get(f"{word}_bytes_per_s"):
                uncounted.add(str(entry["site"]))
    limits = {site: texts for site, texts in limits.items() if texts != {""}}
    if not limits:
        return Check(NAME, "None: nothing held back the I/O of any site.", "good")
    both = pd.concat([data.summary, data.confirmed])
    held = both[both["throttled_s"].astype(float) > 0]
    by_mean = held[held["state"].isin(THROTTLED_STATES)]
    short = by_mean[by_mean["throttled_s"] < ENOUGH_SECONDS]
    bursts = by_mean[by_mean["throttle_artefact"].astype(bool)].drop_duplicates(RESULT)
    parts = [_limits(site, texts) for site, texts in limits.items()]
    if len(by_mean):
        parts.append(
            "Cold reads and writes are compared by each round's mean, and at least what the limit alone "
            "takes, since it lets bursts pass: "
            f"{len(bursts):,} of {fmt.count(len(by_mean.drop_duplicates(RESULT)), 'result')} need less than "
            f"{BURST_SECONDS:g} s at the limit, so that their median is an artefact."
        )
    if len(short):
        parts.append(
            f"{len(short):,} of {fmt.count(len(by_mean), 'mean')} rest on less than {ENOUGH_SECONDS:g} s of "
            "I/O at the limit, and say little."
        )
    if uncounted:
        parts.append(
            f"At {fmt.listing(sorted(uncounted))} a limit of operations is not turned into seconds: where no "
            "bytes are limited, results are compared by medians, which may be of bursts."
        )
    mixed = any(len(texts) > 1 for texts in limits.values())
    tone = "bad" if mixed or len(short) else "unknown"
    return Check(NAME, " ".join(parts), tone, [_table(held)] if len(held) else [])


def _limits(site: str, texts: set[str]) -> str:
    """Return a site with its limit, or with all that it had meanwhile."""
    return f"{site}: {' or '.join(text or 'no limit' for text in sorted(texts))}."


def _table(held: pd.DataFrame) -> Table:
    """Return one row a result that a limit held back, with medians over its rounds."""
    grouped = held.groupby(RESULT, sort=False, observed=True)
    found = grouped[["n", "typical_s", "mean_s", "median_s"]].median()
    least, artefact = grouped["throttled_s"].min(), grouped["throttle_artefact"].any()
    body = [
        [
            *key, fmt.whole(row["n"]), *(fmt.seconds(value) for value in row.iloc[1:]),
            fmt.seconds(least[key]), "yes" if artefact[key] else "no",
        ]
        for key, row in found.iterrows()
    ]  # fmt: skip
    columns = ["Site", "Layout", "Case", "State", "Phase", "#Repeats", "#Compared", "#Mean", "#Median",
               "#At the limit", "Median of bursts"]  # fmt: skip
    note = (
        "Medians over rounds. At the limit: seconds that the limit alone would take for all repeats of a "
        "round, the least of the rounds."
    )
    return table("Under the limit", columns, body, note, folded=True)
