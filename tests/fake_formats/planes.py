"""Planes through files of the kernel: create, write, open, read, and what the files say of themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.data.tiles import tiles
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray
from hyperslab.layouts import layout_of
from hyperslab.layouts.chunks import chunk_count
from hyperslab.measuring.artifact import Artifact
from hyperslab.specifications import Specification

DESCRIPTION = "array.json"
Spec = Specification
Block = npt.NDArray[Any]


def name_of(piece: int) -> str:
    """Return the name of the file of a piece."""
    return f"{piece:06}.raw"


def read_whole(file: Path) -> bytes:
    """Return all of a file, asked of the kernel in one call."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


class Planes(OpenArray):
    """The open array: files are read whole; what is written waits for `flush`."""

    def __init__(self, path: str, spec: Spec, read_file: Callable[[str], bytes] | None = None) -> None:
        self._path, self._shape = Path(path), tuple(spec["dataset"]["shape"])
        self._dtype, self._of = np.dtype(spec["dataset"]["dtype"]), layout_of(spec["layout"]).chunks or []
        self._read_file = read_file or (lambda name: read_whole(self._path / name))
        self._waiting: dict[int, Block] = {}

    def _pieces(self, box: Box) -> range:
        first, planes = box.origin[0], self._of[0]
        return range(first // planes, (first + box.extent[0] - 1) // planes + 1)

    def _planes(self, box: Box, piece: int) -> tuple[slice, slice]:
        """The planes of a box that lie in a piece: as counted in the box, and in the piece."""
        begin = piece * self._of[0]
        first, last = max(box.origin[0], begin), min(box.origin[0] + box.extent[0], begin + self._of[0])
        return slice(first - box.origin[0], last - box.origin[0]), slice(first - begin, last - begin)

    def _block(self, piece: int, content: bytes) -> Block:
        return np.frombuffer(content, self._dtype).reshape(-1, *self._shape[1:])

    def reader(self, box: Box) -> Callable[[], Block]:
        """Return a read of `box` that lacks nothing but the read."""

        def read() -> Block:
            found = np.empty(box.extent, self._dtype)
            for piece in self._pieces(box):
                there, here = self._planes(box, piece)
                found[there] = self._block(piece, self._read_file(name_of(piece)))[(here, *box.slices()[1:])]
            return found

        return read

    def write(self, box: Box, block: Block) -> None:
        """Keep `block` for the files that it touches."""
        for piece in self._pieces(box):
            planes = min(self._of[0], self._shape[0] - piece * self._of[0])
            waiting = self._waiting.setdefault(piece, np.zeros((planes, *self._shape[1:]), self._dtype))
            there, here = self._planes(box, piece)
            waiting[(here, *box.slices()[1:])] = block[there]

    def flush(self) -> None:
        """Write every file that was touched."""
        while self._waiting:
            piece, block = self._waiting.popitem()
            (self._path / name_of(piece)).write_bytes(block.data)

    def close(self) -> None:
        """Write what waits; no file stays open."""
        self.flush()


class PlanesFormat(Format):
    """The side of the seam that has the library."""

    artifact: type[Artifact] = Artifact

    def create(self, path: str, spec: Spec) -> Planes:
        """Create the directory and the description of the array."""
        os.mkdir(path)
        Path(path, DESCRIPTION).write_text(json.dumps(spec["dataset"]), encoding="utf-8")
        return Planes(path, spec)

    def versions(self) -> dict[str, str]:
        """Return the version of the only library there is."""
        return {"planes": "1.0"}

    def prepare(self, spec: Spec) -> None:
        """Do nothing: nothing has to be loaded."""

    def open(self, path: str, spec: Spec) -> Planes:
        """Open for reading."""
        assert json.loads(Path(path, DESCRIPTION).read_bytes())["shape"] == spec["dataset"]["shape"]
        return Planes(path, spec)

    def generate(self, path: str, spec: Spec, values: Values) -> str:
        """Fill a new directory file by file."""
        opened = self.create(path, spec)
        chunks = layout_of(spec["layout"]).chunks or []
        for tile in tiles(spec["dataset"]["shape"], chunks, values.dtype.itemsize):
            opened.write(tile, values.block(tile.origin, tile.extent))
            opened.flush()
        opened.close()
        return "file by file"

    def report(self, path: str, spec: Spec) -> dict[str, Any]:
        """Return sizes in bytes, counts of pieces and files; there are no settings."""
        sizes, metadata = self.stored_sizes(path, spec)["sizes"], Path(path, DESCRIPTION).stat().st_size
        shape = spec["dataset"]["shape"]
        return {
            "file_bytes": sum(sizes) + metadata,
            "stored_bytes": sum(sizes),
            "data_bytes": sum(sizes),
            "padding_bytes": 0,
            "padding_predicted_bytes": 0,
            "index_bytes": 0,
            "index_predicted_bytes": 0,
            "metadata_bytes": metadata,
            "remainder_bytes": metadata,
            "chunks": len(sizes),
            "chunks_predicted": chunk_count(shape, layout_of(spec["layout"]).chunks or shape),
            "files": len(sizes) + 1,
            "settings": {},
        }

    def stored_sizes(self, path: str, spec: Spec) -> dict[str, Any]:
        """Return the bytes of each file, in order."""
        return {"sizes": [file.stat().st_size for file in sorted(Path(path).glob("*.raw"))]}

    def predict(self, box: Box, spec: Spec, stored: dict[str, Any]) -> dict[str, float]:
        """Return counts of a selection: the files that it touches are read whole."""
        pieces = Planes("", spec)._pieces(box)
        size = sum(stored["sizes"][piece] for piece in pieces)
        touched = layout_of(spec["layout"]).touched(box.origin, box.extent)
        return {"chunks_touched": touched, "chunk_bytes": size, "requested": size}


FORMAT = PlanesFormat()
