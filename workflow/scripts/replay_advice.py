"""How good the prediction behind `make advise` is: the regret of acting on it, on packs measured before.

replay_advice.py                                      of every pack of dense arrays that were read cold
replay_advice.py packs/NAME.tar.xz …                  of some
replay_advice.py --donor NAME=FILE::DATASET …         with filters tried on the data that filled a pack
replay_advice.py --wrong 2                            with all speeds of the storage wrong by a factor
replay_advice.py --read-ahead 131072                  with the kernel taken to read ahead another way

Nothing is fitted to a pack that is judged: the speeds are round numbers that no pack had part in, and by how
much predictions are wrong (results.steadied) the other packs say. Sizes of filtered chunks are those of the
files, as a sample of the data would tell them; so does the data, where it is there, tell how fast each filter
is, which advice always tries.

For every weighting of the cases (equal, each alone, each ten times as often as the others; and none, where
the largest regret counts) and every choice of rounds, the layouts that advice would verify (the five that are
predicted to be best and differ, contiguous, and automatic chunks for today's) are compared by these rounds
alone, by as many repeats of each as advice makes, and of those that cannot be told from the best the one is
taken that is best by steadied times. It is judged by the other rounds. Three rounds compare, as in advice,
where a pack has six or more, else half of them, of three one. Regret is the time of that layout over the best
one's, less 1, in two ways:

published    the best one is the best of all layouts in the rounds that judge. It is the luckiest of many, so
             that every regret is too large by as much as luck makes
fair         the best one is named by one half of these rounds and timed by the other, over all ways to halve
             them. A regret may then be negative: who is named so need not be the best

The ceiling is what the layout that is best by all rounds together, those that judge among them, gets in the
same two ways: more than that no advice can.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from hyperslab.advising.choice import FLOOR_S, different
from hyperslab.advising.model import Predicted
from hyperslab.formats.donor_opening import DonorError
from hyperslab.results import rule
from hyperslab.results.comparisons import not_worse_than_best
from hyperslab.results.packs import SUFFIX, PackError
from hyperslab.results.steadied import TAU, steadied
from hyperslab.validation.nearest import choices as choices_of
from replayed_packs import PRIOR, Measured, compared_by, replayed, slower

Floats = npt.NDArray[np.float64]

PROJECT = Path(__file__).resolve().parents[2]
VERIFIED = 5
# Choices of rounds, and ways to halve them, that are tried, at most, evenly many of all.
MOST_CHOICES = 20
OFTEN = 10.0
# A regret within these is small, or bearable; the shares of all that should be, and the rank correlation.
SMALL, BEARABLE = 0.05, 0.10
GOALS = {"rho": 0.85, "small": 0.90, "bearable": 0.95}


@dataclass(frozen=True)
class Regret:
    """Regrets of one way to choose, one a weighting and choice of rounds."""

    published: Floats
    fair: Floats

    def shares(self) -> tuple[float, float, float, float]:
        """Return how often they are small and bearable: as published, and fairly judged."""
        each = [
            (values <= most).mean() for values in (self.published, self.fair) for most in (SMALL, BEARABLE)
        ]
        return float(each[0]), float(each[1]), float(each[2]), float(each[3])


@dataclass(frozen=True)
class Judged:
    """What a pack says of the prediction: rank correlation at equal weights, median error, and regrets of the
    first that is predicted, of what advice takes, of that without steadying, and of the ceiling.
    """

    pack: Measured
    spearman: float
    error: float
    first: Regret
    advised: Regret
    plain: Regret
    ceiling: Regret
    # Whether what advice takes cannot be told from the best by all rounds.
    tied: npt.NDArray[np.bool_]

    def shares(self) -> Floats:
        """Return rank correlation; small or tied, as published; bearable; both fairly; and of the ceiling."""
        small = (self.advised.published <= SMALL) | self.tied
        _, bearable, fair_small, fair_bearable = self.advised.shares()
        top = self.ceiling.shares()
        return np.array(
            [self.spearman, small.mean(), bearable, fair_small, fair_bearable, top[1], top[2], top[3]]
        )

    def line(self) -> str:
        """Return it as a line of the table."""
        shares = self.shares()
        known = len(self.pack.layouts)
        cells = [
            f"{self.pack.name:27} {known:3} of {known + self.pack.left_out:3}",
            f"{self.spearman:5.2f} {self.error:5.0%}",
            f"{self.first.fair.mean():6.1%}",
            f"{self.plain.fair.mean():6.1%}",
            f"{self.advised.published.mean():6.1%} {shares[1]:5.0%} {shares[2]:5.0%}",
            f"{self.advised.fair.mean():6.1%} {shares[3]:5.0%} {shares[4]:5.0%}",
            f"{self.ceiling.published.mean():6.1%} {shares[5]:5.0%}",
            f"{self.ceiling.fair.mean():6.1%} {shares[6]:5.0%} {shares[7]:5.0%}",
        ]
        return "  ".join(cells)


HEAD = "\n".join([
    f"{'':39} rank  error   first   plain  advised, published   advised, fair        ceiling:       fair",
    f"{'study':31}layouts  corr.  med.    mean    mean    mean  ≤5|tied ≤10 %    mean   ≤5 %  ≤10 %"
    "    mean  ≤10 %    mean   ≤5 %  ≤10 %",
])  # fmt: skip


def weightings(count: int) -> Iterator[Floats | None]:
    """Yield shares of cases: equal, each alone, each ten times as often; None for none at all."""
    wanted = [np.ones(count)]
    wanted += [np.eye(count)[at] for at in range(count)]
    wanted += [np.where(np.arange(count) == at, OFTEN, 1.0) for at in range(count)]
    yield from (weights / weights.sum() for weights in wanted)
    yield None


def objective(logs: Floats, shares: Floats | None, best: Floats) -> Floats:
    """Return the log of what is to be least, by layout: expected seconds, or the largest regret over `best`.

    `logs` are cases x layouts of seconds, `best` the seconds of the best layout of each case. Times under the
    floor count as the floor, as in every recommendation.
    """
    judged: Floats = np.log(rule.objective(np.exp(logs), shares, best, FLOOR_S))
    return judged


def halves(count: int) -> list[tuple[list[int], list[int]]]:
    """Return ways to halve so many rounds, each the other way round, too."""
    first = [list(one) for one in itertools.combinations(range(count), max(1, count // 2))]
    first = first[:: math.ceil(len(first) / MOST_CHOICES)]
    pairs = [(one, [at for at in range(count) if at not in one]) for one in first]
    return [*pairs, *((other, one) for one, other in pairs)]


@cache
def _weights(count: int) -> tuple[Floats, Floats]:
    """Return the weights (ways x rounds) of the halves that name the best, and of those that time it."""
    pairs = halves(count)
    naming, timing = np.zeros((2, len(pairs), count))
    for way, (one, other) in enumerate(pairs):
        naming[way, one], timing[way, other] = 1 / len(one), 1 / len(other)
    return naming, timing


def regrets(judging: Floats, pick: int) -> tuple[float, float]:
    """Return the regret of a layout, published and fair, by logs of layouts x rounds that judge."""
    mean = judging.mean(axis=1)
    published = math.exp(mean[pick] - mean.min()) - 1
    if judging.shape[1] < 2:
        return published, published
    # Ways x layouts.
    naming, timing = (weights @ judging.T for weights in _weights(judging.shape[1]))
    best = naming.argmin(axis=1)
    fair = timing[:, pick] - timing[np.arange(len(best)), best]
    return published, math.exp(float(fair.mean())) - 1


def choices(count: int) -> list[tuple[int, ...]]:
    """Return which of a pack's rounds compare layouts; the others judge."""
    every = list(itertools.combinations(range(count), compared_by(count)))
    return every[:: math.ceil(len(every) / MOST_CHOICES)]


