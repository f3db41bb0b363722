"""Verdicts on the claims of one study, at each site where it was measured, from its table of repeats."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from hyperslab.claims.bounds import without_results
from hyperslab.claims.judging import judged
from hyperslab.claims.lookup import Lookup, Tables, by_case
from hyperslab.results.recommendation import several_places
from hyperslab.results.scoring import plain
from hyperslab.studies.claims.quantities import QUANTITIES

Facts = Mapping[str, Mapping[str, Any]]
STALE = "every result is stale: measured under another study, donor or protocol than today's"


def site_facts(context: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return site -> of what kind it is, from the content of context.json; with its places where its results
    are of several.
    """
    facts: dict[str, dict[str, Any]] = {}
    entries = list(context)
    for entry in entries:
        file_system = entry["file_system"]
        before = facts.get(str(entry["site"]), {}).get("data", [])
        facts[str(entry["site"])] = {
            "data": list(dict.fromkeys([*before, *([entry["data"]] if entry.get("data") else [])])),
            "file_system": str(file_system.get("type", "unknown")),
            "in_memory": bool(file_system.get("memory_resident")),
            "throttled": bool(entry.get("throttle")),
            "cores": entry.get("machine", {}).get("cores"),
        }
    for site, places in several_places(entries).items():
        facts[str(site)]["places"] = [str(place) for place in places]
    return facts


def unfit(kind: Mapping[str, Any], site: str, facts: Facts) -> str | None:
    """Return why a site is none of the kind that a claim asks for; None where it is one."""
    known = facts.get(site, {})
    if not any(fnmatch.fnmatchcase(site, pattern) for pattern in kind.get("sites", ["*"])):
        return f"needs {words(kind)}"
    types = kind.get("file_system", [])
    if types and known.get("file_system") not in types:
        return f"needs {words(kind)}"
    throttled = kind.get("throttled")
    if throttled is not None and bool(known.get("throttled")) != throttled:
        return f"needs {words(kind)}"
    if kind.get("cores") and (known.get("cores") or 0) < kind["cores"]:
        return f"needs {words(kind)}"
    if known.get("in_memory") and not kind.get("in_memory"):
        return "the file system lies in memory, where nothing is read cold or written to a disk"
    return None


def words(kind: Mapping[str, Any]) -> str:
    """Return a kind of site in words."""
    if kind.get("words"):
        return str(kind["words"])
    parts = []
    if kind.get("throttled") is not None:
        parts.append("throttled" if kind["throttled"] else "unthrottled")
    if kind.get("file_system"):
        parts.append(f"on {' or '.join(kind['file_system'])}")
    if kind.get("cores"):
        parts.append(f"with {kind['cores']} physical cores")
    if kind.get("sites", ["*"]) != ["*"]:
        parts.append(f"called {' or '.join(kind['sites'])}")
    return f"a site {', '.join(parts)}" if parts else "a site on a disk"


def evaluate(
    study: str, claims: Sequence[Mapping[str, Any]], measurements: pd.DataFrame, facts: Facts
) -> dict[str, Any]:
    """Return what claims.json holds: each claim with a verdict for each site (or pair of sites).

    `claims` are `resolve_claims` of the study, `measurements` its repeats (stale rows included, and
    left out here), `facts` is `site_facts` of its context.
    """
    main = measurements[measurements["phase"] == "main"]
    valid = main[~main["stale"].astype(bool)]
    sites = sorted(set(map(str, main["site"])))
    facts = {site: {**facts.get(site, {}), **_cores(main, site), **_course(valid, site)} for site in sites}
    tables = Tables(by_case(valid))
    found = [_claim(claim, tables, sites, facts) for claim in claims]
    result: dict[str, Any] = plain({"study": study, "sites": facts})
    return {**result, "claims": [plain(entry) for entry in found]}


def _cores(rows: pd.DataFrame, site: str) -> dict[str, Any]:
    """Return the physical cores that workers at a site had, where that was recorded."""
    if "physical_cores" not in rows:
        return {}
    known = rows.loc[rows["site"] == site, "physical_cores"].dropna()
    return {"cores": int(known.min())} if len(known) else {}


