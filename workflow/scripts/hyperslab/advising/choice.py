"""Which candidates to measure: predicted in two steps, the best few of different kinds, and today's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import (
    MOST_UNFILTERED,
    Candidate,
    Filters,
    chunk_shapes,
    file_bytes,
    filter_chains,
)
from hyperslab.advising.model import Array, Predicted, expected, objective, predict
from hyperslab.advising.probe import Coded, Storage, coded, samples
from hyperslab.advising.reads import Read
from hyperslab.formats import Unavailable

# Of each chain of filters so many shapes have their requests simulated, and of all so many are sampled anew.
SIMULATED, SAMPLED = 60, 12
# Chunk shapes of which no axis differs by more than this factor are of one kind, of which one is measured.
ALIKE = 1.5
# Of those that are measured at most so many have the same filters.
MOST_OF_A_CHAIN = 3
# About how large the chunks are on which filters are tried first.
TRIED_BYTES = 2**17
# Times below this cannot be told apart by anybody who waits (studies.schema.Recommendation).
FLOOR_S = 0.010


@dataclass(frozen=True)
class Asked:
    """What is asked: the reads of an array, which filters readers have, and the largest file, in bytes."""

    array: Array
    reads: Sequence[Read]
    readers: str
    most_bytes: float
    seconds: float = 15.0


@dataclass(frozen=True)
class Choice:
    """All candidates that were simulated, best first, and those that are to be measured."""

    considered: int
    predicted: Sequence[Predicted]
    measured: Sequence[Predicted]


def choose(
    asked: Asked, values: npt.NDArray[Any], storage: Storage, today: Candidate | None, count: int,
    say: Callable[[str], None],
) -> Choice:  # fmt: skip
    """Predict all candidates and return the `count` best of different kinds, today's and contiguous.

    `values` are the array, of which chunks are sampled. It ends after `asked.seconds`, or soon after.
    """
    end = time.monotonic() + asked.seconds
    shapes = chunk_shapes(asked.array.shape, asked.array.itemsize, [read.extent for read in asked.reads])
    chains = _codes(asked, values, say)
    total = len(shapes) * len(chains)
    say(f"{total:,} candidates: {len(shapes):,} chunk shapes, {len(chains)} ways to filter")
    kept = [found for chain, code in chains.items() for found in _sieve(asked, shapes, chain, code, storage)]
    always = [Candidate(None), *([today] if today else [])]
    predicted: dict[Candidate, Predicted] = {}
    for number, candidate in enumerate([*always, *_in_turn(kept)]):
        if candidate in predicted or (number >= len(always) and time.monotonic() > end):
            continue
        code = chains.get(candidate.filters) or _code(values, candidate)
        predicted[candidate] = predict(candidate, asked.array, asked.reads, storage, code)
    say(f"{len(predicted)} of them by the requests that they would make")
    for found in _ordered(asked, predicted.values())[:SAMPLED]:
        if found.candidate.filters:
            code = _code(values, found.candidate)
            predicted[found.candidate] = predict(found.candidate, asked.array, asked.reads, storage, code)
    ordered = _ordered(asked, predicted.values())
    return Choice(
        total,
        ordered,
        [*(predicted[one] for one in always), *_different(ordered, always, count)],
    )


def _codes(asked: Asked, values: npt.NDArray[Any], say: Callable[[str], None]) -> dict[Filters, Coded]:
    """Return what each chain of filters makes of sampled chunks; what this machine has not is said."""
    found: dict[Filters, Coded] = {}
    tried = _even(values.shape, values.dtype.itemsize)
    for chain in filter_chains(asked.readers, asked.array.itemsize):
        try:
            found[chain] = coded(samples(values, tried), chain)
        except Unavailable as error:
            say(f"left out: {error}")
    return found


def _even(shape: Sequence[int], itemsize: int) -> list[int]:
    """Return a chunk of about TRIED_BYTES, cut evenly along all axes."""
    share = (TRIED_BYTES / (math.prod(shape) * itemsize)) ** (1 / len(shape))
    return [max(1, min(size, round(size * share))) for size in shape]


def _code(values: npt.NDArray[Any], candidate: Candidate) -> Coded:
    """Return what a candidate's filters make of its own chunks."""
    if candidate.chunks is None or not candidate.filters:
        return Coded(1.0, 0.0)
    return coded(samples(values, candidate.chunks), candidate.filters)


def _sieve(
    asked: Asked, shapes: npt.NDArray[np.int64], chain: Filters, code: Coded, storage: Storage
) -> list[Candidate]:
    """Return the best shapes with one chain of filters by expected counts, best first, within the size."""
    if not chain:
        shapes = shapes[shapes.prod(axis=1) * asked.array.itemsize <= MOST_UNFILTERED]
    if not len(shapes):
        return []
    times = {read.name: expected(shapes, asked.array, read, storage, code) for read in asked.reads}
    best = {name: float(column.min()) for name, column in times.items()}
    scores = [
        objective({name: float(column[at]) for name, column in times.items()}, best, asked.reads, FLOOR_S)[
            ::-1
        ]
        for at in range(len(shapes))
    ]
    found = []
    for at in sorted(range(len(shapes)), key=scores.__getitem__):
        candidate = Candidate(tuple(int(one) for one in shapes[at]), chain)
        raw = float(np.prod(shapes[at])) * asked.array.itemsize
        size = file_bytes(candidate, asked.array.shape, asked.array.itemsize, raw * code.ratio)
        if size <= asked.most_bytes:
            found.append(candidate)
        if len(found) == SIMULATED:
            break
    return found


def _in_turn(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates so that those of all filters take turns: where time ends, each has had its share."""
    ranks: dict[Filters, int] = {}
    placed: list[tuple[int, int, Candidate]] = []
    for candidate in candidates:
        ranks[candidate.filters] = ranks.get(candidate.filters, -1) + 1
        placed.append((ranks[candidate.filters], len(placed), candidate))
    return [candidate for _, _, candidate in sorted(placed, key=lambda entry: entry[:2])]


def _ordered(asked: Asked, predicted: Iterable[Predicted]) -> list[Predicted]:
    """Return what is predicted, best first; files beyond the size come last."""
    found = list(predicted)
    best = {read.name: min(one.times[read.name] for one in found) for read in asked.reads}

    def place(one: Predicted) -> tuple[bool, float, float]:
        score, exact = objective(one.times, best, asked.reads, FLOOR_S)
        return (one.file_bytes > asked.most_bytes, score, exact)

    return sorted(found, key=place)


def _different(ordered: Sequence[Predicted], always: Sequence[Candidate], count: int) -> list[Predicted]:
    """Return the best `count` of which no two are alike, nor too many filtered alike; else the next ones."""
    chosen: list[Predicted] = []
    # Today's layout has a name of its own, under which it is measured already.
    known = {(one.chunks, one.filters) for one in always}
    others = [one for one in ordered if (one.candidate.chunks, one.candidate.filters) not in known]
    for one in others:
        same = sum(one.candidate.filters == other.candidate.filters for other in chosen)
        alike = any(_alike(one.candidate, other.candidate) for other in chosen)
        if len(chosen) < count and same < MOST_OF_A_CHAIN and not alike:
            chosen.append(one)
    chosen += [one for one in others if one not in chosen][: count - len(chosen)]
    return chosen


def _alike(one: Candidate, other: Candidate) -> bool:
    if one.filters != other.filters or not one.chunks or not other.chunks:
        return False
    return all(max(a, b) <= ALIKE * min(a, b) for a, b in zip(one.chunks, other.chunks, strict=True))
