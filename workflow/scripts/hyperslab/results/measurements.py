"""The table of repeats of a study, from its records: rows, and what only all of them together tell."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab.records import MALFORMED, parts_of
from hyperslab.results.statistics import bursts, noisy, overlaps
from hyperslab.results.tables import rows_of, superseded, tidy

CELL = ["site", "layout", "case", "phase", "round"]


def with_flags(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with noisy cells, overlapping intervals and medians of bursts marked, cell by cell."""
    cells = table.drop_duplicates(CELL).copy()
    flagged = pd.Series(False, index=cells.index)
    for probe in ("probe_compute_s", "probe_read_s"):
        flagged |= cells.groupby("site")[probe].transform(noisy).astype(bool)
    cells["noisy"] = flagged
    clock = cells.rename(columns={"began_boottime_s": "start", "ended_boottime_s": "end"})
    cells["overlap"] = overlaps(clock[["boot_id", "start", "end"]]).to_numpy() if len(cells) else False
    marks = table[CELL].merge(cells[[*CELL, "noisy", "overlap"]], on=CELL, how="left", validate="many_to_one")
    return table.assign(
        noisy=marks["noisy"].to_numpy(),
        overlap=marks["overlap"].to_numpy(),
        throttle_artefact=bursts(table),
    )


def build(
    records: Sequence[Path], study: str, hashes: Mapping[str, str], grid: Mapping[str, Mapping[str, int]]
) -> pd.DataFrame:
    """Return the tidy table of `records`; `hashes` are today's specifications by layout/case.round.

    Raises DamagedRecord.
    """
    rows: dict[Path, list[dict[str, Any]]] = {}
    for record in records:
        cell = f"{record.parent.name}/{record.stem}"
        rows[record] = rows_of(record, study, hashes.get(cell), grid.get(record.parent.name, {}))
    try:
        table = tidy(list(itertools.chain.from_iterable(rows.values())))
    except MALFORMED:
        for record, own in rows.items():
            with parts_of(record):
                tidy(own)
        raise
    return with_flags(superseded(table))


def without_leftovers(table: pd.DataFrame, added: Mapping[str, Any]) -> pd.DataFrame:
    """Return the table without stale rows of rounds that nobody adds any more; `added` is what rounds.json
    holds.

    They were measured for what was open in another version of the study, and nothing measures them again.
    """
    wanted = {tuple(Path(record).with_suffix("").parts[-3:]) for record in added["wanted"]}
    cells = zip(table["site"], table["layout"], table["case"], table["round"], strict=True)
    planned = [(site, layout, f"{case}.r{number}") in wanted for site, layout, case, number in cells]
    left = table["stale"] & (table["round"] >= added["first"]) & ~pd.Series(planned, table.index, dtype=bool)
    return table[~left].reset_index(drop=True)
