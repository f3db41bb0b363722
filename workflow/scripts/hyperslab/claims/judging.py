"""The verdict on one claim at one site: its comparisons asked for, tested together, and put into words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.claims import text
from hyperslab.claims.bounds import described
from hyperslab.claims.evidence import Evidence, Timed, counted, timed
from hyperslab.claims.kinds import KINDS, Statement, Task
from hyperslab.claims.lookup import Lookup, Untestable
from hyperslab.claims.undecided import undecided
from hyperslab.claims.verdicts import Pair, Verdict, decided, either, overall, rounds_that_tell
from hyperslab.results.comparisons import ALPHA, MIN_ROUNDS
from hyperslab.results.looks import level

TOO_FEW = "fewer than three rounds, so there is no interval"


@dataclass
class Atom:
    """One atomic comparison: what it is about, and what is known of it (or why nothing)."""

    task: Task
    reason: str = ""
    found: Evidence | None = None
    statement: Statement | None = None
    verdict: Verdict = "cannot be tested"
    # (side, layout, case) of what may still decide it, where that is not all that it compares.
    undecided: Sequence[tuple[str, str, str]] | None = None

    @property
    def exact(self) -> bool:
        """Whether counts are compared."""
        return bool(self.task.comparison["exact"])

    @property
    def pair(self) -> Pair:
        """The p values against its lying outside, and inside; 1 where nothing is known."""
        return (self.statement.inside, self.statement.outside) if self.statement else (1.0, 1.0)

    def foreseen(self, rounds: int) -> Pair:
        """Return the p values that so many rounds would give; those of counts stay as they are."""
        if not isinstance(self.found, Timed):
            return self.pair
        stated = KINDS[self.task.comparison["kind"]][1](self.task, self.found.foreseen(rounds))
        return stated.inside, stated.outside


def judged(claim: Mapping[str, Any], lookup: Lookup) -> dict[str, Any]:
    """Return the verdict on a claim, and what is known of each of its comparisons."""
    comparisons, looks = claim["comparisons"], claim.get("adaptive")
    alpha = level(looks["first"], looks["most"], ALPHA) if looks else ALPHA
    could = bool(claim.get("could"))
    atoms = [_atoms(lookup, comparison, alpha, could) for comparison in comparisons]
    judging = [
        atom
        for comparison, own in zip(comparisons, atoms, strict=True)
        if comparison["judged"]
        for atom in own
    ]
    # What has to hold, each as those of which one is enough.
    groups = [judging] if could else [[atom] for atom in judging]
    known = [group for group in groups if any(atom.statement for atom in group)]
    pairs = [either([atom.pair for atom in group]) for group in known]
    verdicts = iter(decided(pairs, [_exact(group) for group in known], alpha))
    deciding = []
    for group in groups:
        verdict: Verdict = next(verdicts) if any(atom.statement for atom in group) else "not measured"
        # Of what could be, one that holds is enough, whatever the others would have said.
        if verdict != "holds" and not all(atom.statement for atom in group):
            verdict = _unknown(group)
        deciding.append(verdict)
        if len(group) == 1:
            group[0].verdict = verdict
    for own, comparison in zip(atoms, comparisons, strict=True):
        for atom in own:
            if not atom.statement or (comparison["judged"] and not could):
                continue
            # What decides nothing is judged by itself; of what could be, one holds if the claim does by it.
            inside, outside = atom.pair
            several = len(judging) if comparison["judged"] else 1
            (atom.verdict,) = decided([(min(1.0, several * inside), outside)], [atom.exact], alpha)
    verdict = overall(deciding)
    told: dict[str, Any] = {"verdict": verdict, "alpha": alpha, **_why(verdict, deciding, groups)}
    if verdict == "cannot tell":
        told["would_tell"] = _would_tell(groups, deciding)
    if verdict == "cannot tell" and looks:
        # Of what could be, each comparison is one of as many tries.
        _narrow(atoms, len(judging) if could else sum(not _exact(group) for group in groups))
    return {**told, "comparisons": [_told(*each) for each in zip(comparisons, atoms, strict=True)]}


def _unknown(group: Sequence[Atom]) -> Verdict:
    """Return why a group is not judged, as a verdict."""
    return overall(atom.verdict for atom in group if atom.statement is None)


def _exact(group: Sequence[Atom]) -> bool:
    """Return whether all that a group compares are counts, which no chance makes fail."""
    return all(atom.exact for atom in group)


def _atoms(lookup: Lookup, comparison: Mapping[str, Any], alpha: float, could: bool) -> list[Atom]:
    """Return a comparison's atoms with what is known of them; all that it asks for is one family."""
    ask, state = KINDS[comparison["kind"]]
    atoms = [Atom(Task(lookup, comparison, instance, alpha, could)) for instance in comparison["instances"]]
    logs: list[Any] = []
    places = []
    for atom in atoms:
        try:
            own = [lookup.in_rounds(one) for one in ask(atom.task)]
        except Untestable as reason:
            atom.reason, atom.verdict, own = str(reason), reason.verdict, []
        places.append((len(logs), len(logs) + len(own)))
        logs += own
    if not logs:
        logs = [np.full(1, math.nan)]
    evidence: Evidence = (counted if comparison["exact"] else timed)(np.array(logs))
    for atom, place in zip(atoms, places, strict=True):
        if atom.reason:
            continue
        atom.found = evidence.part(*place)
        if (atom.found.rounds == 0).any():
            atom.reason = "no round has all that is compared"
            continue
        try:
            atom.statement = state(atom.task, atom.found)
        except Untestable as reason:
            atom.reason = str(reason)
    return atoms


