"""What files hold, where each record tells of one copy of the array and a file may have several."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

# What each read's record says of the copy that it reads, and what tells copies apart.
OF_A_COPY = ["chunks", "chunks_predicted", "data_bytes", "padding_bytes", "padding_predicted_bytes",
             "index_bytes", "index_predicted_bytes"]  # fmt: skip
COPY = ["chunk_shape", "filters"]


def of_whole_files(rows: pd.DataFrame, keys: Sequence[str] = ("layout",)) -> pd.DataFrame:
    """Return rows of cells in which the sizes of a file with several copies are those of all copies together.

    `keys` tell files apart. What a record calls the remainder of a file holds the other copies, too: for k
    copies that is k - 1 times the file too much.
    """
    by_copy = rows.groupby([*keys, *COPY], observed=True)[
        [*OF_A_COPY, "remainder_bytes", "file_bytes"]
    ].median()
    copies = by_copy.groupby(list(keys), observed=True)
    several = copies.size()[lambda count: count > 1].index
    if several.empty:
        return rows
    sums = copies.sum(min_count=1).loc[several]
    size = copies["file_bytes"].median().loc[several]
    sums["remainder_bytes"] -= (copies.size().loc[several] - 1) * size
    here = rows.set_index(list(keys)).index
    rows = rows.copy()
    for name in [*OF_A_COPY, "remainder_bytes"]:
        rows[name] = rows[name].astype(float).mask(here.isin(several), sums[name].reindex(here).to_numpy())
    return rows


def of_layouts(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return what a layout's file has of a `column` (index `layout`): of each case the median of its rows,
    and of cases the largest.

    Cases may be measured on arrays of several sizes, of which the largest says most of the whole.
    """
    by_case = rows.groupby(["layout", "case"], observed=True)[column].median()
    return by_case.groupby("layout", observed=True).max()
