"""Batches: how the cells of a Slurm site are shared among jobs, each measuring its own one after another."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hyperslab import chunks as arithmetic
from hyperslab.study import LoadedStudy

Cell = TypeVar("Cell")
NAME = re.compile(r"^([rc])(\d+)of(\d+)$")
# What a cell is assumed to take before one was measured: these decide no result, only how jobs are cut.
WRITE_BYTES_PER_S = 200e6
READ_BYTES_PER_S = 400e6
SECONDS_A_CHUNK = 50e-6
SECONDS_A_REPEAT = 0.005
SECONDS_A_CELL = 2.0
# A job is asked to hold no more than this share of its time limit.
USED_SHARE = 0.6


@dataclass(frozen=True)
class Batch:
    """Part `index` of `count` of a site's cells in the rounds of a phase ("r": main, "c": confirming)."""

    phase: str
    index: int
    count: int

    @property
    def name(self) -> str:
        """Such as r0of2."""
        return f"{self.phase}{self.index}of{self.count}"

    def of(self, cells: Sequence[Cell]) -> list[Cell]:
        """The batch's cells; in the order of rounds, so that a round stays together on one node."""
        first, last = (len(cells) * number // self.count for number in (self.index, self.index + 1))
        return list(cells[first:last])


def parse(name: str) -> Batch:
    """The batch of a name; raises ValueError for any other text."""
    if not (found := NAME.match(name)):
        raise ValueError(f"{name!r} is not a batch, such as r0of2")
    return Batch(found[1], int(found[2]), int(found[3]))


def split(phase: str, seconds: Sequence[float], concurrency: int, minutes: int) -> list[Batch]:
    """The batches of cells that take `seconds`: `concurrency` side by side, more to fit a time limit."""
    by_time = math.ceil(sum(seconds) / (minutes * 60 * USED_SHARE))
    count = max(1, min(len(seconds), max(concurrency, by_time)))
    return [Batch(phase, index, count) for index in range(count)]


def estimated_seconds(study: LoadedStudy, layout: str, case: str) -> float:
    """About how long one cell takes, writing its file included: arithmetic at assumed rates."""
    stored, asked = study.layouts[layout], study.cases[case]
    itemsize, shape = study.dataset.itemsize, asked["shape"]
    size: int = math.prod(shape) * itemsize
    if stored["chunks"]:
        size += arithmetic.padding_bytes(shape, stored["chunks"], itemsize)
    writing = size / WRITE_BYTES_PER_S
    repeats: int = sum(asked["repeats"].values())
    if asked["kind"] != "read":
        # Each repeat also writes a plain reference, and the last one is read back.
        return SECONDS_A_CELL + (2 * repeats + 1) * writing + size / READ_BYTES_PER_S
    extent = asked["extent"]
    if stored["chunks"]:
        corners = zip(extent, stored["chunks"], strict=True)
        touched = math.prod(math.ceil(length / chunk) + 1 for length, chunk in corners)
        volume = min(size, touched * math.prod(stored["chunks"]) * itemsize)
    else:
        touched = math.prod(extent[:-1])
        volume = min(size, math.prod(extent) * itemsize + touched * 2**16)
    one: float = SECONDS_A_REPEAT + touched * SECONDS_A_CHUNK + volume / READ_BYTES_PER_S
    return SECONDS_A_CELL + writing + repeats * one


def total_bytes(study: LoadedStudy, cells: Sequence[tuple[str, str, str]]) -> int:
    """Bytes that the test files of (layout, case, round) cells hold, before filters."""
    sizes: Mapping[Any, int] = {
        (layout, case): math.prod(study.cases[case]["shape"]) * study.dataset.itemsize
        for layout, case, _ in cells
    }
    return sum(sizes[layout, case] for layout, case, _ in cells)
