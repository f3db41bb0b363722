"""What MPI ranks open, send and receive when they write one IDX dataset, by arithmetic: nothing is written.

By default the document's 8 GiB, of which each rank holds a slab. Two tables are printed, as docs/idx.md has
them: files opened, in all, and messages and bytes between ranks where samples are aggregated, by rank.
Usage: python check_idx_ranks.py --help
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hyperslab import text
from hyperslab.data.sub_volumes import parts_along, sub_volumes
from hyperslab.formats.idx.parallel import division
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.layouts.idx_order import guessed_bitmask

AXES = ("x", "y", "z")
RANKS = (2, 64, 512)
EXTENT, ITEMSIZE, BITS_PER_BLOCK, BLOCKS_PER_FILE = 1024, 8, 15, 256


def files_of(extent: int = EXTENT, itemsize: int = ITEMSIZE, bits: int = BITS_PER_BLOCK) -> IdxFiles:
    """Return the files of a cube, with PIDX's own blocks and files."""
    layout = {
        "order": list(AXES),
        "bitmask": guessed_bitmask([extent] * len(AXES)),
        "bits_per_block": bits,
        "blocks_per_file": BLOCKS_PER_FILE,
        "codec": "raw",
        "within_block": "hz",
        "settings": {"library": "hyperslab"},
    }
    return IdxFiles(layout, AXES, [extent] * len(AXES), itemsize)


def tables(files: IdxFiles, ranks: Sequence[int] = RANKS, along: Sequence[str] = AXES[:1]) -> str:
    """Return both tables, a row a number of ranks, for a cube that is cut along some axes."""
    opened = [
        "| ranks | files opened, for each level | files kept open | aggregated |",
        "|---|---|---|---|",
    ]
    sent = [
        "| ranks | writers | messages a rank sends | bytes a rank sends | messages a writer receives | bytes "
        "a writer receives |",
        "|---|---|---|---|---|---|",
    ]
    for count in ranks:
        parts = parts_along({axis: files.shape[AXES.index(axis)] for axis in along}, count)
        boxes = sub_volumes(files.shape, [parts.get(axis, 1) for axis in AXES])
        found_in = [division.files_by_level(files, box) for box in boxes]
        levels, kept = (
            sum(division.opens_among(files, found, one) for found in found_in) for one in (False, True)
        )
        opened.append(f"| {count} | {levels:,} | {kept:,} | {len(files.files):,} |")
        rounds = division.rounds_of(files, boxes, range(count))
        writing = sorted({rank for pieces in rounds for rank in pieces})
        sent_by = division.sent_of(files, boxes, rounds)
        cells = [
            _range(sent_by.messages_sent), _range(sent_by.bytes_sent, True),
            _range(sent_by.messages_received[writing]), _range(sent_by.bytes_received[writing], True),
        ]  # fmt: skip
        sent.append(f"| {count} | {len(writing)} | {' | '.join(cells)} |")
    return "\n".join([*opened, "", *sent])


def _range(counts: npt.NDArray[np.int64], as_bytes: bool = False) -> str:
    """Return the least and the most of a count."""
    words = text.megabytes if as_bytes else text.whole
    low, high = words(int(counts.min())), words(int(counts.max()))
    return low if low == high else f"{low} to {high}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extent", type=int, default=EXTENT, help="samples along each of three axes")
    parser.add_argument("--itemsize", type=int, default=ITEMSIZE, help="bytes of a sample")
    parser.add_argument("--along", default="x", help="axes along which the array is cut, such as xyz")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="numbers of ranks")
    options = parser.parse_args()
    print(tables(files_of(options.extent, options.itemsize), options.ranks, options.along))


if __name__ == "__main__":
    main()
