"""Claims and verdicts as texts for a page: of one study in its report, or of all studies together."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hyperslab import text as fmt
from hyperslab.claims import text
from hyperslab.claims.verdicts import VERDICTS
from hyperslab.report.explanations import NO_VERDICTS, conclusions
from hyperslab.report.model import MOST_OPEN_ROWS, Figure

# (study, site, figure) -> where on the page that figure is; None where it is not there.
Place = Callable[[str, str, str], str | None]


@dataclass(frozen=True)
class Badge:
    """A verdict as one sees it: in words, as a symbol, and in a tone of the style sheet."""

    word: str
    symbol: str
    tone: str


BADGES = {
    "holds": Badge("holds", "✓", "good"),
    "fails": Badge("fails", "✗", "bad"),
    "cannot tell": Badge("cannot tell at this noise", "?", "unknown"),
    "cannot be tested": Badge("cannot be tested here", "–", "absent"),
    "not measured": Badge("not measured here", "○", "absent"),
}
NONE = tuple(BADGES[name] for name in NO_VERDICTS)
DIFFERS = Badge("differs between sites", "±", "unknown")
TESTABILITY = {
    "V": "reproducible",
    "D": "direction only",
    "S": "at a smaller scale",
    "X": "not without the original machines",
}


@dataclass(frozen=True)
class Line:
    """One comparison; `parts` are its instances where there are several.

    `why` says why it has that bound, `rounds` on how many rounds it rests and how much these differ.
    """

    says: str
    measured: str
    bound: str
    badge: Badge
    why: str = ""
    rounds: str = ""
    published: str = ""
    judged: bool = True
    parts: Sequence[Line] = ()


@dataclass(frozen=True)
class Entry:
    """The verdict of one site, or of one site against another; `data` are those on which it rests."""

    where: str
    badge: Badge
    reason: str = ""
    data: str = ""
    lines: Sequence[Line] = ()
    figures: Sequence[tuple[str, str]] = ()

    @property
    def parts(self) -> list[Line]:
        """The instances of those comparisons that have several."""
        return [part for line in self.lines for part in line.parts]

    @property
    def long(self) -> bool:
        """Whether its comparisons are too many to stand open on a page."""
        return len(self.lines) > MOST_OPEN_ROWS


@dataclass(frozen=True)
class Row:
    """One claim in one study; `command` measures and judges it alone."""

    anchor: str
    claim: str
    testability: str
    sentence: str
    section: str
    study: str
    published: str
    entries: Sequence[Entry]
    badge: Badge
    explanation: str = ""
    conclusion: str = ""
    reading: str = ""
    could: bool = False
    command: str = ""


@dataclass(frozen=True)
class Group:
    """The claims of one source, and how many of them have which verdict."""

    source: str
    anchor: str
    rows: Sequence[Row]
    counts: Sequence[tuple[Badge, int]]


@dataclass(frozen=True)
class ClaimsPage:
    """All claims; `figures` are embedded at its end, by anchor.

    `measured` says which studies have results where, `waiting` names those without; `reports` are the titles
    of studies whose reports are its neighbours, by name.
    """

    groups: Sequence[Group]
    figures: Sequence[tuple[str, Figure]]
    measured: Sequence[str]
    waiting: Sequence[str]
    reports: Mapping[str, str] = field(default_factory=dict)


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
    return Row(
        anchor=re.sub(r"[^\w.-]", "-", f"claim-{study}-{claim['id']}"),
        claim=claim["id"],
        testability=f"{claim['testability']}: {' or '.join(TESTABILITY[letter] for letter in letters)}",
        sentence=claim["sentence"],
        section=claim["section"],
        study=study,
        published=claim.get("published") or "",
        entries=entries,
        badge=_common(entries),
        explanation=claim.get("explanation") or "",
        conclusion=conclusion,
        reading=claim.get("reading") or "",
        could=bool(claim.get("could")),
        command="" if not study or "untestable" in claim else command(study, claim),
    )


def command(study: str, claim: Mapping[str, Any]) -> str:
    """Return what measures the cells of one claim, where there are no records of them, and judges it."""
    variables = re.findall(r"\$\{?(\w+)", claim.get("donor") or "")
    given = "".join(f"{name}=FILE::DATASET " for name in variables)
    target = shlex.quote(claim_target(study, claim["id"]))
    return f"{given}.venv/bin/snakemake --profile profiles/local {target}"


def claim_target(study: str, claim: str) -> str:
    """Return the page of one claim, which is made from the cells that it compares alone."""
    return f"results/{study}/claims/{claim}.html"


def _common(entries: Sequence[Entry]) -> Badge:
    """Return the verdict that all sites agree on;
    those where nothing can be tested do not count beside others.
    """
    distinct = list(dict.fromkeys(entry.badge for entry in entries if entry.badge not in NONE))
    if not distinct:
        return entries[0].badge
    return distinct[0] if len(distinct) == 1 else DIFFERS


def _entry(study: str, claim: Mapping[str, Any], verdict: Mapping[str, Any], place: Place) -> Entry:
    sites = verdict["sites"]
    lines = [_line(comparison) for comparison in verdict["comparisons"]]
    figures: list[tuple[str, str]] = []
    for site in sites if verdict["comparisons"] and claim.get("figure") else []:
        if href := place(study, site, claim["figure"]):
            figures.append((href, f"figure {claim['figure']}" + (f" of {site}" if len(sites) > 1 else "")))
    where = " against ".join(sites)
    if older := verdict.get("older_protocols"):
        where += f" (measured under timing protocol {fmt.listing(map(str, older))}, older than today's)"
    return Entry(
        where,
        BADGES[verdict["verdict"]],
        _reason(verdict, lines),
        fmt.listing(verdict.get("data", [])),
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


def _line(comparison: Mapping[str, Any]) -> Line:
    """Return a comparison: its number with interval, or those of its instances from least to greatest."""
    results = comparison["results"]
    parts = [
        Line(
            result["says"],
            result.get("text", result.get("reason", "")),
            comparison["bound"],
            BADGES[result["verdict"]],
            comparison.get("why", ""),
            _rounds([result]),
        )
        for result in results
    ]
    published, judged = comparison.get("published") or "", comparison["judged"]
    if len(parts) == 1:
        (only,) = parts
        return replace(only, published=published, judged=judged)
    badge = BADGES[_worst(result["verdict"] for result in results)]
    return Line(
        comparison["says"],
        _range(comparison),
        comparison["bound"],
        badge,
        comparison.get("why", ""),
        _rounds(results),
        published,
        judged,
        parts,
    )


def _rounds(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the rounds of comparisons and their own deviations: "3 rounds, 2.1 to 8.4 %"."""
    known = [result for result in results if result.get("rounds")]
    if not known:
        return ""
    numbers = sorted({int(result["rounds"]) for result in known})
    text = f"{' to '.join(dict.fromkeys(map(str, (numbers[0], numbers[-1]))))} round{'s' * (numbers[-1] > 1)}"
    deviations = [math.expm1(result["deviation"]) for result in known if result.get("deviation") is not None]
    if not deviations:
        return text
    ends = dict.fromkeys(fmt.percent(end) for end in (min(deviations), max(deviations)))
    return f"{text}, {' to '.join(ends)}"


