"""The opening where nothing is recommended because nothing is read: the fastest and slowest of every case."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pandas as pd

from hyperslab.report import format as fmt
from hyperslab.report.data import Data
from hyperslab.report.meta import case_title
from hyperslab.report.model import Cell, Table, table
from hyperslab.report.numbers import pooled

NOTE = (
    "Pooled median with the 95 % interval of each layout by itself. The fastest of many flatters itself: "
    "whether two layouts differ, the claims and tables below say."
)


def reads(data: Data) -> bool:
    """Whether any case of the study reads selections, so that there is something to recommend."""
    return any(case["kind"] == "read" for case in data.study["cases"].values())


def fastest_table(data: Data) -> Table:
    """One row a site, case and state: fastest layout, contiguous, slowest layout."""
    reference = str(data.recommendation.get("contiguous"))
    columns = ["Site", "Case", "Fastest", "Contiguous", "Slowest"]
    return table("The fastest of each case", columns, [*_rows(data, reference)] or [_nothing(columns)], NOTE)


def _rows(data: Data, reference: str) -> Iterator[list[Any]]:
    for site, case in itertools.product(data.sites, data.study["cases"]):
        here = data.summary[(data.summary["site"] == site) & (data.summary["case"] == case)]
        states = list(dict.fromkeys(here["state"]))
        for state in states:
            found = pooled(here[here["layout"] != ""], state).sort_values("pooled_median_s")
            if found.empty:
                continue
            name = case_title(data.study, case)
            yield [
                site,
                name if len(states) == 1 else f"{name}, {state}",
                _cell(found, found.index[0]),
                _cell(found, reference),
                _cell(found, found.index[-1]) if len(found) > 1 else fmt.ABSENT,
            ]


def _cell(found: pd.DataFrame, layout: str) -> Cell:
    """A layout with its time and interval."""
    if layout not in found.index:
        return Cell(fmt.ABSENT)
    entry = found.loc[layout]
    spread = fmt.time_interval(entry["pooled_low_s"], entry["pooled_high_s"])
    time = fmt.seconds(entry["pooled_median_s"])
    return Cell(layout, f"{time} ({spread})" if spread else time)


def _nothing(columns: list[str]) -> list[Any]:
    return [Cell("no valid results", "", "unknown"), *[fmt.ABSENT] * (len(columns) - 1)]
