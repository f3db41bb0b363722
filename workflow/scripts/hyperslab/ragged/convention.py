"""The convention: what marks a dataset as ragged rows, and how its two datasets look (docs/ragged.md)."""

from __future__ import annotations

import numpy as np

# What marks a dataset as rows, and the number of the convention that is written and read here.
CONVENTION, VERSION = "ragged-rows", 1
# Names of the attributes of the primary dataset; the first holds CONVENTION.
MARK, NUMBER, TYPE, VECTOR, REUSE = "convention", "convention_version", "row_dtype", "vector", "reuse"
# One element of the primary dataset; both in bytes.
REFERENCE = np.dtype([("offset", "<u8"), ("length", "<u8")])
# What the primary dataset holds where no row was written yet.
UNWRITTEN = np.array((2**64 - 1, 0), REFERENCE)
# The vector of NAME lies beside it, under this name.
SUFFIX = ".vector"
# Bytes of a chunk of the vector where nobody says how many: what is written at once, what a filter treats at
# once, and no fewer where few rows are expected.
CHUNK_BYTES, FILTERED_CHUNK_BYTES, LEAST_CHUNK_BYTES = 2**23, 2**20, 2**16
ROW_CHUNK = 4096
# Bytes that one block of rows has about.
BLOCK_BYTES = 16 * 2**20


class RaggedError(ValueError):
    """Rows or a file that cannot be what they should; the text is one line."""
