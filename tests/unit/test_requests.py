"""What a selection on a freshly opened file asks the kernel for: equal to what arithmetic says."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import pytest
from samples import file_specification, values_of

from hyperslab.data.selections import Box, generator, random_boxes
from hyperslab.data.values import open_values
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring import pagecache
from hyperslab.measuring.counters import Counters, between
from hyperslab.specifications import Specification

Spec = Specification


def requested(path: Path, spec: Spec, box: Box, evict: bool = True) -> tuple[int, int, int]:
    """Bytes requested by one selection after a fresh open, of the device for both, and of the result."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if evict:
            pagecache.evict_file(descriptor, 0.0)
    finally:
        os.close(descriptor)
    counters = Counters()
    closed = counters.read()
    opened = FORMAT.open(str(path), spec)
    before = counters.read()
    result = opened.read(box)
    after = counters.read()
    counted = between(before, after)
    opened.close()
    assert result.tobytes() == values_of(spec).block(box.origin, box.extent).tobytes()
    return counted["requested_bytes"], between(closed, after)["device_bytes"], result.nbytes


def some_boxes(shape: Sequence[int], count: int) -> list[Box]:
    """Boxes of random extents, the whole of an axis among them."""
    rng = generator("some boxes", tuple(shape))
    extents = [
        [int(rng.integers(1, size, endpoint=True)) if rng.random() < 0.7 else size for size in shape]
        for _ in range(count)
    ]
    return [random_boxes(shape, extent, 1, rng)[0] for extent in extents]


PREDICTABLE: list[tuple[tuple[int, ...], tuple[int, ...] | None, dict[str, Any]]] = [
    ((40, 50, 500), None, {}),
    ((40, 50, 500), None, {"order": "zyx"}),
    ((300, 700), None, {"sieve_bytes": 1000}),
    ((5000,), None, {"sieve_bytes": 512}),
    ((40, 50, 500), (4, 4, 64), {}),
    ((40, 50, 500), (4, 4, 64), {"order": "zxy"}),
    ((40, 50, 500), (3, 7, 130), {"order": "yxz", "libver": "v108"}),
    # 8,000 chunks need three levels of nodes.
    ((20, 20, 100), (1, 1, 5), {}),
    # A chunk as large as the cache still goes through it.
    ((40, 50, 500), (4, 4, 64), {"chunk_cache_bytes": 2048}),
    ((40, 50, 500), (4, 4, 64), {"chunk_cache_slots": 1}),
    ((6, 7, 8, 9, 10), (2, 3, 4, 5, 6), {}),
    ((40, 50, 500), (4, 4, 64), {"filters": [{"name": "shuffle"}, {"name": "gzip"}]}),
    # Filtered chunks are read whole even where they exceed the cache.
    ((40, 50, 500), (16, 16, 500), {"filters": [{"name": "lzf"}], "chunk_cache_bytes": 4096}),
]


@pytest.mark.parametrize(("shape", "chunks", "more"), PREDICTABLE)
def test_cold_selections_request_what_is_predicted(
    disk: Path, shape: tuple[int, ...], chunks: tuple[int, ...] | None, more: dict[str, Any]
) -> None:
    path = disk / "requested.h5"
    spec = file_specification(shape, chunks, **more)
    FORMAT.generate(str(path), spec, values_of(spec))
    known = FORMAT.stored_sizes(str(path), spec)
    device = 0
    for box in some_boxes(shape, 6):
        bytes_requested, bytes_of_device, bytes_asked = requested(path, spec, box)
        predicted = FORMAT.predict(box, spec, known)
        assert bytes_requested == predicted["requested"]
        device += bytes_of_device
        if chunks is None:
            assert (predicted["chunks_touched"], predicted["chunk_bytes"]) == (0, bytes_asked)
        elif "filters" not in more:
            assert predicted["chunk_bytes"] == predicted["chunks_touched"] * math.prod(chunks) * 2
            assert predicted["chunk_bytes"] >= bytes_asked
    assert device > 0
    path.unlink()


@pytest.mark.parametrize("more", [{"chunk_cache_bytes": 2047}, {"chunk_cache_bytes": 0}, {"libver": "v110"}])
def test_no_prediction_where_chunks_bypass_the_cache_or_the_index_is_another(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    spec = file_specification((40, 50, 500), (4, 4, 64), **more)
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    predicted = FORMAT.predict(Box((0, 0, 3), (40, 50, 1)), spec, {})
    assert math.isnan(predicted["requested"])
    assert predicted["chunks_touched"] == 130
    if "libver" not in more:
        # Far from whole chunks: that is why there is no number.
        found, _, asked = requested(tmp_path / "a.h5", spec, Box((0, 0, 3), (40, 50, 1)), evict=False)
        assert asked <= found < predicted["chunk_bytes"]


def test_stored_sizes_are_those_of_the_chunks_in_row_major_order(tmp_path: Path) -> None:
    spec = file_specification((10, 11, 200), (4, 4, 64), filters=[{"name": "gzip"}])
    constant = {**spec["dataset"], "fill": "constant-per-spectrum"}
    FORMAT.generate(str(tmp_path / "a.h5"), spec, open_values(constant))
    sizes = list(FORMAT.stored_sizes(str(tmp_path / "a.h5"), spec)["chunk_sizes"][0])
    found: list[tuple[tuple[int, ...], int]] = []
    with h5py.File(tmp_path / "a.h5") as file:
        file["data"].id.chunk_iter(lambda chunk: found.append((chunk.chunk_offset, chunk.size)))
    assert sizes == [size for _, size in sorted(found)]
    assert len(set(sizes)) > 3
    box = Box((0, 0, 64), (1, 5, 65))
    predicted = FORMAT.predict(box, spec, {"chunk_sizes": [sizes]})
    # Chunks 1 and 2 along z, of the first and the second row along y.
    assert predicted["chunk_bytes"] == sizes[1] + sizes[2] + sizes[5] + sizes[6]
