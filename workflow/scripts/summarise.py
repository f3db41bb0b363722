"""Records of a study into measurements.parquet, summary.csv, context.json and what they were made of."""

import json
import sys
from pathlib import Path
from typing import Any

from hyperslab.records import DamagedRecord, read_json
from hyperslab.results import sources
from hyperslab.results.measurements import build, standing, without_leftovers
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import context_of


def main(job: Any) -> None:
    """Write the four files; stale rows stay in the measurements and out of the summary."""
    listed = job.params.records
    if isinstance(listed, str):
        listed = read_json(listed)["records"]
    paths = [path for record in listed if (path := Path(record)).exists()]
    # Before they are read: one that is replaced meanwhile is another one for the next run.
    sources.write(Path(job.output.sources), paths)
    table = build(paths, job.wildcards.study, job.params.hashes, job.params.grid)
    context = context_of(standing(paths, table))
    if added := job.input.get("rounds"):
        table = without_leftovers(table, read_json(added))
    table.to_parquet(job.output.measurements, compression="zstd", index=False)
    summarise(table[~table["stale"]]).to_csv(job.output.summary, index=False)
    Path(job.output.context).write_text(json.dumps(context, indent=1), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(snakemake)  # type: ignore[name-defined]  # noqa: F821
    except DamagedRecord as damaged:
        sys.exit(f"hyperslab.summarise: {damaged}")
