"""Layouts of IDX: samples in hierarchical Z order, in blocks of binary files, level by level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hyperslab.layouts.chunks import Shape
from hyperslab.layouts.environments import made
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.layouts.idx_order import Bitmask, Blocks
from hyperslab.layouts.idx_ways import LEVEL_BY_LEVEL, WAYS
from hyperslab.layouts.layout import Abilities, Array, Layout

# Seen on one machine, as an estimate.
PIECE_SECONDS = 60e-6
# The environment in which OpenVisus writes and reads.
OPENVISUS = "openvisus-2.2.149"


class IdxLayout(Layout):
    """A resolved layout of an IDX dataset in a directory."""

    title = "IDX"
    suffix = ".idx"
    libraries = {"OpenVisusNoGui": "OpenVisus"}
    abilities = Abilities(coarse_levels=True, refines=True)

    def __init__(self, described: Mapping[str, Any]) -> None:
        super().__init__(described)
        if described["settings"]["library"] == "openvisus":
            # It puts a block that grows behind the others, once for each part that is written of it.
            whole = described["codec"] != "raw"
            self.abilities = replace(self.abilities, refines=False, partial_writes=not whole)

    @property
    def chunks(self) -> list[int]:
        """Extents of the part of the array that one block of the finest level samples, in array terms.

        They are those of a sub-volume whose writing touches no other block of that level.
        """
        order = self.order
        leading = ("times" in self.described) + ("fields" in self.described)
        bitmask = Bitmask(self.described["bitmask"], len(order) - leading)
        blocks = Blocks(bitmask, self.described["bits_per_block"])
        counts, step = blocks.counts(bitmask.bits), blocks.whole_level(bitmask.bits).step
        covered = [1] * leading + [count * by for count, by in zip(counts, step, strict=True)]
        return [covered[order.index(axis)] for axis in self.described["axes"]]

    def fits(self, shape: Shape) -> bool:
        """Return True: what blocks have beyond a smaller array is not stored, or is padding."""
        return True

    def files(self, array: Array) -> IdxFiles:
        """Return the files in which an array is stored."""
        return IdxFiles(self.described, array.axes, array.shape, array.itemsize)

    def _files(self, shape: Shape, itemsize: int) -> IdxFiles:
        return IdxFiles(self.described, self.described["axes"], shape, itemsize)

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: whole blocks that no codec shrinks, headers, blocks of the file system."""
        return self.files(array).largest_bytes()

    def largest_files(self, array: Array) -> int:
        """Return an upper bound of the number of files and folders."""
        return self.files(array).largest_files()

    def touched(self, origin: Shape, extent: Shape) -> int:
        """Return the number of blocks that a box touches at full resolution."""
        files = self._files([start + width for start, width in zip(origin, extent, strict=True)], 1)
        turned = [self.described["axes"].index(name) for name in self.order]
        start, width = [origin[axis] for axis in turned], [extent[axis] for axis in turned]
        leading: int = math.prod(width[: files.leading])
        return leading * files.blocks.count_touched(start[files.leading :], width[files.leading :])

    def stored_bytes(self, shape: Shape, itemsize: int) -> int:
        """Return the bytes of all blocks without codec."""
        files = self._files(shape, itemsize)
        return files.times * files.fields * files.block_count() * files.block_bytes

    def estimated_reading(
        self, extent: Shape, shape: Shape, itemsize: int, level: int = 0
    ) -> tuple[int, int]:
        """Return about how many blocks a selection of `extent` reads up to a level, and their bytes."""
        files, step = self._files(shape, itemsize), 2**level
        width = [extent[self.described["axes"].index(name)] for name in self.order]
        places = math.prod(-(-length // step) for length in width[: files.leading])
        inside = width[files.leading :]
        finest = files.bitmask.level_of_steps([step] * len(inside))
        pieces = places * files.blocks.count_touched([0] * len(inside), inside, finest)
        pieces += len(files.blocks.levels(finest))
        return pieces, min(self.stored_bytes(shape, itemsize), pieces * files.block_bytes)

    def piece_seconds(self) -> float:
        """Return about how long a block takes to be put in its place."""
        return PIECE_SECONDS

    def sub_volumes_mistake(self, way: str, along: Sequence[str]) -> str | None:
        """Return why MPI ranks cannot each write a sub-volume, or None: blocks need places beforehand."""
        if way not in WAYS:
            return f"ranks write IDX in the ways {', '.join(WAYS)}, not {way}"
        if self.described["settings"]["library"] == "openvisus" and way != "token":
            return f"ranks write through OpenVisus one after the other (token), not {way}"
        if self.described["within_block"] != "hz" and way in LEVEL_BY_LEVEL:
            return (
                f"ranks write level by level what lies in HZ order within a block (hz), not {way} into others"
            )
        if self.described["codec"] != "raw":
            return "ranks write blocks without codec, whose places are known beforehand"
        if "times" in self.described:
            return "ranks write one time step"
        if self.described.get("fields") in along:
            return f"ranks share axes of each field, not {self.described['fields']}, along which fields lie"
        return None

    def filters_text(self) -> str:
        """Return the codec, "" without one."""
        codec: str = self.described["codec"]
        return codec if codec != "raw" else ""

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and what reads and writes it if not Hyperslab."""
        said, library = super().words(axes, itemsize), self.described["settings"]["library"]
        return f"{said}, IDX" + (f" through {library}" if library != "hyperslab" else "")

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        size = itemsize << self.described["bits_per_block"]
        order = "HZ order" if self.described["within_block"] == "hz" else "row-major order"
        files = f"{self.described['blocks_per_file']} of them a file"
        return f"blocks of {size / 1024:,.4g} KiB in {order}, {files}, bitmask {self.described['bitmask']}"

    def environment(self) -> str | None:
        """Return what says that OpenVisus' environment is complete, where that writes and reads."""
        return made(OPENVISUS) if self.described["settings"]["library"] == "openvisus" else None


LAYOUT = IdxLayout
