"""Records of a study into measurements.parquet, summary.csv, context.json and what they were made of."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab.records import DamagedRecord
from hyperslab.results import sources
from hyperslab.results.statistics import bursts, noisy, overlaps, summarise
from hyperslab.results.tables import context_of, rows_of, superseded, tidy

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
    """Return the tidy table of `records`; `hashes` are today's specifications by layout/case.round."""
    rows: list[dict[str, Any]] = []
    for record in records:
        cell = f"{record.parent.name}/{record.stem}"
        rows += rows_of(record, study, hashes.get(cell), grid.get(record.parent.name, {}))
    return with_flags(superseded(tidy(rows)))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def main(job: Any) -> None:
    """Write the four files; stale rows stay in the measurements and out of the summary."""
    listed = job.params.records
    if isinstance(listed, str):
        listed = read_json(Path(listed))["records"]
    paths = [path for record in listed if (path := Path(record)).exists()]
    # Before they are read: one that is replaced meanwhile is another one for the next run.
    sources.write(Path(job.output.sources), paths)
    table = build(paths, job.wildcards.study, job.params.hashes, job.params.grid)
    table.to_parquet(job.output.measurements, compression="zstd", index=False)
    summarise(table[~table["stale"]]).to_csv(job.output.summary, index=False)
    Path(job.output.context).write_text(json.dumps(context_of(paths), indent=1), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(snakemake)  # type: ignore[name-defined]  # noqa: F821
    except DamagedRecord as damaged:
        sys.exit(f"hyperslab.summarise: {damaged}")