def verified(pack: Measured, scores: Floats) -> list[int]:
    """Return the layouts that advice would verify, where `scores` are those by prediction, less is better."""
    candidates = [one.candidate for one in pack.layouts]
    always = [
        at
        for at, one in enumerate(pack.layouts)
        if one.candidate.chunks is None or one.name.startswith("auto")
    ]
    ordered = [Predicted(candidates[at], {}, 0.0) for at in np.argsort(scores, kind="stable")]
    new = different(ordered, [candidates[at] for at in always], VERIFIED)
    return [*always, *(candidates.index(one.candidate) for one in new)]


def judge(pack: Measured, tau: float) -> Judged:
    """Return what a pack says; `tau` is by how much predictions are wrong elsewhere."""
    measured, predicted = pack.measured, pack.predicted
    best = np.exp(measured.mean(axis=2)).min(axis=1)
    names = ("first", "advised", "plain", "ceiling")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    tied = []
    count = measured.shape[2]
    for shares in weightings(len(pack.cases)):
        logs = np.stack([objective(measured[:, :, at], shares, best) for at in range(count)], axis=1)
        scores = objective(pack.usual, shares, np.exp(pack.usual).min(axis=1))
        few = verified(pack, scores)
        *_, stays = not_worse_than_best(pd.DataFrame(logs))
        for chosen in map(list, choices(count)):
            judging = np.delete(logs, chosen, axis=1)
            some = pack.brief[:, few][:, :, chosen]
            steady = steadied(some, predicted[:, few][:, :, chosen], tau)
            least = np.exp(some.mean(axis=2)).min(axis=1)
            by_measured = objective(some.mean(axis=2), shares, least)
            by_steadied = objective(steady, shares, np.exp(steady).min(axis=1))
            # Of those that cannot be told from the best; by fewer than three rounds none can.
            each = [objective(some[:, :, at], shares, least) for at in range(len(chosen))]
            *_, open_ = not_worse_than_best(pd.DataFrame(np.stack(each, axis=1)))
            picks = {
                "first": int(scores.argmin()),
                "plain": few[int(by_measured.argmin())],
                "advised": few[int(np.where(open_, by_steadied, np.inf).argmin())],
                "ceiling": int(logs.mean(axis=1).argmin()),
            }
            for name, pick in picks.items():
                found[name].append(regrets(judging, pick))
            tied.append(count >= 3 and bool(stays[picks["advised"]]))
    told = {name: Regret(*np.array(each).T) for name, each in found.items()}
    equal = [np.exp(logs).mean(axis=0) for logs in (pack.usual, measured.mean(axis=2))]
    ranks = [values.argsort().argsort() for values in equal]
    error = float(np.median(np.abs(np.exp(predicted - measured) - 1)))
    return Judged(
        pack, float(np.corrcoef(*ranks)[0, 1]), error, told["first"], told["advised"], told["plain"],
        told["ceiling"], np.array(tied),
    )  # fmt: skip


