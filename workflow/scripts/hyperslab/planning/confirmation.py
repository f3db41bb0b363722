"""Confirming rounds: which layouts are measured again, and how a run inside this one is asked for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# The Snakefile exports here which workflow and configuration a run inside it takes.
RUN_VARIABLE = "HYPERSLAB_RUN"


# The rule that such a run is asked for.
CONFIRMING = "confirming_cells"


def finalists(recommendation: Path, site: str) -> list[str]:
    """Return the layouts of a site that are measured again; none before there is a recommendation."""
    if not recommendation.exists():
        return []
    sites = json.loads(recommendation.read_text(encoding="utf-8"))["sites"]
    return next((list(entry["finalists"]) for entry in sites if entry["site"] == site), [])


def wanted_records(
    recommendation: dict[str, Any], study: str, cases: Sequence[str], rounds: int
) -> list[str]:
    """Return the records of every finalist of every site, in each case and confirming round."""
    return [
        f"results/{study}/cells/{site['site']}/{layout}/{case}.c{number}.json"
        for site in recommendation["sites"]
        for number in range(rounds)
        for layout in site["finalists"]
        for case in cases
    ]
