"""Which rows lie in which dataset, where calls write several in turn; what a row has to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import xxhash

from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.durable import timed_plain_write
from hyperslab.cases.timed_selections import same
from hyperslab.data.rows import BLOCK_BYTES, Lengths, RowBlock, Rows
from hyperslab.formats.row_seam import RowsFormat


def rows_of(context: Context) -> Rows:
    """Return the rows of a cell, whose dataset is of no other model, as its layout has them in memory."""
    assert isinstance(context.values, Rows)
    return context.values.filled_up(context.specification["layout"].get("width", 0))


def format_of(context: Context) -> RowsFormat:
    """Return the format of a cell, which is one of rows."""
    return cast("RowsFormat", context.format)


def digests(block: RowBlock) -> list[bytes]:
    """Return a digest of type and every byte of each row.

    XXH3, as fast as memory: a slower one would push what the next warm read needs out of the processor's
    caches.
    """
    kind = block.values.dtype.str.encode()
    return [xxhash.xxh3_128_digest(kind + row.tobytes()) for row in block.rows()]


@dataclass(frozen=True)
class Call:
    """One call: rows `first` to `stop` of the study go to dataset `part`, from its row `place` on."""

    first: int
    stop: int
    part: int
    place: int


class Dealt:
    """The rows of a study, dealt to datasets in blocks of so many rows a call, in turn."""

    def __init__(self, rows: Rows, call: int, datasets: int) -> None:
        self.rows = rows
        self._call, self._datasets = call, datasets

    def calls(self) -> Iterator[Call]:
        """Yield the calls in their order."""
        places = [0] * self._datasets
        for number, first in enumerate(range(0, len(self.rows), self._call)):
            stop, part = min(first + self._call, len(self.rows)), number % self._datasets
            yield Call(first, stop, part, places[part])
            places[part] += stop - first

    def numbers(self, part: int) -> npt.NDArray[np.int64]:
        """Return the study's numbers of the rows of a dataset, in its order."""
        if self._datasets == 1:
            return np.arange(len(self.rows))
        runs = [np.arange(call.first, call.stop) for call in self.calls() if call.part == part]
        return np.concatenate(runs)

    def parts(self) -> list[Lengths]:
        """Return the lengths of the rows of each dataset."""
        return [self.rows.lengths[self.numbers(part)] for part in range(self._datasets)]


def slabs(dealt: Dealt) -> Iterator[list[tuple[Call, RowBlock]]]:
    """Yield calls with what they write, as many at a time as BLOCK_BYTES hold, or one."""
    rows, held = dealt.rows, 0
    calls: list[Call] = []
    for call in dealt.calls():
        size = rows.weight(call.first, call.stop)
        if calls and held + size > BLOCK_BYTES:
            yield _with_values(rows, calls)
            calls, held = [], 0
        calls.append(call)
        held += size
    yield _with_values(rows, calls)


def timed_reference(context: Context, dealt: Dealt) -> float:
    """Return the seconds of a plain write and fsync of the same bytes, call by call."""
    return timed_plain_write(context, (block.values for slab in slabs(dealt) for _, block in slab))


def _with_values(rows: Rows, calls: list[Call]) -> list[tuple[Call, RowBlock]]:
    """Return consecutive calls with what each writes; the values of all are made at once."""
    first = calls[0].first
    values, start = rows.run(first, calls[-1].stop).values, int(rows.offsets[first])
    bounds = [(int(rows.offsets[call.first]), int(rows.offsets[call.stop])) for call in calls]
    return [
        (call, RowBlock(rows.lengths[call.first : call.stop], values[low - start : high - start]))
        for call, (low, high) in zip(calls, bounds, strict=True)
    ]


def verify(context: Context, dealt: Dealt) -> None:
    """Read every row of every dataset back and compare it; raises VerificationError."""
    opened = format_of(context).open(context.path, context.specification)
    try:
        for part in range(len(dealt.parts())):
            numbers = dealt.numbers(part)
            for first, stop in dealt.rows.alone(numbers).blocks():
                found = opened.block(opened.reader(part, range(first, stop))())
                truth = dealt.rows.picked(numbers[first:stop])
                alike = np.array_equal(found.lengths, truth.lengths)
                if not (alike and found.values.dtype == truth.values.dtype):
                    raise VerificationError(
                        f"{context.path}: rows from {first} on have other lengths or types"
                    )
                if not same(found.values, truth.values):
                    raise VerificationError(f"{context.path}: rows from {first} on cannot be read back")
    finally:
        opened.close()
