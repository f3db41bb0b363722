"""What fills a test file: synthetic values that mix all indices, or a donor's. One array for all layouts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


CACHED_BYTES = 2**18


class Values(Protocol):
    """The content of a dataset, block by block."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """The values of the box at `origin` with `extent` elements, in row-major order."""


def _mixed(index: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """splitmix64's finaliser (Steele, Lea, Flood 2014): one-to-one on 64-bit integers."""
    z = index + np.uint64((salt * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class MixedIndices:
    """v = a[z]·b[s] + c[z] + d[s], modulo 2^bits, where s numbers the leading indices and z is the last one.

    a, b, c and d come from a one-to-one mix of 64 bits, so no two planes or spectra are alike: a wrong one
    cannot pass for the right one. Unsigned integers wrap; other types hold the same whole numbers.
    """

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        # Half a float's bits are always exact in its significand (binary16: 8 of 11).
        self._word = np.dtype(f"u{self.dtype.itemsize // (2 if self.dtype.kind == 'f' else 1)}")

    def _words(self, index: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[Any]:
        # The high bits are the best mixed ones.
        return (_mixed(index, salt) >> np.uint64(64 - 8 * self._word.itemsize)).astype(self._word)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Values of the box; same shape as `extent`."""
        last = np.arange(origin[-1], origin[-1] + extent[-1], dtype=np.uint64)
        leading = np.zeros(extent[:-1], dtype=np.uint64)
        for axis in range(len(extent) - 1):
            stride = np.uint64(math.prod(self.shape[axis + 1 : -1]))
            steps = np.arange(origin[axis], origin[axis] + extent[axis], dtype=np.uint64) * stride
            leading = leading + steps.reshape([-1 if a == axis else 1 for a in range(len(extent) - 1)])
        a, c = self._words(last, 1) | self._word.type(1), self._words(last, 3)
        b, d = (self._words(leading, salt).reshape(-1, 1) for salt in (2, 4))
        out = np.empty(tuple(extent), self._word)
        rows = out.reshape(-1, extent[-1])
        # Three passes over a piece that stays in the processor's cache are several times faster than over all.
        step = max(1, CACHED_BYTES // max(a.nbytes, 1))
        for row in range(0, len(rows), step):
            piece = rows[row : row + step]
            np.multiply(a, b[row : row + step], out=piece)
            piece += c
            piece += d[row : row + step]
        return out.view(self.dtype) if self.dtype.kind in "iu" else out.astype(self.dtype)


class ConstantPerSpectrum:
    """The document's own fill: every element of spectrum (x, y) is x·ny + y. Does not verify along the last axis."""

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Values of the box; same shape as `extent`."""
        grid = np.ix_(*(np.arange(o, o + e) for o, e in zip(origin[:-1], extent[:-1], strict=True)))
        spectrum = np.ravel_multi_index(np.broadcast_arrays(*grid), self.shape[:-1]) if grid else np.int64(0)
        return np.broadcast_to(np.asarray(spectrum, dtype=self.dtype)[..., np.newaxis], extent).copy()


def donor_runs(start: int, stop: int, size: int, held: int, window: int) -> Iterator[tuple[int, int, int]]:
    """(array index, donor index, length) of the runs that fill array indices start … stop-1 along one axis.

    The document's rule: an axis of `size` elements is filled window by window with the donor's values at the same
    indices; a window that runs past the donor's `held` elements takes the donor's last window of equal length.
    One window for all layouts (the document takes each layout's chunk), or layouts would hold different arrays.
    """
    while start < stop:
        first = start - start % window
        length = min(window, size - first)
        source = first if first + length <= held else held - length
        end = min(first + length, stop)
        yield start, source + start - first, end - start
        start = end


class Donor:
    """A donor array (memory-mapped, cut to what is used and in the dataset's type) spread over a larger shape."""

    def __init__(self, shape: Sequence[int], path: str, window: Sequence[int] | None = None) -> None:
        self.shape = tuple(shape)
        self._array = np.load(path, mmap_mode="r")
        self.dtype = self._array.dtype
        self._window = tuple(window or self._array.shape)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Values of the box; same shape as `extent`."""
        out = np.empty(tuple(extent), self.dtype)
        axes = zip(origin, extent, self.shape, self._array.shape, self._window, strict=True)
        runs = [list(donor_runs(o, o + e, size, held, window)) for o, e, size, held, window in axes]
        for box in itertools.product(*runs):
            target = tuple(slice(i - o, i - o + n) for (i, _, n), o in zip(box, origin, strict=True))
            out[target] = self._array[tuple(slice(d, d + n) for _, d, n in box)]
        return out


FILLS = {"mixed": MixedIndices, "constant-per-spectrum": ConstantPerSpectrum}


def open_values(dataset: Mapping[str, Any], donor_path: str | None = None) -> Values:
    """The values that a dataset specification names; `donor_path` is the prepared donor (.npy)."""
    if dataset.get("donor"):
        if donor_path is None:
            raise ValueError("the dataset has a donor, but no prepared donor file was given")
        return Donor(dataset["shape"], donor_path, dataset["donor"].get("window"))
    fill: type[MixedIndices] | type[ConstantPerSpectrum] = FILLS[dataset["fill"]]
    return fill(dataset["shape"], dataset["dtype"])
