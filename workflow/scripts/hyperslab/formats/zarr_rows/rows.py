"""Flattened rows in Zarr: a group with an array of all values end to end, and one of lengths."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BytesCodec
from zarr.storage import LocalStore

from hyperslab.data.rows import Lengths, RowBlock, Rows
from hyperslab.data.values import Values
from hyperslab.formats.row_files import Runs, block_of, runs_of
from hyperslab.formats.row_seam import Numbers, OpenRows, RowsFormat
from hyperslab.formats.zarr import array as arrays
from hyperslab.formats.zarr import settings
from hyperslab.formats.zarr.description import codecs
from hyperslab.measuring.artifact import Artifact
from hyperslab.specifications import Specification

VALUES, LENGTHS = "values", "lengths"
# So many chunks bring all threads of zarr-python to life.
WARM_UP_ROWS = 64


class ZarrRows(OpenRows):
    """The two arrays of one open store."""

    def __init__(self, group: Any, growing: bool = False) -> None:
        self._group, self._growing = group, growing
        self._values, self._lengths = group[VALUES], group[LENGTHS]
        self._end = 0
        # Once they were read.
        self._offsets: npt.NDArray[np.int64] | None = None

    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of values and of lengths; a chunk that is covered in part is read and written."""
        begin, end, stop = self._end, self._end + len(block.values), first + len(block.lengths)
        self._end = end

        def write() -> None:
            if self._growing:
                self._values.resize((end,))
                self._lengths.resize((stop,))
            if end > begin:
                self._values[begin:end] = block.values
            self._lengths[first:stop] = block.lengths

        return write

    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows: a run at once, else each by itself.

        The first one of an open store reads all lengths, which are kept.
        """
        runs = runs_of(numbers)
        return lambda: self._read(runs)

    def _bounds(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        if self._offsets is None:
            self._offsets = np.concatenate([[0], np.cumsum(self._lengths[:])])
        return self._offsets[first : stop + 1]

    def _read(self, runs: Sequence[tuple[int, int]]) -> Runs:
        bounds = [self._bounds(first, stop) for first, stop in runs]
        return bounds, [self._values[int(one[0]) : int(one[-1])] for one in bounds]

    def block(self, found: Runs) -> RowBlock:
        """Return the runs of a read as one block of rows."""
        return block_of(found, self._values.dtype)

    def flush(self) -> None:
        """Do nothing: a write has handed everything to the kernel when it returns."""

    def close(self) -> None:
        """Close the store; no file of it is open between calls."""
        self._group.store.close()


class ZarrRowsFormat(RowsFormat):
    """The Zarr side of the seam of formats for ragged rows."""

    artifact = Artifact

    def versions(self) -> dict[str, str]:
        """Return the versions of zarr-python, of zarrs and of the codecs."""
        return arrays.FORMAT.versions()

    def create(self, path: str, spec: Specification, parts: Sequence[Lengths], growing: bool) -> ZarrRows:
        """Create the directory with two arrays; files appear as chunks are written."""
        (lengths,) = parts
        settings.put(spec["layout"]["settings"])
        layout: Any = spec["layout"]
        dtype = np.dtype(spec["dataset"]["dtype"])
        group = zarr.create_group(LocalStore(path), zarr_format=3)
        wanted: tuple[tuple[str, np.dtype[Any], int, int, list[Any]], ...] = (
            (VALUES, dtype, int(lengths.sum()), layout["chunk_bytes"] // dtype.itemsize, codecs(spec)),
            (LENGTHS, np.dtype("<i8"), len(lengths), layout["row_chunk"], []),
        )
        for name, kind, size, chunk, compressors in wanted:
            group.create_array(
                name, shape=(0 if growing else size,), chunks=(chunk,), dtype=kind, filters=None,
                serializer=BytesCodec(endian="little"), compressors=compressors or None, fill_value=0,
                config={"write_empty_chunks": layout["settings"]["write_empty_chunks"]},
            )  # fmt: skip
        return ZarrRows(group, growing)

    def prepare(self, spec: Specification) -> None:
        """Write and read a few rows, which imports codecs and starts threads."""
        small: Any = {**spec, "layout": {**spec["layout"], "chunk_bytes": 8, "row_chunk": 1}}
        dtype = np.dtype(spec["dataset"]["dtype"])
        block = RowBlock(np.ones(WARM_UP_ROWS, np.int64), np.arange(WARM_UP_ROWS).astype(dtype))
        with tempfile.TemporaryDirectory() as folder:
            created = self.create(f"{folder}/rows.zarr", small, [block.lengths], False)
            created.writer(0, 0, block)()
            created.close()
            opened = self.open(f"{folder}/rows.zarr", small)
            opened.reader(0, range(WARM_UP_ROWS))()
            opened.close()

    def open(self, path: str, spec: Specification) -> ZarrRows:
        """Open for reading with the library settings of `spec`."""
        settings.put(spec["layout"]["settings"])
        return ZarrRows(zarr.open_group(LocalStore(path, read_only=True), mode="r", zarr_format=3))

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new store chunk after chunk of values, then with all lengths; returns "by chunks"."""
        assert isinstance(values, Rows)
        opened = self.create(path, spec, [values.lengths], False)
        group: Any = opened._group
        try:
            step = group[VALUES].chunks[0] * max(1, 2**24 // max(1, spec["layout"]["chunk_bytes"] or 1))
            for begin in range(0, values.shape[0], step):
                size = min(step, values.shape[0] - begin)
                group[VALUES][begin : begin + size] = values.block((begin,), (size,))
            group[LENGTHS][:] = values.lengths
        finally:
            opened.close()
        return "by chunks"

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, counts of chunks and files, and the settings in force."""
        opened = self.open(path, spec)
        dtype = np.dtype(spec["dataset"]["dtype"])
        raw = opened._group[VALUES].shape[0] * dtype.itemsize
        effective = settings.effective()
        opened.close()
        found = [place for place in Path(path).rglob("*") if place.is_file()]
        size = sum(place.stat().st_size for place in found)
        metadata = sum(place.stat().st_size for place in found if place.name == "zarr.json")
        (stored, chunks), (lengths, _) = (_chunks_of(Path(path, name)) for name in (VALUES, LENGTHS))
        data = stored if spec["layout"]["codecs"] else min(raw, stored)
        return {
            "file_bytes": size,
            "files": len(found),
            "folders": sum(place.is_dir() for place in Path(path).rglob("*")) + 1,
            "stored_bytes": stored,
            "data_bytes": data,
            "padding_bytes": stored - data,
            "index_bytes": lengths,
            "lengths_bytes": lengths,
            "metadata_bytes": metadata,
            "remainder_bytes": size - stored - lengths,
            "chunks": chunks,
            "settings": {**effective, "dtype": str(dtype)},
        }


def _chunks_of(array: Path) -> tuple[int, int]:
    """Return the bytes and the number of an array's files but for the one that describes it."""
    files = [place for place in array.rglob("*") if place.is_file() and place.name != "zarr.json"]
    return sum(place.stat().st_size for place in files), len(files)


FORMAT = ZarrRowsFormat()
