"""Ragged rows in HDF5 as a vector of bytes with the offset and length of each row: fast, and compressible.

This package needs h5py and numpy alone, and works under whatever name its folder is copied to. docs/ragged.md
says how files look, so that others can read them.

    import h5py
    from hyperslab import ragged

    with h5py.File("events.h5", "w") as file:
        with ragged.create(file, "hits", "int32", filters={"compression": "gzip"}) as hits:
            hits.append([[1, 2, 3], [], [4, 5]])
    with h5py.File("events.h5") as file:
        hits = ragged.open(file["hits"])
        print(hits[2], hits[0:2], len(hits), hits.lengths)

What was flushed outlives a writer that is killed where `ragged.writer` opened the file.
"""

from __future__ import annotations

from .convention import RaggedError
from .opening import create, open  # noqa: A004, for it is called as ragged.open
from .parallel import append_collectively
from .reading import split
from .recovery import recover
from .safe_writer import SAFE, writer
from .vlen import from_vlen, to_vlen
from .writing import RaggedDataset

__all__ = [
    "SAFE", "RaggedDataset", "RaggedError", "append_collectively", "create", "from_vlen", "open", "recover",
    "split", "to_vlen", "writer",
]  # fmt: skip
