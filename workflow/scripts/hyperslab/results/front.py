"""The Pareto front: the layouts that no other beats, in what requests wait for and in sizes of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.results.recommend import SMALLER
from hyperslab.results.requests import Entry, entry_of, request_times, typical

WRITE = "write"
# Columns beside those of cases, whose names have no blanks.
SIZE = "size of the file"
FRONT = "on the front"


def pareto(
    points: pd.DataFrame, columns: Sequence[str], roughly: Mapping[str, float] | None = None
) -> pd.Series:
    """Return which rows no other row beats: as small in all `columns` and smaller in one. Never one with a
    NaN. Of a column in `roughly` a value is smaller only if it is by that factor.
    """
    values = points[list(columns)].to_numpy(dtype=float)
    known = np.isfinite(values).all(axis=1)
    shares = pd.Series(roughly or {}, dtype=float).reindex(list(columns)).fillna(1.0).to_numpy()
    mine, other = values[:, None, :], values[None, :, :]
    no_worse = (mine * shares <= other).all(axis=2)
    better = ((mine < other) & (mine <= other * shares)).any(axis=2)
    beaten = (no_worse & better).any(axis=0)
    return pd.Series(known & ~beaten, index=points.index)


def counted(choice: Mapping[str, Any], rows: pd.DataFrame, state: str) -> list[Entry]:
    """Return the cases that count for a recommendation, reads in `state`; without one all that were measured
    in that state. `rows` are one site and phase of a summary.
    """
    named = [entry_of(key) for key in choice.get("shares", {})]
    if not named:
        named = [(str(case), state) for case in dict.fromkeys(rows["case"][rows["state"] == state])]
    wanted = dict.fromkeys((case, WRITE if of == WRITE else state) for case, of in named)
    measured = set(zip(rows["case"], rows["state"], strict=True))
    return [entry for entry in wanted if entry in measured]


def fronts(times: pd.DataFrame, drawn: Sequence[str], sizes: pd.Series) -> pd.Series:
    """Return for each layout "" where another beats it, "drawn" where none does in the two `drawn` cases,
    "case" or "size" where none does once the other cases, or the sizes of files, are looked at, too, and
    "both" where that takes both.

    `times` is layouts x cases; a case that some of the layouts lack is left out. Files whose sizes differ by
    less than 2 % are as large as each other.
    """
    cases = [case for case in times if case in drawn or times[case].notna().all()]
    table = times.assign(**{SIZE: sizes.reindex(times.index)})
    by_size = {SIZE: SMALLER}
    sized = [SIZE] if table[SIZE].notna().all() else []
    looks = {"drawn": drawn, "case": cases, "size": [*drawn, *sized], "both": [*cases, *sized]}
    found = pd.Series("", index=times.index, dtype=object)
    for word, columns in reversed(looks.items()):
        found[pareto(table, list(columns), by_size)] = word
    return found


def tradeoff(choice: Mapping[str, Any], rows: pd.DataFrame, drawn: Sequence[str], state: str) -> pd.DataFrame:
    """Return the layouts measured in all `drawn` cases x (these cases: seconds of a request in `state`;
    `FRONT`: how a layout is on the Pareto front, as `fronts` says it).

    `choice` and `rows` as for `counted`. Without rows where one of the drawn cases was not measured in this
    state.
    """
    entries = [(case, state) for case in drawn]
    if not set(entries) <= set(zip(rows["case"], rows["state"], strict=True)):
        return pd.DataFrame(columns=[*drawn, FRONT])
    entries += [entry for entry in counted(choice, rows, state) if entry[0] not in drawn]
    times = pd.DataFrame({case: typical(request_times(rows, (case, of))) for case, of in entries})
    times = times.dropna(subset=list(drawn))
    first = rows[(rows["case"] == drawn[0]) & (rows["state"] == state)].drop_duplicates("layout")
    sizes = first.set_index("layout")["file_bytes"]
    return times[list(drawn)].assign(**{FRONT: fronts(times, drawn, sizes) if len(times) else ""})
