"""Batches: how the cells of a Slurm site are shared among jobs, each measuring its own one after another."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hyperslab.records import LETTER, Cell

# Of the main rounds, of the confirming ones, and of the stages of added rounds (planning/stages.py).
PATTERN = r"(?:r|c|a\d+r)\d+of\d+"
NAME = re.compile(r"^(r|c|a\d+r)(\d+)of(\d+)$")
# A job is asked to hold no more than this share of its time limit.
USED_SHARE = 0.6


@dataclass(frozen=True)
class Batch:
    """Part `index` of `count` of a site's cells in a phase: main, confirm, or a stage of added rounds."""

    phase: str
    index: int
    count: int

    @property
    def name(self) -> str:
        """Such as r0of2; of the first stage of added rounds a1r0of2."""
        return f"{LETTER.get(self.phase, f'{self.phase}r')}{self.index}of{self.count}"

    def of(self, cells: Sequence[Cell], seconds: Sequence[float]) -> list[Cell]:
        """Return the batch's part of `cells`, which are in the order of rounds and take so many seconds.

        Whole rounds, since a round is a block on one node, unless there are more batches than rounds.
        """
        paired = list(zip(cells, seconds, strict=True))
        blocks = [list(block) for _, block in itertools.groupby(paired, key=lambda pair: pair[0][2])]
        if len(blocks) < self.count:
            blocks = [[pair] for pair in paired]
        shares = _shares([sum(taken for _, taken in block) for block in blocks], self.count)
        mine = [block for block, share in zip(blocks, shares, strict=True) if share == self.index]
        return [cell for block in mine for cell, _ in block]


def _shares(seconds: Sequence[float], count: int) -> list[int]:
    """Return which of `count` shares of about the same time each block of so many seconds is in.

    As long as there are blocks enough none is empty.
    """
    whole, before, share = sum(seconds), 0.0, -1
    found = []
    for place, taken in enumerate(seconds):
        middle = int((before + taken / 2) / whole * count)
        share = min(share + 1, count - 1, max(share, middle, count - len(seconds) + place))
        found.append(share)
        before += taken
    return found


def parse(name: str) -> Batch:
    """Return the batch of a name; raises ValueError for any other text."""
    if not (found := NAME.match(name)):
        raise ValueError(f"{name!r} is not a batch, such as r0of2")
    phases = {letter: phase for phase, letter in LETTER.items()}
    return Batch(phases.get(found[1], found[1][:-1]), int(found[2]), int(found[3]))


def split(
    phase: str, cells: Sequence[Cell], seconds: Sequence[float], concurrency: int, minutes: int
) -> list[Batch]:
    """Return the batches of cells that take `seconds`: `concurrency` side by side,
    more to fit a time limit.
    """
    rounds = len({round_ for _, _, round_ in cells})
    total, most = sum(seconds), minutes * 60 * USED_SHARE
    by_time = math.ceil(total / most)
    if 1 < by_time <= rounds:
        # So many whole rounds fit into one job.
        by_time = math.ceil(rounds / max(1, int(rounds * most / total)))
    count = max(1, min(len(cells), max(concurrency, by_time)))
    return [Batch(phase, index, count) for index in range(count)]
