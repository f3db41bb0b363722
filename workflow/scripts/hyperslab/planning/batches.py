"""Batches: how the cells of a Slurm site are shared among jobs, each measuring its own one after another."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from hyperslab.records import LETTER

Cell = TypeVar("Cell")
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

    def of(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the batch's cells; in the order of rounds, so that a round stays together on one node."""
        first, last = (len(cells) * number // self.count for number in (self.index, self.index + 1))
        return list(cells[first:last])


def parse(name: str) -> Batch:
    """Return the batch of a name; raises ValueError for any other text."""
    if not (found := NAME.match(name)):
        raise ValueError(f"{name!r} is not a batch, such as r0of2")
    phases = {letter: phase for phase, letter in LETTER.items()}
    return Batch(phases.get(found[1], found[1][:-1]), int(found[2]), int(found[3]))


def split(phase: str, seconds: Sequence[float], concurrency: int, minutes: int) -> list[Batch]:
    """Return the batches of cells that take `seconds`: `concurrency` side by side,
    more to fit a time limit.
    """
    by_time = math.ceil(sum(seconds) / (minutes * 60 * USED_SHARE))
    count = max(1, min(len(seconds), max(concurrency, by_time)))
    return [Batch(phase, index, count) for index in range(count)]
