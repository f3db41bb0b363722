"""The page of one claim, from the records of the cells that it compares."""

import sys
from pathlib import Path
from typing import Any

from hyperslab.claims.evaluate import evaluate, site_facts
from hyperslab.records import DamagedRecord, cell_of
from hyperslab.report import templates
from hyperslab.report.claims_page import build
from hyperslab.report.render import render
from hyperslab.results import measurements
from hyperslab.results.tables import context_of
from hyperslab.studies.claims.compared import compared


def main(job: Any) -> None:
    """Judge one claim by the records that are there, and write its page."""
    study, name, hashes = job.wildcards.study, job.wildcards.claim, job.params.hashes
    claim = next(claim for claim in job.params.claims if claim["id"] == name)
    cells = compared(claim)
    records = [path for path in map(Path, job.params.records) if cell_of(path)[:2] in cells and path.exists()]
    table = measurements.build(records, study, hashes, {})
    found = evaluate(study, [claim], table, site_facts(context_of(measurements.standing(records, table))))
    Path(job.output[0]).write_text(render(build([found], [], []), templates.CLAIMS), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(snakemake)  # type: ignore[name-defined]  # noqa: F821
    except DamagedRecord as damaged:
        sys.exit(f"hyperslab.claim: {damaged}")
