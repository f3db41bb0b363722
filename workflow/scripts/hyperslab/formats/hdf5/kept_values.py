"""What lossy filters of HDF5 leave of an array's values: the truth where they promise no bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5p

from hyperslab.data.selections import Box, disk_order, inverse_of
from hyperslab.data.tiles import row_major, tiles
from hyperslab.data.values import Values
from hyperslab.formats.hdf5.description import describe_dataset
from hyperslab.formats.hdf5.encoding import decoded
from hyperslab.specifications import Specification


class KeptValues:
    """The values of a chunked array after every chunk has passed the layout's filters as a whole, once."""

    def __init__(self, values: Values, spec: Specification) -> None:
        self.shape, self.dtype = values.shape, values.dtype
        self._values, self._order = values, disk_order(spec)
        self._creation = h5p.create(h5p.DATASET_CREATE)
        self._datatype, _ = describe_dataset(self._creation, spec)
        chunk = spec["layout"]["chunks"]
        assert chunk is not None
        self._chunk = chunk

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`. Memory holds few chunks beside it."""
        found = np.empty(extent, self.dtype)
        first = [start // size * size for start, size in zip(origin, self._chunk, strict=True)]
        axes = zip(origin, extent, self._chunk, self.shape, strict=True)
        ends = [min(-(-(start + width) // size) * size, whole) for start, width, size, whole in axes]
        widened = [end - start for start, end in zip(first, ends, strict=True)]
        for tile in tiles(widened, self._chunk, self.dtype.itemsize):
            place = tuple(start + inside for start, inside in zip(first, tile.origin, strict=True))
            kept = self._filtered(Box(place, tile.extent))
            into, of = [], []
            for start, width, at, size in zip(origin, extent, place, tile.extent, strict=True):
                low, high = max(start, at), min(start + width, at + size)
                into.append(slice(low - start, high - start))
                of.append(slice(low - at, high - at))
            found[tuple(into)] = kept[tuple(of)]
        return found

    def _filtered(self, box: Box) -> npt.NDArray[Any]:
        """Return a box of whole chunks (cut at the array's edge) as its filters leave it."""
        block = row_major(self._values.block(box.origin, box.extent).transpose(self._order))
        return decoded(block, self._creation, self._datatype).transpose(inverse_of(self._order))
