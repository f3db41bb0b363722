"""Cases compared with each other: more workers with fewer, one interface with another; rounds are blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hyperslab.results.comparisons import of_rounds
from hyperslab.results.comparisons import table as compared
from hyperslab.results.statistics import typical_column


def against(rows: pd.DataFrame, reference: str, others: Sequence[str]) -> pd.DataFrame:
    """Return the time of the case `reference` over that of each of `others`: how many times faster these are.

    `rows` are a summary of one site, layout, state and phase. Columns `case` and those of
    `comparisons.table`, adjusted over `others`; a case that was not measured has no row, and without
    `reference` there is none.
    """
    chosen = rows[rows["case"].isin([reference, *others])]
    logs = np.log(chosen.pivot(index="case", columns="round", values=typical_column(rows)))
    present = [case for case in dict.fromkeys(others) if case in logs.index and case != reference]
    if reference not in logs.index or not present:
        return pd.DataFrame(columns=["case", "ratio", "low", "high", "different"])
    table = compared(of_rounds(logs.loc[[reference]].to_numpy() - logs.loc[present].to_numpy()))
    table.insert(0, "case", present)
    return table


def speedups(rows: pd.DataFrame, counts: Mapping[int, str]) -> pd.DataFrame:
    """Return the speed-up by number of workers: time with the fewest over time with so many.

    `rows` as for `against`; `counts` number of workers -> case. Columns `workers`, `case`, `ratio` and those
    of `comparisons.table`, adjusted over all numbers; the first row, the reference, has ratio 1 and no
    interval. Empty where the fewest were not measured.
    """
    fewest, *more = sorted(counts)
    if not (rows["case"] == counts[fewest]).any():
        return pd.DataFrame(columns=["workers", "case", "ratio", "low", "high"])
    table = against(rows, counts[fewest], [counts[number] for number in more])
    numbers = {case: number for number, case in counts.items()}
    table.insert(0, "workers", [numbers[case] for case in table["case"]])
    first = pd.DataFrame({"workers": [fewest], "case": [counts[fewest]], "ratio": [1.0]})
    return pd.concat([first, table], ignore_index=True) if len(table) else first
