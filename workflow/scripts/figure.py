"""One figure of one site, from the tables of a study."""

import json
from pathlib import Path
from typing import Any

from hyperslab.figures import FigureData, draw, save
from hyperslab.results.tables import read_summary, read_table


def main(job: Any) -> None:
    """Draw and save it; the score is read only where the figure shows it."""
    inputs = job.input
    data = FigureData(
        measurements=read_table(inputs.measurements),
        summary=read_summary(inputs.summary),
        score=json.loads(Path(inputs.score[0]).read_text(encoding="utf-8")) if inputs.get("score") else {},
        recommendation=json.loads(Path(inputs.recommendation).read_text(encoding="utf-8")),
        study=job.params.study,
        style=job.params.style,
    )
    save(draw(job.wildcards.figure, job.wildcards.site, data), Path(job.output[0]))


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
