"""The datasets of ragged rows in one open HDF5 file, in whichever way they are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy.typing as npt
from h5py import h5f

from hyperslab.data.rows import RowBlock
from hyperslab.formats.hdf5_rows.flattened import Flattened
from hyperslab.formats.hdf5_rows.offset_vector import OffsetVector
from hyperslab.formats.hdf5_rows.padded import Padded
from hyperslab.formats.hdf5_rows.parts import Part, PartKind, pieces
from hyperslab.formats.hdf5_rows.vlen import Vlen
from hyperslab.formats.row_seam import Numbers, OpenRows

# `storage` of a layout -> how its datasets are made
KINDS: dict[str, PartKind] = {
    "vlen": Vlen(),
    "flattened": Flattened(),
    "offset-vector": OffsetVector(),
    "padded": Padded(),
}


def name_of(part: int) -> str:
    return f"rows{part}"


class Hdf5Rows(OpenRows):
    """The datasets of one open file."""

    def __init__(self, file: h5py.File, parts: Sequence[Part]) -> None:
        self._file, self._parts = file, parts

    @property
    def values(self) -> h5py.Dataset:
        """What holds the values of the first dataset of rows, or leads to them."""
        return self._parts[0].values

    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows of dataset `part` that lacks nothing but the write."""
        return self._parts[part].writer(first, block)

    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows of dataset `part` that lacks nothing but the read."""
        return self._parts[part].reader(numbers)

    def replacer(self, part: int, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row of dataset `part` that lacks nothing but the call."""
        return self._parts[part].replacer(number, row)

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""
        return self._parts[0].block(found)

    def columns(self) -> dict[str, Any]:
        """Return what the caches of the file say: hit rate and bytes of metadata, hits of the page buffer."""
        _, _, size, _ = self._file.id.get_mdc_size()
        found = {"metadata_hit_rate": self._file.id.get_mdc_hit_rate(), "metadata_cache_bytes": size}
        return found | _page_buffer(self._file.id)

    def flush(self) -> None:
        """Hand everything buffered in the library, and beside it, to the kernel."""
        for part in self._parts:
            part.flush()
        self._file.flush()

    def close(self) -> None:
        """Close datasets and file."""
        for part in self._parts:
            part.close()
        self._file.close()

    def row_pieces(self) -> int | None:
        """Return in how many pieces of the file the rows of the first dataset lie."""
        places = self._parts[0].places()
        return None if places is None else pieces(places)

    def sizes(self) -> dict[str, Any]:
        """Return the sums over all datasets of what each says of itself; None where one cannot say."""
        found = [part.sizes() for part in self._parts]
        names = dict.fromkeys(name for one in found for name in one)
        values = {name: [one.get(name) for one in found] for name in names}
        sums: dict[str, Any] = {name: None if None in some else sum(some) for name, some in values.items()}
        return sums | self._parts[0].shared_sizes(self._parts)


def _page_buffer(file: h5f.FileID) -> dict[str, float]:
    """Return the share of accesses that the page buffer served, of both kinds of data; {} without it."""
    if not file.get_access_plist().get_page_buffer_size()[0]:
        return {}
    found = file.get_page_buffering_stats()
    shares = {}
    for kind in ("meta", "raw"):
        there = getattr(found, kind)
        if there.accesses:
            shares[f"page_buffer_{kind}_hit_rate"] = there.hits / there.accesses
    return shares