def _why(verdict: Verdict, deciding: Sequence[Verdict], groups: Sequence[Sequence[Atom]]) -> dict[str, str]:
    """Return the reason that the first comparison with the claim's verdict has, where it has one; what holds
    needs none, whatever else that could be was not measured.
    """
    for own, group in zip(deciding, groups, strict=True):
        if own == verdict != "holds":
            for atom in group:
                if reason := atom.reason or _too_few(atom):
                    return {"reason": reason}
    return {}


def _too_few(atom: Atom) -> str:
    stated = atom.statement
    return TOO_FEW if stated and stated.low is None and atom.verdict == "cannot tell" else ""


def _would_tell(groups: Sequence[Sequence[Atom]], deciding: Sequence[Verdict]) -> dict[str, Any]:
    """Return how many rounds would tell: all that are open shown to hold, or one of them to fail.

    `rounds` is None where no number would, because an estimate lies at its bound.
    """
    open_ = [group for group, own in zip(groups, deciding, strict=True) if own == "cannot tell"]
    if any(_exact(group) for group in open_):
        return {"rounds": None, "why": "counts differ between rounds"}
    if any(int(atom.found.rounds.min()) < MIN_ROUNDS for group in open_ for atom in group if atom.found):
        return {"rounds": None, "why": TOO_FEW}
    tested = sum(not _exact(group) for group in groups)
    holding = [_rounds(group, 0) for group in open_]
    failing = [_rounds(group, tested) for group in open_]
    known = [number for number in failing if number is not None]
    if all(holding):
        known.append(max(number for number in holding if number is not None))
    return _number(min(known, default=None))


def _number(rounds: int | None) -> dict[str, Any]:
    return {"rounds": rounds} if rounds else {"rounds": None, "why": "an estimate lies at its bound"}


def _rounds(group: Sequence[Atom], failing: int) -> int | None:
    """Return the rounds that show a group inside; or outside, against so many comparisons."""
    now = max(int(atom.found.rounds.max()) for atom in group if atom.found is not None)

    def tells(rounds: int) -> bool:
        inside, outside = either([atom.foreseen(rounds) for atom in group])
        alpha = group[0].task.alpha
        return bool(outside * failing <= alpha if failing else inside <= alpha)

    return rounds_that_tell(now, tells)


def _narrow(atoms: Sequence[Sequence[Atom]], tested: int) -> None:
    """Note of each open comparison which cells may still decide it, where rounds are added."""
    for atom in (atom for own in atoms for atom in own):
        if atom.verdict == "cannot tell" and atom.found is not None:
            atom.undecided = undecided(atom.task, atom.found, tested)


def _told(comparison: Mapping[str, Any], atoms: Sequence[Atom]) -> dict[str, Any]:
    """Return a comparison with the result of each of its instances."""
    return {**described(comparison), "results": [_result(comparison, atom) for atom in atoms]}


def _result(comparison: Mapping[str, Any], atom: Atom) -> dict[str, Any]:
    """Return the estimate, limits, rounds, deviation and verdict of one atomic comparison."""
    told = {"says": atom.task.instance["says"], "verdict": atom.verdict}
    stated, found = atom.statement, atom.found
    if stated is None or found is None:
        return {**told, "reason": atom.reason}
    result: dict[str, Any] = {
        **told,
        "text": text.measured(stated, comparison["unit"]),
        "value": stated.value,
        "low": stated.low,
        "high": stated.high,
        "p_outside": stated.inside,
        "p_inside": stated.outside,
        "rounds": int(found.rounds.min()) if len(found.rounds) else None,
    }
    if len(found.rounds) and found.rounds.max() > found.rounds.min():
        # Of layouts that were surely out no more rounds were measured.
        result["most_rounds"] = int(found.rounds.max())
    if atom.undecided:
        result["undecided"] = atom.undecided
    if atom.verdict == "fails" and (margin := text.margin(stated, atom.task.ends, atom.task.refuting)):
        result["margin"] = margin
    deviation = found.deviation[np.isfinite(found.deviation)]
    if len(deviation):
        # Of several ratios the middle one.
        result["deviation"] = float(np.median(deviation))
    if reason := _too_few(atom):
        result["reason"] = reason
    return result
