"""The table of repeats of a study, from its records: rows, and what only all of them together tell."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab.records import LETTER, MALFORMED, MisplacedRecord, parts_of, site_of
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
    cells["overlap"] = _overlap(cells)
    marks = table[CELL].merge(cells[[*CELL, "noisy", "overlap"]], on=CELL, how="left", validate="many_to_one")
    return table.assign(
        noisy=marks["noisy"].to_numpy(),
        overlap=marks["overlap"].to_numpy(),
        throttle_artefact=bursts(table),
    )


def _overlap(cells: pd.DataFrame) -> pd.Series:
    """Return which cells ran while another did: on their node, or on one that shares their file system."""
    clock = cells.rename(columns={"began_boottime_s": "start", "ended_boottime_s": "end"})
    found = overlaps(clock[["boot_id", "start", "end"]])
    nodes = cells.groupby("shared_root")["boot_id"].transform("nunique")
    between = cells[(cells["shared_root"] != "") & (nodes > 1)]
    # A wall clock may be set back.
    start = between[["began_wall_s", "ended_wall_s"]].min(axis=1)
    wall = between.assign(start=start, end=between["ended_wall_s"])
    return found | overlaps(wall[["shared_root", "start", "end"]], "shared_root").reindex(
        found.index, fill_value=False
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
        for site in {row["site"] for row in rows[record]} - {site_of(record)}:
            raise MisplacedRecord(record, site)
    try:
        table = tidy(list(itertools.chain.from_iterable(rows.values())))
    except MALFORMED:
        for record, own in rows.items():
            with parts_of(record):
                tidy(own)
        raise
    return with_flags(superseded(table))


def standing(records: Sequence[Path], table: pd.DataFrame) -> list[Path]:
    """Return the records whose results count in their table: not the stale ones, unless all are.

    What is said of machines, versions and data is said of these, also of one in which nothing could be had.
    """
    cells = table.loc[table["stale"], CELL].drop_duplicates().itertuples(index=False)
    stale = {
        (site, layout, f"{case}.{LETTER[phase]}{number}.json") for site, layout, case, phase, number in cells
    }
    return [record for record in records if record.parts[-3:] not in stale] or list(records)


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
