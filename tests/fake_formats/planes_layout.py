"""Layouts of planes: so many along the first axis are a raw file; none has a setting of any other format."""

from __future__ import annotations

import math

from hyperslab.layouts.chunks import Shape, chunk_count
from hyperslab.layouts.layout import Abilities, Array, Layout

FILE_BYTES = 4096


class PlanesLayout(Layout):
    """A resolved layout of planes; no key of it is called as one of HDF5's."""

    title = "Planes"
    suffix = ".planes"
    abilities = Abilities()

    @property
    def chunks(self) -> list[int]:
        """Extents of what one file holds."""
        found: list[int] = self.described["planes_of"]
        return found

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return the bytes of all elements, and a little for every file."""
        return math.prod(array.shape) * array.itemsize + self.largest_files(array) * FILE_BYTES

    def largest_files(self, array: Array) -> int:
        """Return the number of files, the description and the directory among them."""
        return chunk_count(array.shape, self.chunks) + 2

    def stored_bytes(self, shape: Shape, itemsize: int) -> int:
        """Return the bytes of all elements: the last file holds fewer planes, not padding."""
        return math.prod(shape) * itemsize


LAYOUT = PlanesLayout
