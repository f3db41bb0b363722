"""The page of an advice: the layouts that were measured, beside all that were predicted."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.figures import FigureData, save
from hyperslab.figures.advice import draw
from hyperslab.figures.canvas import render as drawn
from hyperslab.records import read_json, write_record
from hyperslab.report import templates
from hyperslab.report.advice import build
from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import embed
from hyperslab.report.render import render
from hyperslab.results.tables import read_summary, read_table

# Beside the prediction.
ENDED = "advice-ended.json"
CAPTION = (
    "Reads against the size of the file. Filled: measured, with 95 % intervals of the rounds. "
    "Hollow: predicted from probes."
)


def first_ended(file: Path, began: float) -> float:
    """Return when the page of an advice that began then was there first; kept in `file`, since a page is made
    again for many reasons.
    """
    with suppress(OSError, ValueError, KeyError):
        kept = read_json(file)
        if kept["began_wall_s"] == began:
            return float(kept["ended_wall_s"])
    ended = time.time()
    write_record(file, {"began_wall_s": began, "ended_wall_s": ended})
    return ended


def main(job: Any) -> None:
    """Draw the figure and write the page."""
    inputs, prediction = job.input, read_json(job.input.prediction)
    given = Inputs(
        study=job.params.study,
        measurements=read_table(inputs.measurements),
        summary=read_summary(inputs.summary),
        context=read_json(inputs.context),
        score={},
        recommendation=read_json(inputs.recommendation),
        confirmation=None,
        figures={},
        expected=[],
        rounds=read_json(inputs.rounds) if inputs.get("rounds") else None,
    )
    data = FigureData(
        given.measurements, given.summary, {}, given.recommendation, job.params.figure, job.params.style
    )
    pictures = Path(job.output.figures)
    pictures.mkdir(parents=True, exist_ok=True)
    figures = {}
    for site in prediction["sites"]:
        file = pictures / f"{site}.svg"
        save(drawn(lambda view, _: draw(view, prediction), site, data, ""), file)
        figures[site] = embed("advice", CAPTION, file)
    ended = first_ended(Path(inputs.prediction).with_name(ENDED), prediction["began_wall_s"])
    page = build(gather(given), prediction, figures, ended)
    Path(job.output.page).write_text(render(page, templates.ADVICE), encoding="utf-8")


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
