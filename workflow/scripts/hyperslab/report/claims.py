"""Claims and verdicts as texts for a page: of one study in its report, or of all studies together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.claim_lines import line
from hyperslab.report.claim_way import way
from hyperslab.report.claims_model import BADGES, DIFFERS, GOALS, NONE, Badge, Entry, Group, Line, Row
from hyperslab.report.explanations import conclusions

# (study, site, figure) -> where on the page that figure is; None where it is not there.
Place = Callable[[str, str, str], str | None]
TESTABILITY = {
    "V": "reproducible",
    "D": "direction only",
    "S": "at a smaller scale",
    "X": "not without the original machines",
}


def lies_on(facts: Mapping[str, Any]) -> str:
    """Return the type of the file system of a site, and at which places, where its results are of several."""
    kind = str(facts.get("file_system", "unknown"))
    return f"{kind}, of several places: {fmt.listing(facts['places'])}" if "places" in facts else kind


def in_order(claim: str) -> list[tuple[int, str]]:
    """Return a key that sorts 000.2 before 000.10, and an explanation behind what it explains."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", claim)]


def rows(found: Iterable[Mapping[str, Any]], place: Place) -> list[Row]:
    """Return the rows of the claims in what claims.json of one or several studies hold,
    in order of their names.
    """
    claims = [(str(content["study"]), claim) for content in found for claim in content["claims"]]
    claims.sort(key=lambda pair: in_order(pair[1]["id"]))
    concluded = conclusions(claim for _, claim in claims)
    result = []
    for study, claim in claims:
        # A study that only explains another one's claim concludes beside its first explanation.
        about = claim.get("explains") or claim["id"]
        said = concluded.pop(about, "") if claim["id"] == about or not _has(claims, about) else ""
        result.append(_row(study, claim, place, said))
    return result


def _has(claims: Iterable[tuple[str, Mapping[str, Any]]], name: str) -> bool:
    return any(claim["id"] == name for _, claim in claims)


def _row(study: str, claim: Mapping[str, Any], place: Place, conclusion: str) -> Row:
    entries = [_entry(study, claim, verdict, place) for verdict in claim["verdicts"]]
    letters = claim["testability"].split("/")
    badge = _common(entries)
    open_ = any(entry.badge is BADGES["cannot tell"] for entry in entries)
    return Row(
        anchor=re.sub(r"[^\w.-]", "-", f"claim-{study}-{claim['id']}"),
        claim=claim["id"],
        testability=f"{claim['testability']}: {' or '.join(TESTABILITY[letter] for letter in letters)}",
        sentence=claim["sentence"],
        section=claim["section"],
        study=study,
        published=claim.get("published") or "",
        entries=entries,
        badge=badge,
        explanation=claim.get("explanation") or "",
        conclusion=conclusion,
        reading=claim.get("reading") or "",
        left=(claim.get("left") or "") if open_ else "",
        could=bool(claim.get("could")),
        goal=claim.get("goal") or "",
        way=way(study, claim),
    )


def _common(entries: Sequence[Entry]) -> Badge:
    """Return the verdict that all sites agree on;
    those where nothing can be tested do not count beside others.
    """
    distinct = list(dict.fromkeys(entry.badge for entry in entries if entry.badge not in NONE))
    if not distinct:
        return entries[0].badge
    return distinct[0] if len(distinct) == 1 else DIFFERS


def _entry(study: str, claim: Mapping[str, Any], verdict: Mapping[str, Any], place: Place) -> Entry:
    sites, could = verdict["sites"], bool(claim.get("could"))
    lines = [line(comparison, verdict["verdict"], could) for comparison in verdict["comparisons"]]
    tested = any(comparison["results"] for comparison in verdict["comparisons"])
    figures: list[tuple[str, str]] = []
    for site in sites if tested and claim.get("figure") else []:
        if href := place(study, site, claim["figure"]):
            figures.append((href, f"figure {claim['figure']}" + (f" of {site}" if len(sites) > 1 else "")))
    where = " against ".join(sites)
    if older := verdict.get("older_protocols"):
        where += f" (measured under timing protocol {fmt.listing(map(str, older))}, older than today's)"
    return Entry(
        where,
        (GOALS if claim.get("goal") else BADGES)[verdict["verdict"]],
        _reason(verdict, lines),
        fmt.listing(verdict.get("data", [])),
        f"{100 * (1 - verdict['alpha']):.4g} %" if "alpha" in verdict else "",
        lines,
        figures,
    )


def _reason(verdict: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """Return why there is no plain verdict, or what it rests on, in one line."""
    if reason := verdict.get("reason"):
        return str(reason)
    judged = [part for line in lines if line.judged for part in (line.parts or [line])]
    counted = Counter(part.badge for part in judged)
    if verdict["verdict"] == "fails":
        return _some(counted[BADGES["fails"]], len(judged), "comparison", "fails", "fail")
    if verdict["verdict"] == "cannot tell":
        left = _some(counted[BADGES["cannot tell"]], len(judged), "comparison", "is open", "are open")
        return f"{left}; {_would_tell(verdict.get('would_tell') or {})}"
    if (held := counted[BADGES["holds"]]) < len(judged):
        return f"{_some(held, len(judged), 'comparison', 'holds', 'hold')}, and one is enough"
    return f"all {fmt.count(len(judged), 'comparison')} hold" if len(judged) > 1 else ""


def _would_tell(foreseen: Mapping[str, Any]) -> str:
    """Return how many rounds would tell, at what is known today."""
    if rounds := foreseen.get("rounds"):
        told = f"about {rounds:,} rounds in all would tell"
        return f"{told}, at today's estimates and deviations, four times of five"
    return f"no number of rounds would tell: {foreseen.get('why', 'an estimate lies at its bound')}"


def _some(number: int, of: int, noun: str, one: str, many: str) -> str:
    """Return "1 of 7 comparisons fails", "2 of 2 intervals reach"; `one` and `many` are the verb's forms."""
    return f"{number} of {fmt.count(of, noun)} {one if number == 1 else many}"


def groups(found: Sequence[Row], sources: Mapping[str, str]) -> list[Group]:
    """Return the rows by the source that their anchors have in `sources`,
    with the number of claims of each verdict.
    """
    by_source: dict[str, list[Row]] = {}
    for row in found:
        by_source.setdefault(sources[row.anchor], []).append(row)
    return [
        Group(
            source,
            f"source-{number}",
            listed,
            _counts(BADGES.values(), [row for row in listed if not row.goal]),
            _left(listed),
            _counts(GOALS.values(), [row for row in listed if row.goal]),
        )
        for number, (source, listed) in enumerate(by_source.items(), 1)
    ]


def _counts(badges: Iterable[Badge], found: Sequence[Row]) -> list[tuple[Badge, int]]:
    """Return how many claims have which verdict; explanations are not counted."""
    counted = Counter(row.badge for row in found if not row.explanation)
    return [(badge, counted[badge]) for badge in (*badges, DIFFERS) if counted[badge]]


def _left(found: Sequence[Row]) -> int:
    """Return how many claims stay open for a reason that they give; explanations are not counted."""
    open_ = [row for row in found if row.badge is BADGES["cannot tell"] and not (row.explanation or row.goal)]
    return sum(bool(row.left) for row in open_)
