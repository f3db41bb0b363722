"""Verdicts on a study's claims into claims.json."""

import json
from pathlib import Path
from typing import Any

from hyperslab.claims.evaluate import evaluate, site_facts
from hyperslab.records import read_json
from hyperslab.results.tables import read_table


def main(job: Any) -> None:
    """Judge every claim at every site that was measured."""
    context = read_json(job.input.context)
    found = evaluate(
        job.wildcards.study,
        job.params.claims,
        read_table(job.input.measurements),
        site_facts(context),
    )
    Path(job.output[0]).write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
