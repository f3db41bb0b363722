"""The page of all claims and their verdicts, and the same as Markdown."""

from pathlib import Path
from typing import Any

from hyperslab.records import read_json
from hyperslab.report import templates
from hyperslab.report.claims_markdown import markdown
from hyperslab.report.claims_page import build
from hyperslab.report.render import render


def main(job: Any) -> None:
    """Write the page; a study without results is on it with the reason."""
    judged = [read_json(file) for file in job.input.get("verdicts", [])]
    page = build(judged, job.params.waiting, job.input.get("figures", []), job.params.reports)
    Path(job.output[0]).write_text(render(page, templates.CLAIMS), encoding="utf-8")
    Path(job.output[1]).write_text(markdown(page, judged), encoding="utf-8")


if __name__ == "__main__":
    main(snakemake)  # type: ignore[name-defined]  # noqa: F821
