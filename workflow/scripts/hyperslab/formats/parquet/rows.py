"""Ragged rows in Parquet: a column of lists, with pyarrow's own settings but for compression."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hyperslab.data.rows import Lengths, RowBlock
from hyperslab.formats.row_seam import Numbers, OpenRows, RowsFormat
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.machine import versions_of
from hyperslab.specifications import Specification

COLUMN = "rows"


class ParquetWriter(OpenRows):
    """A file that is written: rows are held until they fill a row group, as nobody writes a group a row."""

    def __init__(self, path: str, spec: Specification) -> None:
        layout: Any = spec["layout"]
        self._type = pa.from_numpy_dtype(np.dtype(spec["dataset"]["dtype"]))
        self._schema = pa.schema([pa.field(COLUMN, pa.list_(self._type), nullable=False)])
        self._writer = pq.ParquetWriter(
            path, self._schema, compression=layout["compression"], compression_level=layout.get("level")
        )
        self._group_bytes = layout["chunk_bytes"]
        self._held: list[pa.ListArray] = []
        self._held_bytes = 0

    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows; those of a group reach the file with its last one."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(block.lengths)])
        # Parquet's lists have offsets of 32 bits, which pyarrow checks here.
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(block.values, self._type))

        def write() -> None:
            self._held.append(lists)
            self._held_bytes += block.nbytes
            if self._held_bytes >= self._group_bytes:
                self._end_group()

        return write

    def _end_group(self) -> None:
        if self._held:
            table = pa.table([pa.concat_arrays(self._held)], schema=self._schema)
            self._writer.write_table(table, row_group_size=max(1, len(table)))
            self._held, self._held_bytes = [], 0

    def flush(self) -> None:
        """Write the last row group."""
        self._end_group()

    def close(self) -> None:
        """Write the footer, without which there is no file."""
        self._end_group()
        self._writer.close()

    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Refuse: nothing can be read before the footer is written."""
        raise NotImplementedError

    def block(self, found: Any) -> RowBlock:
        """Refuse, as `reader` does."""
        raise NotImplementedError


class ParquetReader(OpenRows):
    """A file that is read, a row group at a time; the last one is kept for the next call of a selection."""

    def __init__(self, path: str) -> None:
        self._file = pq.ParquetFile(path)
        metadata = self._file.metadata
        counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._kept: tuple[int, Any] | None = None

    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Refuse: a Parquet file is written once."""
        raise NotImplementedError

    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows as slices of lists, each from one row group.

        Readers of a selection are asked for before the first is called, so none finds a group of another.
        """
        self._kept = None
        if isinstance(numbers, range):
            return lambda: self._run(numbers.start, numbers.stop)
        return lambda: [piece for number in numbers for piece in self._run(number, number + 1)]

    def _run(self, first: int, stop: int) -> list[Any]:
        found = []
        while first < stop:
            group = int(np.searchsorted(self._starts, first, side="right")) - 1
            start, end = int(self._starts[group]), min(stop, int(self._starts[group + 1]))
            found.append(self._group(group).slice(first - start, end - first))
            first = end
        return found

    def _group(self, number: int) -> Any:
        if self._kept is None or self._kept[0] != number:
            self._kept = (number, self._file.read_row_group(number).column(COLUMN))
        return self._kept[1]

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""
        lists = [piece for one in found for piece in one.chunks]
        lengths = [np.asarray(one.value_lengths(), np.int64) for one in lists]
        values = [one.flatten().to_numpy(zero_copy_only=False) for one in lists]
        return RowBlock(np.concatenate([np.empty(0, np.int64), *lengths]), np.concatenate(values))

    def flush(self) -> None:
        """Do nothing: nothing is written."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ParquetFormat(RowsFormat):
    """The Parquet side of the seam of formats for ragged rows."""

    artifact = Artifact

    def versions(self) -> dict[str, str]:
        """Return the version of pyarrow."""
        return versions_of(("pyarrow",))

    def create(
        self, path: str, spec: Specification, parts: Sequence[Lengths], growing: bool
    ) -> ParquetWriter:
        """Create a file without rows; it has one column, and grows until it is closed."""
        assert len(parts) == 1
        return ParquetWriter(path, spec)

    def prepare(self, spec: Specification) -> None:
        """Do nothing: importing this module has loaded all there is."""

    def open(self, path: str, spec: Specification) -> ParquetReader:
        """Open for reading; this reads the footer."""
        return ParquetReader(path)

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, row groups as chunks, and what the file says of how it was written."""
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(number).column(0) for number in range(metadata.num_row_groups)]
        size, stored = os.stat(path).st_size, sum(group.total_compressed_size for group in groups)
        return {
            "file_bytes": size,
            "files": 1,
            "stored_bytes": stored,
            # Levels, which say where rows end, are pages' own: nothing in the file tells their bytes.
            "data_bytes": stored,
            "padding_bytes": 0,
            "index_bytes": metadata.serialized_size,
            "remainder_bytes": size - stored - metadata.serialized_size,
            "chunks": len(groups),
            "settings": {
                "compression": ", ".join(sorted({group.compression for group in groups})),
                "encodings": ", ".join(sorted({name for group in groups for name in group.encodings})),
                "created_by": metadata.created_by,
                "format_version": metadata.format_version,
            },
        }


FORMAT = ParquetFormat()
