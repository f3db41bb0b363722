"""Where chunks and index nodes lie, by arithmetic and in files of HDF5."""

from __future__ import annotations

import math
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.layouts.chunks import chunk_count
from hyperslab.layouts.hdf5_places import CONTIGUOUS_BYTES, Places

# A node of a version-1 B-tree for chunks, by its signature and type; its level comes next.
NODE = b"TREE\x01"


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((50,), (50,)),  # one chunk
        ((64, 100), (1, 100)),  # as many as a node holds
        ((65, 3000), (1, 3000)),  # one more
        ((60, 60, 600), (2, 2, 600)),
        ((400, 40, 4), (2, 2, 4)),  # several in a block of small data
        ((70, 70, 3000), (1, 1, 3000)),  # three levels
        ((5, 7, 6, 400), (1, 1, 1, 400)),
    ],
)
def test_chunks_and_nodes_lie_where_hdf5_puts_them(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("data", shape, "u1", chunks=chunks)
        # Not as long as a name of a node could begin in it.
        values = bytes(math.prod(chunks))
        for index in np.ndindex(*[size // one for size, one in zip(shape, chunks, strict=True)]):
            dataset.id.write_direct_chunk(tuple(map(math.prod, zip(index, chunks, strict=True))), values)
    places = Places(len(shape), chunk_count(shape, chunks), math.prod(chunks))
    with h5py.File(path) as file:
        low = file["data"].id
        found = [low.get_chunk_info(number).byte_offset for number in range(low.get_num_chunks())]
    numbers = np.arange(places.chunks)
    assert found == [places.chunk(number) for number in range(places.chunks)]
    assert found == places.chunk(numbers).tolist()
    content, nodes, at = path.read_bytes(), {}, 0
    while (at := content.find(NODE, at)) >= 0:
        nodes[at] = content[at + len(NODE)]
        at += 1
    expected = {
        places.node(level, number): level
        for level, count in enumerate(places.levels)
        for number in range(count)
    }
    assert nodes == expected
    # The way to the last chunk goes over the last node of each level.
    assert list(places.way(places.chunks - 1)) == [
        (level, count - 1) for level, count in reversed(list(enumerate(places.levels)))
    ]


def test_a_contiguous_array_begins_where_it_is_thought_to(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["data"] = np.ones((100, 100))
        assert file["data"].id.get_offset() == CONTIGUOUS_BYTES