def tau_of(others: Sequence[Measured]) -> float:
    """Return by how much predictions are wrong on packs other than the one that is judged."""
    return float(np.median([one.wrong for one in others])) if others else TAU


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packs", nargs="*", type=Path, help="packs; all of packs/ if none is named")
    add = parser.add_argument
    add("--donor", action="append", default=[], metavar="NAME=FILE[::DATASET]",
        help="the data that filled the files of the pack NAME")  # fmt: skip
    add("--wrong", type=float, default=1.0, metavar="FACTOR", help="all speeds of the storage wrong by it")
    add(
        "--read-ahead",
        type=int,
        default=PRIOR.read_ahead_bytes,
        help="what the kernel is taken to read ahead",
    )
    add("--rounds", type=int, help="no more rounds of a pack than these")
    options = parser.parse_args()
    storage = replace(slower(PRIOR, options.wrong), read_ahead_bytes=options.read_ahead)
    for given in options.donor:
        if "=" not in given:
            parser.error(f"--donor: {given}: should be NAME=FILE or NAME=FILE::DATASET")
    donors = dict(given.split("=", 1) for given in options.donor)
    packs: list[Measured] = []
    files = options.packs or sorted((PROJECT / "packs").glob(f"*{SUFFIX}"))
    known = [pack.name.removesuffix(SUFFIX) for pack in files]
    for name in donors:
        if name not in known:
            parser.error(f"--donor: no pack {name!r} is replayed; there are {choices_of(name, known)}")
    for pack, name in zip(files, known, strict=True):
        try:
            packs += replayed(pack, donors.get(name), storage, options.rounds)
        except (PackError, DonorError) as error:
            sys.exit(f"error: {error}")
    if not packs:
        sys.exit("error: none of these packs has six layouts of one array that were read cold in two rounds")
    print(HEAD)
    judged = []
    for pack in packs:
        judged.append(judge(pack, tau_of([other for other in packs if other is not pack])))
        print(judged[-1].line(), flush=True)
    means = np.mean([one.shares() for one in judged], axis=0)
    lowest = min(one.spearman for one in judged)
    print(
        f"\nmean of {len(judged)} packs, against what is to be reached:\n"
        f"rank correlation at equal weights {means[0]:.2f}, at least {lowest:.2f} (≥ {GOALS['rho']})\n"
        f"regret within 5 % or tied {means[1]:.0%} (≥ {GOALS['small']:.0%}); fairly judged within 5 % "
        f"{means[3]:.0%}, of the ceiling {means[6]:.0%}\n"
        f"regret within 10 % {means[2]:.0%} (≥ {GOALS['bearable']:.0%}), of the ceiling {means[5]:.0%}; "
        f"fairly judged {means[4]:.0%}, of the ceiling {means[7]:.0%}\n"
        f"predictions are wrong by {tau_of(packs):.2f} (median of the packs, deviation of logs)"
    )


if __name__ == "__main__":
    main()
