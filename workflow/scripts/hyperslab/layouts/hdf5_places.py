"""Where in a file of HDF5 chunks and the nodes of their version-1 B-tree lie, written in row-major order.

The root comes first and stays there. A node that has 64 children when another one comes is split: the right
part, which goes on growing, gets a new place at the end of the file, and the first time of all the left one
does, too (H5B__insert_helper, H5B_insert). That happens when the chunk that is one too many has its place
already. Chunks of less than 2 KiB are placed in blocks of that size (H5Pset_small_data_block_size), behind
which nodes lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hyperslab.layouts.hdf5_index import BTREE_CHILDREN, BTREE_KEPT, btree_level, btree_node_bytes

# Superblock and object headers of a file that holds one dataset, where it is chunked and where it is not.
HEADER_BYTES, CONTIGUOUS_BYTES = 1400, 2048
SMALL_BLOCK = 2048
# The child with which a node is split again, after the first time.
SPLIT = BTREE_CHILDREN - BTREE_KEPT


@dataclass(frozen=True)
class Places:
    """Places in the file of a dataset of `dimensions` axes in `chunks` chunks of `stored` bytes each."""

    dimensions: int
    chunks: int
    stored: int

    @cached_property
    def node_bytes(self) -> int:
        """Bytes of a node."""
        return btree_node_bytes(self.dimensions)

    @cached_property
    def levels(self) -> list[int]:
        """Numbers of nodes from the leaves to the root."""
        found = [btree_level(self.chunks)]
        while found[-1] > 1:
            found.append(btree_level(found[-1]))
        return found

    @cached_property
    def _block(self) -> tuple[int, int]:
        """Chunks of a block, and its bytes.

        Blocks that chunks do not fill go on in the next one, so that what is known is about where nodes lie.
        """
        if self.stored < SMALL_BLOCK and SMALL_BLOCK % self.stored == 0:
            return SMALL_BLOCK // self.stored, SMALL_BLOCK
        return 1, self.stored

    def chunk(self, number: Any) -> Any:
        """Return the offset in bytes of a chunk by its row-major number, or of an array of them."""
        per, size = self._block
        block, inside = divmod(number, per)
        return self._blocks(block) + self._nodes(block * per) * self.node_bytes + inside * self.stored

    def node(self, level: int, number: int) -> int:
        """Return the offset in bytes of a node, by its number in a level; 0 are the leaves."""
        if self.levels[level] == 1:
            return HEADER_BYTES
        # Right behind the node, or the block of the chunk, for which it was split off.
        child = BTREE_KEPT * max(number, 1) + SPLIT
        own = self.node_bytes * (number == 0)
        if level:
            # Where the lower level was split for the first time, its left part lies between.
            return self.node(level - 1, child) + self.node_bytes + own
        per, _ = self._block
        return int(self._blocks(child // per + 1) + self._nodes(child) * self.node_bytes + own)

    def way(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield level and number of the nodes on the way to a chunk, the root first."""
        numbers, child = [], number
        for level, nodes in enumerate(self.levels):
            child = min(child // BTREE_KEPT, nodes - 1)
            numbers.append((level, child))
        yield from reversed(numbers)

    def _blocks(self, count: Any) -> Any:
        """Return where blocks begin after so many of them, nodes other than the root left out."""
        return HEADER_BYTES + self.node_bytes + count * self._block[1]

    def _nodes(self, chunks: Any) -> Any:
        """Return how many nodes beside the root have a place when so many chunks have one."""
        total, last = 0, chunks - 1
        for _ in self.levels:
            last = (last - SPLIT) // BTREE_KEPT
            total += (last + 1) * (last > 0)
        return total
