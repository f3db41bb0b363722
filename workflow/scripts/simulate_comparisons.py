#!/usr/bin/env python3
"""How often comparisons are wrong, and how often they find a delay, where cells differ in how much they vary.

    simulate_comparisons.py packs/*.tar.xz

Each pack's families (site, case, state) say how much the rounds of their layouts scatter, and how unequally:
a scaled inverse chi-squared distribution of variances is fitted to each family, as the moderated test does.
Simulated studies draw their layouts' variances from these, family by family, and compare 20 pairs of equal
layouts; then every second of the pair is slower by a delay. Tests side by side on the same numbers:

    pooled      one variance for all pairs, the earlier way
    paired t    each pair's own variance
    moderated t variances drawn towards each other as far as they agree (Smyth 2004), at any number of rounds
    hyperslab   what reports use: paired t under five rounds; from five on moderated t with a limit to how far
                (results/comparisons.py)
    adaptive    the same where rounds begin with three and end when a pair is told apart, at the most with
                these; its p values are what looking several times leaves of them (results/looks.py)

Printed are the family-wise error (a study in which any of the equal pairs is called different, with Holm's
adjustment at 5 %), the share of unadjusted p values under 0.05 among all equal pairs and among those of the
noisiest fifth and the quietest half by their true variance, and the share of delays that are found. The pairs
are disjoint, or all share one reference, as a report's table does.

A second table is of what claims ask: whether one time is less than the other. Each of the pairs is a
comparison of one claim. "holds" is the share that is said to hold, which should be rare where the ratio is 1;
"any fails" is the share of claims of which any comparison fails (Holm), which should be rare where the ratio
is 1/1.05, the least that matters; "fails" at a ratio of 1 is how often it is told that there is no difference
that matters.

The command ends with status 1 where what reports use is wrong more often than it may be, and says in
what.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hyperslab.results import student
from hyperslab.results.comparisons import (
    ALPHA,
    MATTERS,
    MIN_ROUNDS,
    Contrasts,
    Floats,
    holm,
    of_rounds,
    prior,
)
from hyperslab.results.looks import as_if_stopped, grown, level, looks
from hyperslab.results.packs import PackError, measurements
from hyperslab.results.statistics import log_medians, summarise
from hyperslab.text import percent

FAMILY = ["site", "case", "state"]
# A family of fewer layouts says little about how unequal they are.
FEWEST = 6
PAIRS = 20
# What would be an error of 6 % or less, over so many studies, within chance.
MOST = 0.06
# The noisiest pairs are a known limit: the common variance is too small for them (docs/measured.md: 8.3 %).
NOISIEST = 0.09


def families(table: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the fitted variances of log times between rounds, as (degrees of freedom, common variance)."""
    found = []
    for _, rows in summarise(table[table["phase"] == "main"]).groupby(FAMILY, observed=True):
        logs = log_medians(rows).dropna()
        if len(logs) < FEWEST or logs.shape[1] < 3:
            continue
        centred = logs.to_numpy() - logs.to_numpy().mean(axis=0)
        # A round's mean over the layouts takes its part of each layout's variance.
        share = len(logs) / (len(logs) - 1)
        variance = centred.var(axis=1, ddof=1) * share
        found.append(prior(variance, np.full(len(logs), logs.shape[1] - 1.0)))
    return found


def drawn(chosen: tuple[float, float], count: int, rng: np.random.Generator) -> Floats:
    """Return standard deviations of `count` layouts of a family."""
    freedom, common = chosen
    if not np.isfinite(freedom):
        return np.full(count, np.sqrt(common))
    return np.asarray(np.sqrt(common * freedom / rng.chisquare(freedom, count)))


def pooled(differences: Floats) -> Floats:
    """Return p values with one variance over all pairs: the residual of layout + round."""
    rounds = differences.shape[1]
    variance = float(differences.var(axis=1, ddof=1).mean())
    t = np.abs(differences.mean(axis=1)) / np.sqrt(variance / rounds)
    p: Floats = 2 * student.above(t, (rounds - 1) * len(differences))
    return p


