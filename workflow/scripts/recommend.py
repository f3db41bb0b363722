"""The layout to recommend at each site, from a study's summary."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.results.recommend import nothing, recommend, size_bound
from hyperslab.results.tables import read_summary
from hyperslab.sites.places import Place, distinct


def mixtures(context: str) -> dict[str, str]:
    """Return why a site has no recommendation, for those whose records were measured at several places."""
    found: dict[str, list[Place]] = {}
    for entry in json.loads(Path(context).read_text(encoding="utf-8")):
        found.setdefault(entry["site"], []).append(Place(**entry["place"]))
    several = {site: distinct(places) for site, places in found.items()}
    return {
        site: f"its results are of several places ({', '.join(map(str, places))}), "
        "and no layout can be told from another by them; recommendation.mixed: true does it all the same"
        for site, places in several.items()
        if len(places) > 1
    }


def main(summary: str, context: str, params: Mapping[str, Any], output: str) -> None:
    """Write recommendation.json."""
    chosen = params["recommendation"]
    rows = read_summary(summary)
    reasons = chosen.get("excluded", {})
    sites = recommend(
        rows[~rows["layout"].isin(list(reasons))],
        chosen["mix"],
        size_bound(params["raw_bytes"], chosen["size_bound"]),
        states=chosen["states"],
        contiguous=params["contiguous"],
        automatic=params["automatic"],
        imperceptible_ms=chosen["imperceptible_ms"],
    )
    alone = set(rows["site"]) - {entry.site for entry in sites}
    reason = f"no layout is left: {'; '.join(dict.fromkeys(reasons.values()))}"
    sites += [nothing(site, reason) for site in sorted(alone)]
    mixed = {} if chosen.get("mixed") else mixtures(context)
    sites = [nothing(entry.site, mixed[entry.site]) if entry.site in mixed else entry for entry in sites]
    answer = {
        "contiguous": params["contiguous"],
        "automatic": params["automatic"],
        "sites": [_without(entry.to_dict(), reasons) for entry in sites],
    }
    Path(output).write_text(json.dumps(answer, indent=1), encoding="utf-8")


def _without(entry: dict[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return the recommendation of a site that also says which layouts were not considered, and why."""
    return {**entry, "left_out": {**(entry["left_out"] or {}), **reasons}} if reasons else entry


if __name__ == "__main__":
    job = snakemake  # type: ignore[name-defined]  # noqa: F821
    main(job.input.summary, job.input.context, dict(job.params.items()), job.output[0])
