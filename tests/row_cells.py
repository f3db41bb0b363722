"""Specifications of cells of ragged rows, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperslab import cases, formats, layouts
from hyperslab.cases.context import Context, Outcome
from hyperslab.data.models import open_content
from hyperslab.specifications import Specification
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.validation.errors import Place

PLACE = Place(Path("study.yaml"), "layouts.this")
ROWS = {"count": 300, "lengths": "uniform", "longest": 60}
# A layout of every format and storage, as a study writes it.
LAYOUTS: dict[str, dict[str, Any]] = {
    "vlen": {"format": "hdf5-rows", "storage": "vlen"},
    "vlen-chunked": {"format": "hdf5-rows", "storage": "vlen", "row_chunk": 64},
    "flattened": {"format": "hdf5-rows", "storage": "flattened"},
    "flattened-gzip": {
        "format": "hdf5-rows", "storage": "flattened", "chunk_bytes": 4096, "row_chunk": 64,
        "filters": ["shuffle", "gzip"],
    },
    "flattened-offsets": {
        "format": "hdf5-rows", "storage": "flattened", "chunk_bytes": 4096, "row_chunk": 64, "offsets": True,
    },
    "offset-vector": {
        "format": "hdf5-rows", "storage": "offset-vector", "chunk_bytes": 4096, "row_chunk": 64,
    },
    "offset-vector-reuse": {
        "format": "hdf5-rows", "storage": "offset-vector", "chunk_bytes": 4096, "row_chunk": 64,
        "reuse": True, "chunk_cache": 8192, "row_cache": 65536,
    },
    "offset-vector-zstd": {"format": "hdf5-rows", "storage": "offset-vector", "filters": ["zstd"]},
    "padded": {"format": "hdf5-rows", "storage": "padded"},
    "padded-chunked": {"format": "hdf5-rows", "storage": "padded", "row_chunk": 256},
    "parquet": {"format": "parquet"},
    "parquet-zstd": {"format": "parquet", "chunk_bytes": 4096, "compression": "zstd", "level": 3},
    "zarr": {"format": "zarr-rows", "chunk_bytes": 4096, "row_chunk": 64},
    "zarr-blosc": {"format": "zarr-rows", "chunk_bytes": 4096, "codecs": [{"blosc": {"codec": "lz4"}}]},
    "padded-gzip": {"format": "hdf5-rows", "storage": "padded", "row_chunk": 16, "filters": ["gzip"]},
}  # fmt: skip
GROWING = [name for name in LAYOUTS if name not in ("vlen", "flattened", "padded")]
# Those of which a file holds several datasets.
SEVERAL = [name for name in LAYOUTS if LAYOUTS[name]["format"] == "hdf5-rows"]


# Layouts whose format was prepared in this process.
PREPARED: set[str] = set()


def cell(
    layout: dict[str, Any],
    kind: str,
    asked: dict[str, Any],
    rows: dict[str, Any] | None = None,
    dtype: str = "int32",
    states: dict[str, int] | None = None,
) -> Specification:
    """Return what measure is told; `states` are repeats by state, beside the write of a case that writes."""
    dataset = Dataset.model_validate({"rows": rows or ROWS, "dtype": dtype})
    schema = layouts.schema_of(layout["format"])
    resolved: Any = schema.resolve(PLACE.validate(schema.MODEL, layout), dataset, {}, PLACE)
    assert dataset.rows is not None
    repeats = {**({"write": 2} if kind != "read_rows" else {}), **(states or {})}
    array: Any = {
        "axes": dataset.axes, "shape": dataset.shape, "dtype": dtype, "fill": "mixed",
        "rows": dataset.rows.described(),
    }  # fmt: skip
    case: Any = {"name": "case", "kind": kind, "states": list(repeats), "rows": asked}
    return {
        "dataset": array, "layout": resolved, "case": case, "repeats": repeats, "study": "rows", "seed": 1,
        "round": "r0",
        "protocol": 1,
    }  # fmt: skip


def run(spec: Specification, path: Path, memory_resident: bool = True) -> Outcome:
    """Return the outcome of a case in this process; the file of one that reads is made before."""
    format_ = formats.load(spec["layout"]["format"])
    values = open_content(spec["dataset"])
    context = Context(spec, format_, str(path), values, memory_resident)
    # As in a process that measures: once.
    if (described := repr(spec["layout"])) not in PREPARED:
        format_.prepare(spec)
        PREPARED.add(described)
    if spec["case"]["kind"] == "read_rows":
        format_.generate(str(path), spec, values)
    return cases.load(spec["case"]["kind"])(context)


def written(call: Any, datasets: int = 1, growing: bool = False) -> dict[str, Any]:
    """Return what a resolved case says of writing."""
    return {"call": call, "datasets": datasets, "growing": growing}