def moderated(differences: Floats) -> Floats:
    """Return p values of the moderated t test whatever the number of rounds."""
    rounds = differences.shape[1]
    own = differences.var(axis=1, ddof=1)
    degrees, common = prior(own, np.full(len(own), rounds - 1.0))
    # So much of the common variance; all of it where the variances do not differ.
    part = 1.0 if np.isinf(degrees) else degrees / (degrees + rounds - 1)
    variance = part * common + (1 - part) * own
    freedom = min(degrees + rounds - 1, len(own) * (rounds - 1))
    t = np.abs(differences.mean(axis=1)) / np.sqrt(variance / rounds)
    p: Floats = 2 * student.above(t, freedom)
    return p


def paired(differences: Floats) -> Floats:
    """Return p values of the paired t test."""
    rounds = differences.shape[1]
    t = np.abs(differences.mean(axis=1)) / (differences.std(axis=1, ddof=1) / np.sqrt(rounds))
    p: Floats = 2 * student.above(t, rounds - 1)
    return p


def ours(differences: Floats) -> Floats:
    """Return the p values that reports use."""
    found: Contrasts = of_rounds(differences)
    return found.p_different()


def adaptive(differences: Floats) -> Floats:
    """Return the p values of adaptive rounds, which end at latest with these: each look is paid for."""
    seen = as_if_stopped(differences, MIN_ROUNDS)
    p: Floats = of_rounds(seen).p_different() * len(looks(MIN_ROUNDS, differences.shape[1]))
    return np.minimum(p, 1.0)


TESTS: Mapping[str, Callable[[Floats], Floats]] = {
    "pooled": pooled,
    "paired t": paired,
    "moderated t": moderated,
    "hyperslab": ours,
    "adaptive": adaptive,
}
# What reports use.
USED = ("hyperslab", "adaptive")
# Ratios of which it is asked whether they are less than 1: the largest that are not, and that matter.
TRUTHS = {"1": 0.0, "1/1.05": -math.log(MATTERS)}


def simulate(
    spreads: list[tuple[float, float]], rounds: int, shared: bool, studies: int, delay: float, seed: int
) -> pd.DataFrame:
    """Return one row a test: family-wise error, shares of small p values, delays found."""
    rng = np.random.default_rng(seed)
    wrong = dict.fromkeys(TESTS, 0)
    small = {name: np.zeros(3) for name in TESTS}
    found = dict.fromkeys(TESTS, 0.0)
    for _ in range(studies):
        deviations = drawn(spreads[rng.integers(len(spreads))], 2 * PAIRS, rng)
        logs = deviations[:, None] * rng.standard_normal((2 * PAIRS, rounds))
        reference = slice(0, 1) if shared else slice(0, PAIRS)
        differences = logs[PAIRS:] - logs[reference]
        spread = deviations[PAIRS:] ** 2 + deviations[reference] ** 2
        parts = (
            np.full(PAIRS, True),
            spread >= np.quantile(spread, 0.8),
            spread <= np.quantile(spread, 0.5),
        )
        for name, test in TESTS.items():
            p = test(differences)
            wrong[name] += bool((holm(p) <= ALPHA).any())
            small[name] += [(p[part] <= ALPHA).mean() for part in parts]
            found[name] += float((holm(test(differences + np.log1p(delay))) <= ALPHA).mean())
    rows = [
        {
            "rounds": rounds, "pairs": "one reference" if shared else "disjoint", "test": name,
            "family_wise_error": wrong[name] / studies, "p_under_5": small[name][0] / studies,
            "in_noisiest_fifth": small[name][1] / studies, "in_quietest_half": small[name][2] / studies,
            "delay_found": found[name] / studies,
        }
        for name in TESTS
    ]  # fmt: skip
    return pd.DataFrame(rows)


