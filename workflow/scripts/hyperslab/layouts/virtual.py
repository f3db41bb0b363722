"""Layouts of HDF5 in an object store that is read by reference: its chunks in place, as those of Zarr."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab import text
from hyperslab.layouts import s3_access
from hyperslab.layouts.chunks import Shape, chunk_count
from hyperslab.layouts.hdf5 import Hdf5Layout
from hyperslab.layouts.layout import Abilities, Array

# What reads it.
CLIENT = {"through": "VirtualiZarr and obstore"}
# Of a chunk in a reference: its number, address, offset and length, as JSON.
ENTRY_BYTES, REFERENCE_BYTES = 160, 4096
UNEQUAL = "one reference leads into files without chunks only where all are equally long"
UNEVEN = "one reference leads into several files only where each holds whole chunks: a chunk has"


class VirtualLayout(Hdf5Layout):
    """A resolved layout of an HDF5 file whose chunks are read through a reference that lies beside it."""

    title = "HDF5 in an object store, by reference"
    suffix = ".virtual"
    released = None
    abilities = Abilities(forgets=True, pages=False, collections=True, opened_as_one=True)
    settings = {"client": s3_access.SETTINGS["client"], **Hdf5Layout.settings}
    libraries = {**Hdf5Layout.libraries, "zarr": "Zarr", "virtualizarr": "VirtualiZarr", "obstore": "obstore"}

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: that of the file, and of a reference to each of its chunks."""
        chunks = chunk_count(array.shape, self.chunks) if self.chunks else 1
        return super().largest_bytes(array, arrays) + chunks * ENTRY_BYTES + REFERENCE_BYTES

    def parts_refusal(self, counts: Sequence[int], axis: int, shape: Shape) -> str | None:
        """Return why one reference cannot lead into files of so many indices each, or None."""
        if not self.chunks:
            return UNEQUAL if len(set(counts)) > 1 else None
        chunk = min(self.chunks[axis], max(counts))
        if any(count % chunk for count in counts[:-1]) or counts[-1] < chunk:
            return f"{UNEVEN} {chunk} along the axis of files, and a file has {text.listing(_few(counts))}"
        return None

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and how it is read."""
        return f"{super().words(axes, itemsize)}, chunks by reference {s3_access.words(CLIENT)}"

    def copied(self) -> None:
        """Return None: a copy is not read by reference."""

    def clients(self) -> tuple[str, ...]:
        """Return the modules of what puts and reads objects, and of what makes and reads references."""
        return s3_access.CLIENT, "obspec_utils.registry", "virtualizarr.parsers"

    def environment(self) -> str | None:
        """Return what says that the environment with the clients of object stores is complete."""
        return s3_access.ENVIRONMENT


def _few(counts: Sequence[int]) -> list[str]:
    """Return the different counts in words, a few of them."""
    return [str(count) for count in sorted(set(counts))][:3]


LAYOUT = VirtualLayout
