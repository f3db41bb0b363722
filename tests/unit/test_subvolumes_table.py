"""The table of sub-volumes that ranks write: phases, and what each rank counts."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from figure_samples import STUDY, repeats

from hyperslab.report.data import Inputs, gather
from hyperslab.report.workers import subvolumes_table
from hyperslab.results.statistics import summarise

WAYS = {"aggregated": "aggregated", "token": "one after the other", "plain": "plain MPI-IO"}


def study() -> dict[str, Any]:
    """The sample study, in which two ranks write sub-volumes in three ways."""
    cases = {
        f"volume-{way}-2r": {
            **STUDY["cases"]["slices"],
            "kind": "subvolumes", "title": f"16 MiB, {words}, 2 MPI ranks", "states": ["write"],
            "family": "volume", "by": "ranks", "workers": 2, "subvolumes": {"way": way},
        }
        for way, words in WAYS.items()
    }  # fmt: skip
    return {**STUDY, "cases": cases, "tradeoff": []}


def table(**told: Any) -> pd.DataFrame:
    """Writes in these ways; `told` are columns of the aggregated one."""
    rows = repeats()
    rows = rows[(rows["state"] == "write") & (rows["layout"] == "contiguous")]
    ours = {"order_s": 0.2, "exchange_s": 0.1, "file_writes_s": 0.5, "write_s": 0.6, "opens": 5.0, **told}
    return pd.concat(
        [
            rows.assign(case=f"volume-{way}-2r", physical_cores=2, **(ours if way == "aggregated" else {}))
            for way in WAYS
        ],
        ignore_index=True,
    )


@pytest.mark.parametrize(
    ("by_rank", "note"), [("2 3", "2 to 3 a rank"), ("2 2", "2 a rank"), ("4", ""), ("", "")]
)
def test_phases_overlap_and_ranks_count(by_rank: str, note: str) -> None:
    rows = table(opens_by_rank=by_rank)
    given = Inputs(
        study=study(), measurements=rows, summary=summarise(rows), context=[], score={}, recommendation={},
        confirmation=None, figures={}, expected=[],
    )  # fmt: skip
    found = subvolumes_table(gather(given), "disk", None)
    assert found is not None
    names = [column.name for column in found.columns]
    rows = {row[0].text: dict(zip(names, row, strict=True)) for row in found.rows}
    ours = rows["aggregated"]
    assert [ours[name].text for name in ("Order", "Exchange", "File writes", "Write")] == [
        "200 ms", "100 ms", "500 ms", "600 ms",
    ]  # fmt: skip
    assert (ours["Files made and opened"].text, ours["Files made and opened"].note) == ("5", note)
    # A writer that does not tell its phases apart.
    assert rows["one after the other"]["Order"].text == "–"
