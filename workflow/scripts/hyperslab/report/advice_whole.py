"""What a whole array would take, where only a part of it was measured: estimates, called so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report.answer import ranked
from hyperslab.report.model import Cell, Table, table
from hyperslab.results.comparisons import MATTERS
from hyperslab.results.requests import entry_of, question_of
from hyperslab.results.rule import objective
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS

# As a share of the machine's memory, an array that stays in the page cache once it was read.
CACHED_SHARE = 0.5


def estimates(found: pd.DataFrame, site: Mapping[str, Any]) -> pd.DataFrame:
    """Return layouts x entries of estimated seconds for the whole array; empty where all of it was measured.

    The prediction for the whole array, times what was measured of the part over what was predicted of it.
    `found` are the measured seconds of the part (layouts x "case state"), `site` what was predicted there.
    """
    rows = {}
    for one in site["measured"]:
        if "whole" not in one or one["layout"] not in found.index:
            continue
        rows[one["layout"]] = {
            entry: one["whole"]["times"][name] * found.loc[one["layout"], entry] / one["times"][name]
            for entry in found.columns
            if (name := entry_of(entry)[0]) in one["times"]
        }
    return pd.DataFrame(rows).T


def _objectives(estimated: pd.DataFrame, choice: Mapping[str, Any]) -> pd.Series:
    """Return what the estimates make of layouts within the size, by the rule and the floor of a
    recommendation.
    """
    fits = [row["layout"] for row in choice["ranking"] if row["fits"] and row["layout"] in estimated.index]
    asked = question_of(choice)
    counting = estimated.loc[fits, list(asked.named)]
    # The floor of the choice is a share of it where a part was measured.
    floor = IMPERCEPTIBLE_MS / 1e3
    judged = objective(counting.to_numpy().T, asked.weights, counting.min().to_list(), floor)
    return pd.Series(judged, counting.index)


def better_than_pick(estimated: pd.DataFrame, choice: Mapping[str, Any]) -> str:
    """Return the layout that the estimates make better than the pick by what matters; "" for none."""
    judged = _objectives(estimated, choice)
    best, pick = str(judged.idxmin()), choice["pick"]
    return best if pick not in judged.index or judged[best] * MATTERS < judged[pick] else ""


def over_pick(estimated: pd.DataFrame, choice: Mapping[str, Any], layout: str | None) -> float:
    """Return how many times the objective of a layout is that of the pick, by the estimates, and of the pick
    itself that of the best; 1 where nothing is estimated.
    """
    if not {layout, choice["pick"]} <= set(estimated.index):
        return 1.0
    judged = _objectives(estimated, choice)
    other = judged.min() if layout == choice["pick"] else judged[choice["pick"]]
    # What does not fit is left alone by nobody.
    return float(judged.get(layout, math.inf) / other)


def each(found: pd.DataFrame, layout: str, today: str | None) -> str:
    """Return the time of each read in a layout, and in today's where that is another one."""
    both = today in found.index and today != layout
    parts = []
    for entry in found.columns:
        now = f" (now {fmt.duration(found.loc[today, entry])})" if both else ""
        parts.append(f"{entry_of(entry)[0]} in {fmt.duration(found.loc[layout, entry])}{now}")
    return fmt.listing(parts)


def sentence(
    estimated: pd.DataFrame, choice: Mapping[str, Any], prediction: Mapping[str, Any], site: str
) -> str:
    """Return what the advised layout would take in the whole array, and which one would be better there."""
    pick, today = str(choice["pick"]), prediction["today"]
    if pick not in estimated.index:
        return ""
    best = better_than_pick(estimated, choice)
    other = f" By these estimates {best} would be better for the whole array." if best else ""
    told = each(estimated, pick, today)
    file = "" if pick == today else _file(choice, prediction, site)
    return f"In the whole array it would take about: {told}; estimated, not measured.{other}{file}"


def _file(choice: Mapping[str, Any], prediction: Mapping[str, Any], site: str) -> str:
    """Return how large the file of the whole array would be in the advised layout, and how long it takes at
    least to write it: what is predicted, times measured over predicted in the part.
    """
    here, pick = prediction["sites"][site], choice["pick"]
    one = next(entry for entry in here["measured"] if entry["layout"] == pick)
    size = one["whole"]["file_bytes"] * ranked(choice, pick)["file_bytes"] / one["file_bytes"]
    # 0 where nothing could be written. Of a second and less nobody wants to know.
    took = size * here["probes"][0]["storage"]["write_s"]
    least = f", and takes at least {fmt.duration(took)} to write at the speed probed" if took > 1 else ""
    raw = fmt.volume(prediction["whole_bytes"])
    return f" Its file would have about {fmt.volume(size)} ({raw} without filters){least}."


def in_cache(prediction: Mapping[str, Any], site: str, file_bytes: float) -> tuple[bool, str]:
    """Return whether the file of the whole array stays in the page cache of the site's node, and in words how
    large both are; `file_bytes` are those of the part that was measured.
    """
    size = file_bytes * prediction["whole_bytes"] / prediction["raw_bytes"]
    memory = prediction["sites"][site]["probes"][0]["memory_bytes"]
    words = f"({fmt.volume(size)} of {fmt.volume(memory)} of memory)"
    return size <= CACHED_SHARE * memory, words


def estimate_table(estimated: pd.DataFrame, shape: str) -> Table | None:
    """Return the estimates as a table."""
    if estimated.empty:
        return None
    body = [
        [Cell(str(layout)), *(f"about {fmt.duration(value)}" for value in row)]
        for layout, row in estimated.iterrows()
    ]
    note = (
        f"Not measured: what is predicted for all of {shape}, times measured over predicted in the part. A "
        "read that is long in the whole array is worth a measurement there."
    )
    columns = ["Layout", *(f"#{entry_of(entry)[0]}" for entry in estimated.columns)]
    return table("Estimated for the whole array", columns, body, note)
