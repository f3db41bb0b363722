"""All figures of one site that come from the same tables of a study."""

import sys
import time
from pathlib import Path
from typing import Any

from hyperslab.figures import FigureData, draw, save
from hyperslab.records import read_json
from hyperslab.results.tables import read_summary, read_table

# Between two lines of how far it is.
SILENT_SECONDS = 5.0


def main(job: Any) -> None:
    """Draw and save each, and say on standard error now and then how far it is."""
    inputs, site = job.input, job.params.site
    data = FigureData(
        measurements=read_table(inputs.measurements),
        summary=read_summary(inputs.summary),
        score=read_json(inputs.score) if inputs.get("score") else {},
        recommendation=read_json(inputs.recommendation),
        study=job.params.study,
        style=job.params.style,
    )
    said = time.monotonic()
    for number, file in enumerate(map(Path, job.output), 1):
        save(draw(file.stem, site, data), file)
        if time.monotonic() - said > SILENT_SECONDS:
            print(f"hyperslab: figures of {site}: {number} of {len(job.output)}", file=sys.stderr, flush=True)
            said = time.monotonic()


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
