"""The report of a study: one self-contained page from its tables and figures."""

from pathlib import Path
from typing import Any

from hyperslab.records import cell_of, read_json, site_of
from hyperslab.report.build import build_page
from hyperslab.report.data import FigureFile, Inputs
from hyperslab.report.render import render
from hyperslab.results.tables import read_summary, read_table
from hyperslab.studies.figures import caption


def figures_by_site(files: list[str]) -> dict[str, list[FigureFile]]:
    """Return site -> (name, caption, file) of each figure, from paths that end in SITE/NAME.svg."""
    found: dict[str, list[FigureFile]] = {}
    for file in map(Path, files):
        found.setdefault(file.parent.name, []).append((file.stem, caption(file.stem), file))
    return found


def wanted(listed: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return (site, layout, case, round) of every added or confirming cell that was wanted."""
    return [(site_of(record), *cell_of(record)) for record in map(Path, listed.get("wanted", []))]


def main(job: Any) -> None:
    """Write the page."""
    inputs = job.input
    rounds = read_json(inputs.rounds) if inputs.get("rounds") else None
    again = read_json(inputs.confirming) if inputs.get("confirming") else {}
    given = Inputs(
        study=job.params.study,
        measurements=read_table(inputs.measurements),
        summary=read_summary(inputs.summary),
        context=[entry for file in inputs.context for entry in read_json(file)],
        score=read_json(inputs.score),
        recommendation=read_json(inputs.recommendation),
        confirmation=read_table(inputs.confirmation) if inputs.get("confirmation") else None,
        figures=figures_by_site(list(inputs.get("figures", []))),
        expected=[*map(tuple, job.params.wanted), *wanted(rounds or {}), *wanted(again)],
        claims=read_json(inputs.claims) if inputs.get("claims") else None,
        front_door=job.params.front_door,
        rounds=rounds,
    )
    Path(job.output[0]).write_text(render(build_page(given)), encoding="utf-8")


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
