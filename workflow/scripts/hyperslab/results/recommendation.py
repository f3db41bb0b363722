"""What recommendation.json holds: the recommendation of each site, and what is not considered and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from hyperslab.results.comparisons import ALPHA
from hyperslab.results.looks import level
from hyperslab.results.recommend import Foretold, Recommendation, nothing, recommend, size_bound
from hyperslab.sites.places import Place, distinct


def read_foretold(content: bytes) -> dict[str, Foretold]:
    """Return what advice predicted of the boxes that were measured, by site, as a prediction.json says it.

    Raises what is among records.MALFORMED for another one.
    """
    return {
        name: {
            one["layout"]: {case: [float(each) for each in rounds] for case, rounds in one["boxes"].items()}
            for one in site["measured"]
        }
        for name, site in json.loads(content)["sites"].items()
    }


def choice_of(recommendation: Mapping[str, Any], site: str) -> Mapping[str, Any]:
    """Return the recommendation of a site from the content of recommendation.json; empty where there is
    none.
    """
    found: Any = recommendation.get("sites", [])
    return next((entry for entry in found if entry["site"] == site), {})


def answer(
    rows: pd.DataFrame,
    context: Iterable[Mapping[str, Any]],
    asked: Mapping[str, Any],
    foretold: Mapping[str, Foretold] | None = None,
) -> dict[str, Any]:
    """Return the content of recommendation.json, from a summary and the content of context.json.

    `asked` has the study's settings (`recommendation`), its references (`contiguous` and `automatic`), the
    bytes of the largest array among the cases that count (`raw_bytes`), and the first and most `rounds`, at
    which it is looked at; where sites have cases of arrays of other sizes, also the bytes of each case's
    (`raw_bytes_of`). `foretold` is what advice predicted at each site.
    """
    chosen = asked["recommendation"]
    reasons = chosen.get("excluded", {})
    first, most = asked["rounds"]
    relative, arrays = chosen["size_bound"], asked.get("raw_bytes_of", {})
    sites = recommend(
        rows[~rows["layout"].isin(list(reasons))],
        chosen["mix"],
        size_bound(asked["raw_bytes"], relative),
        states=chosen["states"],
        contiguous=asked["contiguous"],
        automatic=asked["automatic"],
        imperceptible_ms=chosen["imperceptible_ms"],
        alpha=level(first, most, ALPHA),
        foretold=foretold,
        bounds={case: raw_bytes * relative for case, raw_bytes in arrays.items()},
    )
    sites = [_with_quoted(entry, chosen.get("quoted", ())) for entry in sites]
    alone = set(rows["site"]) - {entry.site for entry in sites}
    choosing = set(rows["site"][rows["phase"] == "main"])
    without = f"no layout is left: {'; '.join(dict.fromkeys(reasons.values()))}"
    unchosen = "only confirming rounds were measured here, and none that choose a layout"
    sites += [nothing(site, without if site in choosing else unchosen) for site in sorted(alone)]
    mixed = {} if chosen.get("mixed") else mixtures(context)
    sites = [nothing(entry.site, mixed[entry.site]) if entry.site in mixed else entry for entry in sites]
    return {
        "contiguous": asked["contiguous"],
        "automatic": asked["automatic"],
        "sites": [_without(entry.to_dict(), reasons) for entry in sites],
    }


def _with_quoted(entry: Recommendation, quoted: Iterable[str]) -> Recommendation:
    """Return a recommendation whose finalists are also the layouts that a text quotes."""
    return (
        replace(entry, finalists=tuple(dict.fromkeys((*entry.finalists, *quoted)))) if entry.pick else entry
    )


def mixtures(context: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return why a site has no recommendation, for those whose records were measured at several places."""
    return {
        site: f"its results are of several places ({', '.join(map(str, places))}), and no layout can be told "
        f"from another by them: {at_one(site)}; recommendation.mixed: true recommends from them all the same"
        for site, places in several_places(context).items()
    }


def at_one(site: str) -> str:
    """Return what has all records of a site be of one place."""
    return f"--config remeasure='{site}/*' measures all of them where it lies now"


def several_places(context: Iterable[Mapping[str, Any]]) -> dict[str, list[Place]]:
    """Return the places of each site whose records were measured at more than one."""
    found: dict[str, list[Place]] = {}
    for entry in context:
        if "place" in entry:
            found.setdefault(entry["site"], []).append(Place(**entry["place"]))
    several = {site: distinct(places) for site, places in found.items()}
    return {site: places for site, places in several.items() if len(places) > 1}


def _without(entry: dict[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return the recommendation of a site that also says which layouts were not considered, and why."""
    return {**entry, "left_out": {**(entry["left_out"] or {}), **reasons}} if reasons else entry