def _worst(verdicts: Iterable[str]) -> str:
    found = set(verdicts)
    return next(verdict for verdict in VERDICTS if verdict in found)


def _range(comparison: Mapping[str, Any]) -> str:
    """Return "0.93 to 1.08, 6 of 7 hold"."""
    results = comparison["results"]
    values = [result["value"] for result in results if result.get("value") is not None]
    held = sum(result["verdict"] == "holds" for result in results)
    counted = f"{held} of {len(results)} hold"
    if not values:
        return counted
    ends = [text.number(end, comparison["unit"]) for end in (min(values), max(values))]
    return f"{' to '.join(dict.fromkeys(ends))}; {counted}" if all(map(math.isfinite, values)) else counted


def groups(found: Sequence[Row], sources: Mapping[str, str]) -> list[Group]:
    """Return the rows by the source that their anchors have in `sources`,
    with the number of claims of each verdict.
    """
    by_source: dict[str, list[Row]] = {}
    for row in found:
        by_source.setdefault(sources[row.anchor], []).append(row)
    return [
        Group(source, f"source-{number}", listed, _counts(listed))
        for number, (source, listed) in enumerate(by_source.items(), 1)
    ]


def _counts(found: Sequence[Row]) -> list[tuple[Badge, int]]:
    """Return how many claims have which verdict; explanations are not counted."""
    counted = Counter(row.badge for row in found if not row.explanation)
    return [(badge, counted[badge]) for badge in (*BADGES.values(), DIFFERS) if counted[badge]]
