"""Criteria met per layout: the score of a study from its summary."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab.results.scoring import absolute_score, matched_score
from hyperslab.results.tables import read_summary


def scores(summary: pd.DataFrame, score: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the absolute and the matched score per site; empty where the study names no criteria."""
    if not score:
        return {"criteria": [], "published": [], "absolute": [], "matched": []}
    criteria = score["criteria"]
    # Without a grid, every layout takes part in matching.
    layouts = None if summary["grid_m"].notna().any() else sorted(set(summary["layout"]))
    absolute = absolute_score(summary, criteria)
    return {
        "criteria": criteria,
        "published": score["published"],
        "absolute": json.loads(absolute.to_json(orient="records")),
        "matched": [
            entry.to_dict()
            for entry in matched_score(summary, criteria, score["target"], layouts, score["published"])
        ],
    }


def main(summary: str, score: Mapping[str, Any] | None, output: str) -> None:
    """Write score.json."""
    result = scores(read_summary(summary), score)
    Path(output).write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    job = snakemake  # type: ignore[name-defined]  # noqa: F821
    main(job.input.summary, job.params.score, job.output[0])
