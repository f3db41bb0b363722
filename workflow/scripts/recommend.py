"""The layout to recommend at each site, from a study's summary."""

import json
from pathlib import Path
from typing import Any

from hyperslab.records import read_json
from hyperslab.results.recommendation import answer, read_foretold
from hyperslab.results.tables import read_summary


def main(job: Any) -> None:
    """Write recommendation.json."""
    context = read_json(job.input.context)
    foretold = (
        read_foretold(Path(told).read_bytes()) if (told := getattr(job.input, "prediction", None)) else None
    )
    found = answer(read_summary(job.input.summary), context, job.params.asked, foretold)
    Path(job.output[0]).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
