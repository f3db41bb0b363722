"""What fills a test file: synthetic values that mix all indices, or a donor's. One array for all layouts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hyperslab.data.daily_grid import DailyGrid
from hyperslab.data.mixing import CACHED_BYTES, mixed
from hyperslab.data.mixing import MixedIndices as MixedIndices


class Values(Protocol):
    """The content of a dataset, block by block."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box at `origin` with `extent` elements, in row-major order."""


class ConstantPerSpectrum:
    """The document's own fill: all of spectrum (x, y) is x·ny + y. Does not verify along the last axis."""

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        grid = np.ix_(*(np.arange(o, o + e) for o, e in zip(origin[:-1], extent[:-1], strict=True)))
        spectrum = np.ravel_multi_index(np.broadcast_arrays(*grid), self.shape[:-1]) if grid else np.int64(0)
        return np.broadcast_to(np.asarray(spectrum, dtype=self.dtype)[..., np.newaxis], extent).copy()


class Counts:
    """Small counts, as a detector gives them: exponentially distributed and independent of each other.

    What filters make of it is set by the distribution alone (gzip 4 needs about a third of 16-bit words, as
    for the document's spectra), and hardly by the chunks' shape or a filter's effort, since nothing repeats.
    Real data, a donor, tell more. Other fills tell nothing of filters: `mixed` cannot be shrunk, a constant
    shrinks to nothing. Every element depends on all indices, and about one in seven is 0.
    """

    MEAN = 6.0

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._uniform = MixedIndices(shape, "uint16")
        share = (np.arange(2**16) + 0.5) / 2**16
        self._quantile = np.floor(-self.MEAN * np.log1p(-share)).astype(self.dtype)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        found: npt.NDArray[Any] = self._quantile[self._uniform.block(origin, extent)]
        return found


class RandomBelow256:
    """Integers that look random, 0 to 255, as HDF5's benchmark of 2002 wrote them; each from its index alone.

    Element i (row-major) is the lowest byte of splitmix64's finaliser of i. A byte of four is random, so that
    no filter stores 32-bit integers in less than a quarter of their size.
    """

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(extent))]
        starts = np.zeros((1,), np.uint64)
        for start, width, stride in zip(origin[:-1], extent[:-1], strides[:-1], strict=True):
            steps = np.arange(start, start + width, dtype=np.uint64) * np.uint64(stride)
            starts = np.add.outer(starts, steps).reshape(-1)
        last = np.arange(origin[-1], origin[-1] + extent[-1], dtype=np.uint64)
        out = np.empty((len(starts), extent[-1]), self.dtype)
        # A piece that stays in the processor's cache is made much faster than the whole.
        step = max(1, CACHED_BYTES // max(last.nbytes, 1))
        for row in range(0, len(starts), step):
            index = starts[row : row + step, np.newaxis] + last
            out[row : row + step] = mixed(index, 64, 1) & np.uint64(255)
        return out.reshape(tuple(extent))


def donor_runs(start: int, stop: int, size: int, held: int, window: int) -> Iterator[tuple[int, int, int]]:
    """Yield (array index, donor index, length) of the runs that fill array indices start … stop-1 along one
    axis.

    The document's rule: an axis of `size` elements is filled window by window with the donor's values at the
    same indices; a window that runs past the donor's `held` elements takes the donor's last window of equal
    length. One window for all layouts (the document takes each layout's chunk), or their arrays would differ.
    """
    while start < stop:
        first = start - start % window
        length = min(window, size - first)
        source = first if first + length <= held else held - length
        end = min(first + length, stop)
        yield start, source + start - first, end - start
        start = end


class Donor:
    """A donor array (memory-mapped, cut to what is used, in the dataset's type), spread over a shape."""

    def __init__(self, shape: Sequence[int], path: str, window: Sequence[int] | None = None) -> None:
        self.shape = tuple(shape)
        self._path = path
        self._array = np.load(path, mmap_mode="r")
        self.dtype = self._array.dtype
        self._window = tuple(window or self._array.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the file as well, instead of getting a copy.
        return Donor, (self.shape, self._path, self._window)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        out = np.empty(tuple(extent), self.dtype)
        axes = zip(origin, extent, self.shape, self._array.shape, self._window, strict=True)
        runs = [list(donor_runs(o, o + e, size, held, window)) for o, e, size, held, window in axes]
        for box in itertools.product(*runs):
            target = tuple(slice(i - o, i - o + n) for (i, _, n), o in zip(box, origin, strict=True))
            out[target] = self._array[tuple(slice(d, d + n) for _, d, n in box)]
        return out


class Within:
    """A box of other values, as an array of its own."""

    def __init__(self, whole: Values, origin: Sequence[int], extent: Sequence[int]) -> None:
        self._whole, self._origin = whole, tuple(origin)
        self.shape = tuple(extent)
        self.dtype = whole.dtype

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        return self._whole.block([a + b for a, b in zip(self._origin, origin, strict=True)], extent)


DAILY_GRID = "daily-grid"
FILLS: dict[str, Callable[[Sequence[int], str], Values]] = {
    "mixed": MixedIndices,
    "constant-per-spectrum": ConstantPerSpectrum,
    "random-below-256": RandomBelow256,
    "counts": Counts,
    DAILY_GRID: DailyGrid,
}


def open_values(dataset: Mapping[str, Any], donor_path: str | None = None) -> Values:
    """Return the values that a dataset specification names; `donor_path` is the prepared donor (.npy)."""
    if dataset.get("donor"):
        if donor_path is None:
            raise ValueError("the dataset has a donor, but no prepared donor file was given")
        return Donor(dataset["shape"], donor_path, dataset["donor"].get("window"))
    return FILLS[dataset["fill"]](dataset["shape"], dataset["dtype"])
