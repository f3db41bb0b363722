"""All figures of one site that come from the same tables of a study."""

import json
import sys
from pathlib import Path
from typing import Any

from hyperslab.figures import FigureData, draw, save
from hyperslab.results.tables import read_summary, read_table


def main(job: Any) -> None:
    """Draw and save each, and say on standard error how far it is."""
    inputs, site = job.input, job.params.site
    data = FigureData(
        measurements=read_table(inputs.measurements),
        summary=read_summary(inputs.summary),
        score=json.loads(Path(inputs.score).read_text(encoding="utf-8")) if inputs.get("score") else {},
        recommendation=json.loads(Path(inputs.recommendation).read_text(encoding="utf-8")),
        study=job.params.study,
        style=job.params.style,
    )
    for number, file in enumerate(map(Path, job.output), 1):
        save(draw(file.stem, site, data), file)
        print(f"hyperslab: figures of {site}: {number} of {len(job.output)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
