"""Views level by level: what the column `levels` of the table of repeats holds, as a table of its own."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hyperslab.measuring.counters import OF_READS

CELL = ["layout", "case", "state", "round", "repeat"]
COUNTS = ["asked_bytes", "requested_bytes", "requested_reads", "device_bytes", "chunks_touched"]


@dataclass(frozen=True)
class Picture:
    """One plane of a view at a level: pixels from 0 to 255, and whether the level holds means."""

    level: int
    pixels: npt.NDArray[np.uint8]
    layout: str


def by_level(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a level of every view in `rows`, repeats of one site; empty where there are none.

    Columns: those that tell repeats apart, `level`, `time_s` and counts of the level alone, and under the
    same names with `so_far_` what all levels up to it took together. `so_far_time_s` begins with the opening
    of a cold file.
    """
    found: list[dict[str, Any]] = []
    for row in rows[rows["levels"].astype(str) != ""].to_dict("records"):
        opening = 0.0 if row["state"] == "warm" else float(row["open_s"])
        sums = dict.fromkeys(COUNTS, 0.0) | {"time_s": opening}
        for level in json.loads(row["levels"]):
            # What the kernel did not count of the whole it did not count of a level.
            for name in OF_READS:
                if pd.isna(row[name]):
                    level[name] = math.nan
            sums = {name: before + level[name] for name, before in sums.items()}
            so_far = {f"so_far_{name}": value for name, value in sums.items()}
            own = {name: level[name] for name in ("level", "time_s", *COUNTS)}
            found.append({**{name: row[name] for name in CELL}, **own, **so_far})
    return pd.DataFrame(found)


def typical(levels: pd.DataFrame, column: str, held: bool = False) -> pd.DataFrame:
    """Return the levels, coarsest first, x layouts: geometric mean over rounds of the medians of a column, or
    of its means for times that a limit has `held` back.

    `levels` are of one case and state (`by_level`).
    """
    grouped = levels.groupby(["level", "layout", "round"], observed=True)[column]
    of_rounds = grouped.mean() if held else grouped.median()
    logs = np.log(of_rounds.where(of_rounds > 0))
    table: pd.DataFrame = np.exp(logs.groupby(["level", "layout"], observed=True).mean()).unstack("layout")
    return table.sort_index(ascending=False)


def pictures(rows: pd.DataFrame) -> dict[str, list[Picture]]:
    """Return layout -> its pictures of the first view, coarsest first, of those that have some."""
    found: dict[str, list[Picture]] = {}
    for row in rows[rows["levels"].astype(str).str.contains('"picture"')].to_dict("records"):
        for level in json.loads(row["levels"]):
            if kept := level.get("picture"):
                pixels = np.frombuffer(zlib.decompress(base64.b64decode(kept["pixels"])), np.uint8)
                shown = Picture(level["level"], pixels.reshape(kept["shape"]), row["layout"])
                found.setdefault(row["layout"], []).append(shown)
    return found
