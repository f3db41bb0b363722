"""Ragged rows: how long each is, and their values, which lie end to end in one array without gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import generator
from hyperslab.data.values import Values, open_values

Lengths = npt.NDArray[np.int64]
# What a specification says of rows, and how many there are.
Model = Callable[[Mapping[str, Any], int], Lengths]
# Rows of this many bytes are made, written or read at once where a case does not say how many.
BLOCK_BYTES = 16 * 2**20
# So many times these bytes may rows have that are filled up to the longest: 256 MiB.
FILLED_UP = 16
# The shape parameter of Lomax's distribution: its mean is finite, its variance is not.
TAIL = 1.5


@dataclass(frozen=True)
class RowBlock:
    """Some rows: the elements of each, and their values end to end."""

    lengths: Lengths
    values: npt.NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return int(self.values.nbytes)

    def rows(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the values of each row, as views."""
        start = 0
        for length in self.lengths.tolist():
            yield self.values[start : start + length]
            start += length


def joined(rows: Sequence[npt.NDArray[Any]], dtype: np.dtype[Any]) -> RowBlock:
    """Return a block of rows that are arrays of their own."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    return RowBlock(lengths, np.concatenate(rows) if len(rows) else np.empty(0, dtype))


def end_to_end(pieces: Sequence[npt.NDArray[Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return pieces of what is stored as one array; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, dtype), *pieces])


class Rows:
    """The rows of a dataset: their lengths and offsets in elements, and the values of any of them."""

    def __init__(self, lengths: Lengths, values: Values, width: int = 0) -> None:
        """Take lengths and values; in memory each row is filled up to `width` elements."""
        self.lengths, self.width = lengths, width
        self.offsets: Lengths = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.dtype = values.dtype
        self.shape: tuple[int, ...] = (int(self.offsets[-1]),)
        self._values = values

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return elements of all rows as they lie end to end."""
        return self._values.block(origin, extent)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.shape[0] * self.dtype.itemsize

    def run(self, first: int, stop: int) -> RowBlock:
        """Return the rows from `first` up to, not including, `stop`."""
        start, end = int(self.offsets[first]), int(self.offsets[stop])
        # An array without elements has no box.
        values = self.block((start,), (end - start,)) if end > start else np.empty(0, self.dtype)
        return RowBlock(self.lengths[first:stop], values)

    def picked(self, numbers: npt.NDArray[np.int64]) -> RowBlock:
        """Return the rows of these numbers, in this order."""
        runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(numbers) else []
        values = [self.run(int(run[0]), int(run[-1]) + 1).values for run in runs]
        return RowBlock(self.lengths[numbers], np.concatenate([np.empty(0, self.dtype), *values]))

    def alone(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Return the lengths of these rows as those of a dataset of their own, for `blocks` of it."""
        return Rows(self.lengths[numbers], self, self.width)

    def filled_up(self, width: int) -> Rows:
        """Return the same rows, of which a block has each filled up to so many elements."""
        return Rows(self.lengths, self._values, width) if width else self

    def weight(self, first: int, stop: int) -> int:
        """Return what rows from `first` to before `stop` count of BLOCK_BYTES."""
        elements = int(self.offsets[stop] - self.offsets[first])
        return max(elements, (stop - first) * self.width // FILLED_UP) * self.dtype.itemsize

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield first and stop of the blocks that cover all rows: of so many rows, else of BLOCK_BYTES."""
        first = 0
        while first < len(self):
            stop = first + rows if rows else self._within(first, BLOCK_BYTES)
            yield first, min(stop, len(self))
            first = stop

    def _within(self, first: int, size: int) -> int:
        """Return where a block from `first` on ends that holds at most `size` bytes, or one row."""
        elements = size // self.dtype.itemsize
        stop = int(np.searchsorted(self.offsets, int(self.offsets[first]) + elements, side="right")) - 1
        if self.width:
            stop = min(stop, first + FILLED_UP * elements // self.width)
        return max(first + 1, stop)


def _constant(rows: Mapping[str, Any], count: int) -> Lengths:
    return np.full(count, rows["longest"], np.int64)


def _linear(rows: Mapping[str, Any], count: int) -> Lengths:
    """Return lengths that rise from near 0 to the longest and fall again; together half of count x longest.

    The document's figure 1c: an even number of rows holds as many elements as half as many of the longest.
    """
    rising = rows["longest"] * (2 * np.arange(-(-count // 2), dtype=np.int64) + 1) // (count + count % 2)
    return np.concatenate([rising, rows["longest"] - rising])[:count]


def _drawn(rows: Mapping[str, Any], count: int) -> np.random.Generator:
    return generator("rows", rows["lengths"], rows["seed"])


def _uniform(rows: Mapping[str, Any], count: int) -> Lengths:
    return _drawn(rows, count).integers(0, rows["longest"], count, np.int64, endpoint=True)


def _geometric(rows: Mapping[str, Any], count: int) -> Lengths:
    found: Lengths = _drawn(rows, count).geometric(1 / (rows["mean"] + 1), count).astype(np.int64) - 1
    return found


def _heavy_tail(rows: Mapping[str, Any], count: int) -> Lengths:
    # Lomax's distribution with parameter a has the mean 1 / (a - 1).
    drawn = _drawn(rows, count).pareto(TAIL, count) * rows["mean"] * (TAIL - 1)
    found: Lengths = np.minimum(drawn, rows["longest"]).astype(np.int64)
    return found


def _many_empty(rows: Mapping[str, Any], count: int) -> Lengths:
    rng = _drawn(rows, count)
    lengths = rng.integers(1, rows["longest"], count, np.int64, endpoint=True)
    found: Lengths = np.where(rng.random(count) < rows["empty_share"], 0, lengths)
    return found


# The lengths are those of a real file, whose rows are repeated.
DONOR = "donor"
# How long rows are -> the parameters that it needs, and the lengths.
MODELS: dict[str, tuple[tuple[str, ...], Model]] = {
    "constant": (("longest",), _constant),
    "linear": (("longest",), _linear),
    "uniform": (("longest", "seed"), _uniform),
    "geometric": (("mean", "seed"), _geometric),
    "heavy-tail": (("mean", "longest", "seed"), _heavy_tail),
    "many-empty": (("longest", "empty_share", "seed"), _many_empty),
}


# What a study says of a donor's rows: how many it holds, their elements, and those of the longest.
DONOR_PARAMETERS = ("held", "elements", "longest")


def parameters_of(model: str) -> tuple[str, ...]:
    """Return the parameters that a way of saying how long rows are needs; KeyError for an unknown one."""
    return DONOR_PARAMETERS if model == DONOR else MODELS[model][0]


def donor_lengths(path: str) -> Lengths:
    """Return the lengths in a prepared donor: those of a second array behind that of the values."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        assert version == (1, 0)
        (size,), _, dtype = np.lib.format.read_array_header_1_0(file)
        file.seek(size * dtype.itemsize, 1)
        found: Lengths = np.load(file)
    return found


@lru_cache(maxsize=16)
def _lengths(model: str, parameters: tuple[tuple[str, Any], ...], count: int) -> Lengths:
    found = MODELS[model][1](dict(parameters), count)
    found.setflags(write=False)
    return found


def lengths_of(dataset: Mapping[str, Any], donor_path: str | None = None) -> Lengths:
    """Return the elements of each row that a dataset specification describes.

    Those of a donor are in the prepared one alone.
    """
    rows = dataset["rows"]
    if rows["lengths"] == DONOR:
        if donor_path is None:
            raise ValueError("the dataset has a donor, but no prepared donor file was given")
        held = donor_lengths(donor_path)
        return np.resize(held, dataset["shape"][0])
    return _lengths(rows["lengths"], tuple(sorted(rows.items())), dataset["shape"][0])


def elements_of(dataset: Mapping[str, Any]) -> int:
    """Return the elements of all rows; of some of a donor's, their share of its elements."""
    rows = dataset["rows"]
    if rows["lengths"] == DONOR:
        return int(rows["elements"] * dataset["shape"][0] // rows["held"])
    return int(lengths_of(dataset).sum())


def longest_of(dataset: Mapping[str, Any]) -> int:
    """Return the elements of the longest row."""
    rows = dataset["rows"]
    return int(rows["longest"] if rows["lengths"] == DONOR else lengths_of(dataset).max(initial=0))


def open_rows(dataset: Mapping[str, Any], donor_path: str | None = None) -> Rows:
    """Return the rows that a dataset specification describes."""
    lengths = lengths_of(dataset, donor_path)
    flat = {**dataset, "axes": ["element"], "shape": [max(1, int(lengths.sum()))]}
    return Rows(lengths, open_values(flat, donor_path))