def told_less(differences: Floats, alpha: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which ratios are said to be less than 1, and which not to be, as comparisons of one claim."""
    found = of_rounds(differences)
    less = found.p_below() <= alpha
    return less, ~less & (holm(found.p_above(-math.log(MATTERS))) <= alpha)


def _open(seen: Floats, alpha: float) -> NDArray[np.bool_]:
    """Return which ratios are not told yet."""
    less, not_less = told_less(seen, alpha)
    return ~(less | not_less)


def directions(
    spreads: list[tuple[float, float]], rounds: int, shared: bool, studies: int, seed: int
) -> pd.DataFrame:
    """Return one row a test and truth: shares of comparisons that hold and that fail, and of claims of which
    any fails.
    """
    rng = np.random.default_rng(seed)
    alpha = {"hyperslab": ALPHA, "adaptive": level(MIN_ROUNDS, rounds, ALPHA)}
    counted = {key: np.zeros(3) for key in itertools.product(USED, TRUTHS)}
    for _ in range(studies):
        deviations = drawn(spreads[rng.integers(len(spreads))], 2 * PAIRS, rng)
        logs = deviations[:, None] * rng.standard_normal((2 * PAIRS, rounds))
        equal = logs[PAIRS:] - logs[slice(0, 1) if shared else slice(0, PAIRS)]
        for (test, truth), counts in counted.items():
            differences = equal + TRUTHS[truth]
            if test == "adaptive":
                differences = grown(differences, MIN_ROUNDS, lambda seen: _open(seen, alpha["adaptive"]))
            holds, fails = told_less(differences, alpha[test])
            counts += holds.mean(), fails.mean(), fails.any()
    return pd.DataFrame(
        {
            "rounds": rounds, "pairs": "one reference" if shared else "disjoint", "test": test,
            "ratio": truth, "holds": holds / studies, "fails": fails / studies, "any_fails": any_ / studies,
        }
        for (test, truth), (holds, fails, any_) in counted.items()
    )  # fmt: skip


def missed(everything: pd.DataFrame, less: pd.DataFrame, studies: int) -> list[str]:
    """Return what reports use is wrong in more often than it may be, one line each, from both tables."""
    used = everything[everything["test"].isin(USED)]
    # P values of adaptive rounds are not uniform: each look that is paid for makes them larger.
    p = everything[everything["test"] == "hyperslab"]
    gates = {
        "studies with equals called different": (used["family_wise_error"], MOST),
        "p under 0.05, all pairs": (p["p_under_5"], MOST),
        "p under 0.05, noisiest fifth": (p["in_noisiest_fifth"], NOISIEST),
        "p under 0.05, quietest half": (p["in_quietest_half"], MOST),
        "equals said to be less": (less[less["ratio"] == "1"]["holds"], MOST),
        "claims with what matters said not to be": (less[less["ratio"] != "1"]["any_fails"], MOST),
    }
    # Two standard errors of a share of 5 %, where studies are so few that these go beyond.
    chance = max(0.0, ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / studies) - MOST)
    return [
        f"{what}: {percent(found.max())}, allowed {percent(most + chance)}"
        for what, (found, most) in gates.items()
        if found.max() > most + chance
    ]


def main() -> None:
    """Run the command; exit status 1 where what reports use is wrong more often than it may be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packs", nargs="+", type=Path, help="packs whose variances are used")
    parser.add_argument("--rounds", nargs="+", type=int, default=[3, 5, 8, 28], help="numbers of rounds")
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies of each (default 2000)")
    parser.add_argument("--delay", type=float, default=0.15, help="planted delay as a share (default 0.15)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers (default 1)")
    options = parser.parse_args()
    if min(options.rounds) < MIN_ROUNDS:
        parser.error(f"--rounds: at least {MIN_ROUNDS}")
    spreads = []
    for file in options.packs:
        print(f"simulate_comparisons.py: reading {file}", file=sys.stderr, flush=True)
        try:
            spreads += families(measurements(file))
        except PackError as error:
            parser.error(str(error))
    if not spreads:
        parser.error(f"no family of {FEWEST} layouts and three rounds in these packs")
    print(f"{len(spreads)} families; {options.studies} studies of {PAIRS} pairs for each row\n")
    tables = []
    for rounds in options.rounds:
        for shared in (False, True):
            table = simulate(spreads, rounds, shared, options.studies, options.delay, options.seed)
            tables.append(table)
            print(table.to_string(index=False, float_format="{:.3f}".format, header=len(tables) == 1))
            sys.stdout.flush()
    print()
    asked = []
    for rounds, shared in itertools.product(options.rounds, (False, True)):
        table = directions(spreads, rounds, shared, options.studies, options.seed)
        asked.append(table)
        print(table.to_string(index=False, float_format="{:.3f}".format, header=len(asked) == 1))
        sys.stdout.flush()
    gates = missed(pd.concat(tables), pd.concat(asked), options.studies)
    for gate in gates:
        print(f"simulate_comparisons.py: {gate}", file=sys.stderr)
    sys.exit(int(bool(gates)))


if __name__ == "__main__":
    main()