def _course(rows: pd.DataFrame, site: str) -> dict[str, Any]:
    """Return how many cells were measured at a site, when, and how long they took."""
    if "ended_wall_s" not in rows:
        return {}
    here = rows[rows["site"] == site].drop_duplicates(["layout", "case", "round"])
    if here.empty:
        return {}
    took = float((here["ended_boottime_s"] - here["began_boottime_s"]).sum())
    return {
        "cells": len(here),
        "rounds": int(here["round"].nunique()),
        "took_s": took,
        "ended_s": float(here["ended_wall_s"].max()),
    }


def _claim(claim: Mapping[str, Any], tables: Tables, sites: Sequence[str], facts: Facts) -> dict[str, Any]:
    """Return one claim with its verdicts."""
    told = {key: value for key, value in claim.items() if key not in ("comparisons", "at", "across")}
    if "untestable" in claim:
        return {**told, "verdicts": [_untested(claim, [], claim["untestable"])]}
    if not sites:
        return {**told, "verdicts": [_untested(claim, [], "there are no results of this study here")]}
    if "across" in claim:
        return {**told, "verdicts": _across(claim, tables, sites, facts)}
    at = claim.get("at", {})
    counted = all(comparison["exact"] for comparison in claim["comparisons"]) and not _of_device(claim)
    found = []
    for site in sites:
        # What is counted rather than timed is the same wherever it lies. Of a site whose results are stale
        # nobody knows of what kind it is.
        kind = {**at, "in_memory": at.get("in_memory") or counted}
        reason = unfit(kind, site, facts) if site in tables.rows else STALE
        told_at = {"a": site, "b": site}
        found.append(_untested(claim, [site], reason) if reason else _told(claim, tables, told_at, facts))
    return {**told, "verdicts": found}


def _of_device(claim: Mapping[str, Any]) -> bool:
    """Return whether bytes from a device are counted, of which memory has none."""
    cells = (
        cell
        for comparison in claim["comparisons"]
        for instance in comparison["instances"]
        for side in ("a", "b")
        for cell in instance.get(side, ())
    )
    return any(QUANTITIES[term[4]].of_device for cell in cells for term in cell["terms"])


def _across(
    claim: Mapping[str, Any], tables: Tables, sites: Sequence[str], facts: Facts
) -> list[dict[str, Any]]:
    """Return a verdict for each pair of sites of the two kinds."""
    kinds = claim["across"]
    fitting = {side: [s for s in sites if unfit(kinds[side], s, facts) is None] for side in ("a", "b")}
    absent = [words(kinds[side]) for side in ("a", "b") if not fitting[side]]
    if absent:
        return [_untested(claim, [], f"needs {' and '.join(absent)}")]
    pairs = [(a, b) for a, b in itertools.product(fitting["a"], fitting["b"]) if a != b]
    if not pairs:
        reason = f"needs {words(kinds['a'])} and another one, {words(kinds['b'])}"
        return [_untested(claim, [], reason)]
    return [_told(claim, tables, {"a": a, "b": b}, facts) for a, b in pairs]


def _untested(claim: Mapping[str, Any], sites: Sequence[str], reason: str) -> dict[str, Any]:
    comparisons = without_results(claim)
    return {"sites": list(sites), "verdict": "cannot be tested", "reason": reason, "comparisons": comparisons}


def _told(claim: Mapping[str, Any], tables: Tables, sites: Mapping[str, str], facts: Facts) -> dict[str, Any]:
    """Return the verdict of one site or pair, and the data on which it rests."""
    names = list(dict.fromkeys(sites.values()))
    data = dict.fromkeys(text for site in names for text in facts[site].get("data", []))
    lookup = Lookup(tables, sites)
    told = {"sites": names, "data": list(data), **judged(claim, lookup)}
    older = sorted(lookup.older_protocols)
    return {**told, **({"older_protocols": older} if older else {})}
