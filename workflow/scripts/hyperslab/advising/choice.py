"""Which candidates to measure: predicted in two steps, the best few of different kinds, and today's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import (
    HDF5,
    MOST_UNFILTERED,
    Candidate,
    Filters,
    chunk_shapes,
    file_bytes,
    filter_chains,
    orders,
)
from hyperslab.advising.coding import Chain, blocks_of, chain_of, coded, samples
from hyperslab.advising.model import Array, Predicted, expected, objective, predict
from hyperslab.advising.prices import Coded, Storage, seconds
from hyperslab.advising.reads import Read
from hyperslab.data.values import Values
from hyperslab.formats import Unavailable
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS

# Of each chain of filters so many shapes have their requests simulated. Of all, chunks of so many of the best
# are sampled, and of those that then are among these, at most of so many.
SIMULATED, SAMPLED, MOST_SAMPLED = 60, 12, 30
# Of each chain of filters so many shapes are tried with the axes in other orders, and for each read alone.
TURNED, OF_A_READ = 3, 4
# Chunk shapes of which no axis differs by more than this factor are of one kind, of which one is measured.
ALIKE = 1.25
# Of those that are measured at most so many have the same filters.
MOST_OF_A_CHAIN = 3
FLOOR_S = IMPERCEPTIBLE_MS / 1e3


@dataclass(frozen=True)
class Asked:
    """What is asked: the reads of an array, what readers have, and the largest file, in bytes.

    `part` are the extents of the part of the array that is measured, which no chunk is longer than; () for
    all of it. `warm`: everything lies in the page cache. `seconds` is the time to predict in. `grows`: the
    array may become longer.
    """

    array: Array
    reads: Sequence[Read]
    readers: str
    most_bytes: float
    seconds: float = 15.0
    part: tuple[int, ...] = ()
    formats: Sequence[str] = (HDF5,)
    turned: bool = False
    warm: bool = False
    grows: bool = False

    def can_have(self, candidate: Candidate) -> bool:
        """Tell whether the array can be stored so: what grows needs chunks."""
        return candidate.chunks is not None or not self.grows


@dataclass(frozen=True)
class Choice:
    """All candidates that were simulated, best first, those that are to be measured, what filters make of
    them, and the seconds that this took.
    """

    considered: int
    predicted: Sequence[Predicted]
    measured: Sequence[Predicted]
    codes: Mapping[Candidate, Coded]
    chains: Mapping[tuple[str, Filters], Chain]
    itemsize: int
    took_s: float = 0.0

    def code_of(self, candidate: Candidate) -> Coded:
        """Return what a candidate's filters make of the data: of its own chunks, if these were tried.

        Under whichever name: in a pair today's layout is one like any other.
        """
        for tried, code in self.codes.items():
            if _stored(tried) == _stored(candidate):
                return code
        chain = self.chains.get((candidate.format, candidate.filters))
        if chain is None or candidate.chunks is None:
            return Coded(1.0, 0.0)
        return chain.of(math.prod(candidate.chunks) * self.itemsize)


def choose(
    asked: Asked, values: Values, probed: Storage, today: Candidate | None, count: int,
    say: Callable[[str], None],
) -> Choice:  # fmt: skip
    """Predict all candidates and return the `count` best of different kinds, today's and contiguous.

    `values` are the array or the part of it that is measured, of which chunks are sampled. It ends after
    `asked.seconds`, or soon after.
    """
    begun = time.monotonic()
    storage = probed.warm() if asked.warm else probed
    extents = [read.extent for read in asked.reads]
    shapes = chunk_shapes(asked.array.shape, asked.array.itemsize, extents, asked.part)
    chains = _codes(asked, values, say)
    total = len(shapes) * len(chains)
    say(f"{total:,} candidates: {len(shapes):,} chunk shapes, {len(chains)} ways to filter")
    kept = [
        found
        for (format, chain), code in chains.items()
        for found in _sieve(asked, shapes, format, chain, code, storage)
    ]
    # Where samples took long, what is found in them is made use of all the same.
    end = max(begun + asked.seconds, time.monotonic() + asked.seconds / 2)
    always = [Candidate(None), *([today] if today else [])]
    turned = [] if asked.grows else [Candidate(None, order=one) for one in _orders(asked)]
    predicted: dict[Candidate, Predicted] = {}
    codes: dict[Candidate, Coded] = {}

    def foresee(candidate: Candidate, code: Coded) -> None:
        codes[candidate] = code
        predicted[candidate] = predict(candidate, asked.array, asked.reads, storage, code)

    for number, candidate in enumerate([*always, *turned, *_in_turn(kept)]):
        if candidate in predicted or (number >= len(always) and time.monotonic() > end):
            continue
        chain = chains.get((candidate.format, candidate.filters))
        chunk = math.prod(candidate.chunks or ()) * asked.array.itemsize
        foresee(candidate, chain.of(chunk) if chain and candidate.chunks else _code(values, candidate))
    say(f"{len(predicted)} of them by the requests that they would make")
    sampled: set[Candidate] = set()
    # What filters make of the very chunks of the best; then others may be the best.
    late = end + asked.seconds / 2
    while (one := _unsampled(_ordered(asked, predicted.values()), sampled)) and len(sampled) < MOST_SAMPLED:
        if time.monotonic() > late:
            break
        sampled.add(one)
        foresee(one, _code(values, one))
    ordered = _ordered(asked, predicted.values())
    new = different(ordered, always, count, asked.formats)
    chosen = [*(predicted[one] for one in always), *new]
    return Choice(total, ordered, chosen, codes, chains, asked.array.itemsize, time.monotonic() - begun)


def _unsampled(ordered: Sequence[Predicted], sampled: Collection[Candidate]) -> Candidate | None:
    """Return the best filtered candidate whose own chunks have not been sampled, of the best few."""
    best = (one.candidate for one in ordered[:SAMPLED] if one.candidate.filters)
    return next((one for one in best if one not in sampled), None)


def _orders(asked: Asked) -> list[tuple[int, ...]]:
    return orders(len(asked.array.shape)) if asked.turned and HDF5 in asked.formats else []


def _codes(asked: Asked, values: Values, say: Callable[[str], None]) -> dict[tuple[str, Filters], Chain]:
    """Return what each format's chains of filters make of samples; what this machine has not is said."""
    found: dict[tuple[str, Filters], Chain] = {}
    blocks = blocks_of(values)
    for format in asked.formats:
        for chain in filter_chains(asked.readers, asked.array.itemsize, format):
            try:
                found[format, chain] = chain_of(blocks, chain)
            except Unavailable as error:
                say(f"left out: {error}")
    return found


