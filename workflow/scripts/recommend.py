"""The layout to recommend at each site, from a study's summary."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.recommend import recommend, size_bound
from hyperslab.tables import read_summary


def main(summary: str, params: Mapping[str, Any], output: str) -> None:
    """Write recommendation.json."""
    chosen = params["recommendation"]
    sites = recommend(
        read_summary(summary),
        chosen["weights"],
        size_bound(params["raw_bytes"], chosen["size_bound"]),
        states=chosen["states"],
        contiguous=params["contiguous"],
        automatic=params["automatic"],
    )
    answer = {
        "contiguous": params["contiguous"],
        "automatic": params["automatic"],
        "sites": [entry.to_dict() for entry in sites],
    }
    Path(output).write_text(json.dumps(answer, indent=1), encoding="utf-8")


if __name__ == "__main__":
    job = snakemake  # type: ignore[name-defined]  # noqa: F821
    main(job.input.summary, dict(job.params.items()), job.output[0])
