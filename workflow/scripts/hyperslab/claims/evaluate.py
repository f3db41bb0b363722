"""Verdicts on the claims of one study, at each site where it was measured, from its table of repeats."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from hyperslab.claims import text
from hyperslab.claims.kinds import KINDS, Estimate, Task
from hyperslab.claims.lookup import Lookup, Untestable
from hyperslab.claims.verdicts import overall, verdict_of
from hyperslab.results.block_model import ALPHA
from hyperslab.results.scoring import plain
from hyperslab.studies.claims.schema import Bound

Facts = Mapping[str, Mapping[str, Any]]
STALE = "every result is stale: measured under another study or protocol than today's"
# What the page needs of a comparison beside its results.
TOLD = ("says", "kind", "judged", "unit", "exact", "published", "over")


def site_facts(context: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return site -> of what kind it is, from the content of context.json."""
    facts: dict[str, dict[str, Any]] = {}
    for entry in context:
        file_system = entry["file_system"]
        facts[str(entry["site"])] = {
            "file_system": str(file_system.get("type", "unknown")),
            "in_memory": bool(file_system.get("memory_resident")),
            "throttled": bool(entry.get("throttle")),
            "cores": entry.get("machine", {}).get("cores"),
        }
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
    facts = {site: {**facts.get(site, {}), **_cores(main, site)} for site in sites}
    judged = [_claim(claim, valid, sites, facts) for claim in claims]
    result: dict[str, Any] = plain({"study": study, "sites": facts})
    return {**result, "claims": [plain(entry) for entry in judged]}


def _cores(rows: pd.DataFrame, site: str) -> dict[str, Any]:
    """Return the physical cores that workers at a site had, where that was recorded."""
    if "physical_cores" not in rows:
        return {}
    known = rows.loc[rows["site"] == site, "physical_cores"].dropna()
    return {"cores": int(known.min())} if len(known) else {}


def _claim(
    claim: Mapping[str, Any], valid: pd.DataFrame, sites: Sequence[str], facts: Facts
) -> dict[str, Any]:
    """Return one claim with its verdicts."""
    told = {key: value for key, value in claim.items() if key not in ("comparisons", "at", "across")}
    if "untestable" in claim:
        return {**told, "verdicts": [_untested([], claim["untestable"])]}
    if not sites:
        return {**told, "verdicts": [_untested([], "there are no results of this study here")]}
    if "across" in claim:
        return {**told, "verdicts": _across(claim, valid, sites, facts)}
    at = claim.get("at", {})
    counted = all(comparison["exact"] for comparison in claim["comparisons"])
    found = []
    for site in sites:
        # What is counted rather than timed is the same wherever it lies.
        reason = unfit({**at, "in_memory": at.get("in_memory") or counted}, site, facts)
        if reason is None and not (valid["site"] == site).any():
            reason = STALE
        found.append(_untested([site], reason) if reason else _judged(claim, valid, {"a": site, "b": site}))
    return {**told, "verdicts": found}


def _across(
    claim: Mapping[str, Any], valid: pd.DataFrame, sites: Sequence[str], facts: Facts
) -> list[dict[str, Any]]:
    """Return a verdict for each pair of sites of the two kinds."""
    kinds = claim["across"]
    fitting = {side: [s for s in sites if unfit(kinds[side], s, facts) is None] for side in ("a", "b")}
    absent = [words(kinds[side]) for side in ("a", "b") if not fitting[side]]
    if absent:
        return [_untested([], f"needs {' and '.join(absent)}")]
    pairs = [(a, b) for a, b in itertools.product(fitting["a"], fitting["b"]) if a != b]
    if not pairs:
        return [_untested([], f"needs {words(kinds['a'])} and another one, {words(kinds['b'])}")]
    return [_judged(claim, valid, {"a": a, "b": b}) for a, b in pairs]


def _untested(sites: Sequence[str], reason: str) -> dict[str, Any]:
    return {"sites": list(sites), "verdict": "cannot be tested", "reason": reason, "comparisons": []}


def _judged(claim: Mapping[str, Any], valid: pd.DataFrame, sites: Mapping[str, str]) -> dict[str, Any]:
    """Return the verdict of one site or pair; intervals are adjusted over all that is judged there
    (Bonferroni).
    """
    lookup = Lookup(valid, sites)
    timed = sum(
        len(comparison["instances"])
        for comparison in claim["comparisons"]
        if comparison["judged"] and not comparison["exact"]
    )
    alpha = ALPHA / max(1, timed)
    compared = [_compared(lookup, comparison, alpha) for comparison in claim["comparisons"]]
    results = [result for entry in compared if entry["judged"] for result in entry["results"]]
    verdict = overall(result["verdict"] for result in results)
    reasons = (result.get("reason") for result in results if result["verdict"] == verdict)
    reason = next(reasons, None)
    return {
        "sites": list(dict.fromkeys(sites.values())),
        "verdict": verdict,
        **({"reason": reason} if reason else {}),
        **({"older_protocols": sorted(lookup.older_protocols)} if lookup.older_protocols else {}),
        "comparisons": compared,
    }


def _compared(lookup: Lookup, comparison: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    """Return one comparison with the result of each of its instances."""
    bound = Bound(**comparison["bound"])
    results = [_result(lookup, comparison, instance, bound, alpha) for instance in comparison["instances"]]
    told = {key: comparison[key] for key in TOLD if key in comparison}
    return {**told, "bound": text.bound(bound, comparison["unit"]), "results": results}


def _result(
    lookup: Lookup, comparison: Mapping[str, Any], instance: Mapping[str, Any], bound: Bound, alpha: float
) -> dict[str, Any]:
    """Return the estimate, interval and verdict of one atomic comparison."""
    task = Task(lookup, comparison, instance, alpha)
    told = {"says": instance["says"]}
    try:
        estimate: Estimate = KINDS[comparison["kind"]](task)
    except Untestable as reason:
        return {**told, "verdict": "cannot be tested", "reason": str(reason)}
    found: dict[str, Any] = {
        "text": text.measured(estimate, comparison["unit"]),
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "verdict": verdict_of(estimate, bound),
    }
    if estimate.low is None or estimate.high is None:
        found["reason"] = "fewer than three rounds, so there is no interval"
    return {**told, **found}
