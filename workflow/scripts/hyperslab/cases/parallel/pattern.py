"""Which bytes of a dataset each rank holds, in which calls they move; h5perf's terms, pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.specifications import CaseSpecification


@dataclass(frozen=True)
class Pattern:
    """One rank's share of every dataset; all sizes in bytes.

    A rank's bytes of a dataset lie in blocks of `block`, of which all ranks have one in turn (contiguous: one
    block holds all). In memory they follow each other. One call moves `transfer` of them.
    """

    rank: int
    ranks: int
    datasets: int
    bytes: int
    transfer: int
    block: int

    @classmethod
    def of(cls, case: CaseSpecification, rank: int) -> Pattern:
        """Return the share of a rank in a case of a specification."""
        asked = case["parallel"]
        block = asked["block"] if asked["interleaved"] else asked["bytes"]
        sizes = asked["datasets"], asked["bytes"], asked["transfer"]
        return cls(rank, case["workers"], *sizes, block)

    @property
    def dataset_bytes(self) -> int:
        """Bytes of one dataset, of all ranks."""
        return self.ranks * self.bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of all datasets, of all ranks."""
        return self.datasets * self.dataset_bytes

    @property
    def calls(self) -> int:
        """Calls that move a rank's share of one dataset."""
        return self.bytes // self.transfer

    def segments(self, call: int) -> list[tuple[int, int]]:
        """Return (offset in the dataset, length) of the pieces that one call moves."""
        first, found = call * self.transfer, []
        step = min(self.transfer, self.block)
        for position in range(first, first + self.transfer, step):
            block, inside = divmod(position, self.block)
            found.append(((block * self.ranks + self.rank) * self.block + inside, step))
        return found

    def hyperslab(self, call: int) -> tuple[int, int, int, int]:
        """Return (start, stride, count, block) of the same in HDF5's terms."""
        pieces = self.segments(call)
        return pieces[0][0], self.ranks * self.block, len(pieces), pieces[0][1]

    def pieces(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield (offset in the dataset, length) of pieces that hold this rank's bytes, in their order: whole
        rounds of all ranks' blocks, of which `mine` returns a share; where a round is longer than `most`,
        parts of this rank's blocks alone.
        """
        around = self.ranks * self.block
        if around <= most:
            yield from cut(0, self.dataset_bytes, most // around * around)
            return
        for first in range(self.rank * self.block, self.dataset_bytes, around):
            yield from cut(first, self.block, most)

    def mine(self, dataset: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return this rank's elements of a whole dataset (one axis),
        in the order in which they lie in memory.
        """
        block = self.block // dataset.itemsize
        return np.ascontiguousarray(dataset.reshape(-1, self.ranks, block)[:, self.rank].reshape(-1))


def cut(first: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, length) of the parts, of at most so many, of a run that begins at `first`."""
    for start in range(first, first + size, most):
        yield start, min(most, first + size - start)