def _code(values: Values, candidate: Candidate) -> Coded:
    """Return what a candidate's filters make of its own chunks."""
    if candidate.chunks is None or not candidate.filters:
        return Coded(1.0, 0.0)
    return coded(samples(values, candidate.chunks), candidate.filters)


def _sieve(
    asked: Asked, shapes: npt.NDArray[np.int64], format: str, chain: Filters, tried: Chain, storage: Storage
) -> Iterator[Candidate]:
    """Yield the best shapes with one chain of filters by expected counts, best first, within the size.

    What makes them the best is what is judged in the end, with its floor: else a read that takes no time in
    any layout would keep out those that serve the others. Behind them come the best for each read alone, and
    the very best with their axes in other orders, where these are asked for.
    """
    if not chain and format == HDF5:
        shapes = shapes[shapes.prod(axis=1) * asked.array.itemsize <= MOST_UNFILTERED]
    if not len(shapes):
        return
    code = tried.at(shapes.prod(axis=1) * float(asked.array.itemsize))
    ratios = np.asarray(code.ratio)
    prices, times = storage.through(format), {}
    for read in asked.reads:
        counts = expected(shapes, asked.array, read.extent, storage, code, format, bool(chain))
        times[read.name] = seconds(counts, prices, code)
    kept: list[Candidate] = []
    # What is stored over what there is, of the array and of the part of it, whose size is judged in the end.
    padded = [
        np.prod(-(-np.array(extents) // shapes) * shapes / np.array(extents), axis=1)
        for extents in (asked.array.shape, asked.part or asked.array.shape)
    ]
    whole = math.prod(asked.array.shape) * float(asked.array.itemsize)
    fits = np.maximum(*padded) * ratios * whole <= asked.most_bytes
    ordered = np.lexsort(_judged(asked, times, fits))
    # One by one those alone that may be kept: of hundreds of thousands the others would take seconds.
    for at in ordered[fits[ordered]]:
        candidate = Candidate(tuple(int(one) for one in shapes[at]), chain, format=format)
        raw = float(np.prod(shapes[at])) * asked.array.itemsize
        size = file_bytes(candidate, asked.array.shape, asked.array.itemsize, raw * ratios[at])
        if size <= asked.most_bytes:
            kept.append(candidate)
        if len(kept) == SIMULATED:
            break
    yield from kept
    # Two copies are each for some of the reads.
    for column in times.values():
        for at in np.argsort(column, kind="stable")[:OF_A_READ]:
            yield Candidate(tuple(int(one) for one in shapes[at]), chain, format=format)
    if format == HDF5:
        for candidate in kept[:TURNED]:
            yield from (replace(candidate, order=one) for one in _orders(asked))


def _in_turn(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates so that those of all filters take turns: where time ends, each has had its share."""
    ranks: dict[tuple[str, Filters], int] = {}
    placed: list[tuple[int, int, Candidate]] = []
    for candidate in candidates:
        key = (candidate.format, candidate.filters)
        ranks[key] = ranks.get(key, -1) + 1
        placed.append((ranks[key], len(placed), candidate))
    return [candidate for _, _, candidate in sorted(placed, key=lambda entry: entry[:2])]


def _ordered(asked: Asked, predicted: Iterable[Predicted]) -> list[Predicted]:
    """Return what is predicted, best first; files beyond the size, and what cannot be had, come last."""
    found = list(predicted)
    times = {read.name: np.array([one.times[read.name] for one in found]) for read in asked.reads}
    fits = np.array([one.file_bytes <= asked.most_bytes and asked.can_have(one.candidate) for one in found])
    return [found[at] for at in np.lexsort((*_judged(asked, times, fits), ~fits))]


def _judged(
    asked: Asked, times: Mapping[str, npt.NDArray[np.float64]], fits: npt.NDArray[np.bool_]
) -> tuple[Any, Any]:
    """Return what candidates are sorted by, what decides between equals first, as numpy.lexsort has it;
    `times` are those of each read, one a candidate; those that fit into the size say what is the best.
    """
    best = {name: float(column[fits].min() if fits.any() else column.min()) for name, column in times.items()}
    score, exact = objective(times, best, asked.reads, FLOOR_S)
    return exact, score


def different(
    ordered: Sequence[Predicted], always: Sequence[Candidate], count: int, formats: Sequence[str] = (HDF5,)
) -> list[Predicted]:
    """Return the best `count` beside `always`, no two alike, nor too many filtered alike; else the next ones.

    `ordered` are all, best first. The best of each of the formats is among them.
    """
    # Today's layout has a name of its own, under which it is measured already.
    known = {_stored(one) for one in always}
    others = [one for one in ordered if _stored(one.candidate) not in known]
    firsts = [next((one for one in others if one.candidate.format == format), None) for format in formats]
    chosen = [one for one in firsts if one is not None][:count] if len(firsts) > 1 else []
    for one in others:
        same = sum(one.candidate.filters == other.candidate.filters for other in chosen)
        alike = any(_alike(one.candidate, other.candidate) for other in chosen)
        if len(chosen) < count and same < MOST_OF_A_CHAIN and not alike:
            chosen.append(one)
    chosen += [one for one in others if one not in chosen][: count - len(chosen)]
    return chosen


def _stored(one: Candidate) -> tuple[object, ...]:
    return (one.chunks, one.filters, one.order, one.format)


def _alike(one: Candidate, other: Candidate) -> bool:
    if (one.filters, one.format) != (other.filters, other.format):
        return False
    if not one.chunks or not other.chunks:
        return one == other
    return all(max(a, b) <= ALIKE * min(a, b) for a, b in zip(one.chunks, other.chunks, strict=True))
