"""How fast samples are put into HZ order: the formula bit by bit, one gather a block, and a plain copy.

Each is timed on the same array, in turn; the medians of all rounds are printed. The formula runs on a part of
the array, since its addresses take eight bytes a sample. --table prints the document's Table I by the formula
instead. Usage: python check_idx_order.py --help
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from time import thread_time_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.formats.idx.ordering import Ordering, by_formula
from hyperslab.layouts.idx_order import (
    Bitmask,
    Blocks,
    bit_lengths,
    guessed_bitmask,
    hz_addresses,
    z_addresses,
)

# The formula's part of the array along each axis.
FORMULA_PART = 128
# What is wanted of it.
LEAST_OF_FORMULA, LEAST_OF_COPY = 5.0, 0.4


def ordered(order: Ordering, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Fill `out`, a row a block, with a whole array whose extents are powers of two."""
    origin = (0,) * values.ndim
    for level in order.blocks.levels(order.blocks.bitmask.bits):
        found = order.covered(level, origin, values.shape)
        first, count = int(found.numbers[0]), len(found.numbers)
        order.cut(found, list(range(count)), origin, values, out[first : first + count])


def table() -> str:
    """Return Table I of the document, by the formula: it holds for bitmask V210, x being the fastest axis."""
    bitmask = Bitmask("V210", 3)
    # The table counts x, y, z with z the fastest; an array has its fastest axis, IDX axis 0, last.
    x, y, z = (axis.reshape(-1) for axis in np.indices((2, 2, 2), np.int64))
    zs = z_addresses(bitmask, (z, y, x))
    hz = hz_addresses(bitmask, (z, y, x))
    rows = zip(x, y, z, zs, hz, bit_lengths(hz), strict=True)
    lines = ["| x | y | z | Z | HZ | level |", "|---|---|---|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time of an action, which others on the machine do not lengthen much."""
    started = thread_time_ns()
    action()
    return (thread_time_ns() - started) / 1e9


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extent", type=int, default=512, help="elements along each of three axes, 2^n")
    parser.add_argument("--dtype", default="uint16", help="type of an element")
    parser.add_argument(
        "--bits-per-block", type=int, default=15, help="samples of a block, as a power of two"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed, in turn")
    parser.add_argument("--table", action="store_true", help="print Table I of the document and end")
    options = parser.parse_args()
    if options.table:
        print(table())
        return
    shape = (options.extent,) * 3
    bitmask = Bitmask(guessed_bitmask(shape), 3)
    blocks = Blocks(bitmask, min(options.bits_per_block, bitmask.bits))
    values = np.arange(np.prod(shape), dtype=np.uint64).astype(options.dtype).reshape(shape)
    part = np.ascontiguousarray(values[tuple(slice(0, min(options.extent, FORMULA_PART)) for _ in shape)])
    small = Bitmask(guessed_bitmask(part.shape), 3)
    out = np.zeros((blocks.count, blocks.samples), values.dtype)
    copy = np.zeros_like(values)
    hz, rows = Ordering(blocks, row_major=False), Ordering(blocks, row_major=True)
    actions: dict[str, tuple[Callable[[], object], int]] = {
        "formula, bit by bit": (lambda: list(by_formula(small, min(15, small.bits), part)), part.nbytes),
        "HZ order": (lambda: ordered(hz, values, out), values.nbytes),
        "row-major within blocks": (lambda: ordered(rows, values, out), values.nbytes),
        "numpy.copyto": (lambda: np.copyto(copy, values), values.nbytes),
    }
    rates: dict[str, list[float]] = {name: [] for name in actions}
    # The first round finds no warm memory, and makes the tables of the order.
    for number in range(options.rounds + 1):
        for name, (action, size) in actions.items():
            rate = size / seconds(action)
            if number:
                rates[name].append(rate)
    for name, found in rates.items():
        middle, low, high = statistics.median(found) / 1e6, min(found) / 1e6, max(found) / 1e6
        print(f"{name:24} {middle:8,.0f} MB/s ({low:,.0f} to {high:,.0f})")
    pairs = zip(*rates.values(), strict=True)
    of = [(fast / formula, fast / plain) for formula, fast, _, plain in pairs]
    faster, share = (statistics.median(ratios) for ratios in zip(*of, strict=True))
    print(f"HZ order is {faster:,.1f} times as fast as the formula (at least {LEAST_OF_FORMULA:g} wanted)")
    print(f"HZ order is {share:.2f} of numpy.copyto (at least {LEAST_OF_COPY:g} wanted)")


if __name__ == "__main__":
    main()
