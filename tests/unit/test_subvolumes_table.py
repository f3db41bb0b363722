"""The table of sub-volumes that ranks write: what is written, phases, counts of ranks, and plain MPI-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from figure_samples import SHAPE, STUDY, repeats

from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import Cell
from hyperslab.report.workers import subvolumes_table
from hyperslab.results.statistics import summarise

# By family: what it writes, in which layout, and in which ways.
WAYS = {"aggregated": "aggregated", "token": "one after the other", "plain": "plain MPI-IO"}
FAMILIES: dict[str, tuple[str, str, list[str]]] = {
    "volume": ("16 MiB", "contiguous", list(WAYS)),
    "blocks": ("16 MiB in blocks", "contiguous", ["aggregated"]),
    # As in idx-serialised, whose OpenVisus has no plain writes.
    "visus": ("16 MiB, OpenVisus", "auto", ["token"]),
}


def study(shapes: Mapping[str, list[int]]) -> dict[str, Any]:
    """The sample study, in which two ranks write sub-volumes; `shapes` are those of some families."""
    cases = {
        f"{family}-{way}-2r": {
            **STUDY["cases"]["slices"],
            "kind": "subvolumes", "title": f"{title}, {WAYS[way]}, 2 MPI ranks", "states": ["write"],
            "shape": shapes.get(family, SHAPE), "family": family, "by": "ranks", "workers": 2,
            "subvolumes": {"way": way},
        }
        for family, (title, _, ways) in FAMILIES.items()
        for way in ways
    }  # fmt: skip
    return {**STUDY, "cases": cases, "tradeoff": []}


def table(**told: Any) -> pd.DataFrame:
    """Writes of all families; `told` are columns of the aggregated ones."""
    rows = repeats()
    rows = rows[rows["state"] == "write"]
    ours = {"order_s": 0.2, "exchange_s": 0.1, "file_writes_s": 0.5, "write_s": 0.6, "opens": 5.0, **told}
    return pd.concat(
        [
            rows[rows["layout"] == layout].assign(
                case=f"{family}-{way}-2r", physical_cores=2, **(ours if way == "aggregated" else {})
            )
            for family, (_, layout, ways) in FAMILIES.items()
            for way in ways
        ],
        ignore_index=True,
    )


def rows_of(measured: pd.DataFrame, **shapes: list[int]) -> dict[tuple[str, str], dict[str, Cell]]:
    """What is written and the way -> name of a column -> its field."""
    given = Inputs(
        study=study(shapes), measurements=measured, summary=summarise(measured), context=[], score={},
        recommendation={}, confirmation=None, figures={}, expected=[],
    )  # fmt: skip
    found = subvolumes_table(gather(given), "disk", None)
    assert found is not None
    rows = [dict(zip([one.name for one in found.columns], row, strict=True)) for row in found.rows]
    named = {(row["Sub-volumes"].text, row["Way"].text): row for row in rows}
    assert len(named) == len(rows)
    return named


@pytest.mark.parametrize(
    ("by_rank", "note"), [("2 3", "2 to 3 a rank"), ("2 2", "2 a rank"), ("4", ""), ("", "")]
)
def test_phases_overlap_and_ranks_count(by_rank: str, note: str) -> None:
    rows = rows_of(table(opens_by_rank=by_rank))
    ours = rows["16 MiB", "aggregated"]
    assert [ours[name].text for name in ("Order", "Exchange", "File writes", "Write")] == [
        "200 ms", "100 ms", "500 ms", "600 ms",
    ]  # fmt: skip
    assert (ours["Files made and opened"].text, ours["Files made and opened"].note) == ("5", note)
    # A writer that does not tell its phases apart.
    assert rows["16 MiB", "one after the other"]["Order"].text == "–"


def test_rows_of_one_way_say_what_is_written() -> None:
    written = {sub_volumes for sub_volumes, way in rows_of(table()) if way == "aggregated"}
    assert written == {"16 MiB", "16 MiB in blocks"}


def test_plain_writes_of_the_same_bytes_stand_beside_other_layouts() -> None:
    measured = table()
    rows = rows_of(measured)
    assert rows["16 MiB, OpenVisus", "one after the other"]["Plain MPI-IO is"].text != "–"
    assert rows["16 MiB, OpenVisus", "one after the other"]["Layout"].text == "auto"
    assert rows["16 MiB", "plain MPI-IO"]["Plain MPI-IO is"].text == "itself"
    # Of other bytes nothing is said.
    rows = rows_of(measured, visus=[4, 8, 1024])
    assert rows["16 MiB, OpenVisus", "one after the other"]["Plain MPI-IO is"].text == "–"
